/* SPDX-License-Identifier: Apache-2.0 */
/* Processes without a waiting client: start, list, input, signal, end. */
#include "service/run/process.h"

#include <stdio.h>

#include "face/rest/call.h"
#include "service/account/idempotency.h"

#define INPUT_BYTES_MAX (1000 * 1000) /* bytes per call: one frame to the agent */

/* ---- input, for processes and windows ---- */

struct input_body {
	struct str data, data_b64;
};
const struct field input_fields[] = { { .name = "data",
					.type = FIELD_STR,
					.offset = offsetof(struct input_body, data),
					.max = EXEC_BODY_LIMIT },
				      { .name = "data_b64",
					.type = FIELD_STR,
					.offset = offsetof(struct input_body, data_b64),
					.max = EXEC_BODY_LIMIT },
				      { .type = FIELD_END } };

static int input_read(struct rest_call *call, struct str *ret, struct err *err)
{
	struct input_body body = { .data = { NULL, 0 } };

	if (call->raw) {
		*ret = call->body;
	} else {
		if (field_decode(input_fields, call->doc, "", call->req->arena, &body, err) < 0)
			return -1;
		if ((body.data.p != NULL) == (body.data_b64.p != NULL))
			return err_set(err, ERR_INVALID_REQUEST,
				       "data or data_b64: exactly one is needed");
		*ret = body.data;
		if (body.data_b64.p &&
		    input_decode(call->req->arena, "data_b64", body.data_b64, ret, err) < 0)
			return -1;
	}
	if (ret->n > INPUT_BYTES_MAX)
		return err_set(err, ERR_PAYLOAD_TOO_LARGE,
			       "data must be at most %d bytes at a time", INPUT_BYTES_MAX);
	return 0;
}

struct rest_pending *input_begin(struct rest_call *call, struct str *ret)
{
	struct err err;

	if (input_read(call, ret, &err) == 0)
		return pending_for(call);
	answer_error(call->rest, call->req, &err);
	return NULL;
}

/* ---- start ---- */

static void answer_process(struct rest *rest, struct http_req *req, int status,
			   const struct process_info *info)
{
	struct json_writer w = answer_begin(rest);

	process_write(info, &w, NULL);
	answer_send(rest, req, status, &w);
}

/* The client may have disconnected: the process is in the list, and the reply is recorded. */
static void finish_start(struct rest_pending *pending, const struct process_info *info,
			 const struct err *err)
{
	struct json_writer w;

	if (err) {
		once_refuse(pending, err);
		return;
	}
	w = answer_begin(pending->rest);
	process_write(info, &w, NULL);
	once_end(pending, 201, &w);
}

static void on_made(void *arg, const struct process_info *info, const struct err *err)
{
	finish_start(arg, info, err);
}

static void on_started(void *arg, uint32_t process_id, uint32_t pid, slot_handle follow,
		       const struct err *error)
{
	struct rest_pending *pending = arg;
	struct sandbox *sandbox = sandbox_get(pending->rest->service, pending->sandbox);
	struct err err;
	char id[16];

	(void)pid;
	(void)follow;
	(void)snprintf(id, sizeof(id), "%u", process_id);
	if (!error && (!sandbox || !sandbox_ready(sandbox))) {
		(void)err_set(&err, ERR_SANDBOX_GONE, "the sandbox ended");
		error = &err;
	}
	if (!error && process_find(sandbox, str_of(id), on_made, pending, &err) < 0)
		error = &err;
	if (error)
		finish_start(pending, NULL, error);
}

static void on_begun(void *arg, const struct process_info *info, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct err gone;

	if (err && err->code == ERR_PROCESS_NOT_FOUND) {
		(void)err_set(
			&gone, ERR_CONFLICT,
			"process %s was started with this Idempotency-Key and is not listed any "
			"more",
			idempotency_begun(pending->idem));
		err = &gone;
	}
	finish_start(pending, info, err);
}

/* The daemon ended after it had recorded the process. The agent may have started it, so it is
 * not started again. */
static bool find_begun(struct rest_pending *pending, struct sandbox *sandbox)
{
	struct str begun = str_of(pending->idem ? idempotency_begun(pending->idem) : "");
	struct err err;
	uint32_t id;

	if (!process_id_parse(begun, &id))
		return false;
	if (!process_was_begun(sandbox, id)) {
		process_never_begun(sandbox, id);
		return false;
	}
	if (process_find(sandbox, begun, on_begun, pending, &err) < 0)
		finish_start(pending, NULL, &err);
	return true;
}

void processes_create(struct rest_call *call)
{
	struct exec_spec spec = { .timeout_sec = 0 };
	struct rest_pending *pending;
	struct err err;

	if (field_decode(process_fields, call->doc, "", call->req->arena, &spec, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	pending = once_begin(call);
	if (!pending)
		return;
	pending->sandbox = sandbox_handle(call->sandbox);
	spec.idem = pending->idem;
	if (find_begun(pending, call->sandbox))
		return;
	if (process_start(call->sandbox, &spec, on_started, pending, NULL, &err) < 0)
		finish_start(pending, NULL, &err);
}

/* ---- get and list ---- */

static void on_orphan(void *arg, const struct process_info *info, const struct err *err)
{
	struct rest_pending *pending = arg;

	if (info)
		orphan_write(info, &pending->list->w, NULL);
	else
		list_answer(pending, err);
}

static void list_orphans(struct rest_pending *pending)
{
	struct sandbox *sandbox = sandbox_get(pending->rest->service, pending->sandbox);
	struct err err;

	json_end_array(&pending->list->w);
	json_begin_array(&pending->list->w, "orphans");
	if (!sandbox || !sandbox_ready(sandbox)) {
		(void)err_set(&err, ERR_SANDBOX_GONE, "the sandbox ended");
		list_answer(pending, &err);
	} else if (process_orphans(sandbox, on_orphan, pending, &err) < 0) {
		/* An agent of an earlier version knows none. */
		list_answer(pending, err.code == ERR_UNSUPPORTED ? NULL : &err);
	}
}

static void on_each(void *arg, const struct process_info *info, const struct err *err)
{
	struct rest_pending *pending = arg;

	if (info)
		process_write(info, &pending->list->w, NULL);
	else if (err)
		list_answer(pending, err);
	else
		list_orphans(pending);
}

void processes_list(struct rest_call *call)
{
	struct rest_pending *pending = list_begin(call);
	struct err err;

	if (!pending)
		return;
	pending->sandbox = sandbox_handle(call->sandbox);
	answer_later(pending, process_list(call->sandbox, on_each, pending, &err), &err);
}

static void on_found(void *arg, const struct process_info *info, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct rest *rest = pending->rest;
	struct http_req *req = pending_done(pending, err);

	if (req)
		answer_process(rest, req, 200, info);
}

void processes_get(struct rest_call *call)
{
	struct rest_pending *pending = pending_for(call);
	struct err err;

	if (pending)
		answer_later(pending,
			     process_find(call->sandbox, call->args[1], on_found, pending, &err),
			     &err);
}

/* ---- actions ---- */

void processes_delete(struct rest_call *call)
{
	struct rest_pending *pending = pending_for(call);
	struct err err;

	if (!pending)
		return;
	if (call->pid)
		answer_later(pending,
			     process_kill_pid(call->sandbox, call->pid, answer_done, pending, &err),
			     &err);
	else
		answer_later(
			pending,
			process_stop(call->sandbox, call->process_id, answer_done, pending, &err),
			&err);
}

void processes_kill_all(struct rest_call *call)
{
	struct rest_pending *pending = pending_for(call);
	struct err err;

	if (pending)
		answer_later(pending, process_kill_all(call->sandbox, answer_done, pending, &err),
			     &err);
}

void processes_stdin(struct rest_call *call)
{
	struct str bytes;
	struct rest_pending *pending = input_begin(call, &bytes);
	struct err err;

	if (pending)
		answer_later(pending,
			     process_stdin(call->sandbox, call->process_id, bytes, false,
					   answer_done, pending, &err),
			     &err);
}

const struct field empty_fields[] = { { .type = FIELD_END } };

void processes_close_stdin(struct rest_call *call)
{
	struct rest_pending *pending;
	struct err err;

	if (field_decode(empty_fields, call->doc, "", call->req->arena, call, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	pending = pending_for(call);
	if (pending)
		answer_later(pending,
			     process_close_stdin(call->sandbox, call->process_id, answer_done,
						 pending, &err),
			     &err);
}

int signal_decode(const struct json *value, struct err *err)
{
	bool is_text = value && json_type(value) == JSON_STRING;

	return process_signal_parse(is_text ? json_str(value) : (struct str){ NULL, 0 },
				    value && json_type(value) == JSON_INT ? json_int(value) : 0,
				    err);
}

struct signal_body {
	const struct json *signal;
};
const struct field signal_fields[] = { { .name = "signal",
					 .type = FIELD_ANY,
					 .offset = offsetof(struct signal_body, signal),
					 .required = true,
					 .doc = "\"TERM\", \"SIGTERM\" or 15" },
				       { .type = FIELD_END } };

void processes_signal(struct rest_call *call)
{
	struct signal_body body = { NULL };
	struct rest_pending *pending;
	struct err err;
	int signum;

	if (field_decode(signal_fields, call->doc, "", call->req->arena, &body, &err) < 0 ||
	    !(signum = signal_decode(body.signal, &err))) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	pending = pending_for(call);
	if (!pending)
		return;
	if (call->pid)
		answer_later(pending,
			     process_signal_pid(call->sandbox, call->pid, signum, answer_done,
						pending, &err),
			     &err);
	else
		answer_later(pending,
			     process_signal(call->sandbox, call->process_id, signum, answer_done,
					    pending, &err),
			     &err);
}

struct resize_body {
	int64_t cols, rows;
};
const struct field resize_fields[] = { { .name = "cols",
					 .type = FIELD_INT,
					 .offset = offsetof(struct resize_body, cols),
					 .min = 1,
					 .max = PROCESS_TTY_MAX,
					 .required = true },
				       { .name = "rows",
					 .type = FIELD_INT,
					 .offset = offsetof(struct resize_body, rows),
					 .min = 1,
					 .max = PROCESS_TTY_MAX,
					 .required = true },
				       { .type = FIELD_END } };

void processes_resize(struct rest_call *call)
{
	struct resize_body body = { 0 };
	struct rest_pending *pending;
	struct err err;

	if (field_decode(resize_fields, call->doc, "", call->req->arena, &body, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	pending = pending_for(call);
	if (pending)
		answer_later(pending,
			     process_resize(call->sandbox, call->process_id, body.cols, body.rows,
					    answer_done, pending, &err),
			     &err);
}
