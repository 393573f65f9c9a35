/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a sandbox. A destroy is acknowledged once the row says destroyed and the intent is on
 * disk. The engine is then asked until it confirms, also after restarts. A sandbox that died by
 * itself gets the state error with a typed reason and can be inspected for a while.
 */
#include <errno.h>

#include "base/log.h"
#include "base/time.h"
#include "service/sandbox/attach_internal.h"
#include "service/create/create_internal.h"
#include "service/network/egress_internal.h"
#include "service/sandbox/destroy_internal.h"
#include "service/event/event_internal.h"
#include "service/sandbox/initializer.h"
#include "service/copy/transition_internal.h"
#include "service/pool/pool_internal.h"
#include "service/network/preview_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret_internal.h"
#include "service/copy/snapshot_internal.h"
#include "service/account/usage_internal.h"
#include "service/sandbox/sandbox_private.h"
#include "service/copy/copy_internal.h"

#define ERROR_KEEP_MS (10 * 60 * 1000LL) /* a dead sandbox can be inspected for ten minutes */
#define SWEEP_RETRY_MIN_MS 200
#define END_WAITS_MAX 64 /* a call beyond is answered with unavailable */
#define SWEEP_RETRY_MAX_MS 30000

/* Owner: its sandbox. */
struct end_wait {
	struct end_wait *next;
	sandbox_ended_fn done;
	void *arg;
};

static void remember_end(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	struct tombstone *stone =
		&service->sandboxes->tombstones[service->sandboxes->tombstone_next++ % TOMBSTONES];

	memcpy(stone->id, sandbox->id, sizeof(stone->id));
	memcpy(stone->owner, sandbox->attrs.owner, sizeof(stone->owner));
	stone->reason = sandbox->reason;
	stone->every_port = preview_every(sandbox);
}

static void answer_end(struct sandbox *sandbox, const struct err *error)
{
	struct end_wait *wait = TAKE_PTR(sandbox->end_waits), *next;
	struct err err;

	if (error && wait)
		(void)err_set(&err, ERR_UNAVAILABLE,
			      "the end of sandbox %s is recorded, but engine %s has not confirmed "
			      "it: %s. The sandbox ends when the engine answers",
			      sandbox->id, engine_name(sandbox->engine), error->message);
	for (; wait; wait = next) {
		next = wait->next;
		wait->done(wait->arg, error ? &err : NULL);
		free(wait);
	}
}

static int wait_for_end(struct sandbox *sandbox, sandbox_ended_fn done, void *arg, struct err *err)
{
	struct end_wait *wait;
	size_t n = 0;

	for (wait = sandbox->end_waits; wait; wait = wait->next)
		n++;
	wait = n < END_WAITS_MAX ? malloc(sizeof(*wait)) : NULL;
	if (!wait)
		return err_set(err, ERR_UNAVAILABLE,
			       "too many calls wait for the end of sandbox %s", sandbox->id);
	*wait = (struct end_wait){ sandbox->end_waits, done, arg };
	sandbox->end_waits = wait;
	return 0;
}

/* The service closes: the calls are gone with their connections. */
void destroy_drop_waits(struct sandbox *sandbox)
{
	while (sandbox->end_waits) {
		struct end_wait *wait = sandbox->end_waits;

		sandbox->end_waits = wait->next;
		free(wait);
	}
}

/* The engine has nothing left of the sandbox: its rows are deleted. */
static void forget(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;

	answer_end(sandbox, NULL);
	delete_rows_add(service, sandbox->row);
	preview_forget_all(sandbox);
	grants_forget(sandbox);
	denials_forget(sandbox);
	snapshot_unuse(TAKE_PTR(sandbox->from));
	sandbox_drop(sandbox);
	destroy_check_drained(service);
}

static void on_swept(void *arg, const struct err *err)
{
	struct sandbox *sandbox = op_end_sandbox(arg);
	struct service *service;

	if (!sandbox)
		return;
	service = sandbox->service;
	sandbox->engine_op = NULL;
	if (err) {
		int64_t delay_ms = SWEEP_RETRY_MIN_MS << MIN(sandbox->sweep_tries, 8);

		delay_ms = MIN(delay_ms, SWEEP_RETRY_MAX_MS);
		if (sandbox->sweep_tries++ % 8 == 0)
			log_warn("sandbox %s: sweep failed, retry in %lld ms: %s", sandbox->id,
				 (long long)delay_ms, err->message);
		sandbox->sweep_due_ms = time_boot_ms() + delay_ms;
		expiry_arm(service, sandbox->sweep_due_ms);
		answer_end(sandbox, err);
		return;
	}
	if (sandbox->phase == PHASE_ENDING) {
		sandbox_set_phase(sandbox, PHASE_ENDED, REASON_NONE);
		forget(sandbox);
		return;
	}
	sandbox_set_phase(sandbox, PHASE_DEAD, REASON_NONE);
	if (store_intent_delete(service->store, sandbox->row) < 0)
		log_warn(
			"sandbox %s: the intent could not be closed and stays until the next start",
			sandbox->id);
}

void destroy_sweep(struct sandbox *sandbox)
{
	struct service_engine *engine = sandbox->engine;
	struct err err;
	struct op *op;

	if (sandbox->engine_op)
		return; /* the end of that call comes back here */
	if (sandbox->phase == PHASE_DEAD)
		return;
	if (sandbox->phase == PHASE_ENDED) {
		forget(sandbox);
		return;
	}
	sandbox->sweep_due_ms = 0;
	(void)err_set(&err, ERR_UNAVAILABLE, "the engine is not ready");
	op = engine->instance.ready ? op_new(sandbox->service, sandbox->handle, &err) : NULL;
	if (op && instance_destroy(&engine->instance, sandbox->id, on_swept, op, &err) == 0) {
		sandbox->engine_op = op;
		return;
	}
	(void)op_end(op);
	sandbox->sweep_tries++;
	sandbox->sweep_due_ms =
		time_boot_ms() +
		MIN(SWEEP_RETRY_MIN_MS << MIN(sandbox->sweep_tries, 8), SWEEP_RETRY_MAX_MS);
	expiry_arm(sandbox->service, sandbox->sweep_due_ms);
	answer_end(sandbox, &err);
}

static void on_sweep_turn(void *arg)
{
	struct op *op = arg;
	struct sandbox *sandbox = op_end_sandbox(op);

	if (sandbox)
		destroy_sweep(sandbox);
}

/* In the next iteration: the caller gets the reply before the engine is called. */
static void sweep_soon(struct sandbox *sandbox)
{
	struct op *op = op_new(sandbox->service, sandbox->handle, NULL);

	if (op && loop_defer(sandbox->service->config.loop, on_sweep_turn, op) == 0)
		return;
	if (op)
		(void)op_end(op);
	destroy_sweep(sandbox);
}

static int save_end(struct sandbox *sandbox, bool intent)
{
	struct service *service = sandbox->service;
	int r = store_begin(service->store);

	if (r < 0)
		return r;
	r = store_sandbox_set_state(service->store, sandbox->row,
				    sandbox_state_names[sandbox_state(sandbox)],
				    sandbox_reason_name(sandbox->reason), sandbox->last_error);
	if (r == 0)
		r = usage_put_of(sandbox);
	if (r == 0 && intent)
		r = store_intent_put(service->store, sandbox->row, STORE_INTENT_DESTROY,
				     time_real_ms());
	return store_end(service->store, r);
}

static void fail_creation(struct sandbox *sandbox)
{
	struct creation *creation = TAKE_PTR(sandbox->creation);
	struct err err;

	if (!creation)
		return;
	(void)err_set(&err, ERR_SANDBOX_GONE, "the sandbox ended before it was ready: %s",
		      sandbox_reason_name(sandbox->reason));
	creation_answer(creation, NULL, &err);
}

/* Common to all destroys, whether they could be recorded or not. */
static void begin_end(struct sandbox *sandbox, enum sandbox_reason reason)
{
	if (!sandbox->pooled)
		sandbox->service->upkeep.counters.destroys++;
	/*
	 * A tombstone explains the end to clients that did not request it, and to visitors of its
	 * ports.
	 */
	if (!sandbox->pooled && (reason != REASON_REQUESTED || preview_every(sandbox)))
		remember_end(sandbox);
	sandbox_hide(sandbox);
	pool_forget(sandbox);
	attach_drop_link(sandbox);
	ready_ended(sandbox);
	transition_cut(sandbox);
	fail_creation(sandbox);
	sweep_soon(sandbox);
}

static void set_destroyed(struct sandbox *sandbox, enum sandbox_reason reason)
{
	sandbox_set_phase(sandbox, sandbox->phase == PHASE_DEAD ? PHASE_ENDED : PHASE_ENDING,
			  reason);
}

int sandbox_destroy(struct sandbox *sandbox, enum sandbox_reason reason, struct err *err)
{
	struct service *service = sandbox->service;
	enum sandbox_phase before = sandbox->phase;
	enum sandbox_reason before_reason = sandbox->reason;
	int r;

	if (sandbox_state(sandbox) == SANDBOX_DESTROYED)
		return 0;
	set_destroyed(sandbox, reason);
	r = save_end(sandbox, sandbox->phase == PHASE_ENDING);
	service_wrote(service);
	if (r == -ENOSPC) {
		/*
		 * Deleting is how a full disk is emptied, so the sandbox ends anyway. A daemon that
		 * dies before the row is removed finds nothing of the sandbox, and shows it as
		 * lost.
		 */
		log_warn("sandbox %s: the disk is full, so its end is not recorded", sandbox->id);
	} else if (r < 0) {
		sandbox_revert_phase(sandbox, before, before_reason);
		return service_unrecorded(err, r, "the end could not be recorded");
	}
	begin_end(sandbox, reason);
	return 0;
}

int sandbox_end(struct sandbox *sandbox, enum sandbox_reason reason, sandbox_ended_fn done,
		void *arg, struct err *err)
{
	bool again = sandbox_state(sandbox) == SANDBOX_DESTROYED;

	/* Before the turn in which the engine is asked. */
	if (wait_for_end(sandbox, done, arg, err) < 0)
		return -1;
	if (sandbox_destroy(sandbox, reason, err) < 0) {
		struct end_wait *wait = sandbox->end_waits;

		sandbox->end_waits = wait->next;
		free(wait);
		return -1;
	}
	if (again)
		sweep_soon(sandbox);
	return 0;
}

void destroy_unborn(struct sandbox *sandbox, enum sandbox_reason reason)
{
	struct err err;

	if (sandbox_destroy(sandbox, reason, &err) == 0)
		return;
	log_warn("sandbox %s: %s; it is ended nevertheless", sandbox->id, err.message);
	set_destroyed(sandbox, reason);
	begin_end(sandbox, reason);
}

int destroy_retain(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	bool lives =
		sandbox->phase == PHASE_INITIALIZING && sandbox->link && link_ready(sandbox->link);
	int r = store_begin(service->store);

	if (r < 0)
		return r;
	initializers_free(TAKE_PTR(sandbox->attrs.initializers));
	sandbox_set_phase(sandbox, lives ? PHASE_RETAINED : PHASE_DYING, REASON_BOOT_FAILED);
	clock_set(sandbox, (int64_t)sandbox->attrs.timeout_sec * 1000);
	r = sandbox_save(sandbox);
	if (r == 0)
		r = store_intent_put(service->store, sandbox->row,
				     lives ? STORE_INTENT_RETAIN : STORE_INTENT_DESTROY,
				     time_real_ms());
	r = store_end(service->store, r);
	service_wrote(service);
	if (r < 0)
		return r; /* the caller destroys it */
	snapshot_unuse(TAKE_PTR(sandbox->from));
	if (lives)
		return 0;
	attach_drop_link(sandbox);
	ready_ended(sandbox);
	destroy_sweep(sandbox);
	return 0;
}

void destroy_unretain(struct sandbox *sandbox)
{
	sandbox_set_phase(sandbox, PHASE_DYING, REASON_NONE);
	usage_changed(sandbox);
	if (store_intent_put(sandbox->service->store, sandbox->row, STORE_INTENT_DESTROY,
			     time_real_ms()) < 0)
		log_warn("sandbox %s: its end could not be recorded", sandbox->id);
	attach_drop_link(sandbox);
	ready_ended(sandbox);
	destroy_sweep(sandbox);
}

static void count_death(struct service *service, enum sandbox_reason reason)
{
	struct service_counters *c = &service->upkeep.counters;

	if (reason == REASON_OOM)
		c->deaths_oom++;
	else if (reason == REASON_CRASH)
		c->deaths_crash++;
	else
		c->deaths_lost++;
}

void destroy_died(struct sandbox *sandbox, enum sandbox_reason reason, const char *message)
{
	struct service *service = sandbox->service;
	struct err err;

	if (sandbox->phase == PHASE_RETAINED)
		destroy_unretain(sandbox);
	if (sandbox_state(sandbox) == SANDBOX_DESTROYED || sandbox_state(sandbox) == SANDBOX_ERROR)
		return;
	log_warn("sandbox %s ended: %s: %s", sandbox->id, sandbox_reason_name(reason), message);
	count_death(service, reason);
	sandbox_set_error(sandbox, message);
	if (sandbox->pooled || sandbox_state(sandbox) == SANDBOX_PROVISIONING) {
		if (sandbox_destroy(sandbox, reason, &err) < 0)
			log_error("sandbox %s: %s", sandbox->id, err.message);
		return;
	}
	sandbox_set_phase(sandbox, PHASE_DYING, reason);
	clock_set(sandbox, ERROR_KEEP_MS);
	if (save_end(sandbox, true) < 0)
		log_error("sandbox %s: its end could not be recorded", sandbox->id);
	service_wrote(service);
	attach_drop_link(sandbox);
	ready_ended(sandbox);
	transition_cut(sandbox);
	fail_creation(sandbox);
	destroy_sweep(sandbox);
}

struct unknown {
	struct op op;
	char id[ENGINE_ID_MAX + 1];
};

static void on_unknown_swept(void *arg, const struct err *err)
{
	struct unknown *unknown = arg;

	if (err)
		log_warn("unknown sandbox %s was not swept: %s", unknown->id, err->message);
	(void)op_end(&unknown->op);
}

/* A sandbox of the engine without a row. No client can use it, so it is removed. */
void destroy_unknown(struct service_engine *engine, const char *id)
{
	struct err err;
	struct unknown *unknown = OP_NEW(struct unknown, engine->service, 0, &err);

	if (!unknown)
		return;
	(void)!str_copy(unknown->id, sizeof(unknown->id), str_of(id));
	log_info("sweeping unknown sandbox %s of engine %s", id, engine_name(engine));
	if (instance_destroy(&engine->instance, id, on_unknown_swept, unknown, &err) < 0) {
		log_warn("unknown sandbox %s was not swept: %s", id, err.message);
		(void)op_end(&unknown->op);
	}
}

void destroy_check_drained(struct service *service)
{
	void (*done)(void *arg, const struct err *err) = service->sandboxes->drained;
	struct err err;

	if (!done)
		return;
	if (service->sandboxes->table.live == 0 && snapshot_deletions(service) == 0) {
		delete_rows_flush(service);
		service->sandboxes->drained = NULL;
		done(service->sandboxes->drained_arg, NULL);
	} else if (time_boot_ms() >= service->sandboxes->drain_limit_ms) {
		service->sandboxes->drained = NULL;
		(void)err_set(&err, ERR_TIMEOUT, "%u sandboxes are not removed yet",
			      service->sandboxes->table.live);
		done(service->sandboxes->drained_arg, &err);
	}
}

int service_destroy_all(struct service *service, int64_t limit_ms,
			void (*done)(void *arg, const struct err *err), void *arg, struct err *err)
{
	struct sandbox *sandbox;
	struct err ignored;
	uint32_t cursor = 0;

	if (service->sandboxes->drained)
		return err_set(err, ERR_CONFLICT, "a shutdown is already in progress");
	service->upkeep.closing = true;
	pools_stop(service);
	while ((sandbox = sandbox_next(service, &cursor)))
		(void)!sandbox_destroy(sandbox, REASON_REQUESTED, &ignored);
	/* Set last, so that done is never called inside this function; the tick or the last sweep
	 * calls it. */
	service->sandboxes->drained = done;
	service->sandboxes->drained_arg = arg;
	service->sandboxes->drain_limit_ms = time_boot_ms() + limit_ms;
	loop_timer_set(service->upkeep.tick_timer, 1, SERVICE_TICK_MS);
	return 0;
}
