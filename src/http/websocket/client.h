/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client side of WebSocket, for programs with their own poll(2) loop. Nothing here blocks
 * except the opening, which has the client's timeouts. The caller owns the connection.
 */
#ifndef CAY_HTTP_WEBSOCKET_CLIENT_H
#define CAY_HTTP_WEBSOCKET_CLIENT_H

#include "http/client/client.h"
#include "http/websocket/code.h"

/* a larger message from the server: 1009 */
#define WEBSOCKET_CLIENT_MESSAGE_BYTES ((size_t)4 << 20)
#define WEBSOCKET_CLIENT_QUEUE_BYTES ((size_t)1 << 20) /* unsent; then -EAGAIN */

struct websocket_client;
typedef void (*websocket_client_fn)(void *arg, bool is_text, struct str bytes);

/*
 * Opens path over a separate connection, with the client's address and headers. 0; 1 if the server
 * replied otherwise, see res; -errno (-EPROTO: not the reply of a WebSocket server).
 */
int websocket_client_open(struct http_client *client, const char *path, struct http_response *res,
			  websocket_client_fn on_message, void *arg,
			  struct websocket_client **ret) _must_check_;
/* closes the connection; NULL is allowed */
void websocket_client_free(struct websocket_client *ws);

int websocket_client_fd(const struct websocket_client *ws);
short websocket_client_events(const struct websocket_client *ws); /* for poll(2) */
/*
 * Reads and writes as much as possible. Call it before every wait, including the first, because
 * messages may have arrived with the reply to the opening. 0; 1: closed by both sides; -errno: lost
 * (-ECONNRESET, -EPROTO).
 */
int websocket_client_work(struct websocket_client *ws) _must_check_;
/* Takes everything or nothing: 0, -EAGAIN if too much is unsent, -EPIPE while closing. */
int websocket_client_send(struct websocket_client *ws, bool is_text, struct str bytes) _must_check_;
bool websocket_client_is_full(const struct websocket_client *ws); /* the next send may be refused */
void websocket_client_close(struct websocket_client *ws, int code);
int websocket_client_code(const struct websocket_client *ws); /* the server's, or 1006 */
/* When the server last sent a byte; it pings every 15 s. Milliseconds of time_boot_ms(). */
int64_t websocket_client_heard_ms(const struct websocket_client *ws);

#endif
