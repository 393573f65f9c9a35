/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks a sandbox: takes one snapshot, during which the source is stopped, and creates the
 * requested sandboxes from it, a few at a time. Children have the source's creation attributes,
 * except those that must be unique: name, idempotency key, secrets. With memory, children continue
 * with the source's processes.
 */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "service/account/auth_internal.h"
#include "service/create/create_internal.h"
#include "service/create/limits_internal.h"
#include "service/network/egress.h"
#include "service/range_internal.h"
#include "service/sandbox/sandbox.h"
#include "service/copy/transition_internal.h"
#include "service/pairs.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret_internal.h"
#include "service/copy/snapshot_internal.h"
#include "service/copy/copy_private.h"

#define FORK_PARALLEL 8 /* children of one call that are created concurrently */

/* Owner: its fork. */
struct child {
	struct fork *fork;
	struct err err;
};

/* Owner: service->copies->forks until the last child is ready or has failed. */
struct fork {
	struct op op;
	struct service_engine *engine;
	struct template *template;
	struct snapshot *snapshot;  /* NULL while it is being taken */
	struct sandbox_attrs attrs; /* of every child, except for the name */
	struct idempotency *idem;
	const struct batch_hooks *hooks;
	void *arg;
	uint32_t count, begun, ended;
	bool memory;   /* children continue with the source's processes */
	bool must;     /* the fork fails if memory cannot be copied */
	bool starting; /* inside start_some() */
	struct child *children;
	slot_handle *members; /* 0: not created */
};

static void fork_free(struct fork *f)
{
	(void)op_unlink(&f->op);
	sandbox_attrs_done(&f->attrs);
	free(f->children);
	free(f->members);
	free(f);
}

static void finish(struct fork *f)
{
	struct service *service = f->op.service;
	uint32_t made = 0;
	struct err err;
	int r = -1;

	for (uint32_t i = 0; i < f->count; i++) {
		struct child *child = &f->children[i];
		struct sandbox *sandbox =
			f->members[i] ? sandbox_get(service, f->members[i]) : NULL;

		if (f->members[i] && (!sandbox || sandbox_state(sandbox) == SANDBOX_DESTROYED)) {
			(void)err_set(&child->err, ERR_SANDBOX_GONE, "the child has ended already");
			sandbox = NULL;
		}
		made += sandbox != NULL;
		f->hooks->item(f->arg, i, sandbox, sandbox ? NULL : &child->err);
	}
	if (made)
		r = batch_keep(service, f->members, f->count, f->idem, f->hooks, f->arg, &err);
	else /* no child was created: an error, which is not recorded for replay */
		err = f->children[0].err;
	f->hooks->done(f->arg, r < 0 ? &err : NULL);
	snapshot_unuse(f->snapshot);
	fork_free(f);
}

static void start_some(struct fork *f);

static void note(struct child *child, const struct sandbox *sandbox, const struct err *err)
{
	if (sandbox)
		child->fork->members[child - child->fork->children] = sandbox->handle;
	else
		child->err = *err;
	child->fork->ended++;
}

static void on_born(void *arg, const struct sandbox *sandbox, const struct err *err)
{
	struct child *child = arg;

	note(child, sandbox, err);
	start_some(child->fork);
}

static int start_child(struct fork *f, uint32_t index, struct err *err)
{
	struct create_source source = { .engine = f->engine,
					.template = f->template,
					.snapshot = f->snapshot,
					.files_only = !f->memory };
	struct sandbox_attrs attrs;

	if (sandbox_attrs_copy(&attrs, &f->attrs) < 0 ||
	    batch_name(&attrs.name, f->attrs.name, index, f->count) < 0)
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
	else if (create_from(f->op.service, &attrs, &source, on_born, &f->children[index], err) ==
		 0)
		return 0;
	sandbox_attrs_done(&attrs);
	return -1;
}

static void start_some(struct fork *f)
{
	struct err err;

	if (f->starting)
		return;
	f->starting = true;
	while (f->begun < f->count && f->begun - f->ended < FORK_PARALLEL) {
		uint32_t index = f->begun++;

		f->children[index].fork = f;
		if (start_child(f, index, &err) < 0)
			note(&f->children[index], NULL, &err);
	}
	f->starting = false;
	if (f->ended == f->count)
		finish(f);
}

static void have_snapshot(struct fork *f, struct snapshot *snapshot)
{
	f->snapshot = snapshot_use(snapshot);
	f->memory = snapshot->memory;
	snapshot->last_use = f->count == 1 && !snapshot->memory;
	f->template = snapshot->template;
	start_some(f);
}

static void on_taken(void *arg, struct sandbox *sandbox, struct snapshot *snapshot,
		     const struct err *err)
{
	struct fork *f = arg;
	struct err own;

	if (!err && f->must && !snapshot->memory) {
		(void)err_set(&own, ERR_UNSUPPORTED_BY_ENGINE, "%s",
			      snapshot->memory_error ? snapshot->memory_error
						     : "its memory could not be saved");
		snapshot_discard(snapshot);
		err = &own;
	}
	if (!err) {
		have_snapshot(f, snapshot);
	} else {
		f->hooks->done(f->arg, err);
		fork_free(f);
	}
	if (sandbox)
		snapshot_transition_end(sandbox);
}

/* The children of a hibernated source are started on the next iteration of the loop, because the
 * caller's callback must not run inside the call. */
struct turn {
	struct op op;
	struct fork *fork;
};

static void on_turn(void *arg)
{
	struct turn *turn = arg;
	struct fork *f = turn->fork;

	if (op_end(&turn->op))
		start_some(f);
}

/* A hibernated source already consists of a snapshot. */
static int start_hibernated(struct fork *f, struct sandbox *sandbox, struct err *err)
{
	struct turn *turn;

	if (transition_check(sandbox, err) < 0)
		return -1;
	f->memory = f->memory && sandbox->from->memory;
	if (f->must && !f->memory)
		return err_set(err, ERR_UNSUPPORTED_BY_ENGINE,
			       "sandbox %s was hibernated without its memory", sandbox->id);
	turn = OP_NEW(struct turn, f->op.service, 0, err);
	if (!turn)
		return -1;
	turn->fork = f;
	if (loop_defer(f->op.service->config.loop, on_turn, turn) < 0) {
		(void)op_end(&turn->op);
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	}
	f->snapshot = snapshot_use(sandbox->from);
	return 0;
}

static int start(struct fork *f, struct sandbox *sandbox, struct err *err)
{
	struct snapshot_spec spec = { .kind = SNAPSHOT_FORK };

	f->memory = f->memory && transition_copies_memory(sandbox, err) == 0;
	if (f->must && !f->memory)
		return -1;
	if (sandbox_is_hibernated(sandbox))
		return start_hibernated(f, sandbox, err);
	spec.memory = f->memory;
	if (f->memory && transition_check_linked(sandbox, err) < 0)
		return -1;
	if (snapshot_transition_begin(sandbox, TRANSITION_FORK, "fork", err) < 0)
		return -1;
	if (snapshot_take(sandbox, &spec, on_taken, f, NULL, err) == 0)
		return 0;
	snapshot_transition_end(sandbox);
	return -1;
}

static int fill(struct fork *f, const struct sandbox *sandbox, const struct key *key,
		const struct fork_spec *spec, struct err *err)
{
	const struct sandbox_attrs *from = &sandbox->attrs;

	f->attrs = *from;
	f->attrs.name = f->attrs.external_workspace_id = NULL;
	/* A child requests secrets of its own. Those that its files may contain are scrubbed. */
	f->attrs.grants = from->grants ? grants_former(from->grants) : NULL;
	f->attrs.initializers = NULL;
	f->attrs.env = f->attrs.metadata = (struct pairs){ NULL, 0, 0 };
	f->attrs.network = from->network ? egress_policy_copy(from->network) : NULL;
	f->attrs.pool_mode = POOL_BYPASS;
	memcpy(f->attrs.owner, key->id, sizeof(f->attrs.owner));
	if (limits_check_time(sandbox->service, "timeout_sec", spec->timeout_sec, err) < 0)
		return -1;
	if (spec->timeout_sec)
		f->attrs.timeout_sec = (uint32_t)spec->timeout_sec;
	if (spec->metadata.list) {
		if (pairs_make(&f->attrs.metadata, &spec->metadata, &pairs_metadata, err) < 0)
			return -1;
	} else if (pairs_from_block(&f->attrs.metadata, pairs_block(&from->metadata)) < 0) {
		goto no_memory;
	}
	if (spec->name.n)
		f->attrs.name = strndup(spec->name.p, spec->name.n);
	if (from->external_workspace_id)
		f->attrs.external_workspace_id = strdup(from->external_workspace_id);
	f->children = calloc(f->count, sizeof(*f->children));
	f->members = calloc(f->count, sizeof(*f->members));
	if (f->children && f->members && (!spec->name.n || f->attrs.name) &&
	    (!from->network || f->attrs.network) && (!from->grants || f->attrs.grants) &&
	    (!from->external_workspace_id || f->attrs.external_workspace_id) &&
	    pairs_from_block(&f->attrs.env, pairs_block(&from->env)) == 0)
		return 0;
no_memory:
	return err_set(err, ERR_UNAVAILABLE, "out of memory");
}

int sandbox_fork(struct sandbox *sandbox, struct key *key, const struct fork_spec *spec,
		 struct idempotency *idem, const struct batch_hooks *hooks, void *arg,
		 struct err *err)
{
	struct service *service = sandbox->service;
	struct fork *f;

	if (range_check("count", spec->count, 1, BATCH_MAX, err) < 0 ||
	    range_check_name("name", spec->name, FORK_NAME_MAX, err) < 0)
		return -1;
	f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	op_begin(&f->op, &service->copies->forks, service, sandbox->handle);
	f->engine = sandbox->engine;
	f->template = sandbox->template;
	f->count = (uint32_t)spec->count;
	f->memory = spec->memory || spec->memory_if_can;
	f->must = spec->memory;
	f->idem = idem;
	f->hooks = hooks;
	f->arg = arg;
	if (fill(f, sandbox, key, spec, err) < 0 || quota_room(service, &f->attrs, err) < 0 ||
	    start(f, sandbox, err) < 0) {
		fork_free(f);
		return -1;
	}
	return 0;
}

/* The service closes. The faces have already dropped the waiting callers. */
void fork_stop_all(struct service *service)
{
	struct op *op;

	while ((op = service->copies->forks.first))
		fork_free(CONTAINER_OF(op, struct fork, op));
}
