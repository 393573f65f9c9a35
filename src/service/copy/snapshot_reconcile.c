/* SPDX-License-Identifier: Apache-2.0 */
/* Reconciles the snapshots of an engine with the rows, after a start or when the engine is back. */
#include <errno.h>

#include "base/log.h"
#include "service/sandbox/recover_internal.h"
#include "service/copy/snapshot_internal.h"
#include "service/copy/copy_private.h"
#include "service/copy/copy_internal.h"

/* A snapshot of the engine without a row. No client can use it, so it is deleted. */
struct unknown {
	struct op op;
	char id[ENGINE_ID_MAX + 1];
};

static void on_unknown_deleted(void *arg, const struct err *error)
{
	struct unknown *unknown = arg;

	if (error)
		log_warn("unknown snapshot %s was not deleted: %s", unknown->id, error->message);
	(void)op_end(&unknown->op);
}

static void delete_unknown(struct service_engine *engine, const char *id)
{
	struct unknown *unknown = OP_NEW(struct unknown, engine->service, 0, NULL);
	struct err err;

	if (!unknown)
		return;
	(void)!str_copy(unknown->id, sizeof(unknown->id), str_of(id));
	log_info("deleting unknown snapshot %s of engine %s", id, engine_name(engine));
	if (instance_snapshot_remove(&engine->instance, id, on_unknown_deleted, unknown, &err) <
	    0) {
		log_warn("unknown snapshot %s was not deleted: %s", id, err.message);
		(void)op_end(&unknown->op);
	}
}

/* Only snapshots that exist already must be in the listing; newer ones may not be in it. */
void snapshot_list_begin(struct service_engine *engine)
{
	for (struct snapshot *s = engine->service->copies->oldest; s; s = s->next) {
		if (s->engine != engine)
			continue;
		s->listed = false;
		s->unseen = s->state == SNAPSHOT_READY || s->state == SNAPSHOT_MISSING ||
			    (s->state == SNAPSHOT_MAKING && !s->taking);
	}
}

void snapshot_listed(struct service_engine *engine, const char *id)
{
	struct snapshot *s = snapshot_by_id(engine->service, str_of(id));

	if (s && s->engine == engine) {
		s->listed = true;
		s->unseen = false;
		/* The snapshot of an earlier reboot was being deleted; this one is new. */
		if (s->of_reboot && s->state == SNAPSHOT_DELETING &&
		    reboot_happened(engine->service))
			s->state = SNAPSHOT_READY;
	} else if (s || !reboot_listed(engine, id)) {
		delete_unknown(engine, id);
	}
}

/* Called after the sandboxes have claimed their snapshots. */
void snapshot_settle(struct service_engine *engine)
{
	for (struct snapshot *s = engine->service->copies->oldest, *next; s; s = next) {
		next = s->next;
		if (s->engine != engine || s->taking)
			continue;
		if (s->state == SNAPSHOT_DELETING) {
			snapshot_sweep(s);
		} else if (s->state == SNAPSHOT_MAKING || (s->kind != SNAPSHOT_USER && !s->users)) {
			snapshot_discard(s); /* incomplete, or without a user */
		} else if (s->unseen && s->state == SNAPSHOT_READY) {
			log_warn("snapshot %s is missing: the engine does not list it", s->id);
			s->state = SNAPSHOT_MISSING;
		} else if (s->listed && s->state == SNAPSHOT_MISSING) {
			s->state = SNAPSHOT_READY;
		} else {
			continue;
		}
	}
}

int snapshot_adopt(struct sandbox *sandbox, const char *id)
{
	struct snapshot_spec spec = { .kind = SNAPSHOT_HIBERNATE };
	struct snapshot *s;
	int r;

	if (strlen(id) > SNAPSHOT_ID_MAX)
		return -ENAMETOOLONG;
	s = snapshot_new(sandbox, &spec, id);
	if (!s)
		return -ENOMEM;
	s->state = SNAPSHOT_READY;
	s->listed = s->of_reboot = true;
	r = snapshot_save(s);
	if (r < 0)
		snapshot_drop(s);
	return r;
}

struct snapshot *snapshot_of_reboot(const struct sandbox *sandbox)
{
	for (struct snapshot *s = sandbox->service->copies->newest; s; s = s->prev)
		if (s->of_reboot && !s->users && s->state == SNAPSHOT_READY &&
		    strcmp(s->sandbox_id, sandbox->id) == 0)
			return s;
	return NULL;
}

/* The snapshot that was being taken to hibernate this sandbox, if the engine has completed it. */
struct snapshot *snapshot_of_hibernate(const struct sandbox *sandbox)
{
	for (struct snapshot *s = sandbox->service->copies->newest; s; s = s->prev) {
		if (s->kind == SNAPSHOT_HIBERNATE && s->listed && !s->users &&
		    (s->state == SNAPSHOT_MAKING || s->state == SNAPSHOT_READY) &&
		    strcmp(s->sandbox_id, sandbox->id) == 0) {
			s->state = SNAPSHOT_READY;
			if (snapshot_save(s) < 0)
				log_warn("snapshot %s could not be recorded", s->id);
			return s;
		}
	}
	return NULL;
}
