/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the rows with the engine's list after a start, and whenever an engine is back. A known,
 * running sandbox is attached again. An unfinished or unknown one is swept. One that the engine
 * does not list is lost, with a reason. Transitions in progress are completed or reverted:
 *
 *   pause, resume      as the engine has it, frozen or not
 *   hibernate          if the row says hibernated, the running part is removed; otherwise the
 *                      snapshot is removed and the sandbox is as before; if only the snapshot
 *                      exists, the sandbox becomes hibernated
 *   resume (hibernated) the engine's part is removed; the sandbox is hibernated as before
 *   restore            continues, because the old files have already been removed
 *   snapshot, fork     incomplete snapshots are removed; the sandbox is as before
 *
 * A sandbox with an open retain intent, whose initializer failed, continues to run in state error.
 */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "service/sandbox/attach_internal.h"
#include "service/account/auth_internal.h"
#include "service/network/egress.h"
#include "service/sandbox/destroy_internal.h"
#include "service/pairs.h"
#include "service/pool/pool_internal.h"
#include "service/sandbox/recover_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/copy/snapshot_internal.h"
#include "service/template/template_internal.h"
#include "service/sandbox/sandbox_private.h"
#include "service/copy/copy_internal.h"

static int restore_attrs(struct sandbox *sandbox, const struct store_sandbox *row)
{
	struct sandbox_attrs *attrs = &sandbox->attrs;

	if (row->owner && str_copy(attrs->owner, sizeof(attrs->owner), str_of(row->owner)) < 0)
		return -EUCLEAN;
	if (row->name)
		attrs->name = strdup(row->name);
	if (row->external_workspace_id)
		attrs->external_workspace_id = strdup(row->external_workspace_id);
	attrs->cpu_milli = (uint32_t)row->cpu_milli;
	attrs->memory_mb = (uint32_t)row->memory_mb;
	attrs->disk_size_mb = (uint32_t)row->disk_size_mb;
	attrs->timeout_sec = (uint32_t)row->timeout_sec;
	attrs->idle_timeout_sec = (uint32_t)row->idle_timeout_sec;
	attrs->always_on = row->always_on;
	attrs->auto_resume = row->auto_resume;
	for (unsigned i = 0; i < ON_TIMEOUT_COUNT; i++)
		if (row->on_timeout && strcmp(row->on_timeout, on_timeout_names[i]) == 0)
			attrs->on_timeout = (uint8_t)i;
	for (unsigned i = 0; i < POOL_MODE_COUNT; i++)
		if (row->pool_mode && strcmp(row->pool_mode, pool_mode_names[i]) == 0)
			attrs->pool_mode = (uint8_t)i;
	if (row->network && egress_policy_load(row->network, &attrs->network) < 0)
		return -EUCLEAN;
	if (pairs_from_block(&attrs->env, row->env) < 0 ||
	    pairs_from_block(&attrs->metadata, row->metadata) < 0)
		return -EUCLEAN;
	return 0;
}

static void restore_life(struct sandbox *sandbox, const struct store_sandbox *row)
{
	struct snapshot *from =
		row->from_id ? snapshot_by_id(sandbox->service, str_of(row->from_id)) : NULL;

	for (unsigned i = 0; i < BOOT_COUNT; i++)
		if (row->boot_path && strcmp(row->boot_path, sandbox_boot_names[i]) == 0)
			sandbox->boot = (uint8_t)i;
	if (from)
		sandbox->from = snapshot_use(from);
	clock_load(sandbox, row);
}

static void restore_visible(struct service *service, struct sandbox *sandbox)
{
	struct err err;

	quota_add(service, &sandbox->attrs);
	sandbox_show(sandbox);
	if (sandbox_name_reserve(service, sandbox->attrs.owner, sandbox->attrs.name, sandbox,
				 &err) < 0) {
		log_warn("sandbox %s: the name is dropped: %s", sandbox->id, err.message);
		free(TAKE_PTR(sandbox->attrs.name));
	}
}

/* The intents that are open, by the row of their sandbox. */
struct open_intents {
	struct service *service;
	struct map kinds; /* decimal row -> an element of intent_kinds */
};

static enum store_intent intent_kinds[] = {
	STORE_INTENT_CREATE,  STORE_INTENT_DESTROY,   STORE_INTENT_PAUSE,
	STORE_INTENT_RESUME,  STORE_INTENT_HIBERNATE, STORE_INTENT_SNAPSHOT,
	STORE_INTENT_RESTORE, STORE_INTENT_FORK,      STORE_INTENT_RETAIN,
};

static struct str row_key(char text[24], int64_t row)
{
	int n = snprintf(text, 24, "%lld", (long long)row);

	return (struct str){ text, (size_t)n };
}

static int on_intent(void *arg, int64_t row, enum store_intent kind)
{
	struct open_intents *open = arg;
	char text[24];

	for (size_t i = 0; i < ARRAY_LEN(intent_kinds); i++)
		if (intent_kinds[i] == kind)
			return map_put(&open->kinds, row_key(text, row), &intent_kinds[i]);
	return 0; /* written by a newer version */
}

static void restore_phase(struct sandbox *sandbox, const struct store_sandbox *row,
			  enum store_intent intent)
{
	struct phase_row stored = { .state = sandbox_state_parse(row->state),
				    .intent = intent,
				    .pooled = row->pooled };
	bool transition = intent != 0 && intent != STORE_INTENT_CREATE &&
			  intent != STORE_INTENT_RETAIN && intent != STORE_INTENT_DESTROY;

	for (unsigned i = 0; i < PAUSE_KIND_COUNT; i++)
		if (row->pause_kind && strcmp(row->pause_kind, pause_kind_names[i]) == 0)
			stored.pause_kind = (enum pause_kind)i;
	sandbox_set_phase(sandbox, phase_loaded(&stored), REASON_NONE);
	sandbox->reason = (uint8_t)sandbox_reason_parse(row->reason);
	if (transition)
		sandbox->recover = (uint8_t)intent;
}

static int on_row(void *arg, const struct store_sandbox *row)
{
	struct open_intents *open = arg;
	struct service *service = open->service;
	const enum store_intent *intent;
	char text[24];
	struct service_engine *engine = service_engine_by_name(service, row->engine);
	struct err err;
	struct template *tpl;
	struct sandbox *sandbox;

	service->sandboxes->last_row = MAX(service->sandboxes->last_row, row->row);
	service_saw_seq(service, row->seq);
	if (!engine) {
		log_warn("sandbox %s belongs to engine '%s', which is not enabled: ignored",
			 row->id, row->engine);
		return 0;
	}
	tpl = template_by_hash(service, row->template_name, row->template_hash, &err);
	sandbox = tpl ? sandbox_new(service, engine, tpl, row->id, &err) : NULL;
	if (!sandbox) {
		log_error("sandbox %s cannot be restored: %s", row->id, err.message);
		return 0;
	}
	sandbox->row = row->row;
	sandbox->seq = row->seq;
	sandbox->pooled = row->pooled;
	intent = map_get(&open->kinds, row_key(text, row->row));
	restore_phase(sandbox, row, intent ? *intent : 0);
	sandbox->created_ms = row->created_ms;
	sandbox->started_ms = row->started_ms;
	sandbox->boot_us = row->boot_us;
	restore_life(sandbox, row);
	sandbox_set_error(sandbox, row->last_error);
	if (restore_attrs(sandbox, row) < 0)
		log_warn("sandbox %s: parts of its row are unreadable", row->id);
	if (!sandbox->pooled && sandbox_state(sandbox) != SANDBOX_DESTROYED)
		restore_visible(service, sandbox);
	return 0;
}

int reconcile_load(struct service *service, struct err *err)
{
	struct open_intents open = { .service = service };
	const char *what = "the intents";
	int r;

	map_init(&open.kinds);
	r = store_intent_each(service->store, on_intent, &open);
	if (r == 0) {
		what = "the sandboxes";
		r = store_sandbox_each(service->store, on_row, &open);
	}
	map_done(&open.kinds);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot read %s", what) : 0;
}

static void end_half_made(struct sandbox *sandbox)
{
	struct err err;

	log_info("sandbox %s was not complete when the daemon ended: removing it", sandbox->id);
	if (sandbox_destroy(sandbox, REASON_BOOT_FAILED, &err) < 0)
		log_error("sandbox %s: %s", sandbox->id, err.message);
}

/* Settles one known sandbox after the engine's list is complete. */
static void settle(struct sandbox *sandbox)
{
	bool seen = !sandbox->unlisted;

	sandbox->unlisted = false;
	if (sandbox_state(sandbox) == SANDBOX_PROVISIONING) {
		if (!sandbox->engine_op && !sandbox->link)
			end_half_made(sandbox);
	} else if (sandbox->phase == PHASE_RETAINED) {
		if (!seen)
			destroy_unretain(sandbox);
		else if (!sandbox->link)
			attach_start(sandbox);
	} else if (sandbox_lives(sandbox)) {
		if (!sandbox_transition(sandbox))
			recover_settle(sandbox, seen);
	} else {
		destroy_sweep(sandbox);
	}
}

static void on_listed(struct service_engine *engine)
{
	struct service *service = engine->service;
	struct sandbox *sandbox;
	uint32_t cursor = 0;
	bool first = !engine->listed;

	engine->listing = false;
	engine->listed = true;
	engine->why[0] = '\0';
	while ((sandbox = sandbox_next(service, &cursor)))
		if (sandbox->engine == engine)
			settle(sandbox);
	if (instance_can(&engine->instance, CAN_SNAPSHOT))
		snapshot_settle(engine);
	/* Deadlines may have passed while the daemon was not running. */
	expiry_arm(service, 1);
	if (first)
		pool_start(service);
}

static void list_failed(struct service_engine *engine, const struct err *err)
{
	engine->listing = false;
	(void)snprintf(engine->why, sizeof(engine->why), "%s", err->message);
	log_warn("engine %s cannot list its sandboxes: %s", engine_name(engine), err->message);
	/* Asked again when the engine is back, or by the tick. */
}

/* A listing of an engine's sandboxes and snapshots in progress. */
struct listing {
	struct op op;
	struct service_engine *engine;
};

static void on_list(void *arg, const char *id, const struct err *err)
{
	struct listing *listing = arg;
	struct service_engine *engine = listing->engine;
	struct service *service = listing->op.service;
	struct sandbox *sandbox;

	if (service && id) {
		sandbox = sandbox_by_id(service, str_of(id));
		if (sandbox && sandbox->engine == engine)
			sandbox->unlisted = false;
		else
			destroy_unknown(engine, id);
		return;
	}
	if (id || !op_end(&listing->op))
		return;
	if (err)
		list_failed(engine, err);
	else
		on_listed(engine);
}

static void list_sandboxes(struct service_engine *engine)
{
	struct err err;
	struct listing *listing = OP_NEW(struct listing, engine->service, 0, &err);

	if (listing) {
		listing->engine = engine;
		if (instance_list(&engine->instance, on_list, listing, &err) == 0)
			return;
		(void)op_end(&listing->op);
	}
	list_failed(engine, &err);
}

static void on_list_snapshots(void *arg, const struct engine_snapshot_entry *entry,
			      const struct err *err)
{
	struct listing *listing = arg;
	struct service_engine *engine = listing->engine;

	if (entry) {
		if (listing->op.service)
			snapshot_listed(engine, entry->id);
		return;
	}
	if (!op_end(&listing->op))
		return;
	if (err)
		list_failed(engine, err);
	else
		list_sandboxes(engine);
}

static void list_snapshots(struct service_engine *engine)
{
	struct err err;
	struct listing *listing = OP_NEW(struct listing, engine->service, 0, &err);

	if (listing) {
		listing->engine = engine;
		if (instance_snapshot_list(&engine->instance, on_list_snapshots, listing, &err) ==
		    0)
			return;
		(void)op_end(&listing->op);
	}
	list_failed(engine, &err);
}

/* Snapshots are listed first, because one of them may be all that is left of a sandbox. */
void reconcile_start(struct service_engine *engine)
{
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	if (engine->listing || !engine->instance.ready)
		return;
	engine->listing = true;
	/* Only sandboxes that run already must be in the list; newer ones may not be in it. */
	while ((sandbox = sandbox_next(engine->service, &cursor)))
		if (sandbox->engine == engine)
			sandbox->unlisted =
				sandbox_up(sandbox) || sandbox_state(sandbox) == SANDBOX_PAUSED;
	if (instance_can(&engine->instance, CAN_SNAPSHOT)) {
		snapshot_list_begin(engine);
		list_snapshots(engine);
	} else {
		list_sandboxes(engine);
	}
}
