/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the proxy. proxy.c has the exchanges, upstream.c the connections, head.c the rewriting
 * of heads (without I/O), answer.c the replies, and tunnel.c the bytes after an upgrade.
 *
 * An exchange goes DIALING -> HEAD -> BODY -> OVER. A kept connection skips DIALING. Every state
 * ends when either side fails.
 */
#ifndef CAY_HTTP_PROXY_STATE_H
#define CAY_HTTP_PROXY_STATE_H

#include "http/server/conn.h"
#include "http/proxy/proxy.h"

#define PROXY_READ_BYTES 262144	  /* one recv(2) of a body */
#define PROXY_OUT_HIGH 262144	  /* unsent bytes of a request at which reading its body stops */
#define PROXY_OUT_LIMIT (1 << 20) /* a head and one read above the mark; more ends the exchange */
#define PROXY_BUCKETS 1024	  /* power of two */
#define PROXY_TRAILERS_MAX 4096
#define PASSED_EXTRA 16 /* maximum of headers that we add to a reply */

enum exchange_state {
	EXCHANGE_DIALING,
	EXCHANGE_HEAD, /* the request is being sent, no reply yet */
	EXCHANGE_BODY, /* the reply is streamed */
	EXCHANGE_OVER,
};

/* A connection to a server. Owner: its exchange, or the pool while it is idle. */
struct upstream {
	struct proxy *proxy;
	struct exchange *exchange; /* NULL: idle, or aborted */
	struct proxy_target target;
	int fd;
	struct loop_watch *watch;
	int events;
	bool reused;
	bool deaf; /* the server stopped reading; it may still reply */
	bool dead;
	struct buf out; /* unsent; PROXY_OUT_LIMIT: ends the exchange */
	int64_t idle_ms;
	struct upstream *prev, *next;	/* list of idle ones in a bucket */
	struct upstream *older, *newer; /* list of all idle ones */
	struct upstream *dead_next;
};

/* One request in progress. Owner: proxy->exchanges. */
struct exchange {
	slot_handle handle;
	struct proxy *proxy;
	struct exchange *prev, *next;
	slot_handle req;
	struct proxy_spec spec;
	struct proxy_hooks hooks;
	void *arg;
	enum exchange_state state;
	struct upstream *up; /* NULL while dialing */
	bool chunked;	     /* how the request's body is sent */
	bool has_body;
	bool reading; /* the body is being read */
	bool sent;    /* the whole request was passed to the connection */
	bool expects; /* waits for 100 before it sends the body */
	bool upgrade;
	bool paused;	  /* the client is slow, so the server is not read */
	bool body_paused; /* the server is slow, so the client is not read */
	bool retried;
	bool fresh_only; /* do not use a kept connection again */
	uint32_t interims;
	int64_t deadline_ms;
	struct http_scan scan;
	struct buf in; /* an incomplete head; limit: head_bytes */
	enum http_framing framing;
	uint64_t left;
	struct http_chunked decoder;
	bool server_keeps;
	struct buf trailers;	 /* of the reply, as received */
	struct buf own_trailers; /* of the request */
	struct proxy_traffic traffic;
};

/* An upgraded connection: bytes in both directions. Owner: proxy->tunnels. */
struct tunnel_end {
	int fd;
	bool foreign;
	struct loop_watch *watch;
	int events;
	struct buf out; /* bytes that this end has not taken; the other end is not read meanwhile */
	bool eof;	/* end of input */
	bool shut;	/* the end of the other side was passed on */
	struct tunnel *tunnel;
};
struct tunnel {
	struct proxy *proxy;
	struct tunnel *prev, *next;
	struct tunnel_end ends[2]; /* client, server */
	struct proxy_hooks hooks;
	void *arg;
	struct proxy_traffic traffic;
	int64_t deadline_ms;
	bool dead;
	struct tunnel *dead_next;
};

struct proxy {
	struct loop *loop;
	struct http_server *server;
	struct proxy_limits limits;
	uint32_t idle, open_tunnels;
	struct slot_table exchanges_by_handle;
	struct exchange *exchanges;
	struct tunnel *tunnels, *dead_tunnels;
	struct upstream *buckets[PROXY_BUCKETS];
	struct upstream *oldest, *newest; /* idle */
	struct upstream *dead_upstreams;
	struct loop_timer *sweep;
	bool sweeping;
	int depth;		     /* > 0 inside one of our callbacks: nothing is freed */
	struct http_header *headers; /* of a response, as parsed */
	struct http_header *passed;  /* and as forwarded */
	struct buf head;	     /* a request's head */
	char *scratch;
};

/* proxy.c */
void proxy_enter(struct proxy *proxy);
void proxy_leave(struct proxy *proxy);
void proxy_sweep_on(struct proxy *proxy);
void exchange_fail(struct exchange *x, enum proxy_failure why); /* frees x */
/* The reply is complete. clean: and no bytes followed it. Frees x. */
void exchange_finish(struct exchange *x, bool clean);
void exchange_let_go(struct exchange *x); /* without calling a hook */
void exchange_tell(struct exchange *x);	  /* reports the traffic so far */
int64_t exchange_in_ms(const struct exchange *x, int ms);
void exchange_start_body(struct exchange *x);
bool exchange_connect(struct exchange *x, struct http_req *req); /* false: x was freed */
bool exchange_is_idempotent(const struct http_req *req);
void exchange_on_writable(struct exchange *x);
struct http_req *exchange_req(const struct exchange *x);

/* answer.c */
void exchange_on_bytes(struct exchange *x, const char *p, size_t n);
void exchange_on_end(struct exchange *x, int error); /* end of the server's stream */

/* upstream.c */
struct upstream *upstream_new(struct proxy *proxy, const struct proxy_target *target, int fd);
struct upstream *upstream_take_idle(struct proxy *proxy, const struct proxy_target *target,
				    bool certain); /* certain: check the socket once more */
void upstream_keep(struct upstream *up);	   /* puts it into the pool of idle connections */
void upstream_close(struct upstream *up);
int upstream_send(struct upstream *up, struct str a, struct str b, struct str c) _must_check_;
void upstream_watch(struct upstream *up, bool read);
void upstream_expire(struct proxy *proxy, int64_t now_ms);
void upstream_reap(struct proxy *proxy);

/* tunnel.c */
int tunnel_start(struct exchange *x, struct http_req *req, const struct http_header *headers,
		 size_t count, struct str early) _must_check_;
void tunnel_sweep(struct proxy *proxy, int64_t now_ms);
void tunnel_close_all(struct proxy *proxy);
void tunnel_reap(struct proxy *proxy);

/* head.c: no I/O */
bool proxy_is_hop(struct str name);
/* Writes the head for the server. expects: with Expect: 100-continue. */
int proxy_put_request(struct buf *out, const struct http_req *req, const struct proxy_spec *spec,
		      bool expects) _must_check_;
/* Selects and rewrites the headers of a reply that are forwarded. Returns the count, or -ENOMEM. */
int proxy_pass_response(const struct http_head *head, const struct proxy_spec *spec, bool upgrade,
			struct arena *arena, struct http_header *dst, size_t max) _must_check_;
/*
 * Converts trailers as http_chunked keeps them to "Name: value" lines, without the last line end.
 */
int proxy_pass_trailers(struct str raw, struct buf *out) _must_check_;
bool proxy_can_upgrade(const struct http_req *req);

#endif
