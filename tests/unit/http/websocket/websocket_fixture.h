/* SPDX-License-Identifier: Apache-2.0 */
/* A WebSocket server on one end of a socket pair, a test that writes frames on the other. */
#ifndef CAY_TESTS_WEBSOCKET_FIXTURE_H
#define CAY_TESTS_WEBSOCKET_FIXTURE_H

#include "base/buf.h"
#include "http/websocket/websocket.h"

#define OPENING                                                                  \
	"GET /ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n"     \
	"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " \
	"dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"

extern struct loop *loop;
extern struct http_server *server;
extern struct websocket *ws; /* NULL before and after */
extern struct websocket_limits limits;
extern int peer, accepted, check;
extern const char *why;
extern int messages, drains, closes, close_code, drained;
extern bool echo, pause_at_once, close_at_once; /* what the server does with a message */
extern struct buf heard;			/* messages, each followed by '|' */
extern struct buf in;				/* what the peer received */

int setup(void **state);
int teardown(void **state);
bool drain_peer(void); /* reads everything available; true at the end of the stream */
bool pump(int turns);  /* same, with iterations of the loop in between */
void wait_ms(int ms);
void put(const void *p, size_t n);
void put_frame(unsigned int first, const char *payload, size_t n);
/* Removes one frame of the server from the input; returns its first byte, or -1. */
int take_frame(struct str *ret);
void take_close(int code);
void open_ws(void);
void on_drained(void *arg);

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#endif
