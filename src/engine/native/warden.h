/* SPDX-License-Identifier: Apache-2.0 */
/* The connection to the warden, shared by the two files of this engine. */
#ifndef CAY_ENGINE_NATIVE_WARDEN_H
#define CAY_ENGINE_NATIVE_WARDEN_H

#include "base/slot.h"
#include "engine/native/native.h"
#include "wire/warden.h"

/* What is to be called when the answer to a request comes. */
struct native_call {
	struct native_call *next_unsent;
	struct warden_request request;
	int with_fd; /* ours, until the request is sent; -1 when none */
	slot_handle handle;
	struct engine *engine;
	uint16_t op;
	char id[WARDEN_ID_SIZE];     /* or of the snapshot, where there is no other */
	struct warden_limits limits; /* STAT reports the limit it was given */
	union {
		engine_made_fn made;
		engine_done_fn done;
		engine_resized_fn resized;
		engine_stat_fn stat;
		engine_list_fn each;
		engine_snapshot_fn snapshot;
	} then;
	void *arg;
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
	uint32_t capabilities;
	uint32_t gateway; /* of all links */
	bool lost;
};

int warden_connect(struct engine *engine) _must_check_; /* 0 or -errno; says hello */
void warden_disconnect(struct engine *engine);
void warden_on_retry(void *arg);
void warden_fail_all(struct engine *engine);
/* Sends a request and remembers whom to tell. with_fd < 0: none. */
int warden_start(struct engine *engine, const struct native_call *want, struct warden_request *req,
		 int with_fd, struct err *err);

#endif
