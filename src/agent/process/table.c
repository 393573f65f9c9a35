/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes of processes: by id, by pid, in the order of their start and of their end. */
#include "agent/agent.h"

static struct process **bucket(struct process **table, uint32_t key)
{
	return &table[key & (AGENT_BUCKETS - 1)];
}

struct process *table_find_any(const struct agent *agent, uint32_t id)
{
	struct process *p = agent->by_id[id & (AGENT_BUCKETS - 1)];

	while (p && p->id != id)
		p = p->by_id_next;
	return p;
}

struct process *table_find(const struct agent *agent, uint32_t id)
{
	struct process *p = table_find_any(agent, id);

	return p && !p->hidden ? p : NULL;
}

struct process *table_find_pid(const struct agent *agent, pid_t pid)
{
	struct process *p = agent->by_pid[(uint32_t)pid & (AGENT_BUCKETS - 1)];

	while (p && p->pid != pid)
		p = p->by_pid_next;
	return p;
}

void table_add(struct agent *agent, struct process *p)
{
	struct process **by_id = bucket(agent->by_id, p->id);
	struct process **by_pid = bucket(agent->by_pid, (uint32_t)p->pid);

	p->by_id_next = *by_id;
	*by_id = p;
	p->by_pid_next = *by_pid;
	*by_pid = p;
	p->older = agent->newest; /* ids only grow */
	if (agent->newest)
		agent->newest->newer = p;
	else
		agent->oldest = p;
	agent->newest = p;
	agent->process_count++;
	agent->process_live++;
}

void table_remove_pid(struct agent *agent, struct process *p)
{
	struct process **at = bucket(agent->by_pid, (uint32_t)p->pid);

	while (*at && *at != p)
		at = &(*at)->by_pid_next;
	if (!*at)
		return;
	*at = p->by_pid_next;
	agent->process_live--;
}

void table_hide(struct agent *agent, struct process *p)
{
	p->hidden = true;
	if (p->older)
		p->older->newer = p->newer;
	else
		agent->oldest = p->newer;
	if (p->newer)
		p->newer->older = p->older;
	else
		agent->newest = p->older;
	agent->process_count--;
	agent->hidden_count++;
}

void table_remove(struct agent *agent, struct process *p)
{
	struct process **at = bucket(agent->by_id, p->id);

	while (*at != p)
		at = &(*at)->by_id_next;
	*at = p->by_id_next;
	agent->hidden_count--;
}

void table_add_ended(struct agent *agent, struct process *p)
{
	p->ended_before = agent->last_ended;
	if (agent->last_ended)
		agent->last_ended->ended_after = p;
	else
		agent->first_ended = p;
	agent->last_ended = p;
}

void table_remove_ended(struct agent *agent, struct process *p)
{
	if (p->ended_before)
		p->ended_before->ended_after = p->ended_after;
	else if (agent->first_ended == p)
		agent->first_ended = p->ended_after;
	else
		return; /* it was not in the list */
	if (p->ended_after)
		p->ended_after->ended_before = p->ended_before;
	else
		agent->last_ended = p->ended_before;
	p->ended_before = p->ended_after = NULL;
}
