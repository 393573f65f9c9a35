/* SPDX-License-Identifier: Apache-2.0 */
/* The unary procedures on files: one operation of the service each. */
#include <stdio.h>

#include "face/e2b/envd/envd.h"
#include "service/files/files.h"

#define LIST_MAX FILES_LIST_MAX
#define LIST_BYTES (16 * 1024 * 1024) /* of a list's answer; entries beyond it are left out */

/* One operation under way; in the request's arena but for what the service keeps. */
struct operation {
	enum files_op op;
	struct files_spec spec;
	const char *path;
	slot_handle run;
};

static void answer_entry(struct e2b_call *call, const struct files_result *result)
{
	struct json_writer w = e2b_answer_begin(call->e2b);
	/* It may have vanished before the tool could look at it. */
	struct files_entry none = { .path = result->path };

	json_begin_object(&w, NULL);
	entry_write(&w, "entry", result->entry ? result->entry : &none);
	json_end_object(&w);
	e2b_answer_send(call, 200, &w);
}

static void explain(const struct operation *o, const struct err *error, struct err *ret)
{
	*ret = *error;
	if (error->code == ERR_FILE_NOT_FOUND)
		(void)err_set(ret, error->code, "path not found: %.200s", o->path);
	else if (error->code == ERR_NOT_A_DIRECTORY)
		(void)err_set(ret, error->code, "path is not a directory: %.200s", o->path);
}

static void on_end(void *arg, const struct files_result *result, const struct err *error)
{
	struct pending *pending = arg;
	struct e2b_call *call = pending->call;
	const struct operation *o;
	struct err err;

	if (!e2b_pending_end(pending))
		return; /* and the call is gone with its client */
	o = call->data;
	if (error) {
		explain(o, error, &err);
		e2b_answer_error(call, &err);
	} else if (o->op == FILES_REMOVE) {
		e2b_answer_text(call, 200, STR_LIT("{}"));
	} else {
		answer_entry(call, result);
	}
}

static void start(struct e2b_call *call, struct operation *o)
{
	static const struct files_hooks hooks = { .on_end = on_end };
	struct pending *pending = e2b_pending_new(call);
	struct err err;

	if (!pending)
		return;
	call->data = o;
	e2b_pending_begun(
		pending,
		files_start(call->sandbox, o->op, &o->spec, &hooks, pending, &o->run, &err), &err);
}

/* ---- lists ---- */

static bool on_entry(void *arg, const struct files_entry *entry)
{
	struct pending *pending = arg;

	entry_write(&pending->w, NULL, entry);
	return pending->w.error == 0 && buf_len(&pending->list) <= LIST_BYTES;
}

static void on_listed(void *arg, const struct files_result *result, const struct err *error)
{
	struct pending *pending = arg;
	struct e2b_call *call = pending->call;
	struct json_writer w = pending->w;
	struct buf list = pending->list;
	struct err err;

	(void)result;
	buf_init(&pending->list, 0);
	w.out = &list;
	json_end_array(&w);
	json_end_object(&w);
	if (!e2b_pending_end(pending))
		;
	else if (error) {
		explain(call->data, error, &err);
		e2b_answer_error(call, &err);
	} else {
		e2b_answer_send(call, 200, &w);
	}
	buf_done(&list);
}

static void start_list(struct e2b_call *call, struct operation *o)
{
	static const struct files_hooks hooks = { .on_entry = on_entry, .on_end = on_listed };
	struct pending *pending = e2b_pending_new(call);
	struct err err;

	if (!pending)
		return;
	call->data = o;
	json_begin_object(&pending->w, NULL);
	json_begin_array(&pending->w, "entries");
	e2b_pending_begun(
		pending,
		files_start(call->sandbox, o->op, &o->spec, &hooks, pending, &o->run, &err), &err);
}

/* ---- the procedures ---- */

/* NULL: answered. */
static struct operation *begin(struct e2b_call *call, enum files_op op, const char *key)
{
	struct operation *o = arena_alloc(call->req->arena, sizeof(*o));
	bool ok = true;
	struct str path = call_str(call, key, &ok);
	struct err err;

	if (!ok)
		return NULL;
	if (o)
		o->path = envd_path(call, path);
	if (!o || !o->path) {
		(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
		e2b_answer_error(call, &err);
		return NULL;
	}
	o->op = op;
	o->spec.path = str_of(o->path);
	o->spec.details = true;
	envd_actor(call, &o->spec);
	return o;
}

void filesystem_stat(struct e2b_call *call)
{
	struct operation *o = begin(call, FILES_STAT, "path");

	if (o)
		start(call, o);
}

void filesystem_list(struct e2b_call *call)
{
	struct operation *o = begin(call, FILES_LIST, "path");
	bool ok = true;

	if (!o)
		return;
	o->spec.depth = call_int(call, "depth", 1, 0, UINT32_MAX, &ok);
	if (!ok)
		return;
	o->spec.depth = MIN(MAX(o->spec.depth, 1), FILES_DEPTH_MAX);
	o->spec.limit = LIST_MAX;
	start_list(call, o);
}

void filesystem_remove(struct e2b_call *call)
{
	struct operation *o = begin(call, FILES_REMOVE, "path");

	if (!o)
		return;
	o->spec.recursive = o->spec.missing_ok = true;
	start(call, o);
}

void filesystem_move(struct e2b_call *call)
{
	struct operation *o = begin(call, FILES_MOVE, "source");
	bool ok = true;
	struct str to = o ? call_str(call, "destination", &ok) : (struct str){ NULL, 0 };
	const char *path = o && ok ? envd_path(call, to) : NULL;

	if (!o || !ok)
		return;
	o->spec.to = str_of(path);
	o->spec.parents = o->spec.overwrite = true;
	envd_owner(call, &o->spec);
	start(call, o);
}

static void on_made(void *arg, const struct files_result *result, const struct err *error)
{
	struct pending *pending = arg;
	struct e2b_call *call = pending->call;
	const struct operation *o;
	struct err err;

	if (!e2b_pending_end(pending))
		return;
	o = call->data;
	if (!error && result->created) {
		answer_entry(call, result);
		return;
	}
	/* A directory that is there already, or something else that is in its place. */
	if (!error)
		(void)err_set(&err, ERR_FILE_EXISTS, "directory already exists: %.200s", o->path);
	else if (error->code == ERR_FILE_EXISTS)
		(void)err_set(&err, ERR_INVALID_REQUEST,
			      "path already exists but it is not a directory: %.200s", o->path);
	else
		explain(o, error, &err);
	e2b_answer_error(call, &err);
}

void filesystem_make_dir(struct e2b_call *call)
{
	static const struct files_hooks hooks = { .on_end = on_made };
	struct operation *o = begin(call, FILES_MKDIR, "path");
	struct pending *pending = o ? e2b_pending_new(call) : NULL;
	struct err err;

	if (!pending)
		return;
	call->data = o;
	o->spec.parents = true;
	envd_owner(call, &o->spec);
	e2b_pending_begun(
		pending,
		files_start(call->sandbox, FILES_MKDIR, &o->spec, &hooks, pending, &o->run, &err),
		&err);
}
