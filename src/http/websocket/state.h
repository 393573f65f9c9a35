/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the WebSocket server: state that websocket.c and list.c share. */
#ifndef CAY_HTTP_WEBSOCKET_STATE_H
#define CAY_HTTP_WEBSOCKET_STATE_H

#include "http/server/conn.h"
#include "http/websocket/websocket.h"
#include "http/websocket/frame.h"

/*
 * States: OPEN -> CLOSING (we closed) -> FLUSHING (the peer closed as well) -> DEAD. OPEN ->
 * FLUSHING if the peer closes. OPEN -> DEAF if the peer violates the protocol. Every state -> DEAD
 * if the connection is lost or a deadline has passed.
 */
enum websocket_state {
	WEBSOCKET_IS_OPEN,
	WEBSOCKET_IS_CLOSING,  /* our close is queued, the peer's awaited, messages are dropped */
	WEBSOCKET_IS_DEAF,     /* the same, but the peer's bytes can no longer be parsed */
	WEBSOCKET_IS_FLUSHING, /* both have closed; unsent bytes are sent */
	WEBSOCKET_IS_DEAD,     /* reported and freed at the end of the next step */
};

/*
 * Owner: its list. Freed only in websocket_release(), at the end of a step, so no call from a hook
 * can free it.
 */
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
	struct buf unread; /* bytes that arrived with the request */
	struct buf out;	   /* at limits.queue_bytes the connection is closed */
	size_t bytes_left; /* to read in this iteration */
	bool eof;
	bool busy;     /* inside work(), whose end handles everything */
	bool ready;    /* work() is scheduled */
	bool deferred; /* through loop_defer(), which refers to this struct */
	bool freed;    /* free it when the deferred call runs */
	bool paused;
	bool above; /* the sender got -EAGAIN */
	bool shut;  /* DEAF: our side is shut down */
	int64_t heard_ms;
	int64_t pinged_ms;
	int64_t write_deadline_ms; /* 0: nothing is unsent */
	int64_t close_deadline_ms; /* 0: not closing yet */
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
/* The connection is lost or abandoned: the next step reports and frees it. */
void websocket_lose(struct websocket *ws);
void websocket_make_ready(struct websocket *ws); /* schedules a step, never runs it directly */
void websocket_set_watch(struct websocket *ws);
void websocket_work(struct websocket *ws);    /* one step; may free ws */
void websocket_release(struct websocket *ws); /* calls on_close and frees */
void websocket_on_watch(void *arg, int events, int error);
size_t websocket_source(void *arg, void *dst, size_t n); /* source of the reader */
/* -EPIPE if the connection is lost, for example because the queue is full. */
int websocket_send_frame(struct websocket *ws, enum websocket_opcode opcode, struct str a,
			 struct str b) _must_check_;

#endif
