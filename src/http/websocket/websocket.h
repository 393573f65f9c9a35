/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket (RFC 6455), server side, on the loop. A handler checks the request, decides for itself
 * who may come in (Host, Origin, key: the face's business) and accepts; from then on the connection
 * belongs to the websocket and the request is gone.
 *
 * Kept here: masked frames only, control frames and fragments in order, text in UTF-8, a limit on a
 * message, pings, a limit on silence and on a reader that takes nothing. No extensions.
 */
#ifndef CAY_HTTP_WEBSOCKET_WEBSOCKET_H
#define CAY_HTTP_WEBSOCKET_WEBSOCKET_H

#include "http/server/server.h"
#include "http/websocket/code.h"

/* Owner: the server it was accepted on. Valid from websocket_accept() until on_close returns. */
struct websocket;

struct websocket_limits {
	size_t message_bytes;	/* 1 MiB: a larger one closes with 1009 */
	size_t watermark_bytes; /* 256 KiB unsent: websocket_send() says -EAGAIN */
	size_t queue_bytes;	/* 16 MiB unsent: who sends on regardless loses the connection */
	int ping_ms;		/* 15 s between pings */
	int silence_ms;		/* 45 s without a byte, pongs included: the peer is lost */
	int write_ms;		/* 30 s without the peer taking a byte: closed */
	int close_ms;		/* 5 s for the peer's answer to our close */
};
extern const struct websocket_limits websocket_limits_default;

/* All are called from the loop, never from inside a function below. NULL hooks are skipped. */
struct websocket_hooks {
	/* A whole message; bytes live for the call only. */
	void (*on_message)(void *arg, bool is_text, struct str bytes);
	/* After websocket_send() said -EAGAIN: most of it has left. */
	void (*on_drain)(void *arg);
	/* Exactly once, the last call, whoever ended it; ws is gone when it returns. code is the
	 * peer's, or ours when we closed first. */
	void (*on_close)(void *arg, int code);
};

/*
 * Is the request a proper opening? 0; -EINVAL (answer 400); -EPROTONOSUPPORT: no upgrade to a
 * WebSocket of version 13 is asked for (answer 426 with websocket_refusal_headers). ret_why is for
 * people.
 */
int websocket_check(const struct http_req *req, const char **ret_why) _must_check_;
#define WEBSOCKET_REFUSAL_HEADER_COUNT 2
extern const struct http_header websocket_refusal_headers[WEBSOCKET_REFUSAL_HEADER_COUNT];

/*
 * Answers 101 and takes the connection. The request is gone after 0. Otherwise it still wants an
 * answer (websocket_check()'s errors, -ENOMEM), but for -EPIPE: the client is lost, on_gone
 * follows. The first hook comes after the return, also for bytes that arrived with the request.
 * limits NULL: the defaults.
 */
int websocket_accept(struct http_req *req, const struct websocket_limits *limits,
		     const struct websocket_hooks *hooks, void *arg,
		     struct websocket **ret) _must_check_;

/*
 * One message made of head and bytes (either may be empty). Goes straight to the socket; only what
 * it does not take is copied. 0; -EAGAIN: queued all the same, but wait for on_drain before more;
 * -EPIPE: closed or closing, nothing was taken.
 */
int websocket_send(struct websocket *ws, bool is_text, struct str head,
		   struct str bytes) _must_check_;
size_t websocket_unsent_bytes(const struct websocket *ws);
/* Paused: on_message is not called and nothing is read, so the peer is held up by TCP. */
void websocket_pause(struct websocket *ws, bool paused);
/*
 * Sends what is queued, then a close, and waits for the peer's for a while. No message comes any
 * more; on_close does. reason (NULL: none) is cut at 123 bytes. The first close wins.
 */
void websocket_close(struct websocket *ws, int code, const char *reason);
/* Open ones of a server. */
uint32_t websocket_count(const struct http_server *server);

#endif
