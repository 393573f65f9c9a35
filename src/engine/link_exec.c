/* SPDX-License-Identifier: Apache-2.0 */
/* Programs: from link_exec() to their end, from link_spawn() to their start. */
#include <errno.h>

#include "engine/link_state.h"

static struct link_process *find(const struct link *link, uint32_t id)
{
	struct link_node *node = link_table_find(&link->processes, id);

	return node ? CONTAINER_OF(node, struct link_process, node) : NULL;
}

static bool gave_process(const struct link *link, uint32_t id)
{
	return id >= link->first_process_id && id < link->next_process_id;
}

static size_t detach_size(const struct link_process *p)
{
	return p->done ? LINK_DETACH_SIZE : 0;
}

/* Removes p from the table; the caller frees it. */
static void take_out(struct link *link, struct link_process *p)
{
	link_table_remove(&link->processes, &p->node);
	link->reserved_bytes -= detach_size(p);
}

static void destroy(struct link_process *p)
{
	loop_timer_free(p->timer);
	buf_done(&p->out);
	buf_done(&p->err);
	free(p);
}

/* p is no longer in a table. */
static void complete(struct link_process *p, const struct link_result *result,
		     const struct err *error)
{
	p->done(p->arg, result, error);
	destroy(p);
}

/* The start failed: the follow that belongs to it ends without a call. */
static void never_started(struct link *link, struct link_process *p, const struct err *error)
{
	struct link_reader *reader = p->follow_id ? link_reader_find(link, p->follow_id) : NULL;

	if (reader)
		link_reader_free(link, reader);
	p->started(p->arg, p->node.id, 0, error);
	destroy(p);
}

void link_drop_processes(struct link *link)
{
	struct link_result gone = { .status = { .end = LINK_END_GONE, .exit_code = -1 } };
	struct link_node *node;
	uint32_t cursor = 0;

	while ((node = link_table_any(&link->processes, &cursor))) {
		struct link_process *p = CONTAINER_OF(node, struct link_process, node);

		take_out(link, p);
		if (p->done)
			complete(p, &gone, &link->why);
		else
			never_started(link, p, &link->why);
	}
}

/* ---- frames of the agent ---- */

/* NULL with *ret 0: abandoned, to be ignored; with *ret -1: never assigned, link->why is set. */
static struct link_process *addressee(struct link *link, uint32_t id, int *ret)
{
	struct link_process *p = find(link, id);

	*ret = 0;
	if (!p && !gave_process(link, id))
		*ret = link_protocol_error(link, "an unexpected frame");
	return p;
}

int link_on_collected(struct link *link, const struct agent_output *output)
{
	struct link_process *p;
	struct buf *buf;
	int r;

	p = addressee(link, output->process_id, &r);
	if (!p)
		return r;
	if (!p->done)
		return link_protocol_error(link, "unexpected output");
	buf = output->stream == AGENT_STREAM_OUT ? &p->out : &p->err;
	if (output->cursor != buf_len(buf))
		return link_protocol_error(link, "output out of order");
	if (output->bytes.n > buf->limit_bytes - buf_len(buf))
		return link_protocol_error(link, "more output than requested");
	if (buf_append(buf, output->bytes.p, output->bytes.n) < 0)
		return err_set(&link->why, ERR_UNAVAILABLE, "out of memory");
	return 0;
}

int link_on_exit(struct link *link, const struct frame *frame)
{
	char saved[AGENT_PATH_MAX + 1];
	struct link_result result;
	struct link_process *p;
	struct agent_exit e;
	int r;

	if (agent_get_exit(frame, &e) < 0 || !link_clean(saved, e.saved))
		return link_protocol_error(link, "bad exit frame");
	p = addressee(link, e.process_id, &r);
	if (!p)
		return r;
	if (!p->done || e.status.out_total < buf_len(&p->out) ||
	    e.status.err_total < buf_len(&p->err))
		return link_protocol_error(link, "bad exit frame");
	result = (struct link_result){ .out = buf_str(&p->out),
				       .err = buf_str(&p->err),
				       .full_output = saved[0] ? saved : NULL,
				       .full_output_complete = e.saved_all };
	link_status_of(&result.status, &e.status);
	take_out(link, p);
	complete(p, &result, NULL);
	return 0;
}

int link_on_started(struct link *link, const struct frame *frame)
{
	struct link_reader *reader;
	struct link_process *p;
	uint32_t pid;
	int r;

	if (agent_get_started(frame, &pid) < 0)
		return link_protocol_error(link, "bad start frame");
	p = addressee(link, frame->process_id, &r);
	if (!p)
		return r;
	if (!p->started)
		return link_protocol_error(link, "an unexpected start");
	reader = p->follow_id ? link_reader_find(link, p->follow_id) : NULL;
	if (reader)
		reader->process_id = p->node.id;
	take_out(link, p);
	p->started(p->arg, p->node.id, pid, NULL);
	destroy(p);
	return 0;
}

int link_on_refused(struct link *link, const struct frame *frame)
{
	struct link_result result = { .status = { .end = LINK_END_REFUSED } };
	struct agent_refused refused;
	struct link_process *p;
	struct err err;
	int r;

	if (agent_get_refused(frame, &refused) < 0)
		return link_protocol_error(link, "bad refusal frame");
	p = addressee(link, frame->process_id, &r);
	if (!p)
		return r;
	link_refusal(&err, refused.code, refused.errno_value, p->argv_field, refused.message);
	result.status.exit_code = link_refusal_exit_code(refused.code);
	take_out(link, p);
	if (p->done)
		complete(p, &result, &err);
	else
		never_started(link, p, &err);
	return 0;
}

/* Later frames for it are ignored. */
static void on_deadline(void *arg)
{
	struct link_process *p = arg;
	struct link_result result = {
		.status = { .end = LINK_END_TIMEOUT,
			    .exit_code = AGENT_TIMEOUT_EXIT_CODE,
			    .out_total = buf_len(&p->out),
			    .err_total = buf_len(&p->err) },
		.out = buf_str(&p->out),
		.err = buf_str(&p->err),
	};

	take_out(p->link, p);
	complete(p, &result, NULL);
}

static void set_deadline(struct link_process *p, int64_t in_ms)
{
	p->deadline_ms = loop_now_ms(p->link->loop) + in_ms;
	if (!p->link->frozen_ms)
		loop_timer_set(p->timer, in_ms, 0);
}

void link_set_frozen(struct link *link, bool frozen)
{
	int64_t now_ms = loop_now_ms(link->loop);
	int64_t since_ms = link->frozen_ms;

	if (frozen == (since_ms != 0))
		return;
	link->frozen_ms = frozen ? MAX(now_ms, 1) : 0;
	for (uint32_t i = 0; i < link->processes.capacity; i++) {
		for (struct link_node *n = link->processes.buckets[i]; n; n = n->next) {
			struct link_process *p = (struct link_process *)n;

			if (p->timer && frozen)
				loop_timer_clear(p->timer);
			else if (p->timer)
				set_deadline(p, MAX(p->deadline_ms - since_ms, 1));
		}
	}
}

/* ---- requests ---- */

static int put_all(struct buf *out, uint32_t id, struct agent_exec_args *args, struct str input)
{
	size_t room = AGENT_TO_MAX_BYTES - agent_exec_size(args);
	bool stays_open = args->flags & AGENT_EXEC_STDIN_OPEN;
	int r;

	args->stdin_bytes = (struct str){ input.p, MIN(input.n, room) };
	if (input.n > room)
		args->flags |= AGENT_EXEC_STDIN_OPEN;
	r = agent_put_exec(out, id, args);
	input.p += args->stdin_bytes.n;
	input.n -= args->stdin_bytes.n;
	while (r == 0 && input.n) {
		struct str piece = { input.p, MIN(input.n, (size_t)AGENT_STDIN_BYTES_MAX) };

		r = agent_put_stdin(out, id, 0, piece.n < input.n ? AGENT_STDIN_MORE : 0, piece);
		input.p += piece.n;
		input.n -= piece.n;
	}
	if (r == 0 && (args->flags & AGENT_EXEC_STDIN_OPEN) && !stays_open)
		r = agent_put_close_stdin(out, id, 0);
	return r;
}

static int check_exec(const struct link *link, const struct link_exec *exec, struct err *err)
{
	if (link_check_ready(link, err) < 0)
		return -1;
	if (!exec->argv || !exec->argv[0])
		return err_set(err, ERR_INVALID_REQUEST, "argv: at least one entry is needed");
	if (exec->name && exec->name[0] && !agent_name_ok(str_of(exec->name)))
		return err_set(err, ERR_INVALID_REQUEST,
			       "name: 1 to %d of letters, digits, '.', '_' and '-'",
			       AGENT_NAME_MAX);
	if (exec->tty && (exec->cols < 1 || exec->cols > AGENT_TTY_MAX || exec->rows < 1 ||
			  exec->rows > AGENT_TTY_MAX))
		return err_set(err, ERR_INVALID_REQUEST, "cols and rows: between 1 and %d",
			       AGENT_TTY_MAX);
	if (exec->stdin_bytes.n > AGENT_STDIN_MAX_BYTES)
		return err_set(err, ERR_PAYLOAD_TOO_LARGE, "stdin: at most %u bytes",
			       AGENT_STDIN_MAX_BYTES);
	if (exec->tool && !link_has_tools(link))
		return err_set(err, ERR_UNSUPPORTED_BY_ENGINE,
			       "the agent of this sandbox has no tools");
	if (link->processes.count == LINK_PROCESSES_MAX || link->next_process_id == UINT32_MAX)
		return err_set(err, ERR_QUOTA_EXCEEDED, "at most %d commands at a time",
			       LINK_PROCESSES_MAX);
	return 0;
}

static struct agent_exec_args args_of(const struct link_exec *exec)
{
	return (struct agent_exec_args){
		.argv = exec->argv,
		.env = exec->env,
		.cwd = exec->cwd,
		.user = exec->user,
		.name = exec->name,
		.timeout_ms = MIN((uint64_t)MAX(exec->timeout_ms, 0), AGENT_TIMEOUT_MAX_MS),
		.ring_bytes = MIN(exec->ring_bytes, AGENT_OUTPUT_MAX_BYTES),
		.keep_ms = MIN(exec->keep_ms, AGENT_KEEP_MAX_MS),
		.cols = exec->tty ? exec->cols : 0,
		.rows = exec->tty ? exec->rows : 0,
		.flags = (uint8_t)((exec->stdin_open ? AGENT_EXEC_STDIN_OPEN : 0) |
				   (exec->tty ? AGENT_EXEC_TTY : 0)),
	};
}

/* Queues everything or nothing. */
static int send_exec(struct link *link, struct agent_exec_args *args, uint32_t id,
		     struct str stdin_bytes, struct err *err)
{
	size_t before = buf_len(&link->out);

	if (agent_exec_size(args) == SIZE_MAX)
		return err_set(err, ERR_PAYLOAD_TOO_LARGE,
			       "argv and env: at most %u bytes and %u entries each",
			       AGENT_TO_MAX_BYTES, AGENT_ARGS_MAX);
	return link_commit(link, before, put_all(&link->out, id, args, stdin_bytes), err);
}

/* Its number is used only when the request is sent. */
static struct link_process *process_new(struct link *link, const struct link_exec *exec,
					link_exec_fn done, link_started_fn started, void *arg,
					size_t keep_bytes, struct err *err)
{
	struct link_process *p = calloc(1, sizeof(*p));

	if (p) {
		p->node.id = link->next_process_id;
		p->link = link;
		p->done = done;
		p->started = started;
		p->arg = arg;
		p->argv_field = exec->argv_field;
		buf_init(&p->out, keep_bytes);
		buf_init(&p->err, keep_bytes);
	}
	if (!p || link_table_add(&link->processes, &p->node) < 0) {
		free(p);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	link->reserved_bytes += detach_size(p);
	return p;
}

uint32_t link_next_process(const struct link *link)
{
	return link->next_process_id;
}

void link_skip_processes(struct link *link, uint32_t upto)
{
	if (upto < UINT32_MAX)
		link->next_process_id = MAX(link->next_process_id, upto + 1);
}

bool link_knew_process(const struct link *link, uint32_t process_id)
{
	return process_id < link->first_process_id;
}

int link_exec(struct link *link, const struct link_exec *exec, link_exec_fn done, void *arg,
	      uint32_t *ret_process_id, struct err *err)
{
	size_t keep_bytes = MIN(exec->output_max_bytes, (size_t)AGENT_OUTPUT_MAX_BYTES);
	struct agent_exec_args args = args_of(exec);
	struct link_process *p;

	if (check_exec(link, exec, err) < 0)
		return -1;
	args.flags |= AGENT_EXEC_COLLECT | (exec->save ? AGENT_EXEC_SAVE : 0);
	args.output_max_bytes = (uint32_t)keep_bytes;
	p = process_new(link, exec, done, NULL, arg, keep_bytes, err);
	if (!p)
		return -1;
	if (args.timeout_ms && loop_timer_new(link->loop, on_deadline, p, &p->timer) < 0) {
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		goto fail;
	}
	if (send_exec(link, &args, p->node.id, exec->stdin_bytes, err) < 0)
		goto fail;
	if (p->timer)
		set_deadline(p, (int64_t)args.timeout_ms + LINK_TIMEOUT_GRACE_MS);
	*ret_process_id = link->next_process_id++;
	return 0;
fail:
	take_out(link, p);
	destroy(p);
	return -1;
}

void link_detach(struct link *link, uint32_t process_id)
{
	struct link_process *p = find(link, process_id);

	if (!p || !p->done)
		return;
	take_out(link, p);
	destroy(p);
	if (link->state != LINK_READY)
		return;
	if (agent_put_detach(&link->out, process_id) < 0)
		link_break(link, ERR_UNAVAILABLE, "out of memory");
	else
		link_flush(link);
}

int link_spawn(struct link *link, const struct link_exec *exec, link_started_fn started, void *arg,
	       const struct link_first_reader *first, struct err *err)
{
	struct agent_exec_args args = args_of(exec);
	struct link_reader *reader = NULL;
	struct link_process *p;

	if (check_exec(link, exec, err) < 0)
		return -1;
	assert(first || !exec->tool); /* without a reader the tool would wait forever */
	p = process_new(link, exec, NULL, started, arg, 0, err);
	if (!p)
		return -1;
	if (first) {
		reader = link_reader_new(link, first->hooks, first->arg, first->credit,
					 exec->tty ? LINK_OUT : LINK_OUT | LINK_ERR, err);
		if (!reader)
			goto fail;
		p->follow_id = args.follow_id = reader->node.id;
		args.credit = reader->credit;
		args.flags |= AGENT_EXEC_FOLLOW;
	}
	if (exec->tool)
		args.flags |= AGENT_EXEC_TOOL;
	else if (exec->hold && (link->features & AGENT_HAS_HOLD))
		args.flags |= AGENT_EXEC_HOLD;
	if (send_exec(link, &args, p->node.id, exec->stdin_bytes, err) < 0)
		goto fail;
	link->next_process_id++;
	if (reader)
		*first->ret_follow_id = reader->node.id;
	return 0;
fail:
	if (reader)
		link_reader_free(link, reader);
	take_out(link, p);
	destroy(p);
	return -1;
}
