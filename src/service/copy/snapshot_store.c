/* SPDX-License-Identifier: Apache-2.0 */
/* Converts a snapshot to its row and back. */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "service/pairs.h"
#include "service/sandbox/recover_internal.h"
#include "service/secret/secret_internal.h"
#include "service/copy/snapshot_internal.h"
#include "service/template/template_internal.h"

static const char *const kind_names[] = { "user", "hibernate", "fork" };
static const char *const state_names[] = { "making", "ready", "deleting", "missing" };

static_assert(ARRAY_LEN(kind_names) == SNAPSHOT_KIND_COUNT, "every kind has a name");
static_assert(ARRAY_LEN(state_names) == SNAPSHOT_STATE_COUNT, "every state has a name");

/* The stored kind of a snapshot with memory has this suffix. */
#define MEMORY_SUFFIX "+memory"
#define KIND_SIZE 32

int snapshot_save(const struct snapshot *s)
{
	char kind[KIND_SIZE];
	struct store_snapshot row = { .id = s->id,
				      .seq = s->seq,
				      .owner = s->owner,
				      .sandbox_id = s->sandbox_id,
				      .engine = engine_name(s->engine),
				      .kind = kind,
				      .state = state_names[s->state],
				      .template_name = s->template->name,
				      .template_hash = s->template->hash_hex,
				      .comment = s->comment,
				      .env = pairs_block(&s->env),
				      .cpu_milli = s->cpu_milli,
				      .memory_mb = s->memory_mb,
				      .disk_size_mb = s->disk_size_mb,
				      .size_bytes = (int64_t)s->size_bytes,
				      .created_ms = s->created_ms,
				      .expires_ms = s->expires_ms,
				      .memory_error = s->memory_error };
	int r = 0;

	if (s->kind == SNAPSHOT_FORK)
		return 0;
	(void)snprintf(kind, sizeof(kind), "%s%s", kind_names[s->kind],
		       s->memory ? MEMORY_SUFFIX : "");
	r = store_snapshot_put(s->service->store, &row);
	if (r == 0)
		r = grants_save(s->grants, s->id);
	service_wrote(s->service);
	return r;
}

int snapshot_unsave(const struct snapshot *s)
{
	int r = store_snapshot_delete(s->service->store, s->id);

	return r == 0 && s->grants ? store_grant_delete(s->service->store, s->id) : r;
}

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
		log_warn("snapshot %s of engine '%s' cannot be used here and is ignored", row->id,
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
	s->cpu_milli = (uint32_t)row->cpu_milli;
	s->memory_mb = (uint32_t)row->memory_mb;
	s->disk_size_mb = (uint32_t)row->disk_size_mb;
	s->size_bytes = (uint64_t)row->size_bytes;
	s->seq = row->seq;
	s->created_ms = row->created_ms;
	s->expires_ms = row->expires_ms;
	s->of_reboot = reboot_is_name(row->id);
	s->comment = row->comment ? strdup(row->comment) : NULL;
	s->memory_error = row->memory_error ? strdup(row->memory_error) : NULL;
	if (str_copy(s->id, sizeof(s->id), str_of(row->id)) < 0 ||
	    str_copy(s->owner, sizeof(s->owner), str_of(row->owner)) < 0 ||
	    str_copy(s->sandbox_id, sizeof(s->sandbox_id), str_of(row->sandbox_id)) < 0 ||
	    pairs_from_block(&s->env, row->env) < 0 || snapshot_add(service, s) < 0) {
		log_error("snapshot %s cannot be restored from its row", row->id);
		snapshot_free(s);
		return 0;
	}
	if (s->state != SNAPSHOT_DELETING)
		snapshot_count(s, 1);
	return 0;
}

int snapshot_load(struct service *service, struct err *err)
{
	int r = store_snapshot_each(service->store, on_row, service);

	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "cannot read the snapshots") : 0;
}
