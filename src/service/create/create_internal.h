/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: the creation of a sandbox, from the call to its first command. */
#ifndef CAY_SERVICE_SANDBOX_CREATE_INTERNAL_H
#define CAY_SERVICE_SANDBOX_CREATE_INTERNAL_H

#include "service/account/idempotency.h"
#include "service/sandbox/initializer.h"
#include "service/service_internal.h"
#include "service/copy/snapshot.h"
#include "service/template/template.h"

/*
 * The state of a creation; owner: the sandbox being created, the pool's queue, or the caller's
 * frame.
 */
struct creation {
	struct service *service;
	struct sandbox_attrs attrs;
	struct template *template;
	struct service_engine *engine;
	struct snapshot *from; /* NULL: the template's files only */
	struct idempotency *idem;
	sandbox_made_fn done;
	void *arg;
	int64_t started_us;
	int64_t wait_ms;
	struct pool *pool;	  /* the pool that it waits for */
	struct loop_timer *timer; /* ends the wait */
	struct creation *next;
	size_t step; /* index of the current initializer */
	/* sandbox_create() has not returned yet: it returns the result instead of calling back */
	bool in_call;
	bool pool_hit;
	bool has_room;	 /* name and quota are reserved */
	bool files_only; /* without the memory of its snapshot */
	/* one of several sandboxes of one call: its intent stays open until all of them exist */
	bool together;
	uint8_t boot; /* enum sandbox_boot, if it does not come from a pool */
	struct sandbox *now;
	struct err now_err;
	bool failed_now;
};

/* create_request.c, pool_take.c */
void creation_take_attrs(struct creation *creation, struct sandbox *sandbox);
void creation_answer(struct creation *creation, struct sandbox *sandbox, const struct err *err);
void creation_cold(struct creation *creation);
void creation_hand_out(struct creation *creation, struct sandbox *member);
void creation_free(struct creation *creation);
struct creation *creation_new(struct service *service, const struct key *owner,
			      const struct sandbox_spec *spec, struct err *err);
int creation_take_room(struct creation *creation, struct err *err) _must_check_;
/* Takes ownership. As sandbox_create(): 1 with *ret_now, 0 later, -1. */
int creation_start(struct creation *creation, const struct sandbox **ret_now,
		   struct err *err) _must_check_;
bool creation_require(const struct creation *creation);
int create_check_end(const struct service_engine *engine, int on_timeout,
		     struct err *err) _must_check_;
/*
 * Creates a child of a fork: as sandbox_create() from a snapshot, but never completes inside the
 * call. Owns attrs on success.
 */
struct create_source {
	struct service_engine *engine;
	struct template *template;
	struct snapshot *snapshot;
	bool files_only;
};
int create_from(struct service *service, struct sandbox_attrs *attrs,
		const struct create_source *source, sandbox_made_fn done, void *arg,
		struct err *err) _must_check_;

/* provision.c */
/* Writes row and intent, then calls the engine. On failure nothing is left and err is set. */
int create_begin(struct sandbox *sandbox, struct creation *creation, struct err *err) _must_check_;
void create_ready(struct sandbox *sandbox);  /* the agent's HELLO has arrived */
void create_finish(struct sandbox *sandbox); /* its initializers are done: it becomes running */
void create_failed(struct sandbox *sandbox, const struct err *err); /* before it was running */
/* The same, with a longer last_error than fits in the reply. */
void create_failed_as(struct sandbox *sandbox, const struct err *err, const char *last_error);
void create_limits(const struct sandbox *sandbox, struct engine_limits *ret);
void create_spec(const struct sandbox *sandbox, struct engine_spec *ret);

/* initializer.c */
bool initialize_due(const struct sandbox *sandbox);
void initialize_start(struct sandbox *sandbox); /* then create_finish() or create_failed_as() */
void initialize_go_on(struct sandbox *sandbox); /* its certificate authority is installed */

#endif
