/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezes and hibernates sandboxes. A frozen sandbox keeps its processes and its link, but gets no
 * CPU time. To hibernate, the engine freezes the sandbox, takes a snapshot and destroys the running
 * part. The row says hibernated before the running part is destroyed, so a crash loses nothing.
 */
#include <errno.h>

#include "base/log.h"
#include "base/time.h"
#include "engine/link.h"
#include "service/sandbox/attach_internal.h"
#include "service/copy/transition_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/copy/snapshot_internal.h"

/* A link that waits for the agent's HELLO would time out on a frozen agent. */
static void freeze_link(struct sandbox *sandbox)
{
	if (sandbox->link && link_ready(sandbox->link))
		link_set_frozen(sandbox->link, true);
	else
		attach_drop_link(sandbox);
}

void pause_become_frozen(struct sandbox *sandbox)
{
	if (sandbox_state(sandbox) == SANDBOX_RUNNING)
		clock_stop(sandbox);
	sandbox_set_phase(sandbox, PHASE_FROZEN, REASON_NONE);
	freeze_link(sandbox);
}

void pause_become_running(struct sandbox *sandbox)
{
	sandbox_set_phase(sandbox, PHASE_RUNNING, REASON_NONE);
	sandbox_set_error(sandbox, NULL);
	clock_go(sandbox);
	sandbox->freeze_unknown = false;
	sandbox->attach_tries = 0;
	if (sandbox->link)
		link_set_frozen(sandbox->link, false);
}

/* ---- freeze ---- */

/* Ends a failed transition. Its error is kept in last_error while the engine thaws the sandbox. */
static void on_thawed_back(void *arg, const struct err *error)
{
	struct sandbox *sandbox = transition_called(arg);
	struct err err;

	if (!sandbox)
		return;
	sandbox->freeze_unknown = error != NULL; /* in that case the intent stays open, too */
	transition_save(sandbox, !error, false);
	if (!sandbox->link && !error)
		attach_start(sandbox); /* the link was closed in order to save the memory */
	(void)err_set(&err, (enum err_code)sandbox->failed_code, "%s",
		      sandbox->last_error ? sandbox->last_error : "the engine failed");
	pause_failed(sandbox, &err);
}

/* Reverts the freeze: a sandbox that was running must not stay frozen. */
static void thaw_back(struct sandbox *sandbox, const struct err *why)
{
	struct err err;

	sandbox_set_error(sandbox, why->message);
	sandbox->failed_code = (uint16_t)why->code;
	if (sandbox_state(sandbox) == SANDBOX_PAUSED) {
		transition_save(sandbox, true, false);
		pause_failed(sandbox, why);
	} else if (transition_ask_pause(sandbox, false, on_thawed_back, &err) < 0) {
		sandbox->freeze_unknown = true;
		pause_failed(sandbox, why);
	}
}

/* After the reply: serves the calls that arrived meanwhile and need a running sandbox. */
static void paused_end(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	slot_handle handle = sandbox->handle;

	transition_end(sandbox, phase_rest(sandbox->phase), NULL);
	sandbox = sandbox_get(service, handle);
	if (sandbox && sandbox_state(sandbox) == SANDBOX_PAUSED)
		ready_paused(sandbox);
}

void pause_failed(struct sandbox *sandbox, const struct err *err)
{
	pause_failed_to(sandbox, phase_rest(sandbox->phase), err);
}

void pause_failed_to(struct sandbox *sandbox, enum sandbox_phase rest, const struct err *err)
{
	struct service *service = sandbox->service;
	slot_handle handle = sandbox->handle;
	struct err copy = *err;
	bool waking = sandbox_transition(sandbox) == TRANSITION_RESUME ||
		      sandbox_transition(sandbox) == TRANSITION_RESTORE;

	transition_end(sandbox, rest, &copy);
	sandbox = sandbox_get(service, handle);
	if (!sandbox)
		return;
	if (waking)
		ready_failed(sandbox, &copy);
	else if (sandbox_state(sandbox) == SANDBOX_PAUSED)
		ready_paused(sandbox);
	else
		ready_there(sandbox);
}

static void on_frozen(void *arg, const struct err *error)
{
	struct sandbox *sandbox = transition_called(arg);

	if (!sandbox)
		return;
	if (error) {
		thaw_back(sandbox, error);
		return;
	}
	pause_become_frozen(sandbox);
	transition_save(sandbox, true, false);
	paused_end(sandbox);
}

/* ---- hibernate ---- */

static void on_released(void *arg, const struct err *error)
{
	struct sandbox *sandbox = transition_called(arg);
	enum sandbox_transition transition;

	if (!sandbox)
		return;
	transition = sandbox_transition(sandbox);
	sandbox_set_phase(sandbox, error ? PHASE_HIBERNATED_RESIDUE : PHASE_HIBERNATED,
			  REASON_NONE);
	if (error) /* the sandbox is hibernated nevertheless: the engine is asked again */
		log_warn("sandbox %s: the running part could not be removed yet: %s", sandbox->id,
			 error->message);
	else
		transition_save(sandbox, true, false);
	if (transition == TRANSITION_HIBERNATE)
		paused_end(sandbox);
}

/* The snapshot is complete: from here on the transition cannot be reverted. */
void pause_become_hibernated(struct sandbox *sandbox, struct snapshot *snapshot)
{
	if (sandbox_state(sandbox) == SANDBOX_RUNNING)
		clock_stop(sandbox);
	sandbox->from = snapshot_use(snapshot);
	sandbox_set_phase(sandbox,
			  sandbox_transition(sandbox) ? PHASE_RELEASING : PHASE_HIBERNATED_RESIDUE,
			  REASON_NONE);
	sandbox->freeze_unknown = false;
	transition_save(sandbox, false, true);
	attach_drop_link(sandbox);
}

void pause_release(struct sandbox *sandbox)
{
	struct err err;

	if (transition_ask_destroy(sandbox, on_released, &err) == 0)
		return;
	log_warn("sandbox %s: the running part could not be removed yet: %s", sandbox->id,
		 err.message);
	if (sandbox_transition(sandbox) == TRANSITION_HIBERNATE)
		paused_end(sandbox);
}

static void on_saved(void *arg, struct sandbox *sandbox, struct snapshot *snapshot,
		     const struct err *error)
{
	(void)arg;
	if (!sandbox) { /* the sandbox ended meanwhile: the snapshot is not needed */
		snapshot_discard(snapshot);
	} else if (error) {
		thaw_back(sandbox, error);
	} else {
		pause_become_hibernated(sandbox, snapshot);
		pause_release(sandbox);
	}
}

static void save_files(struct sandbox *sandbox)
{
	struct snapshot_spec spec = { .kind = SNAPSHOT_HIBERNATE,
				      .memory = !sandbox->without_memory &&
						transition_saves_memory(sandbox) };
	struct err err;

	sandbox->without_memory = false;
	if (snapshot_take(sandbox, &spec, on_saved, NULL, NULL, &err) < 0)
		thaw_back(sandbox, &err);
}

static void on_frozen_to_save(void *arg, const struct err *error)
{
	struct sandbox *sandbox = transition_called(arg);

	if (!sandbox)
		return;
	if (error)
		thaw_back(sandbox, error);
	else
		save_files(sandbox);
}

static int hibernate(struct sandbox *sandbox, bool without_memory, sandbox_changed_fn done,
		     void *arg, struct err *err)
{
	if (transition_need(sandbox, CAN_FREEZE, "hibernate", err) < 0 ||
	    transition_need(sandbox, CAN_SNAPSHOT, "hibernate", err) < 0 ||
	    transition_begin(sandbox, TRANSITION_HIBERNATE, done, arg, err) < 0)
		return -1;
	sandbox->without_memory = without_memory;
	if (transition_ask_pause(sandbox, true, on_frozen_to_save, err) == 0)
		return 0;
	return transition_refused(sandbox);
}

int sandbox_pause(struct sandbox *sandbox, enum pause_kind kind, sandbox_changed_fn done, void *arg,
		  struct err *err)
{
	if ((sandbox->phase == PHASE_FROZEN && kind == PAUSE_FREEZE) ||
	    (sandbox_is_hibernated(sandbox) && !sandbox_transition(sandbox)))
		return 1;
	if (kind == PAUSE_HIBERNATE)
		return hibernate(sandbox, false, done, arg, err);
	if (transition_need(sandbox, CAN_FREEZE, "pause", err) < 0 ||
	    transition_begin(sandbox, TRANSITION_PAUSE, done, arg, err) < 0)
		return -1;
	if (transition_ask_pause(sandbox, true, on_frozen, err) == 0)
		return 0;
	return transition_refused(sandbox);
}

int sandbox_pause_files(struct sandbox *sandbox, sandbox_changed_fn done, void *arg,
			struct err *err)
{
	if (sandbox_is_hibernated(sandbox) && !sandbox_transition(sandbox))
		return 1;
	return hibernate(sandbox, true, done, arg, err);
}
