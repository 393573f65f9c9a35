/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, which E2B lists as templates, and templates. */
#include "service/copy/snapshot.h"

#include <stdio.h>

#include "base/time.h"
#include "face/e2b/call.h"
#include "service/template/template.h"

static void write_snapshot(const struct snapshot *snapshot, struct json_writer *w)
{
	json_begin_object(w, NULL);
	json_put_text(w, "snapshotID", snapshot->id);
	json_begin_array(w, "names");
	if (snapshot->comment && snapshot->comment[0])
		json_put_text(w, NULL, snapshot->comment);
	json_end_array(w);
	json_end_object(w);
}

static bool is_named(const struct snapshot *snapshot, struct str name)
{
	return snapshot->comment && snapshot->comment[0] &&
	       str_eq(template_name_of(str_of(snapshot->comment)), template_name_of(name));
}

struct snapshot *snapshot_of(struct e2b_call *call, struct str id)
{
	struct service *service = call->e2b->service;
	struct str bare = template_name_of(id);
	const struct snapshot *at;
	int64_t cursor = INT64_MAX;
	struct snapshot *found;
	struct err err;

	found = snapshot_find(service, call->key, bare, &err);
	while (!found && (at = snapshot_list_next(service, call->key, "", &cursor)))
		if (is_named(at, id))
			found = snapshot_find(service, call->key, str_of(at->id), &err);
	return found;
}

static void on_taken(void *arg, const struct snapshot *snapshot, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;
	struct json_writer w;

	if (!e2b_pending_done(pending, err))
		return;
	w = e2b_answer_begin(call->e2b);
	write_snapshot(snapshot, &w);
	e2b_answer_send(call, 201, &w);
}

static const struct field snapshot_fields[] = { { .name = "name",
						  .type = FIELD_STR,
						  .offset = offsetof(struct snapshot_spec, comment),
						  .max = SNAPSHOT_COMMENT_MAX },
						{ .type = FIELD_END } };

void e2b_snapshots_create(struct e2b_call *call)
{
	struct sandbox *sandbox = call_sandbox(call);
	struct snapshot_spec spec = { .kind = SNAPSHOT_USER, .memory = true };
	struct e2b_pending *pending;
	struct err err;

	if (!sandbox || !call_decode(call, snapshot_fields, &spec))
		return;
	pending = e2b_pending_new(call);
	if (pending)
		e2b_pending_begun(
			pending,
			sandbox_snapshot(sandbox, call->key, &spec, on_taken, pending, &err), &err);
}

/* The sandbox may have ended: ids are compared, not looked up. */
void e2b_snapshots_list(struct e2b_call *call)
{
	bool ok = true;
	struct str of = call_query(call, "sandboxID", &ok), name = call_query(call, "name", &ok);
	struct str limit = call_query(call, "limit", &ok);
	struct str token = call_query(call, "nextToken", &ok);
	int64_t most = PAGE_LIMIT, at = INT64_MAX, count = 0, cursor;
	char next[PAGE_NUMBER_SIZE] = "", id[SANDBOX_ID_LEN + 1] = "";
	struct http_header header = { STR_LIT("X-Next-Token"), { next, 0 } };
	const struct snapshot *snapshot;
	struct json_writer w;

	if (!ok)
		return;
	if (page_limit_parse(limit, &most) < 0 || page_cursor_parse(token, &at) < 0 ||
	    (of.n && str_copy(id, sizeof(id), of) < 0)) {
		e2b_answer_status(call, 400, "limit, nextToken or sandboxID is malformed");
		return;
	}
	cursor = at;
	w = e2b_answer_begin(call->e2b);
	json_begin_array(&w, NULL);
	while ((snapshot = snapshot_list_next(call->e2b->service, call->key, id, &cursor))) {
		if (name.n && !is_named(snapshot, name))
			continue;
		if (count++ == most) {
			(void)page_number(next, at);
			break;
		}
		at = cursor;
		write_snapshot(snapshot, &w);
	}
	json_end_array(&w);
	header.value.n = strlen(next);
	e2b_answer_send_with(call, 200, &w, &header, next[0] ? 1 : 0);
}

/* Clients delete a snapshot as a template. Templates themselves can only be removed by the
 * operator. */
void e2b_templates_delete(struct e2b_call *call)
{
	struct snapshot *snapshot = snapshot_of(call, call->args[0]);
	struct err err;

	if (snapshot) {
		snapshot_remove(snapshot);
		e2b_answer_empty(call, 204);
	} else if (template_find(call->e2b->service, template_name_of(call->args[0]), &err)) {
		e2b_answer_status(call, 403, "templates cannot be deleted here");
	} else {
		e2b_answer_status(call, 404, "template '%.*s' not found",
				  (int)MIN(call->args[0].n, 100), call->args[0].p);
	}
}

/* ---- templates ---- */

static struct template *find_template(struct e2b_call *call)
{
	struct err err;
	struct template *tpl =
		template_find(call->e2b->service, template_name_of(call->args[0]), &err);

	if (!tpl)
		e2b_answer_status(call, 404, "template '%.*s' not found",
				  (int)MIN(call->args[0].n, 100), call->args[0].p);
	return tpl;
}

void e2b_templates_alias(struct e2b_call *call)
{
	const struct template *tpl = find_template(call);
	struct json_writer w;

	if (!tpl)
		return;
	w = e2b_answer_begin(call->e2b);
	json_begin_object(&w, NULL);
	json_put_text(&w, "templateID", tpl->name);
	json_put_bool(&w, "public", false);
	json_end_object(&w);
	e2b_answer_send(call, 200, &w);
}

/* E2B identifies a build by a UUID; here the hash of its content identifies it. */
static void put_build_id(struct json_writer *w, const struct template *tpl)
{
	char id[40];

	(void)snprintf(id, sizeof(id), "%.8s-%.4s-%.4s-%.4s-%.12s", tpl->hash_hex,
		       tpl->hash_hex + 8, tpl->hash_hex + 12, tpl->hash_hex + 16,
		       tpl->hash_hex + 20);
	json_put_text(w, "buildID", id);
}

void e2b_templates_tags(struct e2b_call *call)
{
	const struct template *tpl = find_template(call);
	struct json_writer w;

	if (!tpl)
		return;
	w = e2b_answer_begin(call->e2b);
	json_begin_array(&w, NULL);
	json_begin_object(&w, NULL);
	json_put_text(&w, "tag", "default");
	put_build_id(&w, tpl);
	json_put_text(&w, "createdAt", tpl->created_at);
	json_end_object(&w);
	json_end_array(&w);
	e2b_answer_send(call, 200, &w);
}

static void put_names(struct json_writer *w, const char *key, const char *name)
{
	json_begin_array(w, key);
	json_put_text(w, NULL, name);
	json_end_array(w);
}

static void write_template(const struct template *tpl, struct json_writer *w)
{
	json_begin_object(w, NULL);
	json_put_text(w, "templateID", tpl->name);
	put_build_id(w, tpl);
	json_put_bool(w, "public", false);
	put_names(w, "aliases", tpl->name);
	put_names(w, "names", tpl->name);
	json_put_text(w, "createdAt", tpl->created_at);
	json_put_text(w, "updatedAt", tpl->created_at);
	json_put_text(w, "buildStatus", "ready");
	json_put_text(w, "envdVersion", E2B_ENVD_VERSION);
	json_put_int(w, "buildCount", tpl->version);
	json_put_int(w, "diskSizeMB", tpl->size_bytes >> 20);
	json_end_object(w);
}

void e2b_templates_get(struct e2b_call *call)
{
	const struct template *tpl = find_template(call);
	struct json_writer w;

	if (!tpl)
		return;
	w = e2b_answer_begin(call->e2b);
	write_template(tpl, &w);
	e2b_answer_send(call, 200, &w);
}

void e2b_templates_list(struct e2b_call *call)
{
	const struct template *tpl;
	struct json_writer w;
	char *names = NULL;
	size_t count = 0;
	struct err err;

	if (template_names(call->e2b->service, &names, &count, &err) < 0) {
		e2b_answer_error(call, &err);
		return;
	}
	w = e2b_answer_begin(call->e2b);
	json_begin_array(&w, NULL);
	for (const char *at = names; count > 0; count--, at += strlen(at) + 1) {
		tpl = template_find(call->e2b->service, str_of(at), &err);
		if (tpl)
			write_template(tpl, &w);
	}
	json_end_array(&w);
	e2b_answer_send(call, 200, &w);
	free(names);
}
