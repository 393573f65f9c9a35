/* SPDX-License-Identifier: Apache-2.0 */
/* Frames from the daemon to the agent: every decoded frame must encode to the same bytes again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/agent.h"
#include "wire_again.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int put_exec(struct buf *again, const struct frame *frame, const struct agent_exec *exec)
{
	const char **argv = calloc((size_t)exec->argc + exec->envc + 2, sizeof(*argv));
	struct agent_exec_args args = {
		.argv = argv,
		.env = argv + exec->argc + 1,
		.cwd = exec->cwd,
		.user = exec->user,
		.name = exec->name,
		.stdin_bytes = exec->stdin_bytes,
		.timeout_ms = exec->timeout_ms,
		.output_max_bytes = exec->output_max_bytes,
		.ring_bytes = exec->ring_bytes,
		.keep_ms = exec->keep_ms,
		.follow_id = exec->follow_id,
		.credit = exec->credit,
		.cols = exec->cols,
		.rows = exec->rows,
		.flags = exec->flags,
	};
	int r;

	if (!argv)
		abort();
	agent_exec_pointers(exec, argv, argv + exec->argc + 1);
	r = agent_put_exec(again, frame->process_id, &args);
	free(argv);
	return r;
}

static int put_window(struct buf *again, const struct agent_window_run *run)
{
	const char **env = calloc((size_t)run->envc + 1, sizeof(*env));
	struct agent_window_args args = {
		.name = run->name,
		.env = env,
		.cwd = run->cwd,
		.user = run->user,
		.command = run->command,
		.tag = run->tag,
		.follow_id = run->follow_id,
		.credit = run->credit,
		.ring_bytes = run->ring_bytes,
	};
	int r;

	if (!env)
		abort();
	agent_window_pointers(run, env);
	r = agent_put_window_run(again, run->process_id, &args);
	free(env);
	return r;
}

static int put_tagged(struct buf *again, const struct frame *frame, uint32_t tag)
{
	switch (frame->type) {
	case AGENT_CLOSE_STDIN:
		return agent_put_close_stdin(again, frame->process_id, tag);
	case AGENT_LIST:
		return agent_put_list(again, frame->process_id, tag);
	case AGENT_FORGET:
		return agent_put_forget(again, frame->process_id, tag);
	}
	return -EINVAL;
}

/* 1: not a frame of this direction. */
static int put_again(struct buf *again, const struct frame *frame)
{
	uint32_t id = frame->process_id, tag, value;
	struct agent_window_run run;
	struct agent_follow follow;
	struct agent_exec exec;
	uint16_t cols, rows;
	struct str bytes;
	int signum;
	char *at;

	if (agent_get_exec(frame, &exec) == 0)
		return put_exec(again, frame, &exec);
	if (agent_get_window_run(frame, &run) == 0)
		return put_window(again, &run);
	if (agent_get_stdin(frame, &tag, &bytes) == 0)
		return agent_put_stdin(again, id, tag, frame->flags, bytes);
	if (agent_get_tag(frame, &tag) == 0)
		return put_tagged(again, frame, tag);
	if (agent_get_kill(frame, &tag, &signum) == 0)
		return agent_put_kill(again, id, tag, signum);
	if (agent_get_follow(frame, &follow) == 0)
		return agent_put_follow(again, &follow);
	if (agent_get_resize(frame, &tag, &cols, &rows) == 0)
		return agent_put_resize(again, id, tag, cols, rows);
	if (agent_get_credit(frame, &tag, &value) == 0)
		return agent_put_credit(again, tag, value);
	if (agent_get_unfollow(frame, &value) == 0)
		return agent_put_unfollow(again, value);
	if (agent_get_stop(frame, &tag, &value) == 0)
		return agent_put_stop(again, id, tag, frame->flags, value);
	if (agent_get_dial(frame, &tag, &cols) == 0)
		return agent_put_dial(again, tag, cols);
	if (agent_get_ports(frame, &tag) == 0)
		return agent_put_ports(again, tag);
	if (agent_get_detach(frame) == 0)
		return agent_put_detach(again, id);
	if (agent_get_empty(frame) == 0) {
		if (buf_reserve(again, FRAME_HEADER_SIZE, &at) < 0)
			abort();
		agent_pack_empty(at, (enum agent_type)frame->type);
		buf_commit(again, FRAME_HEADER_SIZE);
		return 0;
	}
	return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	wire_again(data, size, AGENT_TO_MAX_BYTES, put_again);
	return 0;
}
