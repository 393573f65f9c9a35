/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of all state transitions. A transition is recorded as an intent before the engine
 * is asked, and the intent is closed together with the write of the resulting row. After a crash in
 * between, the next start completes or reverts it (reconcile.c). A sandbox is in at most one
 * transition; a destroy may interrupt it at any time.
 */
#include <errno.h>

#include "base/log.h"
#include "base/time.h"
#include "engine/link.h"
#include "service/create/create_internal.h"
#include "service/sandbox/destroy_internal.h"
#include "service/copy/transition_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret.h"

static const struct {
	enum store_intent intent;
	const char *words;
} transitions[TRANSITION_COUNT] = {
	[TRANSITION_PAUSE] = { STORE_INTENT_PAUSE, "being paused" },
	[TRANSITION_RESUME] = { STORE_INTENT_RESUME, "being resumed" },
	[TRANSITION_HIBERNATE] = { STORE_INTENT_HIBERNATE, "being hibernated" },
	[TRANSITION_SNAPSHOT] = { STORE_INTENT_SNAPSHOT, "having a snapshot taken" },
	[TRANSITION_RESTORE] = { STORE_INTENT_RESTORE, "being restored" },
	[TRANSITION_FORK] = { STORE_INTENT_FORK, "being forked" },
};

const char *transition_name(enum sandbox_transition transition)
{
	return transitions[transition].words;
}

/* Whether a transition may start: the sandbox is alive, complete, and in no other transition. */
int transition_check(const struct sandbox *sandbox, struct err *err)
{
	const struct service_engine *engine = sandbox->engine;

	if (sandbox_transition(sandbox))
		return err_set(err, ERR_WRONG_STATE, "sandbox %s is %s: try again when it is done",
			       sandbox->id, transition_name(sandbox_transition(sandbox)));
	if (!sandbox_lives(sandbox) || sandbox->creation)
		return err_set(err, ERR_WRONG_STATE, "sandbox %s is %s", sandbox->id,
			       sandbox->creation ? "provisioning"
						 : sandbox_state_names[sandbox_state(sandbox)]);
	if (sandbox->engine_op || sandbox->recover || !engine->instance.ready || engine->lost)
		return err_set(err, ERR_UNAVAILABLE,
			       "the engine of sandbox %s is busy or being connected: try again",
			       sandbox->id);
	if (sandbox->service->upkeep.closing)
		return err_set(err, ERR_UNAVAILABLE, "the daemon is shutting down");
	return 0;
}

int transition_need(const struct sandbox *sandbox, enum capability capability, const char *what,
		    struct err *err)
{
	return instance_need(&sandbox->engine->instance, capability, NULL, what, err);
}

bool transition_saves_memory(const struct sandbox *sandbox)
{
	return instance_may(&sandbox->engine->instance, CAN_SNAPSHOT_MEMORY);
}

/* A copy does not get its source's secrets, so its memory must not contain their values. */
int transition_copies_memory(const struct sandbox *sandbox, struct err *err)
{
	const struct grants *grants = sandbox->attrs.grants;

	if (!transition_saves_memory(sandbox))
		return transition_need(sandbox, CAN_SNAPSHOT_MEMORY, "keep memory", err);
	for (size_t i = 0; grants && i < grants->count; i++)
		if (grants->list[i].way == GRANT_ENV)
			return err_set(err, ERR_CONFLICT,
				       "secret %s is in the environment of its processes: memory "
				       "can be copied only if all secrets are brokered",
				       grants->list[i].env);
	return 0;
}

/* To save memory, the agent must close its connection, which it cannot while it is being dialled.
 */
int transition_check_linked(const struct sandbox *sandbox, struct err *err)
{
	bool linked = sandbox->link && link_ready(sandbox->link) && !sandbox->attach_op;

	if (sandbox->phase != PHASE_RUNNING || linked)
		return 0;
	return err_set(err, ERR_UNAVAILABLE,
		       "the connection to sandbox %s is being restored: try again", sandbox->id);
}

int transition_open(struct sandbox *sandbox, enum sandbox_transition transition,
		    sandbox_changed_fn done, void *arg, struct err *err)
{
	int r;

	if (transition_check(sandbox, err) < 0)
		return -1;
	if (phase_begin(sandbox->phase, transition) == PHASE_COUNT)
		return err_set(err, ERR_WRONG_STATE, "sandbox %s is %s", sandbox->id,
			       phase_name(sandbox->phase));
	r = store_intent_put(sandbox->service->store, sandbox->row, transitions[transition].intent,
			     time_real_ms());
	service_wrote(sandbox->service);
	if (r < 0)
		return service_unrecorded(err, r, "the intent could not be recorded");
	sandbox->on_transition = done;
	sandbox->on_transition_arg = arg;
	return 0;
}

void transition_enter(struct sandbox *sandbox, enum sandbox_transition transition)
{
	sandbox_set_phase(sandbox, phase_begin(sandbox->phase, transition), REASON_NONE);
}

int transition_begin(struct sandbox *sandbox, enum sandbox_transition transition,
		     sandbox_changed_fn done, void *arg, struct err *err)
{
	if (transition_open(sandbox, transition, done, arg, err) < 0)
		return -1;
	transition_enter(sandbox, transition);
	return 0;
}

/* The engine rejected the first call: the sandbox is as before. Always returns -1. */
int transition_refused(struct sandbox *sandbox)
{
	sandbox->on_transition = NULL;
	sandbox_set_phase(sandbox, phase_rest(sandbox->phase), REASON_NONE);
	transition_save(sandbox, true, false);
	return -1;
}

/* Writes the row and, with close, closes the intent. If the write fails, the intent stays open and
 * the next start reconciles the sandbox. */
void transition_save(struct sandbox *sandbox, bool close, bool durable)
{
	struct service *service = sandbox->service;
	int r = durable ? store_begin_durable(service->store) : store_begin(service->store);

	if (r == 0) {
		r = sandbox_save(sandbox);
		if (r == 0 && close)
			r = store_intent_delete(service->store, sandbox->row);
		r = store_end(service->store, r);
	}
	service_wrote(service);
	if (r < 0)
		log_error("sandbox %s: the state could not be recorded: %s", sandbox->id,
			  strerror(-r));
}

/* Ends the transition and answers its caller. The sandbox may be gone afterwards. */
void transition_end(struct sandbox *sandbox, enum sandbox_phase rest, const struct err *err)
{
	sandbox_changed_fn changed = sandbox->on_transition;

	if (err)
		log_warn("sandbox %s: %s failed: %s", sandbox->id,
			 transition_name(sandbox_transition(sandbox)), err->message);
	sandbox_set_phase(sandbox, rest, REASON_NONE);
	sandbox->on_transition = NULL;
	if (changed)
		changed(sandbox->on_transition_arg, err ? NULL : sandbox, err);
}

/* The sandbox was destroyed or died: the caller of the transition gets an error. */
void transition_cut(struct sandbox *sandbox)
{
	sandbox_changed_fn changed = TAKE_PTR(sandbox->on_transition);
	struct err err;

	if (!changed)
		return;
	(void)err_set(&err, ERR_SANDBOX_GONE, "the sandbox ended: %s",
		      sandbox->reason ? sandbox_reason_name(sandbox->reason)
				      : sandbox_state_names[sandbox_state(sandbox)]);
	changed(sandbox->on_transition_arg, NULL, &err);
}

struct op *transition_call(struct sandbox *sandbox, struct err *err)
{
	return transition_adopt(sandbox, op_new(sandbox->service, sandbox->handle, err));
}

struct op *transition_adopt(struct sandbox *sandbox, struct op *op)
{
	sandbox->engine_op = op;
	return op;
}

/* The engine rejected the call. Returns -1, for the caller to return. */
int transition_uncall(struct sandbox *sandbox, struct op *op)
{
	(void)op_end(op);
	sandbox->engine_op = NULL;
	return -1;
}

struct sandbox *transition_called(struct op *op)
{
	struct sandbox *sandbox = op_end_sandbox(op);

	if (!sandbox)
		return NULL;
	sandbox->engine_op = NULL;
	if (sandbox_lives(sandbox))
		return sandbox;
	destroy_sweep(sandbox); /* a destroy was requested meanwhile */
	return NULL;
}

int transition_ask_pause(struct sandbox *sandbox, bool paused, engine_done_fn done, struct err *err)
{
	struct service_engine *engine = sandbox->engine;
	struct op *op = transition_call(sandbox, err);

	if (op && instance_freeze(&engine->instance, sandbox->id, paused, done, op, err) == 0)
		return 0;
	return transition_uncall(sandbox, op);
}

int transition_ask_destroy(struct sandbox *sandbox, engine_done_fn done, struct err *err)
{
	struct service_engine *engine = sandbox->engine;
	struct op *op = transition_call(sandbox, err);

	if (op && instance_destroy(&engine->instance, sandbox->id, done, op, err) == 0)
		return 0;
	return transition_uncall(sandbox, op);
}
