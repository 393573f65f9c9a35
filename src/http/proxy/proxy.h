/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reverse proxy: forwards requests of our server to servers behind descriptors that somebody else
 * connects. The servers are hostile: their heads are parsed strictly and written anew, in both
 * directions; nothing is sent as it came but bodies. The descriptors are foreign (net/foreign.h).
 *
 * Bodies stream both ways; whoever is slow slows the other down, and nobody makes us hold more than
 * the watermarks. Connections are kept and used again for the same target.
 */
#ifndef CAY_HTTP_PROXY_PROXY_H
#define CAY_HTTP_PROXY_PROXY_H

#include "http/server/server.h"

struct proxy;

struct proxy_limits {
	uint32_t idle_per_target; /* kept connections; one more is closed */
	uint32_t idle_total;	  /* likewise */
	uint32_t exchanges;	  /* requests and tunnels at once; one more is refused */
	uint32_t interim_heads;	  /* 1xx before the real one; one more is a failure */
	size_t head_bytes;	  /* of a response */
	size_t header_count;
	int idle_ms;	 /* a kept connection */
	int connect_ms;	 /* until proxy_connected() */
	int head_ms;	 /* from the end of the request to the response's head */
	int body_ms;	 /* without a byte of the response */
	int patience_ms; /* without the client taking one */
	int continue_ms; /* for a 100 before the body is sent anyway */
	int tunnel_ms;	 /* without a byte in either direction */
};
extern const struct proxy_limits proxy_limits_default;

/* Where a request goes: connections are shared among equal ones only. */
struct proxy_target {
	uint64_t id;
	uint16_t port;
};

enum proxy_failure {
	PROXY_REFUSED,	   /* the head or body that the client sent cannot be forwarded */
	PROXY_BUSY,	   /* too many exchanges */
	PROXY_NOT_TAKEN,   /* connect_ms */
	PROXY_CLOSED,	   /* the server closed without an answer */
	PROXY_BAD_ANSWER,  /* no HTTP, or too much of it */
	PROXY_LATE_ANSWER, /* head_ms */
};

struct proxy_traffic {
	uint64_t bytes_in;  /* bodies, from the client */
	uint64_t bytes_out; /* to the client */
};

/* All with the arg of proxy_start(). */
struct proxy_hooks {
	/* A connection is needed: proxy_connected() or proxy_cancel() follows, never from inside.
	 * -1: the request has been answered here; the exchange is over. */
	int (*dial)(void *arg) _must_check_;
	/* The face forgets its dial. */
	void (*undial)(void *arg);
	/* Nothing has been answered yet: the face answers. ended follows. */
	void (*failed)(void *arg, struct http_req *req, enum proxy_failure why);
	/* What moved since the last call; also while it lasts, about once a second. */
	void (*moved)(void *arg, const struct proxy_traffic *traffic);
	/* The last call. */
	void (*ended)(void *arg);
};

/* Everything lives as long as the request. */
struct proxy_spec {
	struct proxy_target target;
	struct str path;		 /* and query */
	struct str host;		 /* the Host header */
	const struct http_header *extra; /* added to the request */
	size_t extra_count;
	/* Whether a header of the client goes on; may change its value. Hop-by-hop ones never do.
	 */
	bool (*pass)(void *arg, const struct http_header *header, struct str *value);
	void *pass_arg;
	const struct http_header *reply_extra; /* added to the answer */
	size_t reply_extra_count;
	struct str
		own_cookie; /* the server may not set a cookie of this name, or __Host- with it */
};

int proxy_new(struct loop *loop, const struct proxy_limits *limits,
	      struct proxy **ret) _must_check_;
void proxy_set_server(struct proxy *proxy,
		      struct http_server *server); /* NULL before it is freed */
void proxy_free(struct proxy *proxy);		   /* cuts everything; hooks are called */

/* From the handler of a request, or later while it lives. 0, or -1: failed was called. */
int proxy_start(struct proxy *proxy, struct http_req *req, const struct proxy_spec *spec,
		const struct proxy_hooks *hooks, void *arg, slot_handle *ret) _must_check_;
void proxy_connected(struct proxy *proxy, slot_handle exchange, int fd); /* takes fd over */
/* The face answers, or has answered, by itself: no hook is called any more. */
void proxy_cancel(struct proxy *proxy, slot_handle exchange);

#endif
