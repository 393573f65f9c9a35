/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 server on the loop. A handler receives a request when its head is complete, and replies
 * at once or later. To reply later, keep the request's *handle* and look the request up again,
 * because the client may have disconnected. Faces call this; the daemon owns the server.
 */
#ifndef CAY_HTTP_SERVER_SERVER_H
#define CAY_HTTP_SERVER_SERVER_H

#include "base/arena.h"
#include "base/slot.h"
#include "base/str.h"
#include "http/message/head.h"
#include "http/message/url.h"
#include "net/loop.h"
#include "net/tls.h"

struct http_server;
struct http_conn;

/*
 * Owned by its connection; lives from the handler's call until the reply has ended or was aborted.
 */
#define HTTP_ADDED_MAX 4
struct http_req {
	slot_handle handle;
	struct http_server *server;
	struct http_conn *conn;
	struct arena *arena; /* freed with the request */
	enum http_method method;
	struct str method_name;
	struct str target; /* as sent */
	struct str path;   /* before '?', still percent-encoded, starts with '/'; "*" for OPTIONS */
	struct str query;  /* after '?', may be empty */
	struct str host;   /* Host header without its port, lower case */
	struct http_header *headers;
	size_t header_count;
	bool has_body;
	int64_t content_length; /* -1 if chunked or absent */
	int64_t started_us;
	char id[27]; /* request id: 26 random characters */
	bool peer_is_loopback;
	bool peer_is_here; /* connected from this host */
	bool secure;	   /* over TLS; a trusted proxy's header counts, too */
	/* the client's address, also behind trusted proxies; "": a Unix socket */
	struct str client;
	bool upgrade;				  /* requested by both Upgrade and Connection */
	struct http_header added[HTTP_ADDED_MAX]; /* headers added to the reply: http_req_add() */
	size_t added_count;
};

struct http_limits {
	size_t head_bytes;   /* 32 KiB: request line and headers */
	size_t header_count; /* 100 */
	size_t body_bytes;   /* 1 MiB for http_req_read_body() unless the call says otherwise */
	size_t write_watermark_bytes; /* 256 KiB: above it http_reply_write() returns -EAGAIN */
	/* 4096, of which one address gets three quarters: more are refused with 503 and closed */
	uint32_t connections;
	int head_timeout_ms; /* 10 s from the first byte to the end of the head */
	/* 30 s without a byte; http_req_read_body() also: 4 times that in total */
	int body_timeout_ms;
	int write_timeout_ms; /* 30 s without the client receiving a byte */
	int idle_timeout_ms;  /* 75 s between requests */
};
extern const struct http_limits http_limits_default;

/* Called on the loop when a head is complete. Must lead to exactly one reply. */
typedef void (*http_handler_fn)(void *ctx, struct http_req *req);

int http_server_new(struct loop *loop, const struct http_limits *limits, http_handler_fn handler,
		    void *ctx, struct http_server **ret) _must_check_;
/* Takes ownership of a listening descriptor (TCP or Unix). May be called several times. */
int http_server_listen(struct http_server *server, int listen_fd) _must_check_;
/*
 * From now on clients may use TLS on the same port, as well as plain HTTP; see http_req.secure. A
 * later call replaces the context for new connections. tls must outlive the server.
 */
void http_server_secure(struct http_server *server, struct tls *tls, struct tls_ctx *ctx);
/*
 * Proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted: addresses and networks
 * (10.0.0.0/8), separated by spaces or commas. -EINVAL, -ENOBUFS: nothing changed.
 */
#define HTTP_TRUST_MAX 32
int http_server_trust(struct http_server *server, const char *list) _must_check_;
/*
 * Takes ownership of one connected stream descriptor, for tests (an end of a socketpair). It is
 * closed here in every case; -ENOBUFS if the connection limit is reached (the peer gets a 503).
 */
int http_server_adopt(struct http_server *server, int fd) _must_check_;
/* Stops accepting, lets active requests finish for grace_ms, then closes; done is called once. */
void http_server_drain(struct http_server *server, int grace_ms, void (*done)(void *arg),
		       void *arg);
void http_server_free(struct http_server *server);
uint32_t http_server_connections(const struct http_server *server);

/* NULL if the client has disconnected or the reply has ended. */
struct http_req *http_req_get(struct http_server *server, slot_handle handle);
const struct str *http_req_header(const struct http_req *req,
				  const char *name); /* NULL if absent; the first one */
/*
 * Value of one query parameter, percent-decoded into the arena. 1: found, 0: absent, -EINVAL:
 * malformed.
 */
int http_req_query(struct http_req *req, const char *name, struct str *ret) _must_check_;
/*
 * Adds a header to the reply, whichever function writes it. Name and value must live as long as the
 * request. Beyond HTTP_ADDED_MAX it is omitted.
 */
void http_req_add(struct http_req *req, struct str name, struct str value);
/*
 * fn is called once if the client disconnects before the reply has ended. The request is freed
 * afterwards.
 */
void http_req_on_gone(struct http_req *req, void (*fn)(void *arg), void *arg);

/*
 * Collects the whole body. done gets status 0, -EFBIG (over limit_bytes), -ETIMEDOUT or -EPROTO
 * (malformed framing). It is never called from inside this call. If the client disconnects, only
 * http_req_on_gone() is called. Without a body, done gets an empty one. limit_bytes 0 means the
 * server's limit. The body lives as long as the request.
 */
typedef void (*http_body_fn)(void *arg, struct http_req *req, int status, struct str body);
int http_req_read_body(struct http_req *req, size_t limit_bytes, http_body_fn done,
		       void *arg) _must_check_;
/*
 * Streams the body: data for every piece, then data with n == 0 at the end, or with status < 0.
 * Pieces live for the call only. If the client disconnects, only http_req_on_gone() is called.
 */
typedef void (*http_data_fn)(void *arg, struct http_req *req, int status, const char *p, size_t n);
int http_req_stream_body(struct http_req *req, http_data_fn data, void *arg) _must_check_;
void http_req_pause_body(struct http_req *req, bool paused);

/* A complete reply. Names and values with CR, LF or NUL are programmer errors and are dropped. */
void http_reply(struct http_req *req, int status, const struct http_header *headers, size_t count,
		struct str body);
/*
 * A streamed reply: start, write any number of times, end. It is chunked unless headers contain a
 * Content-Length; then exactly that many bytes must be written, otherwise the connection is reset.
 */
int http_reply_start(struct http_req *req, int status, const struct http_header *headers,
		     size_t count) _must_check_;
/*
 * 0: sent or queued; -EAGAIN: queued, but above the watermark: wait for on_drain; -EPIPE:
 * disconnected.
 */
int http_reply_write(struct http_req *req, const void *p, size_t n) _must_check_;
void http_reply_on_drain(struct http_req *req, void (*fn)(void *arg), void *arg);
/* For readers that may pause, such as people: replaces write_timeout_ms for this reply. */
void http_reply_patience(struct http_req *req, int timeout_ms);
void http_reply_end(struct http_req *req);
/*
 * Ends with a field after the body ("Name: value"), which the head announced as Trailer. Clients
 * older than HTTP/1.1 do not get it.
 */
void http_reply_end_with(struct http_req *req, struct str trailer);
/*
 * Resets the connection instead of ending the reply, so that the client knows that it is
 * incomplete.
 */
void http_reply_abort(struct http_req *req);
/*
 * Hands the raw connection over (WebSocket, proxy): sends the head and returns the descriptor and
 * unread bytes (copy them before returning to the loop); the request ends. -EINVAL: it has a body
 * and still needs a reply. -EPIPE: the client disconnected, on_gone follows.
 */
int http_reply_upgrade(struct http_req *req, int status, const struct http_header *headers,
		       size_t count, int *ret_fd, struct str *ret_unread) _must_check_;

#endif
