/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reconciles one running or paused sandbox after a start, or when its engine is back. reconcile.c
 * lists the results for interrupted transitions.
 */
#include <errno.h>

#include "base/log.h"
#include "service/sandbox/attach_internal.h"
#include "service/sandbox/destroy_internal.h"
#include "service/copy/transition_internal.h"
#include "service/sandbox/recover_internal.h"
#include "service/copy/snapshot_internal.h"
#include "service/sandbox/sandbox_internal.h"

#define RETRY_TICKS 5

static void lost(struct sandbox *sandbox, const char *why)
{
	sandbox->recover = 0;
	destroy_died(sandbox, REASON_ENGINE_LOST, why);
}

/* The rows and the engine agree again. */
static void settled(struct sandbox *sandbox)
{
	sandbox->recover = 0;
	sandbox->freeze_unknown = false;
	transition_save(sandbox, true, false);
	if (sandbox_state(sandbox) == SANDBOX_PAUSED)
		ready_paused(sandbox);
	else if (!sandbox->link)
		attach_start(sandbox);
}

/* The engine failed. It is asked again by the tick, or when it is back. */
static void not_now(struct sandbox *sandbox, const struct err *why)
{
	if (why->code == ERR_SANDBOX_NOT_FOUND || why->code == ERR_SANDBOX_GONE)
		lost(sandbox, why->message);
	else
		log_warn("sandbox %s is not reconciled yet: %s", sandbox->id, why->message);
}

static void on_agreed(void *arg, const struct err *error)
{
	struct sandbox *sandbox = transition_called(arg);

	if (!sandbox)
		return;
	if (!error)
		settled(sandbox);
	else
		not_now(sandbox, error);
}

static void on_stat(void *arg, const struct engine_stat *stat, const struct err *error)
{
	struct sandbox *sandbox = transition_called(arg);

	if (!sandbox)
		return;
	if (error) {
		not_now(sandbox, error);
		return;
	}
	if (!stat->alive) {
		sandbox->recover = 0;
		destroy_died(sandbox, stat->oom_killed ? REASON_OOM : REASON_CRASH,
			     "the sandbox's first process ended");
		return;
	}
	if (stat->paused && sandbox_state(sandbox) == SANDBOX_RUNNING)
		pause_become_frozen(sandbox);
	else if (!stat->paused && sandbox_state(sandbox) == SANDBOX_PAUSED)
		pause_become_running(sandbox);
	settled(sandbox);
}

static void ask_stat(struct sandbox *sandbox)
{
	struct service_engine *engine = sandbox->engine;
	struct err err;
	struct op *op = transition_call(sandbox, &err);

	if (op && instance_stat(&engine->instance, sandbox->id, on_stat, op, &err) == 0)
		return;
	(void)!transition_uncall(sandbox, op);
}

/* A hibernated sandbox: no running part is expected. */
static void settle_hibernated(struct sandbox *sandbox, bool seen)
{
	bool restoring = sandbox->recover == STORE_INTENT_RESTORE;
	struct err err;

	/* It was running when the host went down, although the row that was last written says
	 * hibernated. */
	if (!sandbox->from || sandbox->from->unseen) {
		struct snapshot *files = snapshot_of_reboot(sandbox);

		if (files) {
			snapshot_unuse(TAKE_PTR(sandbox->from));
			sandbox->recover = 0;
			reboot_keep(sandbox, files);
			return;
		}
	}
	if (!sandbox->from) {
		lost(sandbox, "the snapshot with its files does not exist any more");
		return;
	}
	if (seen || sandbox->recover)
		sandbox_set_phase(sandbox, PHASE_HIBERNATED_RESIDUE, REASON_NONE);
	sandbox->recover = 0;
	if (restoring) {
		if (sandbox_restore_on(sandbox, &err) < 0)
			log_warn("sandbox %s: %s", sandbox->id, err.message);
	} else if (sandbox->phase == PHASE_HIBERNATED_RESIDUE) {
		pause_release(sandbox);
	}
}

static void settle_lost(struct sandbox *sandbox)
{
	struct snapshot *copy =
		sandbox->recover == STORE_INTENT_HIBERNATE ? snapshot_of_hibernate(sandbox) : NULL;

	struct snapshot *files = copy ? NULL : snapshot_of_reboot(sandbox);

	if (files) {
		sandbox->recover = 0;
		reboot_keep(sandbox, files);
		return;
	}
	if (!copy) {
		lost(sandbox, "the engine does not know it any more");
		return;
	}
	sandbox->recover = 0;
	pause_become_hibernated(sandbox, copy);
	pause_release(sandbox);
}

/* Retries what an engine could not do before. */
void recover_tick(struct service *service)
{
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	if (service->upkeep.ticks % RETRY_TICKS)
		return;
	while ((sandbox = sandbox_next(service, &cursor))) {
		const struct service_engine *engine = sandbox->engine;

		if (!sandbox_lives(sandbox) || sandbox_transition(sandbox) || engine->lost ||
		    engine->listing || !engine->listed)
			continue;
		if (sandbox->recover || sandbox->freeze_unknown ||
		    sandbox->phase == PHASE_HIBERNATED_RESIDUE)
			recover_settle(sandbox, true);
	}
}

void recover_settle(struct sandbox *sandbox, bool seen)
{
	struct err err;

	if (sandbox->engine_op)
		return;
	if (sandbox_is_hibernated(sandbox)) {
		settle_hibernated(sandbox, seen);
	} else if (!seen) {
		settle_lost(sandbox);
	} else if (sandbox->recover == STORE_INTENT_PAUSE ||
		   sandbox->recover == STORE_INTENT_RESUME) {
		ask_stat(sandbox);
	} else if (sandbox->recover || sandbox->freeze_unknown) {
		(void)!transition_ask_pause(sandbox, sandbox_state(sandbox) == SANDBOX_PAUSED,
					    on_agreed, &err);
	} else if (sandbox_state(sandbox) == SANDBOX_RUNNING && !sandbox->link) {
		attach_start(sandbox);
	}
}
