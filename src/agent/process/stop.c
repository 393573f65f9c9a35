/* SPDX-License-Identifier: Apache-2.0 */
/* Requested signals, and ending all descendants of a process. */
#include <errno.h>
#include <signal.h>

#include "agent/agent.h"
#include "agent/system/clock.h"
#include "agent/digits.h"
#include "agent/process/kill_session.h"
#include "agent/process/tty.h"

#define LOOK_US 20000	/* interval at which STOP checks for remaining descendants */
#define MEMBERS_MAX 256 /* members outside the process group that are signalled one by one */
#define AGAIN_US 200000 /* a shell may miss a signal between its prompt and its read */

void stop_note(struct process *p, int signum)
{
	p->asked_signals |= 1ULL << (signum - 1);
}

static int send_signal(struct process *p, int signum)
{
	bool by_key = signum == SIGINT || signum == SIGQUIT || signum == SIGTSTP;

	stop_note(p, signum);
	if (p->tty && by_key && p->streams[0].fd >= 0 && tty_signal(p, signum) == 0)
		return 0;
	return kill(-p->pid, signum) < 0 && errno != ESRCH ? -errno : 0;
}

/* The session of a program that was reaped, unless its number belongs to another one now. */
static pid_t session_of(const struct agent *agent, const struct process *p)
{
	return p->reaped && table_find_pid(agent, p->pid) ? 0 : p->pid;
}

static void put_mark(char mark[sizeof(PROCESS_MARK) + DIGITS_MAX], const struct process *p)
{
	(void)digits_put(digits_text(mark, PROCESS_MARK), p->id);
}

/*
 * Sends a signal (0: none) to each descendant that outlived the program; returns their number. With
 * cgroups, an ended process without a group has none: its group was empty.
 */
static size_t signal_rest(struct agent *agent, const struct process *p, int signum)
{
	char mark[sizeof(PROCESS_MARK) + DIGITS_MAX];
	pid_t members[MEMBERS_MAX];
	size_t count;

	if (!p->group && groups_on(&agent->groups))
		return 0;
	if (!p->group) {
		put_mark(mark, p);
		return session_signal(agent->proc_fd, session_of(agent, p), mark, signum);
	}
	count = group_members(&agent->groups, p->group, members, MEMBERS_MAX);
	for (size_t i = 0; signum && i < MIN(count, (size_t)MEMBERS_MAX); i++)
		(void)kill(members[i], signum);
	return count;
}

void stop_signal(struct agent *agent, struct process *p, int signum, uint32_t tag)
{
	int r;

	if (p->reaped) {
		r = signal_rest(agent, p, signum) ? 0 : AGENT_REFUSED_ENDED;
		conn_done(agent, tag, (enum agent_refusal)r, 0);
		return;
	}
	r = send_signal(p, signum);
	conn_done(agent, tag, r < 0 ? AGENT_REFUSED_OTHER : 0, -r);
}

void stop_kill_all(struct agent *agent, struct process *p)
{
	char mark[sizeof(PROCESS_MARK) + DIGITS_MAX];

	if (!p->reaped)
		(void)kill(-p->pid, SIGKILL);
	if (p->group) {
		(void)group_kill(&agent->groups, p->group);
		return;
	}
	put_mark(mark, p);
	session_kill(agent->proc_fd, session_of(agent, p), mark);
}

static bool all_gone(struct agent *agent, const struct process *p)
{
	if (!p->reaped)
		return false;
	if (p->group)
		return group_is_empty(&agent->groups, p->group);
	if (p->ended)
		return signal_rest(agent, p, 0) == 0;
	return kill(-p->pid, 0) < 0 && errno == ESRCH;
}

static int64_t next_look(const struct process *p, int64_t after_us)
{
	int64_t at_us = clock_us() + after_us;

	return MIN(p->kill_us, at_us);
}

/*
 * Interactive shells ignore TERM, so their terminal is hung up. Stopped processes must be continued
 * to receive it.
 */
static void ask_to_end(struct agent *agent, struct process *p)
{
	pid_t members[MEMBERS_MAX];
	size_t count;

	if (p->reaped) {
		(void)signal_rest(agent, p, SIGTERM);
		(void)signal_rest(agent, p, SIGCONT);
		return;
	}
	count = group_members(&agent->groups, p->group, members, MEMBERS_MAX);
	(void)send_signal(p, SIGTERM);
	for (size_t i = 0; i < MIN(count, (size_t)MEMBERS_MAX); i++)
		if (members[i] > 1 && getpgid(members[i]) != p->pid)
			(void)kill(members[i], SIGTERM);
	if (p->tty)
		(void)send_signal(p, SIGHUP);
	(void)send_signal(p, SIGCONT);
}

void stop_start(struct agent *agent, struct process *p, uint32_t tag, uint32_t grace_ms,
		bool forget)
{
	int64_t at_us = clock_us() + (int64_t)grace_ms * 1000;

	if (p->ended && all_gone(agent, p)) {
		if (forget)
			process_hide(agent, p);
		conn_done(agent, tag, 0, 0);
		return;
	}
	if (tag && waits_add(&p->stop_waits, (struct process_wait){ .tag = tag }) < 0) {
		conn_done(agent, tag, AGENT_REFUSED_NO_MEMORY, ENOMEM);
		return;
	}
	p->stop_forget |= forget;
	/* A second STOP may shorten the grace period, never lengthen it. */
	p->kill_us = p->stopping ? MIN(p->kill_us, at_us) : at_us;
	p->stopping = true;
	for (int i = 0; i < 2; i++) /* readers no longer delay it */
		stream_on_taken(agent, p, i);
	stop_note(p, SIGKILL);
	if (grace_ms)
		ask_to_end(agent, p);
	timer_set(agent, p, TIMER_STOP, p->reaped ? 1 : next_look(p, AGAIN_US));
}

/* The descendants of a process that had ended before STOP are gone. */
static void finish_late(struct agent *agent, struct process *p)
{
	p->stopping = false;
	timer_clear(agent, p, TIMER_STOP);
	stop_on_end(agent, p);
	if (p->stop_forget)
		process_hide(agent, p);
}

void stop_on_hide(struct agent *agent, struct process *p)
{
	if (!p->ended || !p->stopping)
		return;
	if (!p->killed_all)
		stop_kill_all(agent, p);
	p->killed_all = true;
	p->stop_forget = false;
	finish_late(agent, p);
}

/* The program may have ended while descendants remain: they have the rest of the grace period. */
void stop_on_timer(struct agent *agent, struct process *p)
{
	int64_t now_us = clock_us();

	if (now_us >= p->kill_us) {
		stop_kill_all(agent, p);
		p->killed_all = true;
	} else if (!p->reaped) {
		if (p->tty)
			(void)send_signal(p, SIGHUP);
		timer_set(agent, p, TIMER_STOP, next_look(p, AGAIN_US));
		return;
	} else if (!all_gone(agent, p)) {
		timer_set(agent, p, TIMER_STOP, next_look(p, LOOK_US));
		return;
	}
	if (p->ended)
		finish_late(agent, p);
	else if (p->reaped)
		process_settle(agent, p);
}

bool stop_holds(struct agent *agent, struct process *p)
{
	if (!p->stopping || p->killed_all)
		return false;
	if (all_gone(agent, p)) {
		/* processes that left the process group are found only by a search */
		if (!p->group)
			stop_kill_all(agent, p);
		p->killed_all = true;
		return false;
	}
	timer_set(agent, p, TIMER_STOP, next_look(p, LOOK_US));
	return true;
}

void stop_on_end(struct agent *agent, struct process *p)
{
	for (size_t i = p->stop_waits.first; i < p->stop_waits.count; i++)
		conn_done(agent, p->stop_waits.items[i].tag, 0, 0);
	waits_clear(&p->stop_waits);
}
