/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server side of WebSocket (RFC 6455) on the loop. A handler checks the request, decides about
 * access itself (Host, Origin, key) and accepts. From then on the websocket owns the connection,
 * and the request no longer exists.
 *
 * This module enforces masked frames, the order of control frames and fragments, UTF-8 in text, the
 * limit of a message, pings, and deadlines for silence and for a peer that does not read. It
 * supports no extensions.
 */
#ifndef CAY_HTTP_WEBSOCKET_WEBSOCKET_H
#define CAY_HTTP_WEBSOCKET_WEBSOCKET_H

#include "http/server/server.h"
#include "http/websocket/code.h"

/* Owner: the server it was accepted on. Valid from websocket_accept() until on_close returns. */
struct websocket;

struct websocket_limits {
	size_t message_bytes;	/* 1 MiB: a larger one closes with 1009 */
	size_t watermark_bytes; /* 256 KiB unsent: websocket_send() returns -EAGAIN */
	/* 16 MiB unsent: the connection of a sender that ignores -EAGAIN is closed */
	size_t queue_bytes;
	int ping_ms;	/* 15 s between pings */
	int silence_ms; /* 45 s without a byte, pongs included: the peer is lost */
	int write_ms;	/* 30 s without the peer receiving a byte: closed */
	int close_ms;	/* 5 s for the peer's answer to our close */
};
extern const struct websocket_limits websocket_limits_default;

/* All are called from the loop, never from inside a function below. NULL hooks are skipped. */
struct websocket_hooks {
	/* A complete message; bytes live for the call only. */
	void (*on_message)(void *arg, bool is_text, struct str bytes);
	/* After websocket_send() returned -EAGAIN: most of the queue was sent. */
	void (*on_drain)(void *arg);
	/*
	 * Exactly once, as the last call, whichever side closed; ws is freed when it returns. code
	 * is the peer's, or ours if we closed first.
	 */
	void (*on_close)(void *arg, int code);
};

/*
 * Checks the opening request. 0; -EINVAL (reply 400); -EPROTONOSUPPORT: the request does not ask
 * for a WebSocket of version 13 (reply 426 with websocket_refusal_headers). ret_why is for people.
 */
int websocket_check(const struct http_req *req, const char **ret_why) _must_check_;
#define WEBSOCKET_REFUSAL_HEADER_COUNT 2
extern const struct http_header websocket_refusal_headers[WEBSOCKET_REFUSAL_HEADER_COUNT];

/*
 * Replies 101 and takes the connection. After 0 the request no longer exists. Otherwise it still
 * needs a reply (errors of websocket_check(), -ENOMEM), except for -EPIPE: the client disconnected,
 * on_gone follows. The first hook is called after the return, also for bytes that arrived with the
 * request. limits NULL: the defaults.
 */
int websocket_accept(struct http_req *req, const struct websocket_limits *limits,
		     const struct websocket_hooks *hooks, void *arg,
		     struct websocket **ret) _must_check_;

/*
 * One message made of head and bytes (either may be empty). It is written to the socket directly;
 * only the rest is copied. 0; -EAGAIN: queued, but wait for on_drain before sending more; -EPIPE:
 * closed or closing, nothing was taken.
 */
int websocket_send(struct websocket *ws, bool is_text, struct str head,
		   struct str bytes) _must_check_;
size_t websocket_unsent_bytes(const struct websocket *ws);
/* While paused, on_message is not called and nothing is read, so TCP slows the peer down. */
void websocket_pause(struct websocket *ws, bool paused);
/*
 * Sends the queue, then a close, and waits a while for the peer's. on_message is not called any
 * more, on_close is. reason (NULL: none) is truncated to 123 bytes. The first close counts.
 */
void websocket_close(struct websocket *ws, int code, const char *reason);
/* Open WebSockets of a server. */
uint32_t websocket_count(const struct http_server *server);

#endif
