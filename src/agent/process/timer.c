/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines of all processes: a binary heap by the earliest of each. */
#include "agent/agent.h"
#include "agent/system/clock.h"

#define SLEEP_MAX_MS 3600000

static void place(struct agent *agent, struct process *p, size_t at)
{
	agent->heap[at] = p;
	p->heap_at = at;
}

static void sift_up(struct agent *agent, struct process *p, size_t at)
{
	while (at && agent->heap[(at - 1) / 2]->wake_us > p->wake_us) {
		place(agent, agent->heap[(at - 1) / 2], at);
		at = (at - 1) / 2;
	}
	place(agent, p, at);
}

static void sift_down(struct agent *agent, struct process *p, size_t at)
{
	for (;;) {
		size_t child = 2 * at + 1;

		if (child + 1 < agent->heap_count &&
		    agent->heap[child + 1]->wake_us < agent->heap[child]->wake_us)
			child++;
		if (child >= agent->heap_count || agent->heap[child]->wake_us >= p->wake_us)
			break;
		place(agent, agent->heap[child], at);
		at = child;
	}
	place(agent, p, at);
}

static void take_out(struct agent *agent, struct process *p)
{
	struct process *last = agent->heap[--agent->heap_count];

	if (last == p)
		return;
	if (last->wake_us < p->wake_us)
		sift_up(agent, last, p->heap_at);
	else
		sift_down(agent, last, p->heap_at);
}

static void rearm(struct agent *agent, struct process *p)
{
	int64_t earliest = 0;

	for (int i = 0; i < TIMER_COUNT; i++)
		if (p->timers_us[i] && (!earliest || p->timers_us[i] < earliest))
			earliest = p->timers_us[i];
	if (earliest == p->wake_us)
		return;
	if (p->wake_us)
		take_out(agent, p);
	p->wake_us = earliest;
	if (earliest)
		sift_up(agent, p, agent->heap_count++);
}

void timer_set(struct agent *agent, struct process *p, enum process_timer timer, int64_t at_us)
{
	p->timers_us[timer] = at_us;
	rearm(agent, p);
}

void timer_clear(struct agent *agent, struct process *p, enum process_timer timer)
{
	if (p->timers_us[timer])
		timer_set(agent, p, timer, 0);
}

void timer_clear_all(struct agent *agent, struct process *p)
{
	for (int i = 0; i < TIMER_COUNT; i++)
		p->timers_us[i] = 0;
	rearm(agent, p);
}

/* One timer at a time: its handler may free the process or set others. */
static void run_first(struct agent *agent, int64_t now_us)
{
	struct process *p = agent->heap[0];

	for (int i = 0; i < TIMER_COUNT; i++) {
		if (p->timers_us[i] && p->timers_us[i] <= now_us) {
			timer_clear(agent, p, (enum process_timer)i);
			process_on_timer(agent, p, (enum process_timer)i);
			return;
		}
	}
}

void timer_run(struct agent *agent)
{
	int64_t now_us;

	if (!agent->heap_count)
		return;
	now_us = clock_us();
	while (agent->heap_count && agent->heap[0]->wake_us <= now_us)
		run_first(agent, now_us);
}

int timer_sleep_ms(const struct agent *agent)
{
	int64_t left_us;

	if (!agent->heap_count)
		return -1;
	left_us = MAX(agent->heap[0]->wake_us - clock_us(), 0);
	return (int)MIN((left_us + 999) / 1000, SLEEP_MAX_MS);
}
