/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of the scripted agent: output as far as their credit allows, then one FOLLOWED. */
#include "engine/fake/process.h"

struct fake_follow *fake_follow_find(const struct fake_agent *agent, uint32_t id)
{
	struct fake_follow *f = agent->follows;

	while (f && f->id != id)
		f = f->next;
	return f;
}

void fake_follow_free(struct fake_agent *agent, struct fake_follow *f)
{
	struct fake_follow **at = &agent->follows;

	while (*at != f)
		at = &(*at)->next;
	*at = f->next;
	if (f->flags & AGENT_FOLLOW_HOLD)
		fake_trim(f->process);
	free(f);
}

static void put_followed(struct fake_agent *agent, uint32_t process_id, uint32_t follow_id,
			 uint32_t refusal, const struct agent_status *status)
{
	struct agent_followed followed = { process_id, follow_id, refusal, *status };

	if (agent->fd >= 0)
		must(agent_put_followed(&agent->out, &followed));
}

static void close_one(struct fake_follow *f, const struct agent_status *status)
{
	if (f->closing)
		return;
	f->closing = true;
	f->status = *status;
	for (int i = 0; i < 2; i++)
		f->upto[i] = f->process->streams[i].total;
	f->status.out_total = f->upto[0];
	f->status.err_total = f->upto[1];
}

void fake_follow_close(struct fake_process *p, uint32_t run, const struct agent_status *status)
{
	for (struct fake_follow *f = p->agent->follows; f; f = f->next)
		if (f->process == p && (!run || f->run == run))
			close_one(f, status);
}

/* Sets the start; false: beyond the end. */
static bool place(struct fake_follow *f, const struct agent_follow *wish)
{
	const uint64_t wished[2] = { wish->out_cursor, wish->err_cursor };

	for (int i = 0; i < 2; i++) {
		uint64_t total = f->process->streams[i].total;

		if (wish->flags & AGENT_FOLLOW_TAIL)
			f->cursors[i] = total - MIN(wished[i], total);
		else if (wished[i] > total)
			return false;
		else
			f->cursors[i] = wished[i];
	}
	return true;
}

void fake_follow_new(struct fake_process *p, const struct agent_follow *wish)
{
	struct fake_follow *f = calloc(1, sizeof(*f));
	struct fake_window *w = p->window;

	must(f ? 0 : -1);
	*f = (struct fake_follow){ .id = wish->follow_id,
				   .process = p,
				   .flags = wish->flags,
				   .run = wish->run,
				   .credit = wish->credit };
	if (!place(f, wish) || (wish->run && (!w || wish->run > w->run))) {
		put_followed(p->agent, p->id, f->id, AGENT_REFUSED_CURSOR_AHEAD,
			     &(struct agent_status){ 0 });
		free(f);
		return;
	}
	f->next = p->agent->follows;
	p->agent->follows = f;
	if (f->flags & AGENT_FOLLOW_HOLD)
		p->expects_reader = false;
	if (w && f->run && (f->run < w->run || !w->busy))
		close_one(f, &w->run_status);
	else if (!fake_process_runs(p) || !(f->flags & AGENT_FOLLOW_LIVE))
		close_one(f, &p->status);
}

/* Sends one frame; false if there is nothing more, or no credit. */
static bool pump_stream(struct fake_follow *f, int i)
{
	const struct fake_stream *s = &f->process->streams[i];
	uint64_t end = s->begin + buf_len(&s->data);
	struct agent_output output = { .process_id = f->process->id,
				       .follow_id = f->id,
				       .stream = i ? AGENT_STREAM_ERR : AGENT_STREAM_OUT };

	if (!(f->flags & (i ? AGENT_FOLLOW_ERR : AGENT_FOLLOW_OUT)))
		return false;
	if (f->closing)
		end = MIN(end, f->upto[i]);
	f->cursors[i] = MAX(f->cursors[i], s->begin);
	if (f->cursors[i] >= end || f->credit == 0)
		return false;
	output.cursor = f->cursors[i];
	output.bytes.p = buf_data(&s->data) + (f->cursors[i] - s->begin);
	output.bytes.n = MIN(MIN(end - f->cursors[i], f->credit), AGENT_OUTPUT_BYTES_MAX);
	must(agent_put_output(&f->process->agent->out, &output));
	f->cursors[i] += output.bytes.n;
	f->credit -= (uint32_t)output.bytes.n;
	return true;
}

static bool has_all(const struct fake_follow *f)
{
	for (int i = 0; i < 2; i++) {
		const struct fake_stream *s = &f->process->streams[i];
		uint64_t end = MIN(s->begin + buf_len(&s->data), f->upto[i]);

		if ((f->flags & (i ? AGENT_FOLLOW_ERR : AGENT_FOLLOW_OUT)) && f->cursors[i] < end)
			return false;
	}
	return true;
}

void fake_follow_pump(struct fake_agent *agent)
{
	struct fake_follow *next;

	if (agent->fd < 0)
		return;
	for (struct fake_follow *f = agent->follows; f; f = next) {
		next = f->next;
		while (pump_stream(f, 0) || pump_stream(f, 1))
			;
		if (!f->closing || !has_all(f))
			continue;
		put_followed(agent, f->process->id, f->id, 0, &f->status);
		fake_follow_free(agent, f);
	}
}
