/* SPDX-License-Identifier: Apache-2.0 */
/* LISTED: all processes, oldest first. */
#include <errno.h>

#include "agent/agent.h"

static struct agent_listed describe(const struct process *p)
{
	struct agent_listed listed = {
		.process_id = p->id,
		.pid = (uint32_t)p->pid,
		.flags = (uint8_t)((p->tty ? AGENT_PROCESS_TTY : 0) |
				   (p->collect ? AGENT_PROCESS_COLLECT : 0) |
				   (stdin_is_open(p) ? AGENT_PROCESS_STDIN_OPEN : 0)),
		.cols = p->cols,
		.rows = p->rows,
		.start_ms = (uint64_t)MAX(p->start_ms, 0),
		.out_begin = p->streams[0].ring.begin,
		.err_begin = p->streams[1].ring.begin,
		.status = process_status(p),
		.name = str_of(p->name),
		.user = str_of(p->user.name),
		.command = { p->command, p->command_n },
	};

	if (p->hooks && p->hooks->on_list)
		p->hooks->on_list(p, &listed);
	return listed;
}

static int add(struct agent_listing *listing, struct agent *agent, const struct process *p,
	       uint32_t tag)
{
	struct agent_listed listed = describe(p);
	int r = agent_listing_add(listing, &listed);

	if (r != -ENOBUFS)
		return r;
	agent_listing_end(listing, false);
	r = agent_listing_begin(listing, &agent->out, tag);
	return r < 0 ? r : agent_listing_add(listing, &listed);
}

/* The list is empty if the process does not exist. */
void list_tell(struct agent *agent, uint32_t process_id, uint32_t tag)
{
	const struct process *one = process_id ? table_find(agent, process_id) : NULL;
	struct agent_listing listing;
	int r = agent_listing_begin(&listing, &agent->out, tag);

	if (one && !one->tool && r == 0)
		r = add(&listing, agent, one, tag);
	for (const struct process *p = process_id ? NULL : agent->oldest; p && r == 0; p = p->newer)
		if (!p->tool)
			r = add(&listing, agent, p, tag);
	if (r < 0) /* out of memory, or a daemon that requests and never reads */
		agent->conn_broken = true;
	else
		agent_listing_end(&listing, true);
}
