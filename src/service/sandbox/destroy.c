/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a sandbox. Asking is acknowledged once the row says destroyed and the intent is on
 * disk; the engine is asked until it says done, across restarts. A sandbox that died by itself goes
 * to error with a typed reason and can be looked at for a while.
 */
#include <errno.h>

#include "base/log.h"
#include "base/time.h"
#include "service/sandbox/attach_internal.h"
#include "service/sandbox/create_internal.h"
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

#define ERROR_KEEP_MS (10 * 60 * 1000LL) /* a dead sandbox can be looked at for ten minutes */
#define SWEEP_RETRY_MIN_MS 200
#define SWEEP_RETRY_MAX_MS 30000

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
	void (*done)(void *arg, const struct err *err) = TAKE_PTR(sandbox->on_end);
	struct err err;

	if (error)
		(void)err_set(&err, ERR_UNAVAILABLE,
			      "the end of sandbox %s is recorded, but engine %s has not confirmed "
			      "it: %s. It is ended when the engine answers",
			      sandbox->id, engine_name(sandbox->engine), error->message);
	if (done)
		done(sandbox->on_end_arg, error ? &err : NULL);
}

/* Everything of it is gone: the rows follow. */
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
	struct call *call = arg;
	slot_handle handle = call->sandbox;
	struct service *service = call_end(call);
	struct sandbox *sandbox = service ? sandbox_get(service, handle) : NULL;

	if (!sandbox)
		return;
	sandbox->sweeping = false;
	if (err) {
		int64_t delay_ms = SWEEP_RETRY_MIN_MS << MIN(sandbox->sweep_tries, 8);

		delay_ms = MIN(delay_ms, SWEEP_RETRY_MAX_MS);
		if (sandbox->sweep_tries++ % 8 == 0)
			log_warn("sandbox %s: sweep failed, again in %lld ms: %s", sandbox->id,
				 (long long)delay_ms, err->message);
		sandbox->sweep_due_ms = time_boot_ms() + delay_ms;
		expiry_arm(service, sandbox->sweep_due_ms);
		answer_end(sandbox, err);
		return;
	}
	sandbox->swept = true;
	if (sandbox->state == SANDBOX_DESTROYED) {
		forget(sandbox);
	} else if (store_intent_delete(service->store, sandbox->row) < 0) {
		log_warn("sandbox %s: its intent stays until the next start", sandbox->id);
	}
}

void destroy_sweep(struct sandbox *sandbox)
{
	struct service_engine *engine = sandbox->engine;
	struct err err;
	struct call *call;

	if (sandbox->sweeping || sandbox->making || sandbox->asking)
		return; /* their ends come back here */
	if (sandbox->swept) {
		if (sandbox->state == SANDBOX_DESTROYED)
			forget(sandbox);
		return;
	}
	sandbox->sweep_due_ms = 0;
	sandbox->sweeping = true;
	(void)err_set(&err, ERR_UNAVAILABLE, "it is not ready");
	call = engine->instance.ready ? call_new(sandbox->service, sandbox->handle, &err) : NULL;
	if (call && instance_destroy(&engine->instance, sandbox->id, on_swept, call, &err) == 0)
		return;
	if (call)
		(void)call_end(call);
	sandbox->sweeping = false;
	sandbox->sweep_tries++;
	sandbox->sweep_due_ms =
		time_boot_ms() +
		MIN(SWEEP_RETRY_MIN_MS << MIN(sandbox->sweep_tries, 8), SWEEP_RETRY_MAX_MS);
	expiry_arm(sandbox->service, sandbox->sweep_due_ms);
	answer_end(sandbox, &err);
}

static void on_sweep_turn(void *arg)
{
	struct call *call = arg;
	struct sandbox *sandbox = call_end_sandbox(call);

	if (sandbox)
		destroy_sweep(sandbox);
}

/* On the next turn: whoever asked gets the answer before the engine gets the work. */
static void sweep_soon(struct sandbox *sandbox)
{
	struct call *call = call_new(sandbox->service, sandbox->handle, NULL);

	if (call && loop_defer(sandbox->service->config.loop, on_sweep_turn, call) == 0)
		return;
	if (call)
		(void)call_end(call);
	destroy_sweep(sandbox);
}

static int save_end(struct sandbox *sandbox, bool intent)
{
	struct service *service = sandbox->service;
	int r = store_begin(service->store);

	if (r < 0)
		return r;
	r = store_sandbox_set_state(service->store, sandbox->row,
				    sandbox_state_names[sandbox->state],
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

/* What follows a state of destroyed, recorded or not. */
static void begin_end(struct sandbox *sandbox, enum sandbox_reason reason)
{
	if (!sandbox->pooled)
		sandbox->service->upkeep.counters.destroys++;
	/* Whoever asked for the end knows it; the others, and visitors of its ports, may ask why.
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

int sandbox_destroy(struct sandbox *sandbox, enum sandbox_reason reason, struct err *err)
{
	struct service *service = sandbox->service;
	enum sandbox_state before = sandbox->state;
	enum sandbox_reason before_reason = sandbox->reason;
	bool retained = sandbox->retained;
	int r;

	if (sandbox->state == SANDBOX_DESTROYED)
		return 0;
	sandbox->initializing = sandbox->retained = false;
	sandbox_set_state(sandbox, SANDBOX_DESTROYED, reason);
	r = save_end(sandbox, !sandbox->swept);
	service_wrote(service);
	if (r == -ENOSPC) {
		/* To delete is how a full disk gets empty. It ends all the same; a daemon that dies
		 * before its row is gone finds nothing of it, and shows it as lost. */
		log_warn("sandbox %s: the disk is full, its end is not recorded", sandbox->id);
	} else if (r < 0) {
		sandbox->state = (uint8_t)before;
		sandbox->reason = (uint8_t)before_reason;
		sandbox->retained = retained;
		event_state(sandbox, sandbox_state_names[SANDBOX_DESTROYED]);
		usage_changed(sandbox);
		return service_unrecorded(err, r, "the end could not be recorded");
	}
	begin_end(sandbox, reason);
	return 0;
}

int sandbox_end(struct sandbox *sandbox, enum sandbox_reason reason, sandbox_ended_fn done,
		void *arg, struct err *err)
{
	if (sandbox_destroy(sandbox, reason, err) < 0)
		return -1;
	sandbox->on_end = done; /* before the turn in which the engine is asked */
	sandbox->on_end_arg = arg;
	return 0;
}

void destroy_unborn(struct sandbox *sandbox, enum sandbox_reason reason)
{
	struct err err;

	if (sandbox_destroy(sandbox, reason, &err) == 0)
		return;
	log_warn("sandbox %s: %s; it ends all the same", sandbox->id, err.message);
	sandbox->initializing = sandbox->retained = false;
	sandbox_set_state(sandbox, SANDBOX_DESTROYED, reason);
	begin_end(sandbox, reason);
}

int destroy_retain(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	bool lives = sandbox->initializing && sandbox->link && link_ready(sandbox->link);
	int r = store_begin(service->store);

	if (r < 0)
		return r;
	sandbox->initializing = false;
	sandbox->retained = lives;
	initializers_free(TAKE_PTR(sandbox->attrs.initializers));
	sandbox_set_state(sandbox, SANDBOX_ERROR, REASON_BOOT_FAILED);
	clock_set(sandbox, (int64_t)sandbox->attrs.timeout_sec * 1000);
	r = sandbox_save(sandbox);
	if (r == 0)
		r = store_intent_put(service->store, sandbox->row,
				     lives ? STORE_INTENT_RETAIN : STORE_INTENT_DESTROY,
				     time_real_ms());
	r = store_end(service->store, r);
	service_wrote(service);
	if (r < 0)
		return r; /* the caller ends it */
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
	sandbox->retained = false;
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

	if (sandbox->retained)
		destroy_unretain(sandbox);
	if (sandbox->state == SANDBOX_DESTROYED || sandbox->state == SANDBOX_ERROR)
		return;
	log_warn("sandbox %s ended: %s: %s", sandbox->id, sandbox_reason_name(reason), message);
	count_death(service, reason);
	sandbox_set_error(sandbox, message);
	if (sandbox->pooled || sandbox->state == SANDBOX_PROVISIONING) {
		if (sandbox_destroy(sandbox, reason, &err) < 0)
			log_error("sandbox %s: %s", sandbox->id, err.message);
		return;
	}
	sandbox_set_state(sandbox, SANDBOX_ERROR, reason);
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

static void on_unknown_swept(void *arg, const struct err *err)
{
	struct call *call = arg;

	if (err)
		log_warn("unknown sandbox %s was not swept: %s", call->id, err->message);
	(void)call_end(call);
}

/* The engine holds one that no row knows: nobody can ever use it. */
void destroy_unknown(struct service_engine *engine, const char *id)
{
	struct err err;
	struct call *call = call_new(engine->service, 0, &err);

	if (!call)
		return;
	(void)!str_copy(call->id, sizeof(call->id), str_of(id));
	log_info("sweeping unknown sandbox %s of engine %s", id, engine_name(engine));
	if (instance_destroy(&engine->instance, id, on_unknown_swept, call, &err) < 0) {
		log_warn("unknown sandbox %s was not swept: %s", id, err.message);
		(void)call_end(call);
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
		(void)err_set(&err, ERR_TIMEOUT, "%u sandboxes are not swept yet",
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
		return err_set(err, ERR_CONFLICT, "a shutdown is already under way");
	service->upkeep.closing = true;
	pools_stop(service);
	while ((sandbox = sandbox_next(service, &cursor)))
		(void)!sandbox_destroy(sandbox, REASON_REQUESTED, &ignored);
	/* Set only now, so that done is never called from here: the tick or the last sweep does it.
	 */
	service->sandboxes->drained = done;
	service->sandboxes->drained_arg = arg;
	service->sandboxes->drain_limit_ms = time_boot_ms() + limit_ms;
	loop_timer_set(service->upkeep.tick_timer, 1, SERVICE_TICK_MS);
	return 0;
}
