/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/e2b: a reply that is a stream of envelopes. */
#ifndef CAY_FACE_E2B_ENVD_ENVELOPE_STREAM_H
#define CAY_FACE_E2B_ENVD_ENVELOPE_STREAM_H

#include "face/e2b/envd/envd.h"

#define FLOW_CREDIT (128 * 1024) /* bytes sent to one reader and not yet taken */

/*
 * Owner: e2b->flows, from flow_new() until it ends or the client disconnects. It counts as one of
 * its key's streams.
 */
struct flow {
	struct flow *prev, *next;
	struct e2b *e2b;
	slot_handle req; /* 0: the client has disconnected */
	char key_id[AUTH_KEY_ID_SIZE];
	slot_handle sandbox;
	slot_handle follow; /* of a process */
	slot_handle run;    /* of a watch */
	bool begun;	    /* the head was sent */
	bool blocked;	    /* the client reads slowly */
	bool tty;
	uint32_t pid, owed;
	/* for a process: the next positions of stdout and stderr */
	uint64_t next_cursor[2];
	int64_t keepalive_ms, sent_ms; /* monotonic */
	const char *keepalive;	       /* the message of an idle stream */
	/* the client disconnected; flow_free() must follow, immediately or later */
	void (*on_gone)(struct flow *flow);
	void (*on_drain)(struct flow *flow);
	char user[E2B_USER_MAX + 1];
	struct watch *watch; /* of a watch */
};

struct flow *flow_new(struct e2b_call *call, const char *keepalive, struct err *err);
void flow_begin(struct flow *flow); /* sends the head */
/* One message: the caller writes its members between these two calls. */
struct json_writer flow_message(struct flow *flow);
void flow_send(struct flow *flow, struct json_writer *w);
/* Sends the last envelope, with an error or without, and frees. */
void flow_end(struct flow *flow, const struct err *err);
/* Resets the connection, because the sandbox is gone and the client must check its state; frees. */
void flow_cut(struct flow *flow);
void flow_free(struct flow *flow);
/* Frees the state of a watch; other flows have none. */
void watch_free(struct flow *flow);

#endif
