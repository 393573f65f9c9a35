/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatches the daemon's requests. A frame that does not parse ends the connection. */
#include <errno.h>

#include "agent/agent.h"
#include "agent/output/follow.h"
#include "agent/process/tty.h"
#include "agent/window/window.h"

/* Finds the process of a request with a tag; replies here if there is none. */
static struct process *find(struct agent *agent, const struct frame *frame, uint32_t tag)
{
	struct process *p = table_find(agent, frame->process_id);

	if (!p)
		conn_done(agent, tag, AGENT_REFUSED_NO_PROCESS, 0);
	return p;
}

static int on_exec(struct agent *agent, const struct frame *frame)
{
	struct agent_exec exec;

	if (agent_get_exec(frame, &exec) < 0)
		return -EPROTO;
	process_exec(agent, &exec);
	return 0;
}

static int on_stdin(struct agent *agent, const struct frame *frame)
{
	struct process *p;
	struct str bytes;
	uint32_t tag;

	if (agent_get_stdin(frame, &tag, &bytes) < 0)
		return -EPROTO;
	p = find(agent, frame, tag);
	if (p)
		stdin_take(agent, p, bytes, tag, frame->flags);
	return 0;
}

static int on_close_stdin(struct agent *agent, const struct frame *frame)
{
	struct process *p;
	uint32_t tag;

	if (agent_get_tag(frame, &tag) < 0)
		return -EPROTO;
	p = find(agent, frame, tag);
	if (p)
		stdin_close(agent, p, tag);
	return 0;
}

static int on_kill(struct agent *agent, const struct frame *frame)
{
	struct process *p;
	uint32_t tag;
	int signum;

	if (agent_get_kill(frame, &tag, &signum) < 0)
		return -EPROTO;
	p = find(agent, frame, tag);
	if (p)
		stop_signal(agent, p, signum, tag);
	return 0;
}

static int on_list(struct agent *agent, const struct frame *frame)
{
	uint32_t tag;

	if (agent_get_tag(frame, &tag) < 0)
		return -EPROTO;
	list_tell(agent, frame->process_id, tag);
	return 0;
}

static int on_follow(struct agent *agent, const struct frame *frame)
{
	struct agent_follow follow;

	if (agent_get_follow(frame, &follow) < 0)
		return -EPROTO;
	follow_on_request(agent, &follow);
	return 0;
}

static int on_resize(struct agent *agent, const struct frame *frame)
{
	struct process *p;
	uint32_t tag;
	uint16_t cols, rows;

	if (agent_get_resize(frame, &tag, &cols, &rows) < 0)
		return -EPROTO;
	p = find(agent, frame, tag);
	if (p)
		tty_resize(agent, p, cols, rows, tag);
	return 0;
}

static int on_forget(struct agent *agent, const struct frame *frame)
{
	struct process *p;
	uint32_t tag;

	if (agent_get_tag(frame, &tag) < 0)
		return -EPROTO;
	p = find(agent, frame, tag);
	if (!p)
		return 0;
	if (!p->ended) {
		conn_done(agent, tag, AGENT_REFUSED_STILL_RUNNING, 0);
		return 0;
	}
	process_hide(agent, p);
	conn_done(agent, tag, 0, 0);
	return 0;
}

static int on_credit(struct agent *agent, const struct frame *frame)
{
	uint32_t id, bytes;

	if (agent_get_credit(frame, &id, &bytes) < 0)
		return -EPROTO;
	follow_on_credit(agent, id, bytes);
	return 0;
}

static int on_unfollow(struct agent *agent, const struct frame *frame)
{
	uint32_t id;

	if (agent_get_unfollow(frame, &id) < 0)
		return -EPROTO;
	follow_on_unfollow(agent, id);
	return 0;
}

static int on_stop(struct agent *agent, const struct frame *frame)
{
	struct process *p;
	uint32_t tag, grace_ms;

	if (agent_get_stop(frame, &tag, &grace_ms) < 0)
		return -EPROTO;
	p = find(agent, frame, tag);
	if (p)
		stop_start(agent, p, tag, grace_ms, frame->flags & AGENT_STOP_FORGET);
	return 0;
}

static int on_detach(struct agent *agent, const struct frame *frame)
{
	struct process *p;

	if (agent_get_detach(frame) < 0)
		return -EPROTO;
	p = table_find(agent, frame->process_id);
	if (p && p->collect)
		process_detach(agent, p);
	return 0;
}

static int on_orphans(struct agent *agent, const struct frame *frame)
{
	uint32_t tag;

	if (agent_get_tag(frame, &tag) < 0)
		return -EPROTO;
	orphan_tell(agent, tag);
	return 0;
}

static int on_kill_pid(struct agent *agent, const struct frame *frame)
{
	uint32_t tag;
	int signum;

	if (agent_get_kill_pid(frame, &tag, &signum) < 0)
		return -EPROTO;
	orphan_signal(agent, (pid_t)frame->process_id, signum, frame->flags & AGENT_KILL_PID_TREE,
		      tag);
	return 0;
}

static int on_kill_all(struct agent *agent, const struct frame *frame)
{
	uint32_t tag;

	if (agent_get_tag(frame, &tag) < 0)
		return -EPROTO;
	orphan_kill_all(agent, tag);
	return 0;
}

/* The reply is the end of the connection, which the warden waits for. */
static int on_let_go(struct agent *agent, const struct frame *frame)
{
	if (agent_get_empty(frame) < 0)
		return -EPROTO;
	groups_let_go(&agent->groups);
	memory_let_go(&agent->memory);
	inside_take_disk(agent, -1);
	agent->conn_broken = true;
	return 0;
}

static int on_take_back(struct agent *agent, const struct frame *frame)
{
	if (agent_get_empty(frame) < 0)
		return -EPROTO;
	if (agent->groups.away)
		groups_take_back(&agent->groups, TAKE_FD(agent->given_fds[0]));
	if (agent->memory.away) {
		memory_take_back(&agent->memory, TAKE_FD(agent->given_fds[1]));
		inside_take_disk(agent, TAKE_FD(agent->given_fds[2]));
		inside_rebase(agent);
	}
	conn_drop_given(agent);
	return 0;
}

int request_on_frame(struct agent *agent, const struct frame *frame)
{
	static int (*const handlers[])(struct agent *, const struct frame *) = {
		[AGENT_EXEC] = on_exec,
		[AGENT_STDIN] = on_stdin,
		[AGENT_CLOSE_STDIN] = on_close_stdin,
		[AGENT_KILL] = on_kill,
		[AGENT_LIST] = on_list,
		[AGENT_FOLLOW] = on_follow,
		[AGENT_RESIZE] = on_resize,
		[AGENT_FORGET] = on_forget,
		[AGENT_CREDIT] = on_credit,
		[AGENT_UNFOLLOW] = on_unfollow,
		[AGENT_STOP] = on_stop,
		[AGENT_DETACH] = on_detach,
		[AGENT_WINDOW_RUN] = window_on_request,
		[AGENT_LET_GO] = on_let_go,
		[AGENT_TAKE_BACK] = on_take_back,
		[AGENT_ORPHANS] = on_orphans,
		[AGENT_KILL_PID] = on_kill_pid,
		[AGENT_KILL_ALL] = on_kill_all,
		[AGENT_DIAL] = dial_on_request,
		[AGENT_PORTS] = ports_on_request,
	};

	if (stream_is_frame(frame))
		return relay_on_frame(agent, frame);
	if (frame->type >= ARRAY_LEN(handlers) || !handlers[frame->type])
		return -EPROTO;
	return handlers[frame->type](agent, frame);
}
