/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows of the scripted agent: a shell with echo (with the one variable it remembers),
 * NAME=VALUE, sleep MS, read (a line of input), true, false, (exit N), and exit N, which ends it.
 */
#include <signal.h>
#include <stdio.h>

#include "base/time.h"
#include "engine/fake/process.h"

static void say(struct fake_process *p, const char *text)
{
	fake_write(p, 0, str_of(text));
	fake_write(p, 0, STR_LIT("\r\n"));
}

static void end_run(struct fake_process *p, enum agent_end end, uint32_t value)
{
	struct fake_window *w = p->window;

	w->busy = false;
	w->active_ms = time_real_ms();
	w->run_status = (struct agent_status){ .end = end,
					       .exit_code = value,
					       .duration_us = 1000,
					       .out_total = p->streams[0].total };
	if (end != AGENT_END_EXIT) {
		w->run_status.signal = value;
		w->run_status.exit_code = 128 + value;
	}
	loop_timer_clear(p->timer);
	fake_follow_close(p, w->run, &w->run_status);
}

static void on_time(struct fake_process *p)
{
	end_run(p, AGENT_END_EXIT, 0);
}

/* The terminal has already echoed it; read waits for a line. */
static void on_input(struct fake_process *p, struct str bytes)
{
	p->window->active_ms = time_real_ms();
	if (!p->window->busy)
		return;
	if (memchr(bytes.p, 3, bytes.n))
		end_run(p, AGENT_END_SIGNAL, SIGINT);
	else if (p->count && memchr(bytes.p, '\n', bytes.n))
		end_run(p, AGENT_END_EXIT, 0);
}

static const struct fake_program shell = { .name = "bash",
					   .on_time = on_time,
					   .on_input = on_input };

static void echo(struct fake_process *p, const char *text)
{
	const struct fake_window *w = p->window;

	if (text[0] == '$' && w->variable[0] && strcmp(text + 1, w->variable) == 0)
		say(p, w->value);
	else
		say(p, text);
}

static bool assign(struct fake_window *w, const char *command)
{
	struct str name, value;

	if (strchr(command, ' ') || !str_cut(str_of(command), '=', &name, &value))
		return false;
	must(str_copy(w->variable, sizeof(w->variable), name));
	must(str_copy(w->value, sizeof(w->value), value));
	return true;
}

/* May free p. */
static void run_command(struct fake_process *p, const char *command)
{
	struct fake_window *w = p->window;

	p->count = 0;
	if (strncmp(command, "echo ", 5) == 0) {
		echo(p, command + 5);
		end_run(p, AGENT_END_EXIT, 0);
	} else if (strncmp(command, "sleep ", 6) == 0) {
		loop_timer_set(p->timer, MAX(strtol(command + 6, NULL, 10), 1), 0);
	} else if (strcmp(command, "read") == 0) {
		p->count = 1;
	} else if (strcmp(command, "true") == 0 || assign(w, command)) {
		end_run(p, AGENT_END_EXIT, 0);
	} else if (strcmp(command, "false") == 0) {
		end_run(p, AGENT_END_EXIT, 1);
	} else if (strncmp(command, "(exit ", 6) == 0) {
		end_run(p, AGENT_END_EXIT, (uint32_t)strtoul(command + 6, NULL, 10) & 255);
	} else if (strncmp(command, "exit", 4) == 0) {
		uint32_t code = (uint32_t)strtoul(command + 4, NULL, 10) & 255;

		end_run(p, AGENT_END_EXIT, code);
		fake_exit(p, code);
	} else {
		say(p, "bash: command not found");
		end_run(p, AGENT_END_EXIT, 127);
	}
}

static struct fake_process *find(const struct fake_agent *agent, const char *name)
{
	struct fake_process *p = agent->processes;

	while (p && !(p->window && fake_process_runs(p) && strcmp(p->name, name) == 0))
		p = p->next;
	return p;
}

static struct fake_process *make(struct fake_agent *agent, const struct agent_window_run *run)
{
	struct fake_process *p = fake_process_new(agent, run->process_id, run->ring_bytes, 0);

	p->program = &shell;
	p->tty = p->stdin_open = true;
	p->cols = 120;
	p->rows = 40;
	p->name = fake_copy(str_of(run->name));
	p->user = fake_copy(str_of(run->user));
	p->cwd = fake_copy(str_of(run->cwd));
	p->command = fake_copy(STR_LIT("bash"));
	p->window = calloc(1, sizeof(*p->window));
	must(p->window ? 0 : -1);
	return p;
}

void fake_window_run(struct fake_agent *agent, const struct agent_window_run *run)
{
	struct fake_process *p = find(agent, run->name);
	struct agent_window told = { .tag = run->tag, .made = !p };
	struct agent_follow wish = { .follow_id = run->follow_id,
				     .credit = run->credit,
				     .flags = AGENT_FOLLOW_LIVE | AGENT_FOLLOW_OUT |
					      AGENT_FOLLOW_RUN };
	char *command = fake_copy(run->command);
	struct fake_window *w;

	if (!p)
		p = make(agent, run);
	agent->next_id = MAX(agent->next_id, run->process_id + 1);
	w = p->window;
	told.cancelled = w->busy;
	if (w->busy)
		end_run(p, AGENT_END_KILLED, SIGINT);
	w->busy = true;
	w->run++;
	w->run_status = (struct agent_status){ 0 };
	w->run_cursor = p->streams[0].total;
	w->active_ms = time_real_ms();
	told.process_id = p->id;
	told.run = w->run;
	told.cursor = w->run_cursor;
	must(agent_put_window(&agent->out, &told));
	wish.process_id = p->id;
	wish.run = w->run;
	wish.out_cursor = w->run_cursor;
	fake_follow_new(p, &wish);
	run_command(p, command);
	free(command);
}
