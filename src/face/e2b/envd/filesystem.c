/* SPDX-License-Identifier: Apache-2.0 */
/* The unary procedures on files. Each is one operation of the service. */
#include <stdio.h>

#include "face/e2b/envd/envd.h"
#include "service/files/files.h"

#define LIST_MAX FILES_LIST_MAX
/* Bytes of the reply of a list; entries beyond it are left out. */
#define LIST_BYTES (16 * 1024 * 1024)

/* An operation in progress. It is in the request's arena, except for what the service keeps. */
struct operation {
	enum files_op op;
	struct files_spec spec;
	const char *path;
	slot_handle run;
};

static void answer_entry(struct e2b_call *call, const struct files_result *result)
{
	struct json_writer w = e2b_answer_begin(call->e2b);
	/* The file may have vanished before the tool looked at it. */
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
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;
	const struct operation *o;
	struct err err;

	if (!e2b_pending_end(pending))
		return; /* the call has been freed with its client's request */
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
	struct e2b_pending *pending = e2b_pending_new(call);
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
	struct e2b_pending *pending = arg;

	entry_write(&pending->w, NULL, entry);
	return pending->w.error == 0 && buf_len(&pending->list) <= LIST_BYTES;
}

static void on_listed(void *arg, const struct files_result *result, const struct err *error)
{
	struct e2b_pending *pending = arg;
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
	struct e2b_pending *pending = e2b_pending_new(call);
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

/* ---- procedures ---- */
struct path_body {
	struct str path, to;
	int64_t depth;
};
#define AT(member) offsetof(struct path_body, member)
static const struct field path_fields[] = {
	{ .name = "path", .type = FIELD_STR, .offset = AT(path), .max = E2B_RPC_LIMIT },
	{ .name = "depth",
	  .type = FIELD_INT,
	  .offset = AT(depth),
	  .max = UINT32_MAX,
	  .fallback = 1 },
	{ .type = FIELD_END }
};
static const struct field move_fields[] = {
	{ .name = "source", .type = FIELD_STR, .offset = AT(path), .max = E2B_RPC_LIMIT },
	{ .name = "destination", .type = FIELD_STR, .offset = AT(to), .max = E2B_RPC_LIMIT },
	{ .type = FIELD_END }
};
#undef AT

/* NULL: an error was sent. */
static struct operation *begin(struct e2b_call *call, enum files_op op, struct path_body *body)
{
	struct operation *o = arena_alloc(call->req->arena, sizeof(*o));
	struct err err;

	*body = (struct path_body){ .depth = 1 };
	if (!call_decode(call, op == FILES_MOVE ? move_fields : path_fields, body))
		return NULL;
	if (o)
		o->path = envd_path(call, body->path);
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
	struct path_body body;
	struct operation *o = begin(call, FILES_STAT, &body);

	if (o)
		start(call, o);
}

void filesystem_list(struct e2b_call *call)
{
	struct path_body body;
	struct operation *o = begin(call, FILES_LIST, &body);

	if (!o)
		return;
	o->spec.depth = MIN(MAX(body.depth, 1), FILES_DEPTH_MAX);
	o->spec.limit = LIST_MAX;
	start_list(call, o);
}

void filesystem_remove(struct e2b_call *call)
{
	struct path_body body;
	struct operation *o = begin(call, FILES_REMOVE, &body);

	if (!o)
		return;
	o->spec.recursive = o->spec.missing_ok = true;
	start(call, o);
}

void filesystem_move(struct e2b_call *call)
{
	struct path_body body;
	struct operation *o = begin(call, FILES_MOVE, &body);
	const char *path = o ? envd_path(call, body.to) : NULL;

	if (!o)
		return;
	o->spec.to = str_of(path);
	o->spec.parents = o->spec.overwrite = true;
	envd_owner(call, &o->spec);
	start(call, o);
}

static void on_made(void *arg, const struct files_result *result, const struct err *error)
{
	struct e2b_pending *pending = arg;
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
	/* The directory exists already, or another file has its name. */
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
	struct path_body body;
	struct operation *o = begin(call, FILES_MKDIR, &body);
	struct e2b_pending *pending = o ? e2b_pending_new(call) : NULL;
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
