/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After a start, and whenever an engine comes back: what the rows say against what the engine
 * holds. Known and running: attached again. Half-made: swept. Unknown to us: swept. Known to us but
 * not to the engine: lost, with its reason. Transitions that were under way are finished or taken
 * back:
 *
 *   pause, resume      as the engine has it, frozen or not
 *   hibernate          the row says hibernated: its running part goes. Else the copy goes and the
 *                      sandbox is as before; if only the copy is left of it, that is it now
 *   resume (hibernated) what was made goes, it is hibernated as before
 *   restore            goes on: its files are given up already
 *   snapshot, fork     half made copies go; the sandbox is as before
 *
 * One whose initializer failed lives on as an error (the intent to retain it says so).
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

	for (unsigned i = 0; i < PAUSE_KIND_COUNT; i++)
		if (row->pause_kind && strcmp(row->pause_kind, pause_kind_names[i]) == 0)
			sandbox->pause_kind = (uint8_t)i;
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
		log_warn("sandbox %s loses its name: %s", sandbox->id, err.message);
		free(TAKE_PTR(sandbox->attrs.name));
	}
}

static int on_row(void *arg, const struct store_sandbox *row)
{
	struct service *service = arg;
	struct service_engine *engine = service_engine_by_name(service, row->engine);
	struct err err;
	struct template *tpl;
	struct sandbox *sandbox;

	service->sandboxes->last_row = MAX(service->sandboxes->last_row, row->row);
	service_saw_seq(service, row->seq);
	if (!engine) {
		log_warn("sandbox %s belongs to engine '%s', which is not enabled: left alone",
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
	sandbox->state = (uint8_t)sandbox_state_parse(row->state);
	sandbox->reason = (uint8_t)sandbox_reason_parse(row->reason);
	sandbox->pooled = row->pooled;
	sandbox->created_ms = row->created_ms;
	sandbox->started_ms = row->started_ms;
	sandbox->boot_us = row->boot_us;
	restore_life(sandbox, row);
	sandbox_set_error(sandbox, row->last_error);
	if (restore_attrs(sandbox, row) < 0)
		log_warn("sandbox %s: parts of its row are unreadable", row->id);
	/* Without an open intent an ended sandbox has been swept. */
	sandbox->swept = sandbox->state == SANDBOX_ERROR;
	if (!sandbox->pooled && sandbox->state != SANDBOX_DESTROYED)
		restore_visible(service, sandbox);
	return 0;
}

struct open_intents {
	struct service *service;
	struct map rows; /* decimal row -> sandbox */
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
	struct sandbox *sandbox = map_get(&open->rows, row_key(text, row));

	if (!sandbox)
		return 0;
	sandbox->swept = false;
	if (kind == STORE_INTENT_CREATE)
		sandbox->state = SANDBOX_PROVISIONING;
	else if (kind == STORE_INTENT_RETAIN)
		sandbox->retained = sandbox->state == SANDBOX_ERROR;
	else if (kind != STORE_INTENT_DESTROY)
		sandbox->recover = (uint8_t)kind;
	return 0;
}

int reconcile_load(struct service *service, struct err *err)
{
	struct open_intents open = { .service = service };
	struct sandbox *sandbox;
	uint32_t cursor = 0;
	char text[24];
	int r = store_sandbox_each(service->store, on_row, service);

	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "cannot read the sandboxes");
	map_init(&open.rows);
	while (r == 0 && (sandbox = sandbox_next(service, &cursor)))
		r = map_put(&open.rows, row_key(text, sandbox->row), sandbox);
	if (r == 0)
		r = store_intent_each(service->store, on_intent, &open);
	map_done(&open.rows);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "cannot read the intents");
	return 0;
}

static void end_half_made(struct sandbox *sandbox)
{
	struct err err;

	log_info("sandbox %s was half made when the daemon ended: swept", sandbox->id);
	if (sandbox_destroy(sandbox, REASON_BOOT_FAILED, &err) < 0)
		log_error("sandbox %s: %s", sandbox->id, err.message);
}

/* One sandbox of ours after the engine has named all of its own. */
static void settle(struct sandbox *sandbox)
{
	bool seen = !sandbox->unseen;

	sandbox->unseen = false;
	switch ((enum sandbox_state)sandbox->state) {
	case SANDBOX_PROVISIONING:
		if (!sandbox->making && !sandbox->link)
			end_half_made(sandbox);
		break;
	case SANDBOX_RUNNING:
	case SANDBOX_PAUSED:
		if (!sandbox->transition)
			recover_settle(sandbox, seen);
		break;
	case SANDBOX_DESTROYED:
	case SANDBOX_ERROR:
		if (!sandbox->retained)
			destroy_sweep(sandbox);
		else if (!seen)
			destroy_unretain(sandbox);
		else if (!sandbox->link)
			attach_start(sandbox);
		break;
	case SANDBOX_STATE_COUNT:
		break;
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
	/* Deadlines may have passed while nobody looked. */
	expiry_arm(service, 1);
	if (first)
		pool_start(service);
}

static void list_failed(struct service_engine *engine, const struct err *err)
{
	engine->listing = false;
	(void)snprintf(engine->why, sizeof(engine->why), "%s", err->message);
	log_warn("engine %s cannot list what it holds: %s", engine_name(engine), err->message);
	/* on_back or the tick asks again */
}

static void on_list(void *arg, const char *id, const struct err *err)
{
	struct call *call = arg;
	struct service_engine *engine = call->engine;
	struct service *service = call->service;
	struct sandbox *sandbox;

	if (service && id) {
		sandbox = sandbox_by_id(service, str_of(id));
		if (sandbox && sandbox->engine == engine)
			sandbox->unseen = false;
		else
			destroy_unknown(engine, id);
		return;
	}
	if (id || !call_end(call))
		return;
	if (err)
		list_failed(engine, err);
	else
		on_listed(engine);
}

static void list_sandboxes(struct service_engine *engine)
{
	struct err err;
	struct call *call = call_new(engine->service, 0, &err);

	if (call) {
		call->engine = engine;
		if (instance_list(&engine->instance, on_list, call, &err) == 0)
			return;
		(void)call_end(call);
	}
	list_failed(engine, &err);
}

static void on_list_snapshots(void *arg, const struct engine_snapshot_entry *entry,
			      const struct err *err)
{
	struct call *call = arg;
	struct service_engine *engine = call->engine;

	if (entry) {
		if (call->service)
			snapshot_listed(engine, entry->id);
		return;
	}
	if (!call_end(call))
		return;
	if (err)
		list_failed(engine, err);
	else
		list_sandboxes(engine);
}

static void list_snapshots(struct service_engine *engine)
{
	struct err err;
	struct call *call = call_new(engine->service, 0, &err);

	if (call) {
		call->engine = engine;
		if (instance_snapshot_list(&engine->instance, on_list_snapshots, call, &err) == 0)
			return;
		(void)call_end(call);
	}
	list_failed(engine, &err);
}

/* Snapshots first: what is left of a sandbox may be one of them. */
void reconcile_start(struct service_engine *engine)
{
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	if (engine->listing || !engine->instance.ready)
		return;
	engine->listing = true;
	/* Only those that run already can be missed by the list; newer ones may come behind it. */
	while ((sandbox = sandbox_next(engine->service, &cursor)))
		if (sandbox->engine == engine)
			sandbox->unseen = sandbox_up(sandbox) || sandbox->state == SANDBOX_PAUSED;
	if (instance_can(&engine->instance, CAN_SNAPSHOT)) {
		snapshot_list_begin(engine);
		list_snapshots(engine);
	} else {
		list_sandboxes(engine);
	}
}
