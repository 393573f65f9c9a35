/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resumes and restores sandboxes. A frozen sandbox is thawed; a hibernated one is created again
 * from its snapshot, under the same id. If that fails, what the engine created is removed and the
 * sandbox stays paused. A restore first destroys the running part and then does the same with
 * another snapshot.
 */
#include <errno.h>

#include "base/log.h"
#include "base/time.h"
#include "service/sandbox/attach_internal.h"
#include "service/create/create_internal.h"
#include "service/create/limits_internal.h"
#include "service/copy/transition_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret_internal.h"
#include "service/copy/snapshot_internal.h"

static void resumed_end(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	slot_handle handle = sandbox->handle;

	transition_end(sandbox, phase_rest(sandbox->phase), NULL);
	sandbox = sandbox_get(service, handle);
	if (!sandbox || sandbox_state(sandbox) != SANDBOX_RUNNING)
		return;
	if (!sandbox->link)
		attach_start(sandbox); /* the daemon was restarted while the sandbox was frozen */
	else
		ready_there(sandbox);
}

/* ---- thaw ---- */

static void on_thawed(void *arg, const struct err *error)
{
	struct sandbox *sandbox = transition_called(arg);

	if (!sandbox)
		return;
	if (error) {
		sandbox->freeze_unknown =
			true; /* the sandbox is frozen again when the engine answers */
		sandbox_set_error(sandbox, error->message);
		pause_failed(sandbox, error);
		return;
	}
	pause_become_running(sandbox);
	transition_save(sandbox, true, false);
	resumed_end(sandbox);
}

/* ---- creation from the snapshot ---- */

static void on_half_swept(void *arg, const struct err *error)
{
	struct sandbox *sandbox = transition_called(arg);
	struct err err;

	if (!sandbox)
		return;
	if (!error)
		transition_save(sandbox, true, false);
	(void)err_set(&err, (enum err_code)sandbox->failed_code, "%s",
		      sandbox->last_error ? sandbox->last_error : "the engine failed");
	pause_failed_to(sandbox, error ? PHASE_HIBERNATED_RESIDUE : PHASE_HIBERNATED, &err);
}

/* The sandbox stays hibernated. What the engine may have created is destroyed first. */
void resume_failed(struct sandbox *sandbox, const struct err *why)
{
	struct err copy = *why, err;

	attach_drop_link(sandbox);
	sandbox->without_memory = false;
	sandbox_set_error(sandbox, copy.message);
	sandbox->failed_code = (uint16_t)copy.code;
	sandbox_set_phase(sandbox,
			  sandbox_transition(sandbox) == TRANSITION_RESTORE ? PHASE_RESTORE_UNDOING
									    : PHASE_RESUME_UNDOING,
			  REASON_NONE);
	if (transition_ask_destroy(sandbox, on_half_swept, &err) < 0)
		pause_failed(sandbox, &copy);
}

static void on_made(void *arg, const struct engine_made *made, const struct err *error)
{
	struct sandbox *sandbox = transition_called(arg);
	struct err err;

	if (!sandbox) {
		if (!error)
			engine_made_close(made);
	} else if (error) {
		resume_failed(sandbox, error);
	} else if (attach_link(sandbox, made, &err) < 0) {
		resume_failed(sandbox, &err);
	}
}

/* The agent of the new running part sent its HELLO. */
void resume_ready(struct sandbox *sandbox)
{
	bool woken = sandbox_wakes_memory(sandbox);
	struct snapshot *from = TAKE_PTR(sandbox->from);

	sandbox->unlisted = false; /* a listing that started earlier does not contain it */
	sandbox->without_memory = false;
	sandbox->running =
		woken ? RUNNING_UNKNOWN
		      : 0; /* with memory, only the agent knows the number of processes */
	pause_become_running(sandbox);
	transition_save(sandbox, true, false);
	snapshot_unuse(from);
	resumed_end(sandbox);
}

static void make(struct sandbox *sandbox)
{
	struct service_engine *engine = sandbox->engine;
	struct engine_spec spec;
	struct op *op;
	struct err err;

	create_spec(sandbox, &spec);
	op = transition_call(sandbox, &err);
	if (op && instance_create(&engine->instance, &spec, on_made, op, &err) == 0)
		return;
	(void)!transition_uncall(sandbox, op);
	pause_failed(sandbox,
		     &err); /* the intent stays open; nothing was created and nothing is lost */
}

static void on_cleared(void *arg, const struct err *error)
{
	struct sandbox *sandbox = transition_called(arg);

	if (!sandbox)
		return;
	if (error) {
		pause_failed(sandbox, error);
		return;
	}
	sandbox_set_phase(sandbox,
			  sandbox_transition(sandbox) == TRANSITION_RESTORE ? PHASE_RESTORING
									    : PHASE_RESUMING,
			  REASON_NONE);
	make(sandbox);
}

static int start_again(struct sandbox *sandbox, struct err *err)
{
	if (sandbox->phase != PHASE_RESUMING)
		return transition_ask_destroy(sandbox, on_cleared, err);
	make(sandbox);
	return 0;
}

/* ---- resume ---- */

/* A failure to start is also reported from the loop, so that the caller's callback never runs
 * inside the call. */
static void on_turn(void *arg)
{
	struct sandbox *sandbox = transition_called(arg);
	struct err err;

	if (sandbox && start_again(sandbox, &err) < 0)
		pause_failed(sandbox, &err);
}

static int start_soon(struct sandbox *sandbox, struct err *err)
{
	struct op *op = transition_call(sandbox, err);

	if (op && loop_defer(sandbox->service->config.loop, on_turn, op) == 0)
		return 0;
	(void)!transition_uncall(sandbox, op);
	return err_set(err, ERR_UNAVAILABLE, "out of memory");
}

int sandbox_resume(struct sandbox *sandbox, int64_t timeout_sec, sandbox_changed_fn done, void *arg,
		   struct err *err)
{
	int r;

	if (sandbox->phase == PHASE_RUNNING && !sandbox->creation)
		return 1;
	if (limits_check_time(sandbox->service, "timeout_sec", timeout_sec, err) < 0 ||
	    transition_begin(sandbox, TRANSITION_RESUME, done, arg, err) < 0)
		return -1;
	if (timeout_sec > 0) {
		sandbox->attrs.timeout_sec = (uint32_t)timeout_sec;
		sandbox->left_ms = 0;
	}
	r = sandbox_is_hibernated(sandbox) ? start_soon(sandbox, err)
					   : transition_ask_pause(sandbox, false, on_thawed, err);
	return r < 0 ? transition_refused(sandbox) : 0;
}

int sandbox_resume_files(struct sandbox *sandbox, int64_t timeout_sec, sandbox_changed_fn done,
			 void *arg, struct err *err)
{
	int r = sandbox_resume(sandbox, timeout_sec, done, arg, err);

	sandbox->without_memory = r == 0 && sandbox_is_hibernated(sandbox);
	return r;
}

/* ---- restore ---- */

int sandbox_restore(struct sandbox *sandbox, struct snapshot *snapshot, bool memory,
		    sandbox_changed_fn done, void *arg, struct err *err)
{
	struct snapshot *before = sandbox->from;

	if (snapshot_check_usable(snapshot, err) < 0)
		return -1;
	if (snapshot->engine != sandbox->engine)
		return err_set(err, ERR_INVALID_REQUEST,
			       "snapshot_id: snapshot %s belongs to engine %s", snapshot->id,
			       engine_name(snapshot->engine));
	if (memory && snapshot_check_room(snapshot, sandbox->attrs.memory_mb, err) < 0)
		return -1;
	if (grants_inherit(sandbox, snapshot->grants, err) < 0 ||
	    transition_open(sandbox, TRANSITION_RESTORE, done, arg, err) < 0)
		return -1;
	if (start_soon(sandbox, err) < 0)
		return transition_refused(sandbox);
	if (sandbox_state(sandbox) == SANDBOX_RUNNING)
		clock_stop(sandbox);
	transition_enter(sandbox, TRANSITION_RESTORE);
	sandbox->template = snapshot->template;
	sandbox->from = snapshot_use(snapshot);
	sandbox->without_memory = !memory;
	transition_save(sandbox, false, false);
	attach_drop_link(sandbox);
	snapshot_unuse(before);
	return 0;
}

int sandbox_restore_on(struct sandbox *sandbox, struct err *err)
{
	if (transition_begin(sandbox, TRANSITION_RESTORE, NULL, NULL, err) < 0)
		return -1;
	return start_soon(sandbox, err) < 0 ? transition_refused(sandbox) : 0;
}
