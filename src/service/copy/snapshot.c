/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of snapshots. A row says "making" before the engine is asked to take a snapshot, and
 * "deleting" before it is asked to delete one, so that every start knows what is unfinished.
 * Hibernated sandboxes and forks use snapshots of other kinds, which are invisible to clients and
 * deleted with their last user. The snapshot of a fork is temporary: it has no row, and the engine
 * deletes it when the daemon ends.
 */
#include "service/copy/snapshot.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "service/sandbox/attach_internal.h"
#include "service/account/auth_internal.h"
#include "service/sandbox/destroy_internal.h"
#include "service/account/idempotency.h"
#include "service/event/event_internal.h"
#include "service/copy/transition_internal.h"
#include "service/pairs.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret_internal.h"
#include "service/copy/snapshot_internal.h"
#include "service/copy/copy_private.h"
#include "service/copy/copy_internal.h"
#include "service/steady_internal.h"

#define DELETE_RETRY_MS 5000

void snapshot_count(struct snapshot *s, int by)
{
	if (s->kind == SNAPSHOT_USER)
		quota_count_snapshot(s->service, s->owner, by);
}

/* ---- the table ---- */

void snapshot_free(struct snapshot *s)
{
	pairs_done(&s->env);
	grants_free(s->grants);
	free(s->comment);
	free(s->memory_error);
	free(s);
}

int snapshot_add(struct service *service, struct snapshot *s)
{
	if (map_put(&service->copies->snapshots, str_of(s->id), s) < 0)
		return -ENOMEM;
	service_saw_seq(service, s->seq);
	s->prev = service->copies->newest;
	if (s->prev)
		s->prev->next = s;
	else
		service->copies->oldest = s;
	service->copies->newest = s;
	return 0;
}

void snapshot_drop(struct snapshot *s)
{
	struct service *service = s->service;

	(void)map_take(&service->copies->snapshots, str_of(s->id));
	if (s->prev)
		s->prev->next = s->next;
	else
		service->copies->oldest = s->next;
	if (s->next)
		s->next->prev = s->prev;
	else
		service->copies->newest = s->prev;
	snapshot_free(s);
}

/* id NULL: a new id is created */
struct snapshot *snapshot_new(struct sandbox *sandbox, const struct snapshot_spec *spec,
			      const char *id)
{
	static const char *const prefixes[] = { "", "h-", "f-" };
	struct service *service = sandbox->service;
	struct snapshot *s = calloc(1, sizeof(*s));
	char label[SANDBOX_ID_LEN + 1];

	if (!s)
		return NULL;
	rand_label(label, SANDBOX_ID_LEN);
	(void)snprintf(s->id, sizeof(s->id), "%s%s", id ? "" : prefixes[spec->kind],
		       id ? id : label);
	memcpy(s->owner, sandbox->attrs.owner, sizeof(s->owner));
	memcpy(s->sandbox_id, sandbox->id, sizeof(s->sandbox_id));
	s->service = service;
	s->engine = sandbox->engine;
	s->template = sandbox->template;
	s->kind = (uint8_t)spec->kind;
	s->cpu_milli = sandbox->attrs.cpu_milli;
	s->memory_mb = sandbox->attrs.memory_mb;
	s->disk_size_mb = sandbox->attrs.disk_size_mb;
	s->created_ms = time_real_ms();
	s->seq = service_next_seq(service);
	s->expires_ms =
		spec->expires_in_sec ? steady_now_ms(service) + spec->expires_in_sec * 1000 : 0;
	if (spec->comment.n)
		s->comment = strndup(spec->comment.p, spec->comment.n);
	if (sandbox->attrs.grants)
		s->grants = grants_former(sandbox->attrs.grants);
	if ((spec->comment.n && !s->comment) || (sandbox->attrs.grants && !s->grants) ||
	    pairs_from_block(&s->env, pairs_block(&sandbox->attrs.env)) < 0 ||
	    snapshot_add(service, s) < 0) {
		snapshot_free(s);
		return NULL;
	}
	return s;
}

struct snapshot *snapshot_use(struct snapshot *snapshot)
{
	snapshot->users++;
	return snapshot;
}

void snapshot_unuse(struct snapshot *snapshot)
{
	if (!snapshot || --snapshot->users)
		return;
	if (snapshot->state == SNAPSHOT_DELETING)
		snapshot_sweep(snapshot);
	else if (snapshot->kind != SNAPSHOT_USER)
		snapshot_discard(snapshot);
}

/* ---- taking ---- */

void snapshot_set_memory_error(struct snapshot *s, const char *message)
{
	free(s->memory_error);
	s->memory_error = message && *message ? strdup(message) : NULL;
}

/* The snapshot lacks the requested processes: records the reason for readers. */
static void note_memory(struct snapshot *s, struct sandbox *sandbox, const char *why)
{
	struct err err;

	if (!why || !*why)
		return;
	log_warn("sandbox %s: the memory was not saved: %s", s->sandbox_id, why);
	(void)err_set(&err, ERR_INTERNAL, "its memory could not be saved: %s", why);
	snapshot_set_memory_error(s, err.message);
	if (s->kind == SNAPSHOT_HIBERNATE && sandbox)
		sandbox_set_error(sandbox, err.message);
}

static int save_durably(const struct snapshot *s)
{
	struct store *store = s->service->store;
	int r;

	if (s->kind == SNAPSHOT_FORK)
		return 0;
	r = store_begin_durable(store);
	if (r == 0)
		r = snapshot_save(s);
	return store_end(store, r);
}

/* Writes the row, and notes the id for a repeated call. */
static int save_begun(const struct snapshot *s, struct idempotency *idem)
{
	struct store *store = s->service->store;
	int r = store_begin(store);

	if (r < 0)
		return r;
	r = snapshot_save(s);
	if (r == 0 && idem)
		r = idempotency_note(s->service, idem, s->sandbox_id, s->id);
	return store_end(store, r);
}

/* An engine takes or deletes a snapshot. Snapshots have no handles, so it is found by its id. */
struct snapshot_op {
	struct op op;
	char id[ENGINE_ID_MAX + 1];
	snapshot_taken_fn taken;
	void *arg;
};

static struct snapshot *snapshot_of(const struct snapshot_op *op)
{
	return op->op.service ? snapshot_by_id(op->op.service, str_of(op->id)) : NULL;
}

static struct snapshot_op *snapshot_op_new(const struct snapshot *s, slot_handle sandbox,
					   struct err *err)
{
	struct snapshot_op *op = OP_NEW(struct snapshot_op, s->service, sandbox, err);

	if (op)
		memcpy(op->id, s->id, sizeof(s->id));
	return op;
}

static void on_taken(void *arg, const struct engine_snapshot_info *made, const struct err *error)
{
	struct snapshot_op *op = arg;
	snapshot_taken_fn taken = op->taken;
	void *taken_arg = op->arg;
	struct snapshot *s = snapshot_of(op);
	struct sandbox *sandbox = transition_called(&op->op);
	struct err err;
	int r;

	if (!s)
		return; /* the service was closed: the next start deletes the snapshot */
	s->taking = false;
	if (!error) {
		s->state = SNAPSHOT_READY;
		s->size_bytes = made->size_bytes;
		s->memory = made->memory;
		note_memory(s, sandbox, made->why);
		event_snapshot(s, true); /* before the commit, to be in the same transaction */
		r = save_durably(s);
		if (r < 0) {
			(void)err_set_errno(&err, ERR_INTERNAL, r,
					    "the snapshot could not be recorded");
			error = &err;
		}
	}
	if (error)
		snapshot_discard(s);
	taken(taken_arg, sandbox, s, error);
}

int snapshot_take(struct sandbox *sandbox, const struct snapshot_spec *spec, snapshot_taken_fn done,
		  void *arg, struct snapshot **ret, struct err *err)
{
	struct service_engine *engine = sandbox->engine;
	struct snapshot *s = snapshot_new(sandbox, spec, NULL);
	unsigned flags = (spec->kind == SNAPSHOT_FORK ? ENGINE_SNAPSHOT_TEMPORARY : 0) |
			 (spec->memory ? ENGINE_SNAPSHOT_MEMORY : 0);
	struct snapshot_op *op = NULL;
	int r = s ? save_begun(s, spec->idem) : -ENOMEM;

	if (r < 0) {
		(void)err_set_errno(err, ERR_INTERNAL, r, "the snapshot could not be recorded");
		goto fail;
	}
	op = snapshot_op_new(s, sandbox->handle, err);
	if (!op)
		goto fail;
	op->taken = done;
	op->arg = arg;
	(void)transition_adopt(sandbox, &op->op);
	if (spec->memory)
		attach_drop_link(sandbox); /* the agent must hold no descriptor from outside */
	if (instance_snapshot(&engine->instance, sandbox->id, s->id, flags, on_taken, op, err) <
	    0) {
		(void)!transition_uncall(sandbox, &op->op);
		goto fail;
	}
	s->taking = true;
	snapshot_count(s, 1);
	if (ret)
		*ret = s;
	return 0;
fail:
	if (s) {
		if (snapshot_unsave(s) < 0)
			log_warn("snapshot %s: the row could not be deleted and stays until the "
				 "next start",
				 s->id);
		snapshot_drop(s);
	}
	return -1;
}

/* ---- deleting ---- */

static void on_deleted(void *arg, const struct err *error)
{
	struct snapshot_op *op = arg;
	struct snapshot *s = snapshot_of(op);
	struct service *service = op_end(&op->op);

	if (!s)
		return;
	s->deleting = false;
	service->copies->deleting--;
	if (error) {
		log_warn("snapshot %s is not deleted yet: %s", s->id, error->message);
		s->retry_ms = time_boot_ms() + DELETE_RETRY_MS;
		return;
	}
	if (snapshot_unsave(s) < 0)
		log_warn("snapshot %s: the row could not be deleted and stays until the next start",
			 s->id);
	service_wrote(service);
	snapshot_drop(s);
	destroy_check_drained(service);
}

void snapshot_sweep(struct snapshot *s)
{
	struct service_engine *engine = s->engine;
	struct snapshot_op *op;

	if (s->users || s->taking || s->deleting)
		return; /* the last user calls this function again */
	s->retry_ms = time_boot_ms() + DELETE_RETRY_MS;
	if (!engine->instance.ready)
		return;
	op = snapshot_op_new(s, 0, NULL);
	if (!op)
		return;
	s->deleting = true;
	s->service->copies->deleting++;
	if (instance_snapshot_remove(&engine->instance, s->id, on_deleted, op, NULL) == 0)
		return;
	(void)op_end(&op->op);
	s->deleting = false;
	s->service->copies->deleting--;
}

static int save_end(const struct snapshot *s)
{
	int r = store_begin(s->service->store);

	return r < 0 ? r : store_end(s->service->store, snapshot_save(s));
}

void snapshot_discard(struct snapshot *s)
{
	if (s->state == SNAPSHOT_DELETING)
		return;
	if (s->state == SNAPSHOT_READY && !s->taking)
		event_snapshot(s, false);
	s->state = SNAPSHOT_DELETING;
	snapshot_count(s, -1);
	if (save_end(s) < 0)
		log_warn("snapshot %s: its deletion could not be recorded", s->id);
	snapshot_sweep(s);
}

void snapshot_tick(struct service *service)
{
	int64_t boot_ms = time_boot_ms(), now_ms = steady_now_ms(service);

	for (struct snapshot *s = service->copies->oldest, *next; s; s = next) {
		next = s->next;
		if (s->state == SNAPSHOT_DELETING && s->retry_ms <= boot_ms)
			snapshot_sweep(s);
		else if (s->kind == SNAPSHOT_USER && s->expires_ms && s->state == SNAPSHOT_READY)
			event_snapshot_deadline(s, now_ms);
		if (s->kind == SNAPSHOT_USER && s->expires_ms && s->expires_ms <= now_ms)
			snapshot_discard(s);
	}
}

void snapshot_done_all(struct service *service)
{
	while (service->copies->oldest)
		snapshot_drop(service->copies->oldest);
	map_done(&service->copies->snapshots);
}
