/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/hold.h"

#include "agent/agent.h"
#include "agent/system/clock.h"

bool hold_has(const struct follow *f)
{
	return (f->flags & AGENT_FOLLOW_HOLD) && (f->flags & AGENT_FOLLOW_LIVE) && !f->over;
}

bool hold_is_on(const struct process *p)
{
	if (p->hold.readers)
		return true;
	for (const struct follow *f = p->follows; f; f = f->next)
		if (hold_has(f))
			return true;
	return false;
}

/*
 * Credit is not per stream, so all missing credit counts for both streams. For readers that return
 * credit when bytes have left the daemon, not when they have arrived, half a ring is kept in
 * addition.
 */
uint64_t hold_needed_from(const struct follow *f, int i)
{
	const struct ring *ring = &f->process->streams[i].ring;
	uint64_t back = MAX((uint64_t)f->window - f->credit, (uint64_t)ring->limit_bytes / 2);

	return MAX(f->cursor[i] - MIN(back, f->cursor[i]), ring->begin);
}

uint64_t hold_from(const struct process *p, int i)
{
	const struct ring *ring = &p->streams[i].ring;
	uint64_t from = ring->end;

	if (p->stopping) /* it is being stopped: no reader may delay that */
		return from;
	if (p->hold.readers)
		from = MIN(from, MAX(p->hold.from[i], ring->begin));
	for (const struct follow *f = p->follows; f; f = f->next)
		if (hold_has(f) && follow_reads(f, i))
			from = MIN(from, hold_needed_from(f, i));
	return from;
}

static void release(struct agent *agent, struct process *p)
{
	p->hold.readers = 0;
	timer_clear(agent, p, TIMER_HOLD);
	for (int i = 0; i < 2; i++)
		stream_on_taken(agent, p, i);
}

void hold_expect(struct agent *agent, struct process *p, const uint64_t from[2])
{
	for (int i = 0; i < 2; i++)
		p->hold.from[i] = p->hold.readers ? MIN(p->hold.from[i], from[i]) : from[i];
	p->hold.readers++;
	timer_set(agent, p, TIMER_HOLD, clock_us() + agent->hold_grace_us);
}

void hold_arrived(struct agent *agent, struct process *p)
{
	if (p->hold.readers && --p->hold.readers == 0)
		release(agent, p);
}

void hold_on_over(struct agent *agent, struct process *p)
{
	release(agent, p);
}
