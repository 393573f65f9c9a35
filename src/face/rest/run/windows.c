/* SPDX-License-Identifier: Apache-2.0 */
/* Named windows: shells that stay open. */
#include "service/run/window.h"

#include "face/rest/run/stream.h"

#define AT(member) offsetof(struct window_spec, member)
const struct field window_run_fields[] = {
	{ .name = "command",
	  .type = FIELD_STR,
	  .offset = AT(exec.command),
	  .max = EXEC_BYTES_MAX,
	  .required = true,
	  .doc = "runs in the window's shell; a running command is cancelled first" },
	{ .name = "wait_ms",
	  .type = FIELD_INT,
	  .offset = AT(wait_ms),
	  .max = WINDOW_WAIT_MAX_MS,
	  .fallback = WINDOW_WAIT_DEFAULT_MS,
	  .doc = "how long to wait for its end; afterwards it continues" },
	{ .name = "max_output_bytes",
	  .type = FIELD_INT,
	  .offset = AT(max_output_bytes),
	  .max = WINDOW_OUTPUT_MAX,
	  .fallback = WINDOW_OUTPUT_DEFAULT },
	{ .name = "cwd",
	  .type = FIELD_STR,
	  .offset = AT(exec.cwd),
	  .min = 1,
	  .max = EXEC_CWD_MAX,
	  .doc = "cwd, env and user apply only when the window is created" },
	{ .name = "env", .type = FIELD_MAP, .offset = AT(exec.env) },
	{ .name = "user",
	  .type = FIELD_STR,
	  .offset = AT(exec.user),
	  .min = 1,
	  .max = EXEC_USER_MAX },
	{ .type = FIELD_END }
};
#undef AT
const struct field window_query[] = {
	{ .name = "cursor",
	  .type = FIELD_INT,
	  .doc = "the first byte to return; default: the beginning of the last command's output" },
	{ .name = "max_bytes",
	  .type = FIELD_INT,
	  .min = 1,
	  .max = WINDOW_OUTPUT_MAX,
	  .fallback = WINDOW_OUTPUT_DEFAULT },
	{ .type = FIELD_END }
};

static void write_end(const struct process_status *status, struct json_writer *w)
{
	if (status->reason && strcmp(status->reason, "sandbox_gone") != 0)
		json_put_int(w, "exit_code", status->exit_code);
	else
		json_put_null(w, "exit_code");
	json_put_text(w, "reason", status->reason);
}

/* ---- list ---- */

static void write_window(const struct window_info *info, struct json_writer *w)
{
	json_put_text(w, "name", info->name);
	json_put_text(w, "state", info->busy ? "busy" : "idle");
	json_put_int(w, "process_id", info->process_id);
	json_put_int(w, "run", info->run);
	write_end(&info->run_status, w);
	json_put_int(w, "begin", (int64_t)info->begin);
	json_put_real(w, "idle_sec", (double)info->idle_ms / 1000);
	json_put_time(w, "started_at", info->started_ms);
}

static void on_each(void *arg, const struct window_info *info, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct json_writer *w;

	if (!info) {
		list_answer(pending, err);
		return;
	}
	w = &pending->list->w;
	json_begin_object(w, NULL);
	write_window(info, w);
	json_put_int(w, "cursor", (int64_t)info->cursor);
	json_end_object(w);
}

void windows_list(struct rest_call *call)
{
	struct rest_pending *pending = list_begin(call);
	struct err err;

	if (pending)
		answer_later(pending, window_list(call->sandbox, on_each, pending, &err), &err);
}

/* ---- run ---- */

/* Text that the limit or the moment split is left for the next read, which begins at cursor. */
static void write_output(const struct window_result *result, bool torn, struct json_writer *w)
{
	struct str output = result->output;
	size_t n = torn ? text_whole(output) : output.n;

	text_put(w, "output", "output_b64", (struct str){ output.p, n });
	json_put_int(w, "cursor", (int64_t)(result->cursor - (output.n - n)));
	json_put_int(w, "gap_bytes", (int64_t)result->gap_bytes);
	json_put_bool(w, "truncated", result->truncated);
}

static void on_ran(void *arg, const struct window_result *result, const struct err *err)
{
	struct reply reply;

	if (!reply_begin(arg, err, &reply))
		return;
	json_put_text(&reply.w, "window", result->name);
	json_put_int(&reply.w, "run", result->run);
	json_put_int(&reply.w, "process_id", result->process_id);
	json_put_text(&reply.w, "state", result->status.reason ? "exited" : "running");
	write_end(&result->status, &reply.w);
	json_put_int(&reply.w, "oom_kills", result->status.oom_kills);
	write_output(result, !result->status.reason || result->truncated, &reply.w);
	json_put_bool(&reply.w, "made", result->made);
	json_put_bool(&reply.w, "cancelled", result->cancelled);
	json_put_real(&reply.w, "duration_ms", (double)result->duration_us / 1000);
	reply_send(&reply);
}

static void on_run_gone(void *arg)
{
	struct rest_pending *pending = arg;

	window_leave(pending->rest->service, pending->base.work);
	(void)pending_end(pending);
}

void windows_run(struct rest_call *call)
{
	struct window_spec spec = { .name = call->args[1] };
	struct rest_pending *pending;
	struct err err;

	if (field_decode(window_run_fields, call->doc, "", call->req->arena, &spec, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	pending = pending_for(call);
	if (!pending)
		return;
	if (window_run(call->sandbox, &spec, on_ran, pending, &pending->base.work, &err) < 0)
		answer_later(pending, -1, &err);
	else
		http_req_on_gone(call->req, on_run_gone, pending);
}

/* ---- read, input, close ---- */

static void on_read(void *arg, const struct window_info *info, const struct window_result *result,
		    const struct err *err)
{
	struct reply reply;

	if (!reply_begin(arg, err, &reply))
		return;
	write_window(info, &reply.w);
	write_output(result, info->busy || result->truncated, &reply.w);
	reply_send(&reply);
}

void windows_read(struct rest_call *call)
{
	struct window_read read = { .name = call->args[1], .max_bytes = WINDOW_OUTPUT_DEFAULT };
	int64_t cursor = -1;
	struct rest_pending *pending;
	struct err err;

	if (query_int(call->req, "cursor", 0, INT64_MAX, &cursor, &err) < 0 ||
	    query_int(call->req, "max_bytes", 1, WINDOW_OUTPUT_MAX, &read.max_bytes, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	read.from_run = cursor < 0;
	read.cursor = (uint64_t)MAX(cursor, 0);
	pending = pending_for(call);
	if (pending)
		answer_later(pending, window_read(call->sandbox, &read, on_read, pending, &err),
			     &err);
}

void windows_input(struct rest_call *call)
{
	struct str bytes;
	struct rest_pending *pending = input_begin(call, &bytes);
	struct err err;

	if (pending)
		answer_later(pending,
			     window_input(call->sandbox, call->args[1], bytes, answer_done, pending,
					  &err),
			     &err);
}

void windows_delete(struct rest_call *call)
{
	answer_named(call, window_close);
}
