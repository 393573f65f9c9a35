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
		engine_entry_fn entry;
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
	struct loop_timer *ping;
	struct slot_table calls;
	/* The socket takes only so many at once: the rest waits here, bounded by the table of
	 * calls. */
	struct native_call *unsent_head, *unsent_tail;
	enum native_state state;
	int64_t opened_ms;
	bool complained;       /* of a warden that has not answered since open */
	int64_t asked_ms;      /* the oldest HELLO without an answer; 0: there is none */
	uint32_t capabilities; /* WARDEN_CAN_* */
	char owner[WARDEN_ID_SIZE];
	uint32_t gateway; /* of all links */
	struct native_build *builds;
};

/* Begins to connect, and connects again after every loss. */
void warden_begin(struct engine *engine);
void warden_disconnect(struct engine *engine);
void warden_on_retry(void *arg);
void warden_fail_all(struct engine *engine);
/* Gives the connection up: every open call fails, and a new connection is tried. */
void warden_lose(struct engine *engine, const char *what);
int warden_send(struct engine *engine, const struct warden_request *req,
		const int fds[NATIVE_FDS_MAX]) _must_check_;
/* Sends a request and remembers what to call. fds are the caller's; NULL: none. */
int warden_start(struct engine *engine, const struct native_call *want, struct warden_request *req,
		 const int fds[NATIVE_FDS_MAX], struct err *err);

/* hello.c: what the warden says about itself, and whether it still answers. */
int hello_ask(struct engine *engine, const char *owner) _must_check_; /* "": claims nothing */
void hello_received(struct engine *engine, const struct warden_reply *reply);
void hello_on_timer(void *arg); /* of engine->ping, every HELLO_PING_MS */
#define HELLO_PING_MS 1000
/* A warden that has not answered for this long is hung: no call waits longer for it. Its own work
 * between two requests takes milliseconds, and what waits for the disk is done by jobs. */
#define HELLO_HUNG_MS 15000

/* image.c: templates, built and removed by the builder that the warden starts. */
extern const struct engine_image native_image;
void native_builds_done(struct engine *engine); /* they continue without the daemon */

#endif
