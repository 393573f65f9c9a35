/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the warden, shared by the files of this engine. */
#ifndef CAY_ENGINE_NATIVE_WARDEN_H
#define CAY_ENGINE_NATIVE_WARDEN_H

#include "base/slot.h"
#include "engine/native/native.h"
#include "wire/warden.h"

#define NATIVE_FDS_MAX 2 /* that go with a request */

/* What is to be called when the answer to a request comes. */
struct native_call {
	struct native_call *next_unsent;
	struct warden_request request;
	int with_fds[NATIVE_FDS_MAX]; /* ours, until the request is sent; -1: none */
	slot_handle handle;
	struct engine *engine;
	uint16_t op;
	char id[WARDEN_ID_SIZE]; /* or of the snapshot, where there is no other */
	bool dials;		 /* ATTACH for a connection only */
	union {
		engine_made_fn made;
		engine_dialed_fn dialed;
		engine_done_fn done;
		engine_linked_fn linked;
		engine_stat_fn stat;
		engine_list_fn each;
		engine_snapshot_fn snapshot;
	} then;
	void *arg;
};

enum native_state {
	NATIVE_OPENING, /* the warden has not answered yet; to READY */
	NATIVE_READY,	/* to LOST */
	NATIVE_LOST,	/* to READY */
};

struct engine {
	struct engine_config config;
	char socket_path[108];
	int fd; /* -1 while the warden is away */
	struct loop_watch *watch;
	struct loop_timer *retry;
	struct slot_table calls;
	/* The socket takes only so many at once: the rest waits here, bounded by the table of
	 * calls. */
	struct native_call *unsent_head, *unsent_tail;
	enum native_state state;
	int64_t opened_ms;
	bool complained;       /* of a warden that has not answered since open */
	uint32_t capabilities; /* WARDEN_CAN_* */
	uint32_t gateway;      /* of all links */
	struct native_build *builds;
};

/* Begins to connect, and connects again after every loss. */
void warden_begin(struct engine *engine);
void warden_disconnect(struct engine *engine);
void warden_on_retry(void *arg);
void warden_fail_all(struct engine *engine);
/* Sends a request and remembers what to call. fds are the caller's; NULL: none. */
int warden_start(struct engine *engine, const struct native_call *want, struct warden_request *req,
		 const int fds[NATIVE_FDS_MAX], struct err *err);

/* image.c: templates, built and removed by the builder that the warden starts. */
extern const struct engine_image native_image;
void native_builds_done(struct engine *engine); /* they go on without us */

#endif
