/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the HTTP server: state that server.c, conn.c, body.c and reply.c share.
 *
 * A connection serves one request at a time: the next head is parsed only after the reply has
 * ended. User code is called only from http_conn_work(), so no callback runs inside a call that
 * started it. A connection that dies meanwhile is freed only when the outermost server function
 * returns (http_server_leave()).
 */
#ifndef CAY_HTTP_SERVER_CONN_H
#define CAY_HTTP_SERVER_CONN_H

#include <netinet/in.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/slot.h"
#include "http/message/chunked.h"
#include "http/server/server.h"

#define HTTP_READ_BYTES 65536		   /* one read(2) */
#define HTTP_STREAM_BYTES 262144	   /* one read(2) of a body that is streamed */
#define HTTP_ARENA_BYTES ((size_t)8 << 20) /* per request; beyond it arena_alloc() returns NULL */
/*
 * Limit of unsent bytes per connection. Writers get -EAGAIN at the watermark; a writer that
 * continues regardless loses the connection here.
 */
#define HTTP_OUT_BYTES ((size_t)64 << 20)
/*
 * How long to read on after an early reply: most clients read the reply only after they have sent
 * their body.
 */
#define HTTP_LINGER_MS 5000
#define HTTP_LINGER_BYTES ((size_t)512 << 20)
#define HTTP_WORK_PER_TURN 64 /* connections processed before other events are served */
#define HTTP_RANDOM_BYTES 1024

/*
 * States: HEAD -> REQUEST -> ENDED -> HEAD (keep-alive) or FLUSHING -> LINGERING -> freed. HEAD ->
 * FLUSHING if the server itself replies. Every state -> freed if the client disconnects.
 */
enum http_conn_state {
	HTTP_CONN_HEAD,	    /* waiting for a head, or for the rest of one */
	HTTP_CONN_REQUEST,  /* the handler was called, the reply has not ended */
	HTTP_CONN_ENDED,    /* the reply has ended, the next step cleans up */
	HTTP_CONN_FLUSHING, /* no further request is served; unsent bytes are sent */
	HTTP_CONN_LINGERING /* all sent; input is discarded until the client closes */
};

enum http_reader { HTTP_READ_NONE, HTTP_READ_COLLECT, HTTP_READ_STREAM };
enum http_framing { HTTP_FRAME_NONE, HTTP_FRAME_LENGTH, HTTP_FRAME_CHUNKED, HTTP_FRAME_CLOSE };

struct http_body {
	enum http_framing framing;
	enum http_reader reader;
	bool complete; /* all bytes were received */
	bool told;     /* the reader got its last call */
	bool paused;
	bool feeding;  /* inside the reader's callback: the input must not move */
	int error;     /* -errno; the rest of the connection cannot be parsed */
	uint64_t left; /* HTTP_FRAME_LENGTH */
	struct http_chunked chunked;
	size_t limit_bytes;
	struct buf bytes; /* HTTP_READ_COLLECT */
	int64_t until_ms; /* HTTP_READ_COLLECT: deadline for the whole body */
	http_body_fn done;
	http_data_fn data;
	void *arg;
};

struct http_answer {
	bool started;
	enum http_framing framing;
	uint64_t left;	 /* HTTP_FRAME_LENGTH: still to be written */
	bool bodyless;	 /* HEAD, 204, 304: written bytes are dropped */
	bool above;	 /* a writer got -EAGAIN */
	bool forwarded;	 /* a forwarded reply: we add only framing headers */
	int patience_ms; /* 0: the server's write_timeout_ms */
	void (*on_drain)(void *arg);
	void *drain_arg;
};

/* The peer of the socket. */
struct http_peer {
	char address[INET6_ADDRSTRLEN]; /* "": a Unix socket */
	bool loopback;
	bool here; /* loopback, or the same address as the server's end */
	bool secure;
	struct http_source *source; /* counted there; NULL: not counted */
};

struct http_network {
	uint8_t address[16];
	unsigned bits;
};

struct http_trust {
	struct http_network networks[HTTP_TRUST_MAX];
	size_t count;
};

/* Owner: the server's list. */
struct http_conn {
	struct http_req req;
	struct http_server *server;
	struct http_conn *prev, *next; /* of the server's list */
	struct http_conn *ready_next;  /* of the server's ready queue */
	struct http_conn *dead_next;   /* of the server's dead list */
	bool ready;
	bool broken; /* nothing can be sent: closed at the next step */
	bool eof;    /* end of the client's stream; only unsent bytes matter */
	bool dead;   /* the descriptor is closed; freed soon */
	bool fresh;  /* no byte was received yet */
	bool keep;   /* another request may follow */
	bool linger; /* input was left unread */
	bool minor_zero;
	bool expect_continue;
	struct http_peer peer;
	enum http_conn_state state;
	int fd;
	struct loop_watch *watch;
	struct buf in;	/* at its limit reading stops until the request advances */
	struct buf out; /* HTTP_OUT_BYTES: close */
	struct http_scan scan;
	struct arena arena;
	struct http_body body;
	struct http_answer answer;
	size_t lingered_bytes;
	int64_t read_deadline_ms;  /* 0: none */
	int64_t write_deadline_ms; /* 0: none */
	void (*on_gone)(void *arg);
	void *gone_arg;
};

struct http_listener {
	struct http_listener *next;
	struct http_server *server;
	struct loop_watch *watch;
	int fd;
};

/* Owner: the daemon. */
struct http_server {
	struct loop *loop;
	struct http_limits limits;
	http_handler_fn handler;
	void *ctx;
	struct http_listener *listeners;
	struct http_conn *conns;
	uint32_t conn_count;
	struct slot_table requests;
	struct tls *tls; /* not owned; NULL: plain only */
	struct tls_ctx *tls_ctx;
	struct map sources; /* address -> struct http_source */
	struct http_sniff *sniffs;
	uint32_t sniff_count;
	struct http_trust trust;
	struct websocket_list *websockets; /* NULL until the first one */
	struct http_conn *ready_head, *ready_tail;
	struct http_conn *dead;
	int depth; /* > 0 while inside one of our callbacks */
	bool deferred;
	bool freed;
	bool accept_paused; /* out of descriptors: the sweep tries again */
	struct loop_timer *sweep;
	bool sweeping;
	int sweep_ms;
	bool draining;
	struct loop_timer *grace;
	void (*drained)(void *arg);
	void *drained_arg;
	struct http_header *header_scratch;
	struct buf head_scratch;
	char *read_scratch;
	unsigned char random[HTTP_RANDOM_BYTES];
	size_t random_left;
	int64_t date_second;
	char date[40];
};

/* server.c */
void http_server_enter(struct http_server *server);
/* processes the ready queue, frees dead connections */
void http_server_leave(struct http_server *server);
/* schedules http_conn_work(), never calls it directly */
void http_server_ready(struct http_conn *conn);
void http_server_label(struct http_server *server, char dst[27]);

/* source.c. 0, -EBUSY: its address has enough connections, or -ENOMEM. */
int http_source_take(struct http_server *server, struct http_peer *peer) _must_check_;
void http_source_release(struct http_server *server, struct http_peer *peer);

/* conn.c. Takes over the count of peer's source, on success only. */
int http_conn_new(struct http_server *server, int fd, const struct http_peer *peer,
		  struct http_conn **ret) _must_check_;
void http_conn_work(struct http_conn *conn);
void http_conn_close(struct http_conn *conn); /* at once; calls on_gone if a request was active */
void http_conn_free(struct http_conn *conn);
void http_conn_expire(struct http_conn *conn, int64_t now_ms);
/* returns the descriptor, which the caller owns */
int http_conn_detach(struct http_conn *conn);
void http_conn_end_request(struct http_conn *conn); /* the reply is complete */

/* output.c */
/*
 * Sends as much as the socket takes now and queues the rest. 0 or -EPIPE (closed at the next step).
 */
int http_conn_send(struct http_conn *conn, struct str a, struct str b, struct str c) _must_check_;
/* The same, but queues everything until the next step, so that small pieces are sent together. */
int http_conn_queue(struct http_conn *conn, struct str a, struct str b, struct str c) _must_check_;
void http_conn_flush(struct http_conn *conn);
void http_conn_break(struct http_conn *conn); /* nothing can be sent: closed at the next step */

/* websocket.c */
void websocket_close_all(struct http_server *server); /* with 1001, orderly */
void websocket_cut_all(struct http_server *server);   /* at once */
void websocket_free_all(struct http_server *server);  /* at once, with the list itself */

/* tls_detect.c */
int http_sniff_new(struct http_server *server, int fd,
		   struct http_peer *peer) _must_check_; /* takes fd in every case */
void http_sniff_expire(struct http_server *server, int64_t now_ms);
void http_sniff_close_all(struct http_server *server);

/* forwarded.c */
void http_forwarded_read(const struct http_conn *conn, struct http_req *req);

/* body.c */
void http_body_begin(struct http_conn *conn, const struct http_head *head);
void http_body_reset(struct http_conn *conn);
/* Passes bytes to the reader; returns how many were used. */
size_t http_body_feed(struct http_conn *conn, const char *p, size_t n);
void http_body_work(struct http_conn *conn); /* passes on buffered bytes, makes the last call */
bool http_body_skip(struct http_conn *conn); /* true if no byte of the body is left */
bool http_body_wants(const struct http_conn *conn);
void http_body_touch(struct http_conn *conn); /* a byte arrived: extends the deadline */
void http_body_fail(struct http_conn *conn, int error);

/* reply.c */
void http_reply_refuse(struct http_conn *conn, int status, const char *why);
size_t http_reply_busy(char *dst, size_t size,
		       const char *id); /* the 503 for connections over the limit */

#endif
