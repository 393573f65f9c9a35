/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the WebSocket server: what websocket.c and list.c share. Not for other layers.
 */
#ifndef CAY_HTTP_WEBSOCKET_STATE_H
#define CAY_HTTP_WEBSOCKET_STATE_H

#include "http/server/conn.h"
#include "http/websocket/websocket.h"
#include "http/websocket/frame.h"

/*
 * OPEN -> CLOSING (we closed) -> FLUSHING (the peer did too) -> DEAD.
 * OPEN -> FLUSHING when the peer closes, OPEN -> DEAF when it breaks the rules; every state -> DEAD
 * when the connection is lost or its time is up.
 */
enum websocket_state {
	WEBSOCKET_IS_OPEN,
	WEBSOCKET_IS_CLOSING,  /* our close is on its way, the peer's awaited, messages dropped */
	WEBSOCKET_IS_DEAF,     /* the same, but what the peer sends cannot be understood any more */
	WEBSOCKET_IS_FLUSHING, /* both have closed; unsent bytes leave */
	WEBSOCKET_IS_DEAD,     /* told and freed at the end of the next step */
};

/* Owner: its list. Freed in websocket_release() only, at the end of a step, so no call of a hook's
 * can free it. */
struct websocket {
	struct websocket *prev, *next;
	struct websocket_list *list;
	struct websocket_limits limits;
	struct websocket_hooks hooks;
	void *arg;
	enum websocket_state state;
	int code; /* for on_close */
	int fd;
	struct loop_watch *watch;
	int watched;
	struct websocket_reader reader;
	struct buf unread; /* came with the request */
	struct buf out;	   /* limits.queue_bytes: cut */
	size_t bytes_left; /* to read in this turn */
	bool eof;
	bool busy;     /* inside work(): its end looks after everything */
	bool ready;    /* work() is wanted */
	bool deferred; /* and comes by loop_defer(), which knows the address */
	bool freed;    /* by then */
	bool paused;
	bool above; /* the sender was told -EAGAIN */
	bool shut;  /* DEAF: our side is shut down */
	int64_t heard_ms;
	int64_t pinged_ms;
	int64_t write_deadline_ms; /* 0: nothing unsent */
	int64_t close_deadline_ms; /* 0: not yet closing */
};

/* Owner: the server. */
struct websocket_list {
	struct http_server *server;
	struct websocket *head;
	uint32_t count;
	struct loop_timer *sweep;
	int sweep_ms; /* 0: stopped */
};

int64_t websocket_now_ms(const struct websocket *ws);
bool websocket_wants_read(const struct websocket *ws);
/* The connection is lost or given up: the next step tells and frees. */
void websocket_lose(struct websocket *ws);
void websocket_make_ready(struct websocket *ws); /* a step soon, never now */
void websocket_set_watch(struct websocket *ws);
void websocket_work(struct websocket *ws);    /* one step; ws may be gone after it */
void websocket_release(struct websocket *ws); /* tells on_close and frees */
void websocket_on_watch(void *arg, int events, int error);
size_t websocket_source(void *arg, void *dst, size_t n); /* the reader's */
/* -EPIPE when the connection is lost by it, be it that the queue is full. */
int websocket_send_frame(struct websocket *ws, enum websocket_opcode opcode, struct str a,
			 struct str b) _must_check_;

#endif
