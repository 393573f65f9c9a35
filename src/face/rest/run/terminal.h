/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals and other processes over a WebSocket: binary frames are bytes in both directions, text
 * frames are JSON. The end of a connection does not end the process.
 */
#ifndef CAY_FACE_REST_RUN_TERMINAL_H
#define CAY_FACE_REST_RUN_TERMINAL_H

#include "face/rest/run/stream.h"
#include "http/websocket/websocket.h"

#define TERMINAL_MESSAGE_BYTES (256 * 1024) /* per message */
#define TERMINAL_CREDIT (128 * 1024)
/* with ack: sent and not acknowledged; beyond it the terminal waits */
#define TERMINAL_ACK_CREDIT (512 * 1024)
#define TERMINAL_INPUTS_MAX 64 /* messages in flight to the program; further ones are joined */

/* Owner: rest->terminals, until the WebSocket is closed and no input is in flight. */
struct terminal {
	struct terminal *prev, *next;
	struct rest *rest;
	/* while the process is being started; 0: the client has disconnected */
	slot_handle req;
	struct websocket *ws; /* NULL: not open yet, or closed */
	slot_handle sandbox;
	slot_handle follow; /* 0: none */
	uint32_t process_id;
	char key_id[AUTH_KEY_ID_SIZE];
	bool counted;	   /* counts as a stream of its key */
	bool blocked;	   /* the client is slow */
	bool paused;	   /* the program is slow */
	bool input_closed; /* the client was informed that its input is no longer read */
	bool acks;	   /* the client acknowledges output; credit waits for that */
	uint32_t owed;
	uint32_t unread;    /* input that the program has not taken */
	uint32_t in_flight; /* messages in flight, their sizes from the oldest on */
	uint32_t oldest;
	uint32_t sizes[TERMINAL_INPUTS_MAX];
	struct buf waiting; /* input after these: at most what stops the reading and one message */
	bool close_waits;   /* the end of the input follows it */
	uint64_t next_cursor[2];
};

struct terminal *terminal_new(struct rest_call *call, struct err *err);
/* The client has disconnected, or never arrived. */
void terminal_leave(struct terminal *t);
void terminal_uncount(struct terminal *t);
void terminal_tell_started(struct terminal *t, uint32_t pid);
void terminal_tell_error(struct terminal *t, const struct err *err);
/* Both with the struct terminal as arg. */
extern const struct follow_hooks terminal_follow_hooks;
extern const struct websocket_hooks terminal_socket_hooks;

#endif
