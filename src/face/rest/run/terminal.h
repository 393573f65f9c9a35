/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals and other processes over a WebSocket: binary frames are bytes both ways, text frames
 * are JSON. A connection that ends ends nothing else.
 */
#ifndef CAY_FACE_REST_RUN_TERMINAL_H
#define CAY_FACE_REST_RUN_TERMINAL_H

#include "face/rest/run/stream.h"
#include "http/websocket/websocket.h"

#define TERMINAL_MESSAGE_BYTES (256 * 1024) /* of one message */
#define TERMINAL_CREDIT (128 * 1024)
#define TERMINAL_ACK_CREDIT (512 * 1024) /* with ack: sent and not acknowledged; then it waits */
#define TERMINAL_INPUTS_MAX 64 /* messages on their way to the program; further ones are joined */

/* Owner: rest->terminals, until the WebSocket is closed and no input is on its way. */
struct terminal {
	struct terminal *prev, *next;
	struct rest *rest;
	slot_handle req;      /* while the process is being started; 0: the client has gone */
	struct websocket *ws; /* NULL: not yet or no more */
	slot_handle sandbox;
	slot_handle follow; /* 0: none */
	uint32_t process_id;
	char key_id[AUTH_KEY_ID_SIZE];
	bool counted;	   /* as a stream of its key */
	bool blocked;	   /* the client is slow */
	bool paused;	   /* the program is */
	bool input_closed; /* the client was informed that nothing reads its input any more */
	bool acks;	   /* the client says what it has taken; credit waits for that */
	uint32_t owed;
	uint32_t unread;    /* input that the program has not taken */
	uint32_t in_flight; /* messages of it, their sizes from oldest on */
	uint32_t oldest;
	uint32_t sizes[TERMINAL_INPUTS_MAX];
	struct buf waiting; /* input behind these, at most what stops the reading and one message */
	bool close_waits;   /* its end comes behind it */
	uint64_t next_cursor[2];
};

struct terminal *terminal_new(struct rest_call *call, struct err *err);
/* The client has gone, or never came. */
void terminal_leave(struct terminal *t);
void terminal_uncount(struct terminal *t);
void terminal_tell_started(struct terminal *t, uint32_t pid);
void terminal_tell_error(struct terminal *t, const struct err *err);
/* Both with the struct terminal as arg. */
extern const struct follow_hooks terminal_follow_hooks;
extern const struct websocket_hooks terminal_socket_hooks;

#endif
