/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of the scripted agent: their output, end and retention. */
#include "engine/fake/process.h"

#include <signal.h>

#include "base/time.h"

#define HOLD_MAX_BYTES (64U << 20)

struct fake_process *fake_process_find(const struct fake_agent *agent, uint32_t id)
{
	struct fake_process *p = agent->processes;

	while (p && p->id != id)
		p = p->next;
	return p;
}

bool fake_process_runs(const struct fake_process *p)
{
	return p->status.end == AGENT_END_NONE;
}

static void on_time(void *arg)
{
	struct fake_process *p = arg;
	struct fake_agent *agent = p->agent;

	p->program->on_time(p); /* p may be freed */
	fake_flush(agent);
}

/* Its time limit or retention time has ended. */
static void on_limit(void *arg)
{
	struct fake_process *p = arg;
	struct fake_agent *agent = p->agent;

	if (!fake_process_runs(p))
		fake_process_free(p);
	else if (p->stopping)
		fake_finish(p, AGENT_END_KILLED, SIGKILL);
	else
		fake_finish(p, AGENT_END_TIMEOUT, 0);
	fake_flush(agent);
}

struct fake_process *fake_process_new(struct fake_agent *agent, uint32_t id, uint32_t ring_bytes,
				      uint32_t output_max_bytes)
{
	struct fake_process *p = calloc(1, sizeof(*p)), **at = &agent->processes;

	must(p ? 0 : -1);
	if (id < agent->next_id)
		abort(); /* the daemon reused an id */
	agent->next_id = id + 1;
	p->agent = agent;
	p->id = id;
	p->output_max_bytes = output_max_bytes;
	p->start_ms = time_real_ms();
	p->hold_bytes = MAX(ring_bytes ? ring_bytes : AGENT_RING_DEFAULT_BYTES, output_max_bytes);
	for (int i = 0; i < 2; i++)
		buf_init(&p->streams[i].data, HOLD_MAX_BYTES);
	must(loop_timer_new(agent->loop, on_time, p, &p->timer));
	must(loop_timer_new(agent->loop, on_limit, p, &p->limit));
	while (*at)
		at = &(*at)->next;
	*at = p;
	return p;
}

void fake_process_free(struct fake_process *p)
{
	struct fake_agent *agent = p->agent;
	struct fake_process **at = &agent->processes;
	struct fake_follow *next;

	fake_follow_close(p, 0, &p->status);
	fake_follow_pump(agent);
	/* without credit there is no process */
	for (struct fake_follow *f = agent->follows; f; f = next) {
		next = f->next;
		if (f->process == p)
			fake_follow_free(agent, f);
	}
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	loop_timer_free(p->timer);
	loop_timer_free(p->limit);
	for (int i = 0; i < 2; i++)
		buf_done(&p->streams[i].data);
	free(p->window);
	free(p->name);
	free(p->user);
	free(p->cwd);
	free(p->command);
	free(p);
}

/*
 * A scripted program cannot block: bytes that a foreground reader has not taken are kept instead,
 * without limit.
 */
void fake_trim(struct fake_process *p)
{
	for (int i = 0; i < 2; i++) {
		struct fake_stream *s = &p->streams[i];
		uint64_t from = s->total - MIN(s->total, (uint64_t)p->hold_bytes);

		if (p->collect || p->expects_reader || buf_len(&s->data) <= p->hold_bytes)
			continue;
		for (const struct fake_follow *f = p->agent->follows; f; f = f->next)
			if (f->process == p && (f->flags & AGENT_FOLLOW_HOLD) &&
			    (f->flags & (i ? AGENT_FOLLOW_ERR : AGENT_FOLLOW_OUT)))
				from = MIN(from, MAX(f->cursors[i], s->begin));
		buf_consume(&s->data, (size_t)(from - s->begin));
		s->begin = from;
	}
}

void fake_write(struct fake_process *p, int stream, struct str bytes)
{
	struct fake_stream *s = &p->streams[p->tty ? 0 : stream];
	size_t room = p->hold_bytes - buf_len(&s->data);

	s->total += bytes.n;
	if (p->collect) { /* the start is kept */
		must(buf_append(&s->data, bytes.p, MIN(bytes.n, room)));
		return;
	}
	must(buf_append(&s->data, bytes.p, bytes.n));
	fake_follow_pump(p->agent); /* a reader that keeps up misses nothing */
	fake_trim(p);
}

static void put_collected(struct fake_process *p, int i)
{
	const struct fake_stream *s = &p->streams[i];
	size_t n = MIN(buf_len(&s->data), (size_t)p->output_max_bytes), at = 0;

	while (at < n) {
		struct agent_output output = {
			.process_id = p->id,
			.stream = i ? AGENT_STREAM_ERR : AGENT_STREAM_OUT,
			.cursor = at,
			.bytes = { buf_data(&s->data) + at,
				   MIN(n - at, (size_t)AGENT_OUTPUT_BYTES_MAX) },
		};

		must(agent_put_output(&p->agent->out, &output));
		at += output.bytes.n;
	}
}

static void tell_end(struct fake_process *p)
{
	struct agent_exit e = { .process_id = p->id, .status = p->status };

	put_collected(p, 0);
	put_collected(p, 1);
	must(agent_put_exit(&p->agent->out, &e));
}

void fake_finish(struct fake_process *p, enum agent_end end, uint32_t value)
{
	struct agent_status *s = &p->status;

	if (!fake_process_runs(p))
		return;
	*s = (struct agent_status){ .end = end,
				    .exit_code = value,
				    .duration_us =
					    1000 * (uint64_t)MAX(time_real_ms() - p->start_ms, 1),
				    .out_total = p->streams[0].total,
				    .err_total = p->streams[1].total };
	if (end == AGENT_END_TIMEOUT) {
		s->exit_code = AGENT_TIMEOUT_EXIT_CODE;
	} else if (end != AGENT_END_EXIT) {
		s->signal = value;
		s->exit_code = 128 + value;
	}
	if (end == AGENT_END_OOM) {
		s->memory_limit_bytes = 64U << 20;
		s->memory_peak_bytes = 63U << 20;
	}
	p->stdin_open = false;
	loop_timer_clear(p->timer);
	if (p->window && p->window->busy) {
		p->window->busy = false;
		p->window->run_status = *s;
	}
	fake_done(p->agent, p->stop_tag, 0);
	fake_follow_close(p, 0, s);
	fake_follow_pump(p->agent);
	if (p->collect)
		tell_end(p);
	if (p->collect || p->forget)
		fake_process_free(p);
	else
		loop_timer_set(p->limit, p->keep_ms ? p->keep_ms : AGENT_KEEP_DEFAULT_MS, 0);
}

void fake_exit(struct fake_process *p, uint32_t exit_code)
{
	fake_finish(p, AGENT_END_EXIT, exit_code);
}

void fake_signal(struct fake_process *p, int signum)
{
	bool harmless = signum == SIGWINCH || signum == SIGCHLD || signum == SIGCONT ||
			signum == SIGURG || signum == SIGSTOP || signum == SIGTSTP;

	if (!harmless && !(p->program->stubborn && signum != SIGKILL))
		fake_finish(p, AGENT_END_KILLED, (uint32_t)signum);
}

void fake_stop(struct fake_process *p, uint32_t tag, bool forget, uint32_t grace_ms)
{
	if (!fake_process_runs(p)) {
		fake_done(p->agent, tag, 0);
		if (forget)
			fake_process_free(p);
		return;
	}
	p->stopping = true;
	p->stop_tag = tag;
	p->forget = p->forget || forget;
	loop_timer_set(p->limit, MAX(grace_ms, 1), 0);
	fake_signal(p, SIGTERM);
}

static void describe(const struct fake_process *p, struct agent_listed *ret)
{
	const struct fake_window *w = p->window;

	*ret = (struct agent_listed){
		.process_id = p->id,
		.pid = 100 + p->id,
		.flags = (uint8_t)((p->tty ? AGENT_PROCESS_TTY : 0) |
				   (w ? AGENT_PROCESS_WINDOW : 0) |
				   (p->collect ? AGENT_PROCESS_COLLECT : 0) |
				   (w && w->busy ? AGENT_PROCESS_BUSY : 0) |
				   (p->stdin_open ? AGENT_PROCESS_STDIN_OPEN : 0)),
		.cols = p->cols,
		.rows = p->rows,
		.start_ms = (uint64_t)p->start_ms,
		.out_begin = p->streams[0].begin,
		.err_begin = p->streams[1].begin,
		.status = p->status,
		.name = str_of(p->name),
		.user = str_of(p->user),
		.command = str_of(p->command),
	};
	ret->status.out_total = p->streams[0].total;
	ret->status.err_total = p->streams[1].total;
	ret->command.n = MIN(ret->command.n, (size_t)AGENT_COMMAND_MAX);
	if (w) {
		ret->run = w->run;
		ret->run_end = w->run_status.end;
		ret->run_exit_code = w->run_status.exit_code;
		ret->run_cursor = w->run_cursor;
		ret->idle_ms = (uint64_t)(time_real_ms() - w->active_ms);
	}
}

void fake_list(struct fake_agent *agent, uint32_t process_id, uint32_t tag)
{
	struct agent_listing listing;
	struct agent_listed listed;

	must(agent_listing_begin(&listing, &agent->out, tag));
	for (const struct fake_process *p = agent->processes; p; p = p->next) {
		if (process_id && p->id != process_id)
			continue;
		describe(p, &listed);
		must(agent_listing_add(&listing, &listed));
	}
	agent_listing_end(&listing, true);
}
