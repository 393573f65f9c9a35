/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/window/window.h"

#include <errno.h>
#include <signal.h>

#include "agent/system/clock.h"
#include "agent/window/state.h"
#include "base/time.h"

#define RETRY_MAX_US 100000
#define READER_US 10000000 /* without a reader for this long: its reports were false */
#define RETRY_US 1000	   /* it reported and will read soon */
#define AGAIN_US 20000	   /* before a command is sent again */
#define GRACE_US 50000	   /* for pending output, if its end cannot be marked */
#define OUTPUT_US 10000000 /* maximum, whatever background jobs write */
#define MARK_US 1000000	   /* for the mark, which a program may have flushed */
/* Steps of a cancel, counted from its start. */
#define TERM_US 500000
#define KILL_US 1000000
#define GIVE_UP_US 3000000
#define REPORTS_PER_TURN 16
#define IDLE_MEMBERS 3 /* the shell and the processes that wait for its next command */

/* ---- states of a command ---- */

void window_wait(struct agent *agent, struct process *p, int64_t in_us)
{
	struct window *w = window_of(p);

	w->due_us = clock_us() + in_us;
	timer_set(agent, p, TIMER_WINDOW, w->due_us);
}

/*
 * Ends the shell with its background jobs. The next command gets a new window, and its reply says
 * so.
 */
static void give_up(struct agent *agent, struct process *p)
{
	window_of(p)->doomed = true;
	stop_start(agent, p, 0, 0, false);
}

static void send_command(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);
	int r = shell_send(agent, &w->shell, p, w->now->command, &w->sent);

	/* A dying reader loses the command; the shell then reports again and receives it again. */
	w->unsent = r == -ENXIO;
	w->again &= w->unsent;
	if (w->unsent && clock_us() - w->run_us >= READER_US)
		give_up(agent, p);
	else if (w->unsent)
		window_wait(agent, p, w->retry_us = MIN(2 * w->retry_us, RETRY_MAX_US));
	else if (w->interrupts)
		window_wait(agent, p, TERM_US);
}

void window_begin(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);

	w->now = TAKE_PTR(w->next);
	w->state = WINDOW_SENDING;
	w->run = ++w->count;
	w->run_end = AGENT_END_NONE;
	w->run_code = 0;
	w->run_cursor = p->streams[0].ring.end;
	w->unsent = w->again = w->overtaken = false;
	w->retry_us = RETRY_US;
	w->run_us = w->active_us = clock_us();
	w->run_boot_ms = time_boot_ms();
	w->run_kills = memory_kills(&agent->memory);
	w->interrupts = w->cancelled = false;
	(void)request_answer(agent, p, w->now, w->run);
	send_command(agent, p);
}

static void idle(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);

	w->state = WINDOW_IDLE;
	w->active_us = clock_us();
	timer_clear(agent, p, TIMER_WINDOW);
	if (w->next)
		window_begin(agent, p);
	else
		window_wait(agent, p, agent->window_idle_us);
}

/* Ends the current run at the newest byte of the ring. */
static void run_over(struct agent *agent, struct process *p, struct agent_status status)
{
	struct window *w = window_of(p);

	if (w->cancelled) {
		status = (struct agent_status){
			.end = AGENT_END_KILLED,
			.exit_code = INTERRUPTED,
		};
	}
	w->run_end_cursor = status.out_total = p->streams[0].ring.end;
	status.err_total = 0;
	status.duration_us = (uint64_t)MAX(clock_us() - w->run_us, 0);
	w->run_end = status.end;
	w->run_code = status.exit_code;
	w->run_status = status;
	w->interrupts = false;
	free(TAKE_PTR(w->now));
	follow_end_run(agent, p, w->run, w->run_end_cursor, &status);
}

void window_cancel(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);

	if (w->interrupts)
		return;
	w->interrupts = w->cancelled = true;
	w->cancel_us = clock_us();
	if (w->state == WINDOW_SENDING && w->unsent && !w->again) { /* it was never delivered */
		run_over(agent, p, (struct agent_status){ 0 });
		idle(agent, p);
		return;
	}
	if (w->state == WINDOW_RUNNING)
		shell_interrupt(p);
	window_wait(agent, p, TERM_US);
}

static void cancel_on_timer(struct agent *agent, struct process *p, int64_t now_us)
{
	struct window *w = window_of(p);
	int64_t since_us = now_us - w->cancel_us;

	if (w->state == WINDOW_RUNNING && since_us >= TERM_US) {
		shell_signal_foreground(agent, p, w->run_boot_ms,
					since_us >= KILL_US ? SIGKILL : SIGTERM);
		shell_interrupt(p); /* it may have been between two commands */
	}
	window_wait(agent, p, TERM_US);
}

static struct agent_status judge(struct agent *agent, const struct window *w)
{
	struct agent_status status = { .end = AGENT_END_EXIT, .exit_code = w->run_code };

	if (w->run_code == 128 + SIGKILL && memory_claim_kill(&agent->memory, w->run_kills)) {
		status.end = AGENT_END_OOM;
		status.memory_limit_bytes = memory_limit(&agent->memory);
		status.memory_peak_bytes = memory_peak(&agent->memory);
	}
	status.oom_kills = memory_kills_since(&agent->memory, w->run_kills);
	return status;
}

/* ---- where a command's output ends ---- */

/* A full terminal accepts it after some bytes were read. */
static void write_mark(struct window *w)
{
	ssize_t n;

	if (!w->mark_due || w->mark_written == MARK_SIZE || w->shell.slave_fd < 0)
		return;
	n = write(w->shell.slave_fd, w->mark + w->mark_written, MARK_SIZE - w->mark_written);
	if (n > 0)
		w->mark_written += (size_t)n;
}

static void on_status(struct agent *agent, struct process *p, unsigned status)
{
	struct window *w = window_of(p);

	w->state = WINDOW_ENDING;
	w->run_code = status;
	w->status_us = clock_us();
	shell_random_digits(w->mark, MARK_SIZE);
	w->mark_written = 0;
	w->mark_due = true;
	write_mark(w);
	window_wait(agent, p, w->mark_written == MARK_SIZE ? MARK_US : GRACE_US);
}

/* How many of the last bytes may be the start of the mark. */
static size_t tail_match(const struct window *w, const char *bytes, size_t n)
{
	for (size_t k = MIN(n, (size_t)MARK_SIZE - 1); k; k--)
		if (memcmp(bytes + n - k, w->mark, k) == 0)
			return k;
	return 0;
}

static void put(struct agent *agent, struct process *p, const char *bytes, size_t n)
{
	if (n)
		process_put(agent, p, (struct str){ bytes, n });
}

static void release_held(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);

	put(agent, p, w->mark, w->held);
	w->held = 0;
}

static void on_output(struct agent *agent, struct process *p, struct str bytes)
{
	static char space[65536 + MARK_SIZE];
	struct window *w = window_of(p);
	const char *found;
	size_t n;

	w->active_us = clock_us();
	if (!w->mark_due || bytes.n > sizeof(space) - MARK_SIZE) {
		release_held(agent, p);
		put(agent, p, bytes.p, bytes.n);
		return;
	}
	write_mark(w);
	memcpy(space, w->mark, w->held);
	memcpy(space + w->held, bytes.p, bytes.n);
	n = w->held + bytes.n;
	found = memmem(space, n, w->mark, MARK_SIZE);
	if (!found) {
		w->held = tail_match(w, space, n);
		put(agent, p, space, n - w->held);
		return;
	}
	w->held = 0;
	w->mark_due = false;
	put(agent, p, space, (size_t)(found - space));
	if (w->state == WINDOW_ENDING)
		run_over(agent, p, judge(agent, w));
	put(agent, p, found + MARK_SIZE, n - (size_t)(found - space) - MARK_SIZE);
	if (w->state == WINDOW_ENDING)
		idle(agent, p);
}

/* ---- events ---- */

static void on_ready(struct agent *agent, struct process *p, unsigned status)
{
	struct window *w = window_of(p);

	w->lost = false;
	switch (w->state) {
	case WINDOW_STARTING:
		idle(agent, p);
		break;
	case WINDOW_SENDING:
		/*
		 * The command was lost with a late interrupt; or it was not, and the report of its
		 * start follows directly.
		 */
		shell_send_end(agent, &w->shell);
		w->again = true;
		window_wait(agent, p, AGAIN_US);
		break;
	case WINDOW_RUNNING:
		/*
		 * It ended by itself while our interrupt may still be pending, which would appear
		 * in the next command's output.
		 */
		if (w->interrupts && status != INTERRUPTED && !w->overtaken) {
			w->overtaken = true;
			w->run_code = status;
			window_wait(agent, p, AGAIN_US);
			break;
		}
		on_status(agent, p, w->overtaken ? w->run_code : status);
		break;
	case WINDOW_IDLE: /* a process sent it a signal; it is still ready */
	case WINDOW_ENDING:
	case WINDOW_GONE:
		break;
	}
}

static void on_begins(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);

	if (w->state != WINDOW_SENDING)
		return;
	w->state = WINDOW_RUNNING;
	w->unsent = w->again = false;
	free(TAKE_PTR(w->now));
	timer_clear(agent, p, TIMER_WINDOW);
	if (w->interrupts) { /* it had to start first */
		shell_interrupt(p);
		window_wait(agent, p, TERM_US);
	}
}

/* An empty line restarts our loop, unless the prompt no longer runs it. */
static void on_prompt(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);

	if (w->lost || stdin_put(agent, p, (struct str){ "\n", 1 }) < 0)
		give_up(agent, p);
	w->lost = true;
}

void window_on_report(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);
	enum shell_report report;
	unsigned status = 0;

	if (!w)
		return;
	for (int i = 0; i < REPORTS_PER_TURN && !w->doomed; i++) {
		report = shell_read(&w->shell, &status);
		if (report == SHELL_READY)
			on_ready(agent, p, status);
		else if (report == SHELL_BEGINS)
			on_begins(agent, p);
		else if (report == SHELL_AT_PROMPT)
			on_prompt(agent, p);
		else
			break;
	}
}

void window_on_writable(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);

	if (w && w->state == WINDOW_SENDING && w->shell.command_fd >= 0)
		send_command(agent, p);
}

/* Background jobs keep their window open. */
static void on_idle_over(struct agent *agent, struct process *p, int64_t now_us)
{
	struct window *w = window_of(p);
	int64_t left_us = w->active_us + agent->window_idle_us - now_us;

	if (left_us > 0)
		window_wait(agent, p, left_us);
	else if (group_members(&agent->groups, p->group, NULL, 0) > IDLE_MEMBERS)
		window_wait(agent, p, agent->window_idle_us);
	else
		give_up(agent, p);
}

/*
 * The mark does not arrive, or could not be written: the output so far is complete, unless more is
 * arriving.
 */
static void on_mark_overdue(struct agent *agent, struct process *p, int64_t now_us)
{
	struct window *w = window_of(p);
	int64_t quiet_us = w->mark_written == MARK_SIZE ? MARK_US : GRACE_US;

	if (now_us - w->status_us < OUTPUT_US &&
	    (p->streams[0].waiting || now_us - w->active_us < quiet_us)) {
		write_mark(w);
		window_wait(agent, p, quiet_us);
		return;
	}
	release_held(agent, p);
	w->mark_due = w->mark_written == MARK_SIZE; /* remove it if it arrives late */
	run_over(agent, p, judge(agent, w));
	idle(agent, p);
}

static void on_timer(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);
	int64_t now_us = clock_us();

	if (p->reaped || w->doomed)
		return;
	switch (w->state) {
	case WINDOW_STARTING:
		give_up(agent, p);
		break;
	case WINDOW_IDLE:
		on_idle_over(agent, p, now_us);
		break;
	case WINDOW_SENDING:
	case WINDOW_RUNNING:
		if (w->interrupts && now_us - w->cancel_us >= GIVE_UP_US)
			give_up(agent, p);
		else if (w->state == WINDOW_SENDING && (w->unsent || w->again))
			send_command(agent, p);
		else if (w->overtaken)
			on_status(agent, p, w->run_code);
		else if (w->interrupts)
			cancel_on_timer(agent, p, now_us);
		break;
	case WINDOW_ENDING:
		on_mark_overdue(agent, p, now_us);
		break;
	case WINDOW_GONE:
		break;
	}
}

static void on_stdin(struct agent *agent, struct process *p)
{
	window_of(p)->active_us = clock_us();
}

/* While our own descriptor of the terminal is open, its end would not be visible. */
static void on_reaped(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);

	w->doomed = true;
	shell_done(agent, &w->shell);
}

static void on_end(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);
	enum window_state before = w->state;
	struct request *next = TAKE_PTR(w->next);

	release_held(agent, p);
	w->state = WINDOW_GONE;
	if (before == WINDOW_ENDING)
		run_over(agent, p, judge(agent, w));
	else if (before == WINDOW_SENDING || before == WINDOW_RUNNING)
		run_over(agent, p, p->status);
	if (!next)
		return;
	if (before == WINDOW_STARTING) {
		request_refuse(agent, next, AGENT_REFUSED_WINDOW_BROKEN, 0);
		return;
	}
	request_make_window(agent, next);
}

static void on_free(struct agent *agent, struct process *p)
{
	struct window *w = window_of(p);

	shell_done(agent, &w->shell);
	free(w->now);
	free(w->next);
	free(w);
}

static enum agent_refusal on_follow(struct agent *agent, struct process *p, struct follow *f)
{
	const struct window *w = window_of(p);

	if (f->run == 0 || f->run > w->count)
		return AGENT_REFUSED_BAD_REQUEST;
	if (f->run != w->run)
		return AGENT_REFUSED_ENDED; /* its status and cursor are no longer known */
	if (w->run_end != AGENT_END_NONE)
		follow_end_at(agent, f, w->run_end_cursor, &w->run_status);
	return 0;
}

static void on_list(const struct process *p, struct agent_listed *listed)
{
	const struct window *w = window_of(p);
	bool busy = w->state == WINDOW_SENDING || w->state == WINDOW_RUNNING ||
		    w->state == WINDOW_ENDING;

	listed->flags |= AGENT_PROCESS_WINDOW | (busy ? AGENT_PROCESS_BUSY : 0);
	listed->run = w->run;
	listed->run_end = w->run_end;
	listed->run_exit_code = w->run_end == AGENT_END_NONE ? 0 : w->run_code;
	listed->run_cursor = w->run_cursor;
	if (!busy && !w->next)
		listed->idle_ms = (uint64_t)MAX(clock_us() - w->active_us, 0) / 1000;
}

const struct process_hooks window_hooks = {
	.on_output = on_output,
	.on_timer = on_timer,
	.on_reaped = on_reaped,
	.on_end = on_end,
	.on_free = on_free,
	.on_follow = on_follow,
	.on_stdin = on_stdin,
	.on_list = on_list,
};
