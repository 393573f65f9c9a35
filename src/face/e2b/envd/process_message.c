/* SPDX-License-Identifier: Apache-2.0 */
#include "face/e2b/envd/process_message.h"

#include <signal.h>

#include "face/e2b/call.h"
#include "face/kit/field.h"

/* ---- which process ---- */

#define SELECTOR_FIELDS(base)                                                \
	{ .name = "pid",                                                     \
	  .type = FIELD_INT,                                                 \
	  .offset = (base) + offsetof(struct process_selector, pid),         \
	  .max = UINT32_MAX },                                               \
		{ .name = "tag",                                             \
		  .type = FIELD_STR,                                         \
		  .offset = (base) + offsetof(struct process_selector, tag), \
		  .max = PROCESS_NAME_MAX },                                 \
	{                                                                    \
		.type = FIELD_END                                            \
	}

static const struct field selector_fields[] = { SELECTOR_FIELDS(0) };
static const struct field selected_fields[] = {
	{ .name = "process", .type = FIELD_OBJECT, .fields = selector_fields },
	{ .type = FIELD_END }
};

static int check_selector(const struct process_selector *selector, struct err *err)
{
	if (selector->pid || selector->tag.n)
		return 0;
	return err_set(err, ERR_INVALID_REQUEST, "process: a pid or a tag is needed");
}

int process_selector_read(const struct json *message, struct process_selector *ret, struct err *err)
{
	struct process_selector body = { .pid = 0 };

	if (field_decode_open(selected_fields, message, NULL, &body, err) < 0 ||
	    check_selector(&body, err) < 0)
		return -1;
	*ret = body;
	return 0;
}

/* ---- start ---- */

struct start_body {
	struct str cmd, cwd, tag;
	struct text_list args;
	struct text_map envs;
	struct process_size size;
	bool has_pty, stdin_open;
};
#define AT(member) offsetof(struct start_body, member)
static const struct field config_fields[] = {
	{ .name = "cmd",
	  .type = FIELD_STR,
	  .offset = AT(cmd),
	  .min = 1,
	  .max = EXEC_STRING_MAX,
	  .required = true },
	{ .name = "args", .type = FIELD_STRINGS, .offset = AT(args), .max = EXEC_ARGV_MAX - 1 },
	{ .name = "envs", .type = FIELD_MAP, .offset = AT(envs) },
	{ .name = "cwd", .type = FIELD_STR, .offset = AT(cwd), .max = EXEC_CWD_MAX },
	{ .type = FIELD_END }
};
static const struct field start_size_fields[] = { { .name = "cols",
						    .type = FIELD_INT,
						    .offset = AT(size.cols),
						    .max = UINT32_MAX,
						    .fallback = PROCESS_COLS },
						  { .name = "rows",
						    .type = FIELD_INT,
						    .offset = AT(size.rows),
						    .max = UINT32_MAX,
						    .fallback = PROCESS_ROWS },
						  { .type = FIELD_END } };
static const struct field start_pty_fields[] = {
	{ .name = "size", .type = FIELD_OBJECT, .fields = start_size_fields }, { .type = FIELD_END }
};
static const struct field start_fields[] = {
	{ .name = "process", .type = FIELD_OBJECT, .fields = config_fields, .required = true },
	{ .name = "pty",
	  .type = FIELD_OBJECT,
	  .fields = start_pty_fields,
	  .sent = FIELD_SENT(AT(has_pty)) },
	{ .name = "tag", .type = FIELD_STR, .offset = AT(tag), .max = PROCESS_NAME_MAX },
	{ .name = "stdin", .type = FIELD_BOOL, .offset = AT(stdin_open), .fallback = true },
	{ .type = FIELD_END }
};
#undef AT

static int read_argv(const struct start_body *body, struct arena *arena, struct text_list *ret,
		     struct err *err)
{
	struct str *argv = arena_alloc(arena, (body->args.count + 1) * sizeof(*argv));

	if (!argv)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	argv[0] = body->cmd;
	for (size_t i = 0; i < body->args.count; i++)
		argv[i + 1] = body->args.list[i];
	*ret = (struct text_list){ argv, body->args.count + 1 };
	return 0;
}

static bool has_variable(const struct text_map *env, struct str name)
{
	for (size_t i = 0; i < env->count; i++)
		if (str_eq(env->list[i].key, name))
			return true;
	return false;
}

/* The client's variables, and E2B's own unless the client set them. */
static int read_env(const struct start_body *body, const struct process_origin *origin,
		    struct arena *arena, struct text_map *ret, struct err *err)
{
	const struct text_pair own[] = {
		{ STR_LIT("E2B_SANDBOX"), STR_LIT("true") },
		{ STR_LIT("E2B_SANDBOX_ID"), origin->sandbox_id },
		{ STR_LIT("E2B_TEMPLATE_ID"), origin->template },
	};
	struct text_pair *list =
		arena_alloc(arena, (body->envs.count + ARRAY_LEN(own)) * sizeof(*list));
	size_t n = body->envs.count;

	if (!list)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	if (n)
		memcpy(list, body->envs.list, n * sizeof(*list));
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (!has_variable(&body->envs, own[i].key))
			list[n++] = own[i];
	*ret = (struct text_map){ list, n };
	return 0;
}

static int64_t clamp(int64_t size)
{
	return MIN(MAX(size, 1), PROCESS_TTY_MAX);
}

int process_start_read(const struct json *message, const struct process_origin *origin,
		       struct arena *arena, struct exec_spec *ret, struct err *err)
{
	struct start_body body = { .has_pty = false };
	struct exec_spec spec = { .timeout_sec = 0 };

	if (field_decode_open(start_fields, message, arena, &body, err) < 0 ||
	    read_argv(&body, arena, &spec.argv, err) < 0 ||
	    read_env(&body, origin, arena, &spec.env, err) < 0)
		return -1;
	spec.cwd = body.cwd;
	spec.name = body.tag;
	spec.stdin_open = body.stdin_open;
	spec.tty = body.has_pty;
	spec.cols = clamp(body.size.cols);
	spec.rows = clamp(body.size.rows);
	*ret = spec;
	return 0;
}

/* ---- input ---- */

struct input_body {
	struct str to_stdin, to_pty;
};
#define INPUT_FIELDS(base)                                                \
	{ .name = "stdin",                                                \
	  .type = FIELD_STR,                                              \
	  .offset = (base) + offsetof(struct input_body, to_stdin),       \
	  .max = E2B_RPC_LIMIT },                                         \
		{ .name = "pty",                                          \
		  .type = FIELD_STR,                                      \
		  .offset = (base) + offsetof(struct input_body, to_pty), \
		  .max = E2B_RPC_LIMIT },                                 \
	{                                                                 \
		.type = FIELD_END                                         \
	}

static const struct field input_bytes_fields[] = { INPUT_FIELDS(0) };
static const struct field input_fields[] = {
	{ .name = "input", .type = FIELD_OBJECT, .fields = input_bytes_fields },
	{ .type = FIELD_END }
};

static int decode_input(const struct input_body *body, struct arena *arena, struct str *ret,
			struct err *err)
{
	struct str b64 = body->to_stdin.p ? body->to_stdin : body->to_pty;

	if (!b64.p)
		return err_set(err, ERR_INVALID_REQUEST, "input: stdin or pty is needed");
	return input_decode(arena, "input", b64, ret, err);
}

int process_input_read(const struct json *message, struct arena *arena, struct str *ret,
		       struct err *err)
{
	struct input_body body = { .to_stdin = { NULL, 0 } };

	if (field_decode_open(input_fields, message, NULL, &body, err) < 0)
		return -1;
	return decode_input(&body, arena, ret, err);
}

/* ---- signals and sizes ---- */

struct signal_body {
	const struct json *signal;
};
static const struct field signal_fields[] = {
	{ .name = "signal", .type = FIELD_ANY, .offset = offsetof(struct signal_body, signal) },
	{ .type = FIELD_END }
};

int process_signal_read(const struct json *message, int *ret, struct err *err)
{
	struct signal_body body = { .signal = NULL };
	int signum = 0;

	if (field_decode_open(signal_fields, message, NULL, &body, err) < 0)
		return -1;
	if (body.signal && json_type(body.signal) == JSON_STRING) {
		if (str_is(json_str(body.signal), "SIGNAL_SIGKILL"))
			signum = SIGKILL;
		else if (str_is(json_str(body.signal), "SIGNAL_SIGTERM"))
			signum = SIGTERM;
	} else if (body.signal && json_type(body.signal) == JSON_INT) {
		if (json_int(body.signal) == SIGKILL || json_int(body.signal) == SIGTERM)
			signum = (int)json_int(body.signal);
	}
	if (!signum)
		return err_set(err, ERR_INVALID_REQUEST,
			       "signal: must be SIGNAL_SIGTERM or SIGNAL_SIGKILL");
	*ret = signum;
	return 0;
}

struct size_body {
	struct process_size size;
	bool has_cols, has_rows;
};
#define AT(member) offsetof(struct size_body, member)
static const struct field size_fields[] = { { .name = "cols",
					      .type = FIELD_INT,
					      .offset = AT(size.cols),
					      .max = UINT32_MAX,
					      .sent = FIELD_SENT(AT(has_cols)) },
					    { .name = "rows",
					      .type = FIELD_INT,
					      .offset = AT(size.rows),
					      .max = UINT32_MAX,
					      .sent = FIELD_SENT(AT(has_rows)) },
					    { .type = FIELD_END } };
#undef AT
static const struct field pty_fields[] = {
	{ .name = "size", .type = FIELD_OBJECT, .fields = size_fields }, { .type = FIELD_END }
};
static const struct field update_fields[] = {
	{ .name = "pty", .type = FIELD_OBJECT, .fields = pty_fields }, { .type = FIELD_END }
};

int process_size_read(const struct json *message, struct process_size *ret, struct err *err)
{
	struct size_body body = { .has_cols = false };

	if (field_decode_open(update_fields, message, NULL, &body, err) < 0)
		return -1;
	if (!body.has_cols || !body.has_rows)
		return err_set(err, ERR_INVALID_REQUEST, "pty: size with cols and rows is needed");
	*ret = (struct process_size){ clamp(body.size.cols), clamp(body.size.rows) };
	return 0;
}

/* ---- streams of input ---- */

struct stream_body {
	struct process_selector selector;
	struct input_body input;
	bool start, data;
};
#define AT(member) offsetof(struct stream_body, member)
static const struct field stream_selector_fields[] = { SELECTOR_FIELDS(AT(selector)) };
static const struct field stream_start_fields[] = {
	{ .name = "process", .type = FIELD_OBJECT, .fields = stream_selector_fields },
	{ .type = FIELD_END }
};
static const struct field stream_bytes_fields[] = { INPUT_FIELDS(AT(input)) };
static const struct field stream_data_fields[] = {
	{ .name = "input", .type = FIELD_OBJECT, .fields = stream_bytes_fields },
	{ .type = FIELD_END }
};
static const struct field stream_fields[] = { { .name = "start",
						.type = FIELD_OBJECT,
						.fields = stream_start_fields,
						.sent = FIELD_SENT(AT(start)) },
					      { .name = "data",
						.type = FIELD_OBJECT,
						.fields = stream_data_fields,
						.sent = FIELD_SENT(AT(data)) },
					      { .type = FIELD_END } };
#undef AT

int process_stream_read(const struct json *message, struct arena *arena,
			struct process_stream_message *ret, struct err *err)
{
	struct process_stream_message out = { .start = false };
	struct stream_body body = { .start = false };

	if (json_type(message) != JSON_OBJECT)
		return err_set(err, ERR_INVALID_REQUEST, "a message must be an object");
	if (field_decode_open(stream_fields, message, NULL, &body, err) < 0 ||
	    (body.start && check_selector(&body.selector, err) < 0) ||
	    (body.data && decode_input(&body.input, arena, &out.bytes, err) < 0))
		return -1;
	out.start = body.start;
	out.data = body.data;
	out.selector = body.selector;
	*ret = out;
	return 0;
}
