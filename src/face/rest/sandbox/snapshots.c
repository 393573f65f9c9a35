/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, restoring and forking. */
#include "face/rest/call.h"
#include "service/account/idempotency.h"
#include "service/copy/snapshot.h"

#define AT(member) offsetof(struct snapshot_spec, member)
const struct field snapshot_fields[] = {
	{ .name = "comment",
	  .type = FIELD_STR,
	  .offset = AT(comment),
	  .max = SNAPSHOT_COMMENT_MAX },
	{ .name = "expires_in_sec",
	  .type = FIELD_INT,
	  .offset = AT(expires_in_sec),
	  .max = SNAPSHOT_EXPIRES_MAX_SEC,
	  .doc = "delete it after this time; 0: never" },
	{ .name = "keep_last",
	  .type = FIELD_INT,
	  .offset = AT(keep_last),
	  .max = SNAPSHOT_KEEP_MAX,
	  .doc = "keep only this many snapshots of the sandbox; 0: keep all" },
	{ .name = "memory",
	  .type = FIELD_BOOL,
	  .offset = AT(memory),
	  .doc = "include its processes; if they cannot be saved, the snapshot has only the files "
		 "and memory_error says why" },
	{ .type = FIELD_END }
};
#undef AT

struct restore_body {
	struct str snapshot_id;
	bool memory;
};
const struct field restore_fields[] = {
	{ .name = "snapshot_id",
	  .type = FIELD_STR,
	  .offset = offsetof(struct restore_body, snapshot_id),
	  .min = 1,
	  .max = SNAPSHOT_REF_MAX,
	  .required = true },
	{ .name = "memory",
	  .type = FIELD_BOOL,
	  .offset = offsetof(struct restore_body, memory),
	  .fallback = true,
	  .doc = "false: the files only, even if it has processes" },
	{ .type = FIELD_END }
};

#define AT(member) offsetof(struct fork_spec, member)
const struct field fork_fields[] = {
	{ .name = "count",
	  .type = FIELD_INT,
	  .offset = AT(count),
	  .min = 1,
	  .max = BATCH_MAX,
	  .fallback = 1 },
	{ .name = "name",
	  .type = FIELD_NAME,
	  .offset = AT(name),
	  .max = FORK_NAME_MAX,
	  .doc = "name of the child; several are called NAME-1, NAME-2 and so on" },
	{ .name = "timeout_sec",
	  .type = FIELD_INT,
	  .offset = AT(timeout_sec),
	  .min = 1,
	  .limit = FIELD_LIMIT_TIMEOUT,
	  .doc = "default: the source's" },
	{ .name = "metadata",
	  .type = FIELD_MAP,
	  .offset = AT(metadata),
	  .doc = "default: the source's" },
	{ .name = "memory",
	  .type = FIELD_BOOL,
	  .offset = AT(memory),
	  .doc = "children continue with its processes; false: they start with its files" },
	{ .type = FIELD_END }
};
#undef AT

const struct field snapshot_list_query[] = { { .name = "limit",
					       .type = FIELD_INT,
					       .min = 1,
					       .max = PAGE_LIMIT_MAX,
					       .fallback = PAGE_LIMIT },
					     { .name = "cursor", .type = FIELD_STR },
					     { .name = "sandbox_id", .type = FIELD_STR },
					     { .type = FIELD_END } };

/* ---- snapshots ---- */

static void on_made(void *arg, const struct snapshot *snapshot, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct json_writer w;

	if (err) {
		once_refuse(pending, err);
		return;
	}
	w = answer_begin(pending->rest);
	snapshot_write(snapshot, &w, NULL);
	once_end(pending, 201, &w);
}

/* The daemon ended after it had recorded the snapshot: either it exists, or it was never taken. */
static bool find_begun(struct rest_call *call, struct rest_pending *pending)
{
	const char *begun = pending->idem ? idempotency_begun(pending->idem) : "";
	const struct snapshot *snapshot;
	struct err err;

	if (!begun[0])
		return false;
	snapshot = snapshot_find_begun(call->rest->service, call->key, str_of(begun), &err);
	if (!snapshot && err.code == ERR_SNAPSHOT_NOT_FOUND)
		return false;
	on_made(pending, snapshot, snapshot ? NULL : &err);
	return true;
}

void snapshots_create(struct rest_call *call)
{
	struct snapshot_spec spec = { .kind = SNAPSHOT_USER };
	struct sandbox *sandbox = life_find(call, snapshot_fields, &spec);
	struct rest_pending *pending = sandbox ? once_begin(call) : NULL;
	struct err err;

	if (!pending)
		return;
	spec.idem = pending->idem;
	if (find_begun(call, pending))
		return;
	if (sandbox_snapshot(sandbox, call->key, &spec, on_made, pending, &err) < 0)
		once_refuse(pending, &err);
}

static void list(struct rest_call *call, const char *sandbox_id)
{
	struct service *service = call->rest->service;
	int64_t limit = 100, cursor = INT64_MAX, last;
	const struct snapshot *snapshot;
	struct json_writer w;
	char next[PAGE_NUMBER_SIZE];

	if (page_after_number(call, &limit, &cursor) < 0)
		return;
	w = page_begin(call);
	while (limit-- > 0 &&
	       (snapshot = snapshot_list_next(service, call->key, sandbox_id, &cursor)))
		snapshot_write(snapshot, &w, NULL);
	last = cursor;
	page_send(call, &w,
		  limit < 0 && snapshot_list_next(service, call->key, sandbox_id, &cursor)
			  ? page_number(next, last)
			  : NULL);
}

void snapshots_of_sandbox(struct rest_call *call)
{
	const struct sandbox *sandbox = answer_find(call);

	if (sandbox)
		list(call, sandbox_id(sandbox));
}

void snapshots_list(struct rest_call *call)
{
	struct str id = { NULL, 0 };
	char text[64] = "";
	struct err err;

	if (query_text(call->req, "sandbox_id", &id, &err) < 0)
		answer_error(call->rest, call->req, &err);
	else if (id.p && str_copy(text, sizeof(text), id) < 0)
		list(call, "?"); /* no sandbox has such an id */
	else
		list(call, text);
}

static struct snapshot *find(struct rest_call *call)
{
	struct err err;
	struct snapshot *snapshot =
		snapshot_find(call->rest->service, call->key, call->args[0], &err);

	if (!snapshot)
		answer_error(call->rest, call->req, &err);
	return snapshot;
}

void snapshots_get(struct rest_call *call)
{
	const struct snapshot *snapshot = find(call);
	struct json_writer w;

	if (!snapshot)
		return;
	w = answer_begin(call->rest);
	snapshot_write(snapshot, &w, NULL);
	answer_send(call->rest, call->req, 200, &w);
}

void snapshots_delete(struct rest_call *call)
{
	struct snapshot *snapshot = find(call);

	if (!snapshot)
		return;
	snapshot_remove(snapshot);
	answer_empty(call->rest, call->req, 204);
}

/* ---- restore ---- */

static void on_restored(void *arg, struct sandbox *sandbox, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct json_writer w;

	if (err) {
		once_refuse(pending, err);
		return;
	}
	w = answer_begin(pending->rest);
	sandbox_write(sandbox, &w, NULL);
	once_end(pending, 200, &w);
}

void snapshots_restore(struct rest_call *call)
{
	struct restore_body body = { .snapshot_id = { NULL, 0 } };
	struct sandbox *sandbox = life_find(call, restore_fields, &body);
	struct rest_pending *pending = sandbox ? once_begin(call) : NULL;
	struct snapshot *snapshot;
	struct err err;

	if (!pending)
		return;
	snapshot = snapshot_find(call->rest->service, call->key, body.snapshot_id, &err);
	if (!snapshot ||
	    sandbox_restore(sandbox, snapshot, body.memory, on_restored, pending, &err) < 0)
		once_refuse(pending, &err);
}

/* ---- fork ---- */

void snapshots_fork(struct rest_call *call)
{
	struct fork_spec spec = { .count = 0 };
	struct sandbox *sandbox = life_find(call, fork_fields, &spec);
	struct rest_pending *pending = sandbox ? many_begin(call) : NULL;
	struct err err;

	if (pending &&
	    sandbox_fork(sandbox, call->key, &spec, pending->idem, &batch_hooks, pending, &err) < 0)
		once_refuse(pending, &err);
}
