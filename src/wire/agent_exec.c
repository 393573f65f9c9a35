/* SPDX-License-Identifier: Apache-2.0 */
/* The two frames that carry lists of strings: EXEC and WINDOW_RUN. */
#include "wire/agent_codec.h"

#define EXEC_FIXED_SIZE 40
#define WINDOW_FIXED_SIZE 24

bool agent_name_ok(struct str name)
{
	if (name.n == 0 || name.n > AGENT_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			  (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';

		if (!ok)
			return false;
	}
	return true;
}

static const char *or_empty(const char *s)
{
	return s ? s : "";
}

/* Adds the sizes of the strings of list; false beyond AGENT_ARGS_MAX or AGENT_TO_MAX_BYTES. */
static bool measure(const char *const *list, size_t *count, size_t *bytes)
{
	for (*count = 0; list && list[*count]; (*count)++) {
		*bytes += strlen(list[*count]) + 1;
		if (*count == AGENT_ARGS_MAX || *bytes > AGENT_TO_MAX_BYTES)
			return false;
	}
	return true;
}

static char *store_string(char *p, const char *s)
{
	size_t n = strlen(s) + 1;

	memcpy(p, s, n);
	return p + n;
}

static char *store_list(char *p, const char *const *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		p = store_string(p, list[i]);
	return p;
}

/* The area must contain exactly count NUL bytes, the last one at its end. */
static bool strings_ok(struct str area, size_t count)
{
	size_t seen = 0;

	if (area.n == 0 || area.p[area.n - 1] != '\0')
		return false;
	for (const char *p = area.p, *end = area.p + area.n; p < end; p += strlen(p) + 1)
		seen++;
	return seen == count;
}

static const char *next_string(const char *s)
{
	return s + strlen(s) + 1;
}

static const char *point_at(const char *p, const char **list, size_t count)
{
	for (size_t i = 0; i < count; i++, p = next_string(p))
		list[i] = p;
	list[count] = NULL;
	return p;
}

/* ---- EXEC ---- */

/* Checks the numbers and flags that both forms of EXEC share. */
static bool exec_ok(const struct agent_exec *e)
{
	bool follow = e->flags & AGENT_EXEC_FOLLOW;
	bool collect = e->flags & AGENT_EXEC_COLLECT;

	if ((e->flags & ~AGENT_EXEC_FLAGS) || e->timeout_ms > AGENT_TIMEOUT_MAX_MS ||
	    e->output_max_bytes > AGENT_OUTPUT_MAX_BYTES ||
	    e->ring_bytes > AGENT_OUTPUT_MAX_BYTES || e->keep_ms > AGENT_KEEP_MAX_MS ||
	    e->credit > AGENT_CREDIT_MAX)
		return false;
	/*
	 * The output of a collected process is sent as a whole: it cannot be followed, and a tool
	 * cannot be collected.
	 */
	if (collect && (e->flags & (AGENT_EXEC_FOLLOW | AGENT_EXEC_TOOL | AGENT_EXEC_HOLD)))
		return false;
	if ((e->flags & AGENT_EXEC_TOOL) && (e->flags & AGENT_EXEC_HOLD))
		return false;
	if ((e->flags & AGENT_EXEC_SAVE) && !collect)
		return false;
	if ((e->flags & AGENT_EXEC_TOOL) && (e->flags & AGENT_EXEC_TTY))
		return false;
	if (follow != (e->follow_id != 0) || (!follow && e->credit))
		return false;
	return agent_tty_ok(e->flags & AGENT_EXEC_TTY, e->cols, e->rows) &&
	       (!e->name[0] || agent_name_ok(str_of(e->name)));
}

struct exec_shape {
	size_t argc, envc, strings_bytes;
};

static int exec_shape(const struct agent_exec_args *args, struct exec_shape *ret)
{
	struct agent_exec as_read = {
		.flags = args->flags,
		.timeout_ms = args->timeout_ms,
		.output_max_bytes = args->output_max_bytes,
		.ring_bytes = args->ring_bytes,
		.keep_ms = args->keep_ms,
		.follow_id = args->follow_id,
		.credit = args->credit,
		.cols = args->cols,
		.rows = args->rows,
		.name = or_empty(args->name),
	};
	struct exec_shape shape = { 0 };

	if (!args->argv || !args->argv[0] || !exec_ok(&as_read))
		return -EINVAL;
	shape.strings_bytes = 3 + strlen(or_empty(args->user)) + strlen(or_empty(args->cwd)) +
			      strlen(or_empty(args->name));
	if (!measure(args->argv, &shape.argc, &shape.strings_bytes) ||
	    !measure(args->env, &shape.envc, &shape.strings_bytes) ||
	    shape.strings_bytes > AGENT_TO_MAX_BYTES - EXEC_FIXED_SIZE)
		return -EMSGSIZE;
	*ret = shape;
	return 0;
}

size_t agent_exec_size(const struct agent_exec_args *args)
{
	struct exec_shape shape;

	if (exec_shape(args, &shape) < 0)
		return SIZE_MAX;
	return EXEC_FIXED_SIZE + shape.strings_bytes;
}

int agent_put_exec(struct buf *out, uint32_t process_id, const struct agent_exec_args *args)
{
	struct exec_shape shape;
	size_t fixed;
	char *p;
	int r;

	if (process_id == 0)
		return -EINVAL;
	r = exec_shape(args, &shape);
	if (r < 0)
		return r;
	fixed = EXEC_FIXED_SIZE + shape.strings_bytes;
	if (args->stdin_bytes.n > AGENT_TO_MAX_BYTES - fixed)
		return -EMSGSIZE;
	r = frame_put(out, AGENT_EXEC, args->flags, process_id, fixed + args->stdin_bytes.n, &p);
	if (r < 0)
		return r;
	frame_store64(p, args->timeout_ms);
	frame_store32(p + 8, args->output_max_bytes);
	frame_store32(p + 12, args->ring_bytes);
	frame_store32(p + 16, args->keep_ms);
	frame_store32(p + 20, args->follow_id);
	frame_store32(p + 24, args->credit);
	frame_store16(p + 28, args->cols);
	frame_store16(p + 30, args->rows);
	frame_store16(p + 32, (uint16_t)shape.argc);
	frame_store16(p + 34, (uint16_t)shape.envc);
	frame_store32(p + 36, (uint32_t)shape.strings_bytes);
	p = store_string(p + EXEC_FIXED_SIZE, or_empty(args->user));
	p = store_string(p, or_empty(args->cwd));
	p = store_string(p, or_empty(args->name));
	p = store_list(p, args->argv, shape.argc);
	p = store_list(p, args->env, shape.envc);
	if (args->stdin_bytes.n)
		memcpy(p, args->stdin_bytes.p, args->stdin_bytes.n);
	return 0;
}

int agent_get_exec(const struct frame *frame, struct agent_exec *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_exec exec = { .process_id = frame->process_id, .flags = frame->flags };
	struct str strings;

	if (agent_check(frame, AGENT_EXEC, AGENT_EXEC_FLAGS, true) < 0)
		return -EPROTO;
	exec.timeout_ms = frame_u64(&r);
	exec.output_max_bytes = frame_u32(&r);
	exec.ring_bytes = frame_u32(&r);
	exec.keep_ms = frame_u32(&r);
	exec.follow_id = frame_u32(&r);
	exec.credit = frame_u32(&r);
	exec.cols = frame_u16(&r);
	exec.rows = frame_u16(&r);
	exec.argc = frame_u16(&r);
	exec.envc = frame_u16(&r);
	strings = frame_bytes(&r, frame_u32(&r));
	exec.stdin_bytes = frame_rest(&r);
	if (frame_reader_end(&r) < 0)
		return -EPROTO;
	if (exec.argc == 0 || exec.argc > AGENT_ARGS_MAX || exec.envc > AGENT_ARGS_MAX ||
	    !strings_ok(strings, (size_t)exec.argc + exec.envc + 3))
		return -EPROTO;
	exec.user = strings.p;
	exec.cwd = next_string(exec.user);
	exec.name = next_string(exec.cwd);
	exec.args = next_string(exec.name);
	if (!exec_ok(&exec))
		return -EPROTO;
	*ret = exec;
	return 0;
}

void agent_exec_pointers(const struct agent_exec *exec, const char **argv, const char **env)
{
	(void)point_at(point_at(exec->args, argv, exec->argc), env, exec->envc);
}

/* ---- WINDOW_RUN ---- */

static bool window_ok(const struct agent_window_run *w)
{
	return w->process_id && w->tag && w->follow_id && w->credit <= AGENT_CREDIT_MAX &&
	       w->ring_bytes <= AGENT_OUTPUT_MAX_BYTES && w->command.n &&
	       agent_no_nul(w->command) && agent_name_ok(str_of(w->name));
}

int agent_put_window_run(struct buf *out, uint32_t process_id, const struct agent_window_args *args)
{
	struct agent_window_run as_read = {
		.process_id = process_id,
		.tag = args->tag,
		.follow_id = args->follow_id,
		.credit = args->credit,
		.ring_bytes = args->ring_bytes,
		.name = or_empty(args->name),
		.command = args->command,
	};
	size_t envc, strings, fixed;
	char *p;
	int r;

	if (!window_ok(&as_read))
		return -EINVAL;
	strings =
		3 + strlen(args->name) + strlen(or_empty(args->user)) + strlen(or_empty(args->cwd));
	if (!measure(args->env, &envc, &strings) ||
	    strings > AGENT_TO_MAX_BYTES - WINDOW_FIXED_SIZE)
		return -EMSGSIZE;
	fixed = WINDOW_FIXED_SIZE + strings;
	if (args->command.n > AGENT_TO_MAX_BYTES - fixed)
		return -EMSGSIZE;
	r = frame_put(out, AGENT_WINDOW_RUN, 0, process_id, fixed + args->command.n, &p);
	if (r < 0)
		return r;
	frame_store32(p, args->tag);
	frame_store32(p + 4, args->follow_id);
	frame_store32(p + 8, args->credit);
	frame_store32(p + 12, args->ring_bytes);
	frame_store16(p + 16, (uint16_t)envc);
	frame_store16(p + 18, 0);
	frame_store32(p + 20, (uint32_t)strings);
	p = store_string(p + WINDOW_FIXED_SIZE, args->name);
	p = store_string(p, or_empty(args->user));
	p = store_string(p, or_empty(args->cwd));
	p = store_list(p, args->env, envc);
	memcpy(p, args->command.p, args->command.n);
	return 0;
}

int agent_get_window_run(const struct frame *frame, struct agent_window_run *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct agent_window_run run = { .process_id = frame->process_id };
	struct str strings;
	uint16_t zero;

	if (agent_check(frame, AGENT_WINDOW_RUN, 0, true) < 0)
		return -EPROTO;
	run.tag = frame_u32(&r);
	run.follow_id = frame_u32(&r);
	run.credit = frame_u32(&r);
	run.ring_bytes = frame_u32(&r);
	run.envc = frame_u16(&r);
	zero = frame_u16(&r);
	strings = frame_bytes(&r, frame_u32(&r));
	run.command = frame_rest(&r);
	if (frame_reader_end(&r) < 0 || zero || run.envc > AGENT_ARGS_MAX ||
	    !strings_ok(strings, (size_t)run.envc + 3))
		return -EPROTO;
	run.name = strings.p;
	run.user = next_string(run.name);
	run.cwd = next_string(run.user);
	run.args = next_string(run.cwd);
	if (!window_ok(&run))
		return -EPROTO;
	*ret = run;
	return 0;
}

void agent_window_pointers(const struct agent_window_run *run, const char **env)
{
	(void)point_at(run->args, env, run->envc);
}
