/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A create request until it is a sandbox: checks it, resolves its template or snapshot, reserves
 * name and quota, and then takes a pool member, waits for one, or creates the sandbox cold.
 */
#include <errno.h>

#include "base/log.h"
#include "base/time.h"
#include "service/account/auth_internal.h"
#include "service/create/create_internal.h"
#include "service/network/egress_internal.h"
#include "service/event/event_internal.h"
#include "service/sandbox/initializer.h"
#include "service/create/limits_internal.h"
#include "service/pairs.h"
#include "service/pool/pool_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret.h"
#include "service/copy/snapshot_internal.h"
#include "service/template/template.h"

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

/* Ends a creation: stores the result for sandbox_create() if that is still on the stack, otherwise
 * calls back. On failure name and quota are released. */
void creation_answer(struct creation *creation, struct sandbox *sandbox, const struct err *err)
{
	struct service *service = creation->service;

	if (sandbox) {
		uint64_t *made = sandbox->boot == BOOT_POOL
					 ? &service->upkeep.counters.creates_pool
					 : &service->upkeep.counters.creates_cold;

		(*made)++;
		histogram_add(&service->upkeep.counters.create_duration,
			      (time_mono_us() - creation->started_us));
	} else {
		service->upkeep.counters.creates_failed++;
		if (creation->attrs.owner[0]) { /* the attributes still belong to the creation */
			sandbox_name_release(service, creation->attrs.owner, creation->attrs.name);
			quota_remove(service, &creation->attrs);
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

void creation_take_attrs(struct creation *creation, struct sandbox *sandbox)
{
	sandbox->attrs = creation->attrs;
	creation->attrs = (struct sandbox_attrs){ .name = NULL };
	creation->attrs.pool_mode = sandbox->attrs.pool_mode;
	sandbox_name_bind(sandbox->service, sandbox->attrs.owner, sandbox->attrs.name, sandbox);
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
	creation_take_attrs(creation, sandbox);
	sandbox->boot = creation->boot;
	if (creation->from)
		sandbox->from = snapshot_use(creation->from);
	sandbox->without_memory = creation->files_only;
	sandbox->created_ms = time_real_ms();
	sandbox_show(sandbox);
	if (create_begin(sandbox, creation, &err) < 0) {
		snapshot_unuse(TAKE_PTR(sandbox->from));
		sandbox_drop(sandbox);
		creation_answer(creation, NULL, &err);
		return;
	}
	sandbox->creation = creation;
	event_state(sandbox, NULL);
}

static int copy_text(char **dst, struct str text, struct err *err)
{
	if (!text.n)
		return 0;
	*dst = strndup(text.p, text.n);
	return *dst ? 0 : err_set(err, ERR_UNAVAILABLE, "out of memory");
}

/* from: values that the caller leaves out are those of the snapshot's source. */
static int fill_attrs(struct sandbox_attrs *attrs, const struct key *owner,
		      const struct sandbox_spec *spec, const struct snapshot *from, struct err *err)
{
	memcpy(attrs->owner, owner->id, sizeof(attrs->owner));
	attrs->cpu_milli = from && !spec->has_cpu ? from->cpu_milli : (uint32_t)spec->cpu_milli;
	attrs->memory_mb = from && !spec->has_memory ? from->memory_mb : (uint32_t)spec->memory_mb;
	attrs->disk_size_mb =
		from && !spec->has_disk ? from->disk_size_mb : (uint32_t)spec->disk_size_mb;
	attrs->timeout_sec = (uint32_t)spec->timeout_sec;
	attrs->idle_timeout_sec = (uint32_t)spec->idle_timeout_sec;
	attrs->always_on = spec->always_on;
	attrs->auto_resume = spec->auto_resume;
	attrs->retain_on_failure = spec->retain_on_failure;
	attrs->on_timeout = (uint8_t)spec->on_timeout;
	attrs->pool_mode = (uint8_t)spec->pool_mode;
	if (egress_wanted(&spec->network) &&
	    egress_policy_make(NULL, &spec->network, &attrs->network, err) < 0)
		return -1;
	if (copy_text(&attrs->name, spec->name, err) < 0 ||
	    copy_text(&attrs->external_workspace_id, spec->external_workspace_id, err) < 0)
		return -1;
	if (from && !spec->env.list && pairs_from_block(&attrs->env, pairs_block(&from->env)) < 0)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	if (from && !spec->env.list)
		return pairs_make(&attrs->metadata, &spec->metadata, &pairs_metadata, err);
	if (pairs_make(&attrs->env, &spec->env, &pairs_env, err) < 0)
		return -1;
	return pairs_make(&attrs->metadata, &spec->metadata, &pairs_metadata, err);
}

/* The action at a timeout must be one that the engine supports. */
int create_check_end(const struct service_engine *engine, int on_timeout, struct err *err)
{
	const char *action = on_timeout_names[on_timeout];

	if (on_timeout != ON_TIMEOUT_DESTROY &&
	    instance_need(&engine->instance, CAN_FREEZE, "on_timeout", action, err) < 0)
		return -1;
	return on_timeout != ON_TIMEOUT_HIBERNATE
		       ? 0
		       : instance_need(&engine->instance, CAN_SNAPSHOT, "on_timeout", action, err);
}

static int find_snapshot(struct creation *creation, const struct key *owner,
			 const struct sandbox_spec *spec, struct err *err)
{
	struct snapshot *s = snapshot_find(creation->service, owner, spec->snapshot_id, err);

	if (!s || snapshot_check_usable(s, err) < 0)
		return -1;
	if (spec->engine.n && !str_is(spec->engine, engine_name(s->engine)))
		return err_set(err, ERR_INVALID_REQUEST, "engine: snapshot %s belongs to engine %s",
			       s->id, engine_name(s->engine));
	if (spec->has_template && !str_is(spec->template, s->template->name))
		return err_set(err, ERR_INVALID_REQUEST,
			       "template: snapshot %s was taken of template %s", s->id,
			       s->template->name);
	creation->from = s;
	creation->boot = BOOT_SNAPSHOT;
	creation->template = s->template;
	creation->engine =
		service_engine_find(creation->service, str_of(engine_name(s->engine)), err);
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

/* Reserves name and quota; creation_answer() releases them on failure. */
int creation_take_room(struct creation *creation, struct err *err)
{
	struct service *service = creation->service;
	const struct sandbox_attrs *attrs = &creation->attrs;

	if (creation->has_room)
		return 0;
	if (service->upkeep.closing)
		return err_set(err, ERR_UNAVAILABLE, "the daemon is shutting down");
	if (sandbox_name_reserve(service, attrs->owner, attrs->name, NULL, err) < 0)
		return -1;
	creation->has_room = quota_take(service, attrs, err) == 0;
	if (creation->has_room)
		return 0;
	sandbox_name_release(service, attrs->owner, attrs->name);
	return -1;
}

static int make_grants(struct creation *creation, const struct key *owner,
		       const struct sandbox_spec *spec, struct err *err)
{
	struct grants_holder holder = { .owner = owner->id,
					.workspace = creation->attrs.external_workspace_id,
					.old = creation->from ? creation->from->grants : NULL };

	return grants_make(creation->service, &spec->secrets, &holder, &creation->attrs.grants,
			   err);
}

/* Initializers run commands, so they need the scope exec. */
static int check_initializers(const struct key *owner, const struct sandbox_spec *spec,
			      struct err *err)
{
	if (spec->initializers.count == 0 || key_may(owner, AUTH_EXEC))
		return 0;
	return err_set(err, ERR_FORBIDDEN,
		       "initializers run commands, and this key lacks the scope 'exec'");
}

struct creation *creation_new(struct service *service, const struct key *owner,
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
	creation->files_only = !spec->memory;
	if (limits_check(service, spec, err) == 0 && check_initializers(owner, spec, err) == 0 &&
	    find_parts(creation, owner, spec, err) == 0 &&
	    fill_attrs(&creation->attrs, owner, spec, creation->from, err) == 0 &&
	    (!creation->from || creation->files_only ||
	     snapshot_check_room(creation->from, creation->attrs.memory_mb, err) == 0) &&
	    egress_check_engine(creation->engine, creation->attrs.network, err) == 0 &&
	    initializers_make(&spec->initializers, &creation->attrs.initializers, err) == 0 &&
	    make_grants(creation, owner, spec, err) == 0)
		return creation;
	creation_free(creation);
	return NULL;
}

/* Takes a pool member, waits for one, or starts a cold create. */
static void choose(struct creation *creation)
{
	struct service *service = creation->service;
	enum engine_link network = egress_policy_link(creation->attrs.network);
	struct sandbox *member = NULL;
	struct err err;

	if (creation->attrs.pool_mode != POOL_BYPASS && !creation->from) {
		member = pool_take(service, creation->engine, creation->template, network);
		if (member) {
			creation_hand_out(creation, member);
			return;
		}
		if (creation->wait_ms > 0 && pool_wait(service, creation, creation->engine,
						       creation->template, network) == 0)
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

int creation_start(struct creation *creation, const struct sandbox **ret_now, struct err *err)
{
	int r = 0;

	if (creation_take_room(creation, err) < 0) {
		creation_free(creation);
		return -1;
	}
	creation->in_call = true;
	choose(creation);
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

int sandbox_create(struct service *service, struct key *owner, const struct sandbox_spec *spec,
		   sandbox_made_fn done, void *arg, const struct sandbox **ret_now, struct err *err)
{
	struct creation *creation = creation_new(service, owner, spec, err);

	if (!creation)
		return -1;
	creation->idem = spec->idem;
	creation->done = done;
	creation->arg = arg;
	return creation_start(creation, ret_now, err);
}

int create_from(struct service *service, struct sandbox_attrs *attrs,
		const struct create_source *source, sandbox_made_fn done, void *arg,
		struct err *err)
{
	struct creation *creation = calloc(1, sizeof(*creation));

	if (!creation)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	*creation = (struct creation){ .service = service,
				       .started_us = time_mono_us(),
				       .attrs = *attrs,
				       .engine = source->engine,
				       .template = source->template,
				       .from = source->snapshot,
				       .boot = BOOT_FORK,
				       .files_only = source->files_only,
				       .together = true,
				       .done = done,
				       .arg = arg,
				       .in_call = true };
	if (creation_take_room(creation, err) < 0) {
		free(creation); /* the caller keeps attrs */
		return -1;
	}
	*attrs = (struct sandbox_attrs){ .name = NULL };
	creation_cold(creation);
	creation->in_call = false;
	if (!creation->failed_now)
		return 0;
	*err = creation->now_err;
	creation_free(creation);
	return -1;
}
