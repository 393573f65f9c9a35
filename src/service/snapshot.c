/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of snapshots. A row says "making" before the engine is asked and "deleting" before it
 * is asked to forget, so every start knows what is half done. What hibernated sandboxes and forks
 * need are snapshots, too: of other kinds, invisible, and gone with their last user. A fork's is
 * passing: it has no row, and the engine forgets it with this daemon.
 */
#include "service/snapshot.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "service/private.h"

#define DELETE_RETRY_MS 5000

static const char *const kind_names[] = { "user", "hibernate", "fork" };
static const char *const state_names[] = { "making", "ready", "deleting", "missing" };

static_assert(ARRAY_LEN(kind_names) == SNAPSHOT_KIND_COUNT, "every kind has a name");
static_assert(ARRAY_LEN(state_names) == SNAPSHOT_STATE_COUNT, "every state has a name");

/* With its memory it is of the same kind, and more. */
#define MEMORY_SUFFIX "+memory"
#define KIND_SIZE 32

static int save(const struct snapshot *s)
{
	char kind[KIND_SIZE];
	struct store_snapshot row = { .id = s->id,
				      .seq = s->seq,
				      .owner = s->owner,
				      .sandbox_id = s->sandbox_id,
				      .engine = s->engine->driver->name,
				      .kind = kind,
				      .state = state_names[s->state],
				      .template_name = s->template->name,
				      .template_hash = s->template->hash_hex,
				      .comment = s->comment,
				      .env = pairs_block(&s->env),
				      .cpu_count = s->cpu_count,
				      .memory_mb = s->memory_mb,
				      .disk_size_mb = s->disk_size_mb,
				      .size_bytes = (int64_t)s->size_bytes,
				      .created_ms = s->created_ms,
				      .expires_ms = s->expires_ms };
	int r = 0;

	if (s->kind == SNAPSHOT_FORK)
		return 0;
	(void)snprintf(kind, sizeof(kind), "%s%s", kind_names[s->kind],
		       s->memory ? MEMORY_SUFFIX : "");
	r = store_snapshot_put(s->service->store, &row);
	service_wrote(s->service);
	return r;
}

static void count(struct snapshot *s, int by)
{
	struct key *key = auth_by_id(s->service, s->owner);

	if (s->kind == SNAPSHOT_USER && key)
		key->held[QUOTA_SNAPSHOTS] += by;
}

/* ---- the table ---- */

static void snapshot_free(struct snapshot *s)
{
	pairs_done(&s->env);
	free(s->comment);
	free(s);
}

static int add(struct service *service, struct snapshot *s)
{
	if (map_put(&service->snapshots, str_of(s->id), s) < 0)
		return -ENOMEM;
	service->last_seq = MAX(service->last_seq, s->seq);
	s->prev = service->newest_snapshot;
	if (s->prev)
		s->prev->next = s;
	else
		service->oldest_snapshot = s;
	service->newest_snapshot = s;
	return 0;
}

static void drop(struct snapshot *s)
{
	struct service *service = s->service;

	(void)map_take(&service->snapshots, str_of(s->id));
	if (s->prev)
		s->prev->next = s->next;
	else
		service->oldest_snapshot = s->next;
	if (s->next)
		s->next->prev = s->prev;
	else
		service->newest_snapshot = s->prev;
	snapshot_free(s);
}

/* id NULL: a new one */
static struct snapshot *snapshot_new(struct sandbox *sandbox, const struct snapshot_spec *spec,
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
	s->cpu_count = sandbox->attrs.cpu_count;
	s->memory_mb = sandbox->attrs.memory_mb;
	s->disk_size_mb = sandbox->attrs.disk_size_mb;
	s->created_ms = time_real_ms();
	s->seq = MAX(s->created_ms * 1000, service->last_seq + 1);
	s->expires_ms = spec->expires_in_sec ? s->created_ms + spec->expires_in_sec * 1000 : 0;
	if (spec->comment.n)
		s->comment = strndup(spec->comment.p, spec->comment.n);
	if ((spec->comment.n && !s->comment) ||
	    pairs_from_block(&s->env, pairs_block(&sandbox->attrs.env)) < 0 ||
	    add(service, s) < 0) {
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

static int save_durably(const struct snapshot *s)
{
	struct store *store = s->service->store;
	int r;

	if (s->kind == SNAPSHOT_FORK)
		return 0;
	r = store_begin_durable(store);
	if (r == 0)
		r = save(s);
	if (r == 0)
		return store_commit(store);
	store_rollback(store);
	return r;
}

static void on_taken(void *arg, const struct engine_snapshot *made, const struct err *error)
{
	struct call *call = arg;
	struct service *service = call->service;
	snapshot_taken_fn done = (snapshot_taken_fn)call->fn;
	void *done_arg = call->arg;
	struct snapshot *s = service ? map_get(&service->snapshots, str_of(call->id)) : NULL;
	struct sandbox *sandbox = move_called(call);
	struct err err;
	int r;

	if (!s)
		return; /* the service has been closed: the next start sweeps it */
	s->taking = false;
	if (!error) {
		s->state = SNAPSHOT_READY;
		s->size_bytes = made->size_bytes;
		s->memory = made->memory;
		if (made->why && *made->why && sandbox) {
			log_warn("sandbox %s: its memory is not kept: %s", sandbox->id, made->why);
			(void)err_set(&err, ERR_INTERNAL, "its memory was not kept: %s", made->why);
			sandbox_set_error(sandbox, err.message);
		}
		r = save_durably(s);
		if (r < 0) {
			(void)err_set_errno(&err, ERR_INTERNAL, r,
					    "the snapshot could not be recorded");
			error = &err;
		}
	}
	if (error)
		snapshot_discard(s);
	else
		event_snapshot(s, true);
	done(done_arg, sandbox, s, error);
}

int snapshot_take(struct sandbox *sandbox, const struct snapshot_spec *spec, snapshot_taken_fn done,
		  void *arg, struct snapshot **ret, struct err *err)
{
	struct service_engine *engine = sandbox->engine;
	struct snapshot *s = snapshot_new(sandbox, spec, NULL);
	unsigned flags = (spec->kind == SNAPSHOT_FORK ? ENGINE_SNAPSHOT_PASSING : 0) |
			 (spec->memory ? ENGINE_SNAPSHOT_MEMORY : 0);
	struct call *call = NULL;
	int r = s ? save(s) : -ENOMEM;

	if (r < 0) {
		(void)err_set_errno(err, ERR_INTERNAL, r, "the snapshot could not be recorded");
		goto fail;
	}
	call = move_call(sandbox, err);
	if (!call)
		goto fail;
	call->fn = (void (*)(void))done;
	call->arg = arg;
	memcpy(call->id, s->id, sizeof(s->id));
	if (engine->driver->snapshot(engine->engine, sandbox->id, s->id, flags, on_taken, call,
				     err) < 0) {
		(void)!move_uncall(sandbox, call);
		goto fail;
	}
	s->taking = true;
	count(s, 1);
	if (ret)
		*ret = s;
	return 0;
fail:
	if (s) {
		if (store_snapshot_delete(sandbox->service->store, s->id) < 0)
			log_warn("snapshot %s: its row stays until the next start", s->id);
		drop(s);
	}
	return -1;
}

/* ---- deleting ---- */

static void on_deleted(void *arg, const struct err *error)
{
	struct call *call = arg;
	struct service *service = call->service;
	struct snapshot *s = service ? map_get(&service->snapshots, str_of(call->id)) : NULL;

	(void)call_end(call);
	if (!s)
		return;
	s->deleting = false;
	service->snapshots_deleting--;
	if (error) {
		log_warn("snapshot %s is not deleted yet: %s", s->id, error->message);
		s->retry_ms = time_boot_ms() + DELETE_RETRY_MS;
		return;
	}
	if (store_snapshot_delete(service->store, s->id) < 0)
		log_warn("snapshot %s: its row stays until the next start", s->id);
	service_wrote(service);
	drop(s);
	destroy_check_drained(service);
}

void snapshot_sweep(struct snapshot *s)
{
	struct service_engine *engine = s->engine;
	struct call *call;

	if (s->users || s->taking || s->deleting)
		return; /* the last of them comes back here */
	s->retry_ms = time_boot_ms() + DELETE_RETRY_MS;
	if (!engine->engine || !engine->driver->snapshot_delete)
		return;
	call = call_new(s->service, 0, NULL);
	if (!call)
		return;
	memcpy(call->id, s->id, sizeof(s->id));
	s->deleting = true;
	s->service->snapshots_deleting++;
	if (engine->driver->snapshot_delete(engine->engine, s->id, on_deleted, call, NULL) == 0)
		return;
	(void)call_end(call);
	s->deleting = false;
	s->service->snapshots_deleting--;
}

void snapshot_discard(struct snapshot *s)
{
	if (s->state == SNAPSHOT_DELETING)
		return;
	if (s->state == SNAPSHOT_READY && !s->taking)
		event_snapshot(s, false);
	s->state = SNAPSHOT_DELETING;
	count(s, -1);
	if (save(s) < 0)
		log_warn("snapshot %s: its end could not be recorded", s->id);
	snapshot_sweep(s);
}

/* The engine holds one that no row knows: nobody can ever use it. */
static void on_unknown_deleted(void *arg, const struct err *error)
{
	struct call *call = arg;

	if (error)
		log_warn("unknown snapshot %s was not deleted: %s", call->id, error->message);
	(void)call_end(call);
}

static void delete_unknown(struct service_engine *engine, const char *id)
{
	struct call *call = call_new(engine->service, 0, NULL);
	struct err err;

	if (!call)
		return;
	(void)!str_copy(call->id, sizeof(call->id), str_of(id));
	log_info("deleting unknown snapshot %s of engine %s", id, engine->driver->name);
	if (engine->driver->snapshot_delete(engine->engine, id, on_unknown_deleted, call, &err) <
	    0) {
		log_warn("unknown snapshot %s was not deleted: %s", id, err.message);
		(void)call_end(call);
	}
}

void snapshot_tick(struct service *service)
{
	int64_t boot_ms = time_boot_ms(), wall_ms = time_real_ms();

	for (struct snapshot *s = service->oldest_snapshot, *next; s; s = next) {
		next = s->next;
		if (s->state == SNAPSHOT_DELETING && s->retry_ms <= boot_ms)
			snapshot_sweep(s);
		else if (s->kind == SNAPSHOT_USER && s->expires_ms && s->state == SNAPSHOT_READY)
			event_snapshot_deadline(s, wall_ms);
		if (s->kind == SNAPSHOT_USER && s->expires_ms && s->expires_ms <= wall_ms)
			snapshot_discard(s);
	}
}

/* ---- after a start ---- */

static int index_of(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (name && strcmp(name, names[i]) == 0)
			return (int)i;
	return -1;
}

static bool cut_memory(char dst[KIND_SIZE], const char *kind)
{
	size_t n = kind ? strnlen(kind, KIND_SIZE - 1) : 0, end = sizeof(MEMORY_SUFFIX) - 1;
	bool found = n >= end && memcmp(kind + n - end, MEMORY_SUFFIX, end) == 0;

	n -= found ? end : 0;
	memcpy(dst, kind ? kind : "", n);
	dst[n] = '\0';
	return found;
}

static int on_row(void *arg, const struct store_snapshot *row)
{
	struct service *service = arg;
	struct service_engine *engine = service_engine_by_name(service, row->engine);
	char name[KIND_SIZE];
	bool memory = cut_memory(name, row->kind);
	int kind = index_of(kind_names, ARRAY_LEN(kind_names), name);
	int state = index_of(state_names, ARRAY_LEN(state_names), row->state);
	struct template *tpl;
	struct snapshot *s;
	struct err err;

	if (!engine || kind < 0 || state < 0) {
		log_warn("snapshot %s of engine '%s' cannot be used: left alone", row->id,
			 row->engine);
		return 0;
	}
	tpl = template_by_hash(service, row->template_name, row->template_hash, &err);
	s = tpl ? calloc(1, sizeof(*s)) : NULL;
	if (!s) {
		log_error("snapshot %s cannot be restored from its row", row->id);
		return 0;
	}
	s->service = service;
	s->engine = engine;
	s->template = tpl;
	s->kind = (uint8_t)kind;
	s->memory = memory;
	s->state = (uint8_t)state;
	s->cpu_count = (uint32_t)row->cpu_count;
	s->memory_mb = (uint32_t)row->memory_mb;
	s->disk_size_mb = (uint32_t)row->disk_size_mb;
	s->size_bytes = (uint64_t)row->size_bytes;
	s->seq = row->seq;
	s->created_ms = row->created_ms;
	s->expires_ms = row->expires_ms;
	s->of_reboot = reboot_is_name(row->id);
	s->comment = row->comment ? strdup(row->comment) : NULL;
	if (str_copy(s->id, sizeof(s->id), str_of(row->id)) < 0 ||
	    str_copy(s->owner, sizeof(s->owner), str_of(row->owner)) < 0 ||
	    str_copy(s->sandbox_id, sizeof(s->sandbox_id), str_of(row->sandbox_id)) < 0 ||
	    pairs_from_block(&s->env, row->env) < 0 || add(service, s) < 0) {
		log_error("snapshot %s cannot be restored from its row", row->id);
		snapshot_free(s);
		return 0;
	}
	if (s->state != SNAPSHOT_DELETING)
		count(s, 1);
	return 0;
}

int snapshot_load(struct service *service, struct err *err)
{
	int r = store_snapshot_each(service->store, on_row, service);

	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot read the snapshots") : 0;
}

/* Only those that are there already can be missed by the list; newer ones may come behind it. */
void snapshot_list_begin(struct service_engine *engine)
{
	for (struct snapshot *s = engine->service->oldest_snapshot; s; s = s->next) {
		if (s->engine != engine)
			continue;
		s->listed = false;
		s->unseen = s->state == SNAPSHOT_READY || s->state == SNAPSHOT_MISSING ||
			    (s->state == SNAPSHOT_MAKING && !s->taking);
	}
}

void snapshot_listed(struct service_engine *engine, const char *id)
{
	struct snapshot *s = map_get(&engine->service->snapshots, str_of(id));

	if (s && s->engine == engine) {
		s->listed = true;
		s->unseen = false;
		/* The one of an earlier reboot was being deleted; this is a new one. */
		if (s->of_reboot && s->state == SNAPSHOT_DELETING && engine->service->rebooted)
			s->state = SNAPSHOT_READY;
	} else if (s || !reboot_listed(engine, id)) {
		delete_unknown(engine, id);
	}
}

/* After the sandboxes took what is theirs. */
void snapshot_settle(struct service_engine *engine)
{
	for (struct snapshot *s = engine->service->oldest_snapshot, *next; s; s = next) {
		next = s->next;
		if (s->engine != engine || s->taking)
			continue;
		if (s->state == SNAPSHOT_DELETING) {
			snapshot_sweep(s);
		} else if (s->state == SNAPSHOT_MAKING || (s->kind != SNAPSHOT_USER && !s->users)) {
			snapshot_discard(s); /* half made, or left over */
		} else if (s->unseen && s->state == SNAPSHOT_READY) {
			log_warn("snapshot %s is missing: the engine does not know it", s->id);
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
	r = save(s);
	if (r < 0)
		drop(s);
	return r;
}

struct snapshot *snapshot_of_reboot(const struct sandbox *sandbox)
{
	for (struct snapshot *s = sandbox->service->newest_snapshot; s; s = s->prev)
		if (s->of_reboot && !s->users && s->state == SNAPSHOT_READY &&
		    strcmp(s->sandbox_id, sandbox->id) == 0)
			return s;
	return NULL;
}

/* The one that was being taken to hibernate this sandbox, if the engine has it whole. */
struct snapshot *snapshot_of_hibernate(const struct sandbox *sandbox)
{
	for (struct snapshot *s = sandbox->service->newest_snapshot; s; s = s->prev) {
		if (s->kind == SNAPSHOT_HIBERNATE && s->listed && !s->users &&
		    (s->state == SNAPSHOT_MAKING || s->state == SNAPSHOT_READY) &&
		    strcmp(s->sandbox_id, sandbox->id) == 0) {
			s->state = SNAPSHOT_READY;
			if (save(s) < 0)
				log_warn("snapshot %s could not be recorded", s->id);
			return s;
		}
	}
	return NULL;
}

void snapshot_done_all(struct service *service)
{
	while (service->oldest_snapshot)
		drop(service->oldest_snapshot);
	map_done(&service->snapshots);
}
