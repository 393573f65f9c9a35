/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rebuilds the table of snapshots from the content of an engine, after the database was lost
 * (pairing.c). Every snapshot gets a row, including those of hibernated sandboxes. A running
 * sandbox becomes a snapshot, with memory where the engine supports it, and is then destroyed: its
 * settings, owner and name were in the lost database, so it cannot continue. All rows belong to the
 * key of the caller. After a failure the rest is unchanged, and the same call continues the work.
 */
#include "service/copy/snapshot.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "service/copy/copy_internal.h"
#include "service/copy/snapshot_internal.h"
#include "service/pairing_internal.h"
#include "service/sandbox/recover_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/template/template_internal.h"

/* The limits were in the lost database. A create from the snapshot can set others. */
#define CPU_MILLI 1000
#define MEMORY_MB 1024
#define DISK_SIZE_MB 3072

/* Owner: the engine call in progress. */
struct recovery {
	struct service_engine *engine;
	char owner[AUTH_KEY_ID_SIZE];
	engine_recovered_fn done;
	void *arg;
	struct engine_recovered made;
	char (*ids)[ENGINE_ID_MAX + 1]; /* of running sandboxes */
	size_t count, at;
	char snapshot_id[ENGINE_ID_MAX + 1]; /* being taken of ids[at] */
	struct err err;			     /* the first failure */
};

static void finish(struct recovery *r)
{
	struct service_engine *engine = r->engine;
	int n;

	engine->recovering = false;
	if (r->err.code == ERR_OK) {
		n = pairing_claim(engine);
		if (n < 0)
			(void)service_unrecorded(&r->err, n, "the result could not be recorded");
	}
	if (r->err.code == ERR_OK) {
		engine->lost = false;
		engine->why[0] = '\0';
		log_info("engine %s: recovered %u snapshots and %u running sandboxes as snapshots",
			 engine_name(engine), r->made.snapshots, r->made.sandboxes);
		reconcile_start(engine);
	}
	r->done(r->arg, &r->made, r->err.code ? &r->err : NULL);
	free(r->ids);
	free(r);
}

/* One request of the recovery to its engine. */
struct step_op {
	struct op op;
	struct recovery *recovery;
};

/* The recovery of a completed step, or NULL when the service is gone. */
static struct recovery *step_end(struct step_op *step, const struct err *err)
{
	struct recovery *r = step->recovery;

	if (!op_end(&step->op)) {
		free(r->ids);
		free(r);
		return NULL;
	}
	if (err && r->err.code == ERR_OK)
		r->err = *err;
	return r;
}

static struct step_op *step_new(struct recovery *r)
{
	struct step_op *step = OP_NEW(struct step_op, r->engine->service, 0, &r->err);

	if (step)
		step->recovery = r;
	return step;
}

/* ---- rows ---- */

static int add_row(struct recovery *r, const struct engine_snapshot_entry *entry)
{
	struct service *service = r->engine->service;
	struct snapshot *s = calloc(1, sizeof(*s));
	char hash[2 * ENGINE_HASH_SIZE + 1];
	int n = -ENOMEM;

	if (!s)
		return err_set(&r->err, ERR_UNAVAILABLE, "out of memory");
	str_hex(hash, entry->template_hash, sizeof(entry->template_hash));
	s->service = service;
	s->engine = r->engine;
	s->template = template_by_content(service, hash, &r->err);
	s->kind = SNAPSHOT_USER;
	s->state = SNAPSHOT_READY;
	s->memory = entry->memory;
	s->size_bytes = entry->size_bytes;
	s->cpu_milli = CPU_MILLI;
	s->memory_mb = MEMORY_MB;
	s->disk_size_mb = DISK_SIZE_MB;
	s->created_ms = time_real_ms();
	s->seq = service_next_seq(service);
	s->comment = strdup("recovered");
	memcpy(s->owner, r->owner, sizeof(s->owner));
	if (entry->sandbox_id &&
	    str_copy(s->sandbox_id, sizeof(s->sandbox_id), str_of(entry->sandbox_id)) < 0)
		s->sandbox_id[0] = '\0';
	if (!s->template || !s->comment || str_copy(s->id, sizeof(s->id), str_of(entry->id)) < 0 ||
	    (n = snapshot_add(service, s)) < 0) {
		snapshot_free(s);
		return r->err.code
			       ? -1
			       : err_set_errno(&r->err, ERR_INTERNAL, n, "snapshot %s", entry->id);
	}
	n = snapshot_save(s);
	if (n < 0) {
		snapshot_drop(s);
		return service_unrecorded(&r->err, n, "a snapshot could not be recorded");
	}
	snapshot_count(s, 1);
	return 0;
}

/* ---- running sandboxes ---- */

static void next_sandbox(struct recovery *r);

static void on_ended(void *arg, const struct err *err)
{
	struct recovery *r = step_end(arg, err);

	if (!r)
		return;
	r->at++;
	r->made.sandboxes++;
	next_sandbox(r);
}

static void end_sandbox(struct recovery *r)
{
	struct step_op *step = step_new(r);

	if (step &&
	    instance_destroy(&r->engine->instance, r->ids[r->at], on_ended, step, &r->err) == 0)
		return;
	if (step)
		(void)op_end(&step->op);
	finish(r);
}

static void on_taken(void *arg, const struct engine_snapshot_info *taken, const struct err *err)
{
	struct recovery *r = step_end(arg, err);
	struct engine_snapshot_entry entry = { .size_bytes = err ? 0 : taken->size_bytes,
					       .memory = !err && taken->memory };

	if (!r)
		return;
	entry.id = r->snapshot_id;
	entry.sandbox_id = r->ids[r->at];
	if (!err)
		memcpy(entry.template_hash, taken->template_hash, sizeof(entry.template_hash));
	if (r->err.code || add_row(r, &entry) < 0)
		finish(r);
	else
		end_sandbox(r);
}

static void next_sandbox(struct recovery *r)
{
	const struct instance *instance = &r->engine->instance;
	unsigned flags = instance_may(instance, CAN_SNAPSHOT_MEMORY) ? ENGINE_SNAPSHOT_MEMORY : 0;
	struct step_op *step;

	if (r->err.code || r->at == r->count) {
		finish(r);
		return;
	}
	rand_label(r->snapshot_id, SANDBOX_ID_LEN);
	step = step_new(r);
	if (step && instance_snapshot(instance, r->ids[r->at], r->snapshot_id, flags, on_taken,
				      step, &r->err) == 0)
		return;
	if (step)
		(void)op_end(&step->op);
	finish(r);
}

/* ---- listing the engine's content ---- */

static void note_sandbox(struct recovery *r, const char *id)
{
	void *more;

	if (sandbox_by_id(r->engine->service, str_of(id)))
		return;
	more = realloc(r->ids, (r->count + 1) * sizeof(*r->ids));
	if (more)
		r->ids = more;
	if (!more || str_copy(r->ids[r->count], sizeof(*r->ids), str_of(id)) < 0)
		(void)err_set(&r->err, ERR_UNAVAILABLE, "out of memory");
	else
		r->count++;
}

static void on_sandbox(void *arg, const char *id, const struct err *err)
{
	struct step_op *step = arg;
	struct recovery *r;

	if (id) {
		if (step->op.service)
			note_sandbox(step->recovery, id);
		return;
	}
	r = step_end(step, err);
	if (r)
		next_sandbox(r);
}

static void list_sandboxes(struct recovery *r)
{
	struct step_op *step = r->err.code ? NULL : step_new(r);

	if (step && instance_list(&r->engine->instance, on_sandbox, step, &r->err) == 0)
		return;
	if (step)
		(void)op_end(&step->op);
	finish(r);
}

static void on_snapshot(void *arg, const struct engine_snapshot_entry *entry, const struct err *err)
{
	struct step_op *step = arg;
	struct recovery *r = step->recovery;

	if (!entry) {
		r = step_end(step, err);
		if (r)
			list_sandboxes(r);
		return;
	}
	if (!step->op.service || r->err.code || snapshot_by_id(step->op.service, str_of(entry->id)))
		return;
	if (add_row(r, entry) == 0)
		r->made.snapshots++;
}

int engine_recover(struct service *service, const struct key *key, engine_recovered_fn done,
		   void *arg, struct err *err)
{
	struct recovery *r = calloc(1, sizeof(*r));
	struct step_op *step;

	if (!r)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	*r = (struct recovery){ .done = done, .arg = arg };
	memcpy(r->owner, key->id, sizeof(r->owner));
	for (size_t i = 0; i < service->engine_count && !r->engine; i++)
		if (service->engines[i].foreign && !service->engines[i].recovering)
			r->engine = &service->engines[i];
	if (!r->engine) {
		free(r);
		return err_set(err, ERR_CONFLICT,
			       "there is nothing to recover: every engine matches the database, "
			       "cannot be reached, or is being recovered");
	}
	step = step_new(r);
	if (step && instance_snapshot_list(&r->engine->instance, on_snapshot, step, &r->err) == 0) {
		r->engine->recovering = true;
		return 0;
	}
	if (step)
		(void)op_end(&step->op);
	*err = r->err;
	free(r);
	return -1;
}
