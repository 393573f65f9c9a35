/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WINDOW_RUN: to the window of that name, or to a new one; a newer command replaces a waiting one.
 */
#include <errno.h>

#include "agent/system/clock.h"
#include "agent/window/state.h"

#define START_US 10000000 /* time limit for the start of bash */

static bool is_heard(const struct agent *agent, const struct request *r)
{
	return r->connection == agent->connection && agent->conn_fd >= 0;
}

void request_refuse(struct agent *agent, struct request *r, enum agent_refusal code, int error)
{
	if (is_heard(agent, r))
		conn_done(agent, r->tag, code, error);
	free(r);
}

struct follow *request_answer(struct agent *agent, struct process *p, const struct request *r,
			      uint32_t run)
{
	uint64_t cursor = p->streams[0].ring.end;
	struct agent_window told = {
		.process_id = p->id,
		.tag = r->tag,
		.run = run,
		.cursor = cursor,
		.made = r->made,
		.cancelled = r->cancelled,
	};
	struct follow *f;

	if (!is_heard(agent, r))
		return NULL;
	f = follow_add(agent, p, r->follow_id, r->credit,
		       AGENT_FOLLOW_LIVE | AGENT_FOLLOW_OUT | AGENT_FOLLOW_RUN, cursor, 0);
	if (f)
		f->run = run;
	if (!f || agent_put_window(&agent->out, &told) < 0)
		agent->conn_broken = true; /* a command whose end cannot be reported is never run */
	return f;
}

/* A newer command arrived before this one could start: it is reported as cancelled. */
static void supersede(struct agent *agent, struct process *p, struct request *r)
{
	struct agent_status status = {
		.end = AGENT_END_KILLED,
		.exit_code = INTERRUPTED,
		.out_total = p->streams[0].ring.end,
	};
	struct follow *f = request_answer(agent, p, r, ++window_of(p)->count);

	if (f)
		follow_end_at(agent, f, f->cursor[0], &status);
	free(r);
}

static struct process *find(const struct agent *agent, const char *name)
{
	for (struct process *p = agent->oldest; p; p = p->newer) {
		const struct window *w = window_of(p);

		if (w && !w->doomed && !p->stopping && strcmp(p->name, name) == 0)
			return p;
	}
	return NULL;
}

void request_make_window(struct agent *agent, struct request *r)
{
	struct window *w = calloc(1, sizeof(*w));
	struct process_refusal refusal = { .code = AGENT_REFUSED_NO_MEMORY };
	struct process *p = w ? shell_start(agent, &w->shell, &r->wish, &refusal) : NULL;

	if (!p) {
		request_refuse(agent, r, refusal.code, refusal.error);
		free(w);
		return;
	}
	r->made = true;
	w->next = r;
	w->active_us = clock_us();
	p->hooks = &window_hooks;
	p->window = w;
	window_wait(agent, p, START_US);
}

static struct request *copy_request(const struct agent *agent, const struct agent_window_run *run)
{
	size_t name_n = strlen(run->name) + 1, user_n = strlen(run->user) + 1,
	       cwd_n = strlen(run->cwd) + 1, env_n = 0;
	struct request *r;
	char *at;

	for (uint16_t i = 0; i < run->envc; i++)
		env_n += strlen(run->args + env_n) + 1;
	r = malloc(sizeof(*r) + name_n + user_n + cwd_n + env_n + run->command.n);
	if (!r)
		return NULL;
	at = r->text;
	*r = (struct request){
		.wish = { run->process_id, run->ring_bytes, run->envc, at, at + name_n,
			  at + name_n + user_n, at + name_n + user_n + cwd_n },
		.connection = agent->connection,
		.tag = run->tag,
		.follow_id = run->follow_id,
		.credit = run->credit,
		.command = { at + name_n + user_n + cwd_n + env_n, run->command.n },
	};
	memcpy(at, run->name, name_n);
	memcpy(at + name_n, run->user, user_n);
	memcpy(at + name_n + user_n, run->cwd, cwd_n);
	memcpy(at + name_n + user_n + cwd_n, run->args, env_n);
	memcpy(at + name_n + user_n + cwd_n + env_n, run->command.p, run->command.n);
	return r;
}

static void queue(struct agent *agent, struct process *p, struct request *r)
{
	struct window *w = window_of(p);

	if (w->next)
		supersede(agent, p, w->next);
	w->next = r;
	switch (w->state) {
	case WINDOW_IDLE:
		stream_on_event(agent, p, 0); /* earlier output does not belong to it */
		window_begin(agent, p);
		break;
	case WINDOW_SENDING:
	case WINDOW_RUNNING:
		r->cancelled = true;
		window_cancel(agent, p);
		break;
	case WINDOW_STARTING: /* it starts when the shell is ready */
	case WINDOW_ENDING:
	case WINDOW_GONE:
		break;
	}
}

int window_on_request(struct agent *agent, const struct frame *frame)
{
	struct agent_window_run run;
	struct request *r;
	struct process *p;

	if (agent_get_window_run(frame, &run) < 0 || follow_exists(agent, run.follow_id))
		return -EPROTO;
	if (run.process_id < agent->next_process_id) {
		conn_done(agent, run.tag, AGENT_REFUSED_BAD_REQUEST, EEXIST);
		return 0;
	}
	agent->next_process_id = run.process_id + 1;
	r = agent->follow_count < AGENT_FOLLOWS_MAX ? copy_request(agent, &run) : NULL;
	if (!r) {
		conn_done(agent, run.tag, AGENT_REFUSED_QUOTA, 0);
		return 0;
	}
	p = find(agent, run.name);
	if (p)
		queue(agent, p, r);
	else
		request_make_window(agent, r);
	return 0;
}
