/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a sandbox. The intent is on disk before the engine is asked; it is closed in the same
 * transaction that makes the row running, so a death of the daemon in between leaves a half-made
 * sandbox that the next start knows about and sweeps.
 */
#include <errno.h>

#include "base/log.h"
#include "base/time.h"
#include "service/private.h"

void creation_free(struct creation *creation)
{
	if (!creation)
		return;
	loop_timer_free(creation->timer);
	sandbox_attrs_done(&creation->attrs);
	free(creation);
}

bool creation_require(const struct creation *creation)
{
	return creation->attrs.pool_mode == POOL_REQUIRE;
}

/* Ends a creation: by returning from sandbox_create() when that is still on the stack, else by
 * calling back. On failure name and quota are given back. */
void creation_answer(struct creation *creation, struct sandbox *sandbox, const struct err *err)
{
	struct service *service = creation->service;

	if (sandbox) {
		uint64_t *made = sandbox->boot == BOOT_POOL ? &service->counters.creates_pool
							    : &service->counters.creates_cold;

		(*made)++;
		service->counters.create_us_sum +=
			(uint64_t)(time_mono_us() - creation->started_us);
	} else {
		service->counters.creates_failed++;
		if (creation->attrs.owner[0]) { /* not moved into a sandbox yet */
			sandbox_name_release(service, creation->attrs.owner, creation->attrs.name);
			quota_remove(service, creation->attrs.owner);
		}
	}
	if (creation->in_call) {
		creation->now = sandbox;
		creation->failed_now = sandbox == NULL;
		if (err)
			creation->now_err = *err;
		return;
	}
	creation->done(creation->arg, sandbox, err);
	creation_free(creation);
}

static void move_attrs(struct creation *creation, struct sandbox *sandbox)
{
	sandbox->attrs = creation->attrs;
	creation->attrs = (struct sandbox_attrs){ .name = NULL };
	creation->attrs.pool_mode = sandbox->attrs.pool_mode;
	sandbox_name_bind(sandbox->service, sandbox->attrs.owner, sandbox->attrs.name, sandbox);
}

static int save_begun(struct sandbox *sandbox, struct creation *creation)
{
	struct service *service = sandbox->service;
	int r = store_begin(service->store);

	if (r < 0)
		return r;
	r = sandbox_save(sandbox);
	if (r == 0)
		r = store_intent_put(service->store, sandbox->row, STORE_INTENT_CREATE,
				     sandbox->created_ms);
	if (r == 0 && creation && creation->idem)
		r = idempotency_record(service, creation->idem, sandbox->id);
	if (r == 0)
		return store_commit(service->store);
	store_rollback(service->store);
	return r;
}

static void forget_begun(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	int r = store_begin(service->store);

	if (r == 0)
		r = store_sandbox_delete(service->store, sandbox->row);
	if (r == 0)
		r = store_intent_delete(service->store, sandbox->row);
	if (r == 0)
		r = store_commit(service->store);
	else
		store_rollback(service->store);
	if (r < 0)
		log_warn("sandbox %s: its row stays until the next start: %s", sandbox->id,
			 strerror(-r));
}

static void on_made(void *arg, const struct engine_made *made, const struct err *err)
{
	struct call *call = arg;
	slot_handle handle = call->sandbox;
	struct service *service = call_end(call);
	struct sandbox *sandbox = service ? sandbox_get(service, handle) : NULL;
	struct err link_err;

	if (!sandbox) { /* the service has been closed: the next start sweeps or adopts */
		if (!err) {
			(void)close(made->agent_fd);
			if (made->watch_fd >= 0)
				(void)close(made->watch_fd);
		}
		return;
	}
	sandbox->making = false;
	if (!err && sandbox->state == SANDBOX_DESTROYED) {
		(void)close(made->agent_fd);
		if (made->watch_fd >= 0)
			(void)close(made->watch_fd);
	}
	if (sandbox->state == SANDBOX_DESTROYED) {
		destroy_sweep(sandbox); /* asked for while it was being made */
		return;
	}
	if (err) {
		create_failed(sandbox, err);
		return;
	}
	if (attach_link(sandbox, made, &link_err) < 0)
		create_failed(sandbox, &link_err);
}

void create_spec(const struct sandbox *sandbox, struct engine_spec *ret)
{
	*ret = (struct engine_spec){ .limits = { .cpu_count = sandbox->attrs.cpu_count,
						 .memory_mb = sandbox->attrs.memory_mb,
						 .disk_size_mb = sandbox->attrs.disk_size_mb,
						 .pids_max = sandbox->service->config.pids_max } };
	memcpy(ret->id, sandbox->id, sizeof(sandbox->id));
	memcpy(ret->template_hash, sandbox->template->hash, sizeof(ret->template_hash));
	if (sandbox->from)
		memcpy(ret->snapshot_id, sandbox->from->id, sizeof(sandbox->from->id));
}

int create_begin(struct sandbox *sandbox, struct creation *creation, struct err *err)
{
	struct service *service = sandbox->service;
	struct service_engine *engine = sandbox->engine;
	struct engine_spec spec;
	struct call *call;
	int r;

	create_spec(sandbox, &spec);
	r = save_begun(sandbox, creation);
	service_wrote(service);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "the sandbox could not be recorded");
	call = call_new(service, sandbox->handle, err);
	if (call && engine->driver->create(engine->engine, &spec, on_made, call, err) == 0) {
		sandbox->making = true;
		return 0;
	}
	if (call)
		(void)call_end(call);
	forget_begun(sandbox);
	return -1;
}

void creation_cold(struct creation *creation)
{
	struct service *service = creation->service;
	struct err err = { .code = ERR_OK };
	struct sandbox *sandbox =
		sandbox_new(service, creation->engine, creation->template, NULL, &err);

	if (!sandbox) {
		creation_answer(creation, NULL, &err);
		return;
	}
	move_attrs(creation, sandbox);
	sandbox->state = SANDBOX_PROVISIONING;
	sandbox->boot = creation->boot;
	if (creation->from)
		sandbox->from = snapshot_use(creation->from);
	sandbox->created_ms = time_real_ms();
	sandbox_show(sandbox);
	if (create_begin(sandbox, creation, &err) < 0) {
		sandbox->swept = true;
		snapshot_unuse(TAKE_PTR(sandbox->from));
		sandbox_drop(sandbox);
		creation_answer(creation, NULL, &err);
		return;
	}
	sandbox->creation = creation;
	event_state(sandbox, NULL);
}

static int save_running(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	int r = store_begin(service->store);

	if (r < 0)
		return r;
	r = sandbox_save(sandbox);
	/* A child without all of its siblings is half made: its fork closes the intents. */
	if (r == 0 && sandbox->boot != BOOT_FORK)
		r = store_intent_delete(service->store, sandbox->row);
	if (r == 0)
		return store_commit(service->store);
	store_rollback(service->store);
	return r;
}

void create_ready(struct sandbox *sandbox)
{
	struct service *service = sandbox->service;
	struct creation *creation = sandbox->creation;
	struct err err;
	int r;

	sandbox->counted = true; /* nothing runs in it yet */
	if (sandbox->pooled) {
		pool_made(sandbox);
		return;
	}
	sandbox_set_state(sandbox, SANDBOX_RUNNING, REASON_NONE);
	sandbox->boot_us = creation ? time_mono_us() - creation->started_us : 0;
	clock_start(sandbox);
	snapshot_unuse(TAKE_PTR(sandbox->from));
	r = save_running(sandbox);
	service_wrote(service);
	if (r < 0) {
		(void)err_set_errno(&err, ERR_INTERNAL, r, "the sandbox could not be recorded");
		create_failed(sandbox, &err);
		return;
	}
	sandbox->creation = NULL;
	if (creation)
		creation_answer(creation, sandbox, NULL);
}

void create_failed(struct sandbox *sandbox, const struct err *err)
{
	struct creation *creation = sandbox->creation;
	struct err copy = *err, ignored;

	log_warn("sandbox %s was not made: %s", sandbox->id, copy.message);
	sandbox->creation = NULL;
	if (sandbox->pooled)
		pool_fill_failed(sandbox, &copy);
	sandbox_set_error(sandbox, copy.message);
	if (sandbox_destroy(sandbox, REASON_BOOT_FAILED, &ignored) < 0)
		log_error("sandbox %s: %s", sandbox->id, ignored.message);
	if (creation)
		creation_answer(creation, NULL, &copy);
}

static void finish_hand_out(struct creation *creation, struct sandbox *member)
{
	struct service *service = creation->service;
	struct idempotency *idem = creation->idem;
	struct err err;
	int r = 0;

	member->boot_us = time_mono_us() - creation->started_us;
	clock_start(member);
	if (idem)
		r = store_begin(service->store);
	if (r == 0)
		r = sandbox_save(member);
	if (r == 0 && idem)
		r = idempotency_record(service, idem, member->id);
	if (r == 0 && idem)
		r = store_commit(service->store);
	else if (r < 0 && idem)
		store_rollback(service->store);
	service_wrote(service);
	if (r < 0) {
		(void)err_set_errno(&err, ERR_INTERNAL, r, "the sandbox could not be recorded");
		member->creation = creation;
		create_failed(member, &err);
		return;
	}
	member->creation = NULL;
	event_state(member, NULL);
	usage_changed(member);
	creation_answer(creation, member, NULL);
}

static void on_resized(void *arg, const struct err *err)
{
	struct call *call = arg;
	slot_handle handle = call->sandbox;
	struct service *service = call_end(call);
	struct sandbox *sandbox = service ? sandbox_get(service, handle) : NULL;

	if (!sandbox || !sandbox->creation)
		return; /* it died or was destroyed meanwhile: whoever did that has answered */
	if (err)
		create_failed(sandbox, err);
	else
		finish_hand_out(sandbox->creation, sandbox);
}

static int start_resize(struct sandbox *sandbox, struct err *err)
{
	struct service_engine *engine = sandbox->engine;
	struct engine_limits limits = { .cpu_count = sandbox->attrs.cpu_count,
					.memory_mb = sandbox->attrs.memory_mb,
					.disk_size_mb = sandbox->attrs.disk_size_mb,
					.pids_max = sandbox->service->config.pids_max };
	struct call *call = call_new(sandbox->service, sandbox->handle, err);

	if (!call)
		return -1;
	if (engine->driver->resize(engine->engine, sandbox->id, &limits, on_resized, call, err) <
	    0) {
		(void)call_end(call);
		return -1;
	}
	return 0;
}

void creation_hand_out(struct creation *creation, struct sandbox *member)
{
	struct engine_limits fixed;
	struct err err;

	pool_limits(member->service, &fixed);
	member->pooled = false;
	member->pool = NULL;
	move_attrs(creation, member);
	member->boot = BOOT_POOL;
	member->created_ms = time_real_ms();
	sandbox_show(member);
	if (member->attrs.cpu_count == fixed.cpu_count &&
	    member->attrs.memory_mb == fixed.memory_mb &&
	    member->attrs.disk_size_mb == fixed.disk_size_mb) {
		finish_hand_out(creation, member);
		return;
	}
	member->creation = creation;
	if (start_resize(member, &err) < 0)
		create_failed(member, &err);
}

static int copy_text(char **dst, struct str text, struct err *err)
{
	if (!text.n)
		return 0;
	*dst = strndup(text.p, text.n);
	return *dst ? 0 : err_set(err, ERR_UNAVAILABLE, "out of memory");
}

/* from: what the caller leaves out is as it was in the sandbox the snapshot was taken of. */
static int fill_attrs(struct sandbox_attrs *attrs, const struct key *owner,
		      const struct sandbox_spec *spec, const struct snapshot *from, struct err *err)
{
	memcpy(attrs->owner, owner->id, sizeof(attrs->owner));
	attrs->cpu_count = from && !spec->has_cpu ? from->cpu_count : (uint32_t)spec->cpu_count;
	attrs->memory_mb = from && !spec->has_memory ? from->memory_mb : (uint32_t)spec->memory_mb;
	attrs->disk_size_mb =
		from && !spec->has_disk ? from->disk_size_mb : (uint32_t)spec->disk_size_mb;
	attrs->timeout_sec = (uint32_t)spec->timeout_sec;
	attrs->idle_timeout_sec = (uint32_t)spec->idle_timeout_sec;
	attrs->always_on = spec->always_on;
	attrs->auto_resume = spec->auto_resume;
	attrs->on_timeout = (uint8_t)spec->on_timeout;
	attrs->pool_mode = (uint8_t)spec->pool_mode;
	if (copy_text(&attrs->name, spec->name, err) < 0 ||
	    copy_text(&attrs->external_workspace_id, spec->external_workspace_id, err) < 0)
		return -1;
	if (from && !spec->env && pairs_from_block(&attrs->env, pairs_block(&from->env)) < 0)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	if (from && !spec->env)
		return pairs_from_json(&attrs->metadata, spec->metadata, &pairs_metadata, err);
	if (pairs_from_json(&attrs->env, spec->env, &pairs_env, err) < 0)
		return -1;
	return pairs_from_json(&attrs->metadata, spec->metadata, &pairs_metadata, err);
}

/* What happens at a timeout must be something the engine can do. */
int create_check_end(const struct service_engine *engine, int on_timeout, struct err *err)
{
	uint32_t need = on_timeout == ON_TIMEOUT_DESTROY ? 0 : ENGINE_CAN_PAUSE;

	if (on_timeout == ON_TIMEOUT_HIBERNATE)
		need |= ENGINE_CAN_SNAPSHOT;
	if ((engine->capabilities & need) == need)
		return 0;
	return err_set(err, ERR_UNSUPPORTED_BY_ENGINE,
		       "on_timeout: engine %s cannot %s on this host", engine->driver->name,
		       on_timeout_names[on_timeout]);
}

static int find_snapshot(struct creation *creation, const struct key *owner,
			 const struct sandbox_spec *spec, struct err *err)
{
	struct snapshot *s = snapshot_find(creation->service, owner, spec->snapshot_id, err);

	if (!s || snapshot_check_usable(s, err) < 0)
		return -1;
	if (spec->engine.n && !str_is(spec->engine, s->engine->driver->name))
		return err_set(err, ERR_INVALID_REQUEST, "engine: snapshot %s belongs to engine %s",
			       s->id, s->engine->driver->name);
	if (spec->has_template && !str_is(spec->template, s->template->name))
		return err_set(err, ERR_INVALID_REQUEST,
			       "template: snapshot %s was taken of template %s", s->id,
			       s->template->name);
	creation->from = s;
	creation->boot = BOOT_SNAPSHOT;
	creation->template = s->template;
	creation->engine =
		service_engine_find(creation->service, str_of(s->engine->driver->name), err);
	return creation->engine ? 0 : -1;
}

static int find_parts(struct creation *creation, const struct key *owner,
		      const struct sandbox_spec *spec, struct err *err)
{
	if (spec->snapshot_id.n) {
		if (find_snapshot(creation, owner, spec, err) < 0)
			return -1;
	} else {
		creation->engine = service_engine_find(creation->service, spec->engine, err);
	}
	if (!creation->engine || create_check_end(creation->engine, spec->on_timeout, err) < 0)
		return -1;
	if (!creation->template)
		creation->template = template_find(creation->service, spec->template, err);
	return creation->template ? 0 : -1;
}

static struct creation *creation_new(struct service *service, struct key *owner,
				     const struct sandbox_spec *spec, struct err *err)
{
	struct creation *creation = calloc(1, sizeof(*creation));

	if (!creation) {
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	creation->service = service;
	creation->started_us = time_mono_us();
	creation->wait_ms = spec->pool_wait_ms;
	if (find_parts(creation, owner, spec, err) < 0 ||
	    fill_attrs(&creation->attrs, owner, spec, creation->from, err) < 0 ||
	    sandbox_name_reserve(service, owner->id, creation->attrs.name, NULL, err) < 0) {
		creation_free(creation);
		return NULL;
	}
	quota_add(service, owner->id);
	return creation;
}

/* Chooses pool, waiting or cold, and starts it. */
static void start(struct creation *creation)
{
	struct service *service = creation->service;
	struct sandbox *member = NULL;
	struct err err;

	if (creation->attrs.pool_mode != POOL_BYPASS && !creation->from) {
		member = pool_take(service, creation->engine, creation->template);
		if (member) {
			creation_hand_out(creation, member);
			return;
		}
		if (creation->wait_ms > 0 &&
		    pool_wait(service, creation, creation->engine, creation->template) == 0)
			return;
	}
	if (creation_require(creation) && !creation->from) {
		(void)err_set(&err, ERR_CAPACITY_EXCEEDED,
			      "no ready sandbox in the pool of '%s' (pool.mode require)",
			      creation->template->name);
		creation_answer(creation, NULL, &err);
		return;
	}
	creation_cold(creation);
}

int sandbox_create(struct service *service, struct key *owner, const struct sandbox_spec *spec,
		   struct idempotency *idem, sandbox_made_fn done, void *arg,
		   const struct sandbox **ret_now, struct err *err)
{
	struct creation *creation;
	int r = 0;

	if (service->closing)
		return err_set(err, ERR_UNAVAILABLE, "the daemon is shutting down");
	if (quota_check(service, owner, err) < 0)
		return -1;
	creation = creation_new(service, owner, spec, err);
	if (!creation)
		return -1;
	creation->idem = idem;
	creation->done = done;
	creation->arg = arg;
	creation->in_call = true;
	start(creation);
	/* in_call keeps creation_answer() from freeing it.
	 * NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
	creation->in_call = false;
	if (creation->now) {
		*ret_now = creation->now;
		r = 1;
	} else if (creation->failed_now) {
		*err = creation->now_err;
		r = -1;
	}
	if (r)
		creation_free(creation);
	return r;
}

int create_from(struct service *service, struct sandbox_attrs *attrs, struct service_engine *engine,
		struct template *tpl, struct snapshot *snapshot, enum sandbox_boot boot,
		sandbox_made_fn done, void *arg, struct err *err)
{
	struct creation *creation;

	if (service->closing)
		return err_set(err, ERR_UNAVAILABLE, "the daemon is shutting down");
	if (sandbox_name_reserve(service, attrs->owner, attrs->name, NULL, err) < 0)
		return -1;
	creation = calloc(1, sizeof(*creation));
	if (!creation) {
		sandbox_name_release(service, attrs->owner, attrs->name);
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	}
	*creation = (struct creation){ .service = service,
				       .started_us = time_mono_us(),
				       .attrs = *attrs,
				       .engine = engine,
				       .template = tpl,
				       .from = snapshot,
				       .boot = (uint8_t)boot,
				       .done = done,
				       .arg = arg,
				       .in_call = true };
	quota_add(service, attrs->owner);
	*attrs = (struct sandbox_attrs){ .name = NULL };
	creation_cold(creation);
	creation->in_call = false;
	if (!creation->failed_now)
		return 0;
	*err = creation->now_err;
	creation_free(creation);
	return -1;
}
