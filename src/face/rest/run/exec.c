/* SPDX-License-Identifier: Apache-2.0 */
/* Commands with a waiting client, and commands with streamed output. */
#include "service/run/exec.h"

#include <errno.h>
#include <stdio.h>

#include "face/rest/run/stream.h"

#define AT(member) offsetof(struct exec_spec, member)

#define COMMAND_FIELDS                                                                          \
	{ .name = "command",                                                                    \
	  .type = FIELD_STR,                                                                    \
	  .offset = AT(command),                                                                \
	  .max = EXEC_STRING_MAX - 1,                                                           \
	  .doc = "runs through the template's shell; command or argv" },                        \
		{ .name = "argv",                                                               \
		  .type = FIELD_STRINGS,                                                        \
		  .offset = AT(argv),                                                           \
		  .max = EXEC_ARGV_MAX,                                                         \
		  .doc = "runs directly" },                                                     \
		{ .name = "cwd",                                                                \
		  .type = FIELD_STR,                                                            \
		  .offset = AT(cwd),                                                            \
		  .min = 1,                                                                     \
		  .max = EXEC_CWD_MAX,                                                          \
		  .doc = "default: the template's workdir, which is also the base of relative " \
			 "paths" },                                                             \
		{ .name = "env",                                                                \
		  .type = FIELD_MAP,                                                            \
		  .offset = AT(env),                                                            \
		  .doc = "override the sandbox's variables, which override the template's" },   \
		{ .name = "user",                                                               \
		  .type = FIELD_STR,                                                            \
		  .offset = AT(user),                                                           \
		  .min = 1,                                                                     \
		  .max = EXEC_USER_MAX,                                                         \
		  .doc = "a name or a number" },                                                \
		{ .name = "stdin",                                                              \
		  .type = FIELD_STR,                                                            \
		  .offset = AT(stdin_text),                                                     \
		  .max = EXEC_BODY_LIMIT },                                                     \
	{                                                                                       \
		.name = "stdin_b64", .type = FIELD_STR, .offset = AT(stdin_b64),                \
		.max = EXEC_BODY_LIMIT                                                          \
	}
#define TIMEOUT_FIELD(least, usual, text)                                                        \
	{                                                                                        \
		.name = "timeout_sec", .type = FIELD_INT, .offset = AT(timeout_sec),             \
		.min = (least), .limit = FIELD_LIMIT_COMMAND, .fallback = (usual), .doc = (text) \
	}
#define DETACHED_FIELDS(open)                                                         \
	{ .name = "stdin_open",                                                       \
	  .type = FIELD_BOOL,                                                         \
	  .offset = AT(stdin_open),                                                   \
	  .fallback = (open),                                                         \
	  .doc = "more input follows with POST .../stdin, until close-stdin" },       \
		{ .name = "tty",                                                      \
		  .type = FIELD_OBJECT,                                               \
		  .fields = tty_fields,                                               \
		  .sent = FIELD_SENT(AT(tty)),                                        \
		  .doc = "a terminal; all its output is stdout" },                    \
	{                                                                             \
		.name = "name", .type = FIELD_STR, .offset = AT(name), .min = 1,      \
		.max = PROCESS_NAME_MAX,                                              \
		.doc = "[A-Za-z0-9._-], not a number; unique among running processes" \
	}

static const struct field tty_fields[] = { { .name = "cols",
					     .type = FIELD_INT,
					     .offset = AT(cols),
					     .min = 1,
					     .max = PROCESS_TTY_MAX,
					     .fallback = PROCESS_COLS },
					   { .name = "rows",
					     .type = FIELD_INT,
					     .offset = AT(rows),
					     .min = 1,
					     .max = PROCESS_TTY_MAX,
					     .fallback = PROCESS_ROWS },
					   { .type = FIELD_END } };
const struct field exec_fields[] = {
	COMMAND_FIELDS,
	TIMEOUT_FIELD(1, EXEC_TIMEOUT_DEFAULT_SEC,
		      "then all of its processes are killed, and exit_code is 124"),
	{ .name = "max_output_bytes",
	  .type = FIELD_INT,
	  .offset = AT(max_output_bytes),
	  .max = EXEC_OUTPUT_MAX,
	  .fallback = EXEC_OUTPUT_DEFAULT,
	  .doc = "per stream; more output is written to a file inside, see full_output" },
	{ .type = FIELD_END }
};
const struct field stream_fields[] = { COMMAND_FIELDS,
				       TIMEOUT_FIELD(0, EXEC_TIMEOUT_DEFAULT_SEC, "0: none"),
				       DETACHED_FIELDS(false),
				       { .type = FIELD_END } };
const struct field process_fields[] = {
	COMMAND_FIELDS,
	TIMEOUT_FIELD(0, 0, "0: none"),
	DETACHED_FIELDS(true),
	{ .name = "hold",
	  .type = FIELD_BOOL,
	  .offset = AT(hold),
	  .doc = "a foreground reader will attach with hold=true within 60 s: until then no output "
		 "is overwritten" },
	{ .type = FIELD_END }
};
#undef AT

/* ---- with a waiting client ---- */

static void put_output(struct json_writer *w, const char *key, const char *key_b64, struct str s,
		       bool truncated)
{
	/* If the limit splits a character, the rest of it is cut, too: the program did not write
	 * an invalid one. */
	if (truncated)
		s.n = text_whole(s);
	text_put(w, key, key_b64, s);
}

static void put_hint(struct json_writer *w, const struct exec_result *result, bool cut)
{
	char text[512];

	if (!cut) {
		json_put_null(w, "hint");
		return;
	}
	if (result->full_output)
		(void)snprintf(text, sizeof(text),
			       "The output was cut. %s is in %s inside the sandbox: read it with "
			       "grep, head or tail.",
			       result->full_output_complete ? "All of it" : "The first part of it",
			       result->full_output);
	else
		(void)snprintf(text, sizeof(text),
			       "The output was cut: raise max_output_bytes, or let the command "
			       "write to a file and read that with grep, head or tail.");
	json_put_text(w, "hint", text);
}

static void write_result(const struct exec_result *result, struct json_writer *w)
{
	const struct process_status *status = &result->status;
	bool out_cut = status->out_total > result->out.n,
	     err_cut = status->err_total > result->err.n;

	json_put_int(w, "process_id", result->process_id);
	put_output(w, "stdout", "stdout_b64", result->out, out_cut);
	put_output(w, "stderr", "stderr_b64", result->err, err_cut);
	process_write_end(status, w);
	json_put_bool(w, "timed_out", strcmp(status->reason, "timeout") == 0);
	json_put_bool(w, "stdout_truncated", out_cut);
	json_put_bool(w, "stderr_truncated", err_cut);
	json_put_bool(w, "truncated", out_cut || err_cut);
	json_put_text(w, "full_output", result->full_output);
	put_hint(w, result, out_cut || err_cut);
}

static void on_done(void *arg, const struct exec_result *result, const struct err *err)
{
	struct reply reply;

	if (!reply_begin(arg, err, &reply))
		return;
	write_result(result, &reply.w);
	reply_send(&reply);
}

static void on_gone(void *arg)
{
	struct rest_pending *pending = arg;

	exec_detach(pending->rest->service, pending->base.work);
	(void)pending_end(pending);
}

void exec_run(struct rest_call *call)
{
	struct exec_spec spec = { .timeout_sec = 0 };
	struct err err = { .code = ERR_UNAVAILABLE };
	struct rest_pending *pending;

	if (field_decode(exec_fields, call->doc, "", call->req->arena, &spec, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	pending = pending_new(call);
	if (!pending ||
	    exec_start(call->sandbox, &spec, on_done, pending, &pending->base.work, &err) < 0) {
		if (pending)
			(void)pending_end(pending);
		answer_error(call->rest, call->req, &err);
		return;
	}
	http_req_on_gone(call->req, on_gone, pending);
}

/* ---- streamed ---- */

static void on_started(void *arg, uint32_t process_id, uint32_t pid, slot_handle follow,
		       const struct err *err)
{
	struct stream *stream = arg;

	if (stream_is_gone(stream)) {
		if (follow)
			stream_drop(stream, follow);
		else
			stream_free(stream);
		return;
	}
	if (err) {
		stream_refuse(stream, err);
		return;
	}
	stream_set_follow(stream, follow);
	stream_begin(stream);
	stream_tell_started(stream, process_id, pid);
}

void exec_stream(struct rest_call *call)
{
	struct exec_spec spec = { .timeout_sec = 0 };
	struct stream *stream;
	struct err err;

	if (field_decode(stream_fields, call->doc, "", call->req->arena, &spec, &err) < 0 ||
	    !(stream = stream_new(call, false, &err))) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	spec.hold = true;
	if (process_start(call->sandbox, &spec, on_started, stream,
			  &(struct process_reader){ &stream_hooks, stream, STREAM_CREDIT },
			  &err) < 0)
		stream_refuse(stream, &err);
}
