/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reverse proxy: forwards requests of our server to servers behind descriptors that the face
 * connects. The servers are hostile: heads are parsed strictly and serialized again in both
 * directions, and only bodies are passed on unchanged. The descriptors are foreign (net/foreign.h).
 *
 * Bodies are streamed in both directions at the speed of the slower side, so that no more than the
 * watermarks is held in memory. Connections are kept and reused for the same target.
 */
#ifndef CAY_HTTP_PROXY_PROXY_H
#define CAY_HTTP_PROXY_PROXY_H

#include "http/server/server.h"

struct proxy;

struct proxy_limits {
	uint32_t idle_per_target; /* kept connections; further ones are closed */
	uint32_t idle_total;	  /* likewise */
	uint32_t exchanges;	  /* requests and tunnels in parallel; further ones are refused */
	uint32_t interim_heads;	  /* 1xx replies before the final one; one more is a failure */
	size_t head_bytes;	  /* of a response */
	size_t header_count;
	int idle_ms;	 /* lifetime of a kept connection */
	int connect_ms;	 /* until proxy_connected() */
	int head_ms;	 /* from the end of the request to the response's head */
	int body_ms;	 /* without a byte of the response */
	int patience_ms; /* without the client receiving a byte */
	int continue_ms; /* wait for a 100 before the body is sent anyway */
	int tunnel_ms;	 /* without a byte in either direction */
};
extern const struct proxy_limits proxy_limits_default;

/* Identifies the destination of a request: connections are shared only among equal targets. */
struct proxy_target {
	uint64_t id;
	uint16_t port;
};

enum proxy_failure {
	PROXY_REFUSED,	   /* the client's head or body cannot be forwarded */
	PROXY_BUSY,	   /* too many exchanges */
	PROXY_NOT_TAKEN,   /* connect_ms */
	PROXY_CLOSED,	   /* the server closed without a reply */
	PROXY_BAD_ANSWER,  /* not HTTP, or over a limit */
	PROXY_LATE_ANSWER, /* head_ms */
};

struct proxy_traffic {
	uint64_t bytes_in;  /* bodies, from the client */
	uint64_t bytes_out; /* to the client */
};

/* All are called with the arg of proxy_start(). */
struct proxy_hooks {
	/*
	 * A connection is needed: proxy_connected() or proxy_cancel() follows, never from inside
	 * this call. -1: the request was answered here; the exchange has ended.
	 */
	int (*dial)(void *arg) _must_check_;
	/* Cancels the face's dial. */
	void (*undial)(void *arg);
	/* No reply was sent yet: the face replies. ended follows. */
	void (*failed)(void *arg, struct http_req *req, enum proxy_failure why);
	/*
	 * Traffic since the last call; called about once a second during an exchange, and at its
	 * end.
	 */
	void (*moved)(void *arg, const struct proxy_traffic *traffic);
	/* The last call. */
	void (*ended)(void *arg);
};

/* All pointers must live as long as the request. */
struct proxy_spec {
	struct proxy_target target;
	struct str path;		 /* and query */
	struct str host;		 /* the Host header */
	const struct http_header *extra; /* added to the request */
	size_t extra_count;
	/*
	 * Whether to forward a header of the client; may change its value. Hop-by-hop headers are
	 * never forwarded.
	 */
	bool (*pass)(void *arg, const struct http_header *header, struct str *value);
	void *pass_arg;
	const struct http_header *reply_extra; /* added to the reply */
	size_t reply_extra_count;
	/* the server must not set a cookie with this name, or with __Host- before it */
	struct str own_cookie;
};

int proxy_new(struct loop *loop, const struct proxy_limits *limits,
	      struct proxy **ret) _must_check_;
void proxy_set_server(struct proxy *proxy,
		      struct http_server *server); /* NULL before it is freed */
void proxy_free(struct proxy *proxy);		   /* closes all exchanges; hooks are called */

/* From the handler of a request, or later while it lives. 0, or -1: failed was called. */
int proxy_start(struct proxy *proxy, struct http_req *req, const struct proxy_spec *spec,
		const struct proxy_hooks *hooks, void *arg, slot_handle *ret) _must_check_;
void proxy_connected(struct proxy *proxy, slot_handle exchange, int fd); /* takes ownership of fd */
/* The face replies itself, or has replied: no hook is called afterwards. */
void proxy_cancel(struct proxy *proxy, slot_handle exchange);

#endif
