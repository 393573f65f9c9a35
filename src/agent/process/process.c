/* SPDX-License-Identifier: Apache-2.0 */
/* A process after its program's death: what is reported, and how long it is kept. */
#include "agent/process/process.h"

#include <signal.h>
#include <sys/wait.h>

#include "agent/agent.h"
#include "agent/system/clock.h"
#include "agent/output/follow.h"
#include "agent/output/hold.h"

/*
 * Background children may keep the pipes open for ever. Output that is slightly late (a tee, a
 * process substitution) is still waited for.
 */
#define GRACE_US 50000
/* when to check again a process that is due for removal but being read */
#define STILL_READ_US 5000000
#define REAP_MAX 256 /* per iteration of the event loop */

static void enqueue(struct agent *agent, struct process *p)
{
	p->in_outbox = true;
	p->outbox_next = NULL;
	if (agent->outbox_tail)
		agent->outbox_tail->outbox_next = p;
	else
		agent->outbox_head = p;
	agent->outbox_tail = p;
}

static void dequeue_head(struct agent *agent)
{
	struct process *p = agent->outbox_head;

	p->in_outbox = false;
	agent->outbox_head = p->outbox_next;
	if (!agent->outbox_head)
		agent->outbox_tail = NULL;
}

static bool streams_open(const struct process *p)
{
	return p->streams[0].fd >= 0 || p->streams[1].fd >= 0;
}

/*
 * A group that has members stays with its process while it is listed: STOP and signals still reach
 * the descendants that outlived the program.
 */
static void release_spent(struct agent *agent, const struct spent_group *spent)
{
	struct process *p = spent->group ? NULL : table_find_any(agent, spent->process_id);

	if (spent->group)
		group_release(&agent->groups, spent->group);
	else if (p && p->group && group_try_release(&agent->groups, p->group))
		p->group = NULL;
}

/* Checking whether it is empty takes time: done after the reply, not before. */
static void spend(struct agent *agent, struct spent_group spent)
{
	if (agent->spent_count < ARRAY_LEN(agent->spent))
		agent->spent[agent->spent_count++] = spent;
	else
		release_spent(agent, &spent);
}

void process_release_groups(struct agent *agent)
{
	while (agent->spent_count)
		release_spent(agent, &agent->spent[--agent->spent_count]);
}

void process_try_free(struct agent *agent, struct process *p)
{
	if (!p->hidden || !p->ended || p->follows || p->in_outbox)
		return;
	/* It can no longer be requested; pipes that orphans hold are only drained. */
	for (int i = 0; i < 2; i++)
		ring_done(&p->streams[i].ring);
	if (streams_open(p))
		return;
	if (p->hooks && p->hooks->on_free)
		p->hooks->on_free(agent, p);
	timer_clear_all(agent, p);
	if (p->group)
		spend(agent, (struct spent_group){ .group = TAKE_PTR(p->group) });
	table_remove(agent, p);
	waits_clear(&p->in_waits);
	waits_clear(&p->stop_waits);
	free(p);
}

void process_hide(struct agent *agent, struct process *p)
{
	if (!p->hidden) {
		stop_on_hide(agent, p);
		table_remove_ended(agent, p);
		table_hide(agent, p);
		timer_clear(agent, p, TIMER_KEEP);
	}
	process_try_free(agent, p);
}

bool process_evict(struct agent *agent)
{
	struct process *p = agent->first_ended;

	while (p && p->follows)
		p = p->ended_after;
	for (struct process *q = agent->first_ended; q && !p; q = q->ended_after)
		if (!hold_is_on(q)) /* a foreground reader gets all of it */
			p = q;
	if (!p)
		return false;
	follow_refuse_all(agent, p);
	process_hide(agent, p);
	return true;
}

static void keep(struct agent *agent, struct process *p)
{
	table_add_ended(agent, p);
	timer_set(agent, p, TIMER_KEEP, clock_us() + (int64_t)p->keep_ms * 1000);
}

void process_detach(struct agent *agent, struct process *p)
{
	p->collect = false;
	save_done(&p->save);
	for (int i = 0; i < 2; i++)
		ring_keep_last(&p->streams[i].ring, AGENT_RING_DEFAULT_BYTES);
	if (p->ended) /* its EXIT was about to be reported; the outbox checks that itself */
		keep(agent, p);
}

/* ---- the end ---- */

static bool died_of_kill(const struct process *p)
{
	return WIFSIGNALED(p->wait_status) ? WTERMSIG(p->wait_status) == SIGKILL
					   : WEXITSTATUS(p->wait_status) == 128 + SIGKILL;
}

static void judge(struct agent *agent, struct process *p)
{
	struct agent_status *s = &p->status;

	*s = (struct agent_status){
		.end = AGENT_END_EXIT,
		.duration_us = (uint64_t)MAX(p->end_us - p->start_us, 0),
	};
	if (WIFSIGNALED(p->wait_status)) {
		s->end = AGENT_END_SIGNAL;
		s->signal = (uint32_t)WTERMSIG(p->wait_status);
		s->exit_code = 128 + s->signal;
	} else {
		s->exit_code = (uint32_t)WEXITSTATUS(p->wait_status);
	}
	if (p->timed_out) {
		s->end = AGENT_END_TIMEOUT;
		s->exit_code = AGENT_TIMEOUT_EXIT_CODE;
	} else if (s->signal && (p->asked_signals >> (s->signal - 1) & 1)) {
		s->end = AGENT_END_KILLED;
	} else if (died_of_kill(p) && memory_claim_kill(&agent->memory, p->kills_before)) {
		s->end = AGENT_END_OOM;
		s->memory_limit_bytes = memory_limit(&agent->memory);
		s->memory_peak_bytes = memory_peak(&agent->memory);
	}
	s->oom_kills = memory_kills_since(&agent->memory, p->kills_before);
}

struct agent_status process_status(const struct process *p)
{
	struct agent_status status = { .end = AGENT_END_NONE };

	if (p->ended)
		status = p->status;
	status.out_total = p->streams[0].ring.total;
	status.err_total = p->streams[1].ring.total;
	return status;
}

/* All output has arrived, or the rest comes from orphans whose grace period has ended. */
static bool output_complete(const struct process *p)
{
	bool grace_over = false;

	for (int i = 0; i < 2; i++) {
		const struct process_stream *s = &p->streams[i];

		if (s->fd < 0)
			continue;
		if (!grace_over && clock_us() < p->end_us + GRACE_US)
			return false;
		grace_over = true;
		if (s->left || s->ready)
			return false;
	}
	return true;
}

static void end(struct agent *agent, struct process *p)
{
	p->ended = true;
	timer_clear_all(agent, p);
	stdin_drop(agent, p, AGENT_REFUSED_ENDED);
	for (int i = 0; i < 2; i++) {
		if (p->tool) /* no descendants live on */
			stream_close(agent, p, i);
		p->streams[i].waiting = false;
		stream_watch(agent, p, i, true);
	}
	if (p->group && !p->collect && !p->tool)
		spend(agent, (struct spent_group){ .process_id = p->id });
	save_done(&p->save);
	if (p->hooks && p->hooks->on_end)
		p->hooks->on_end(agent, p);
	follow_wake_all(agent, p);
	stop_on_end(agent, p);
	if (p->collect)
		enqueue(agent, p);
	else if (p->tool || p->stop_forget)
		process_hide(agent, p);
	else
		keep(agent, p);
}

void process_settle(struct agent *agent, struct process *p)
{
	if (!p->reaped)
		return;
	if (p->ended)
		process_try_free(agent, p);
	else if (output_complete(p) && !stop_holds(agent, p))
		end(agent, p);
}

static void on_reaped(struct agent *agent, struct process *p, int wait_status)
{
	table_remove_pid(agent, p);
	p->reaped = true;
	p->wait_status = wait_status;
	p->end_us = clock_us();
	judge(agent, p);
	timer_clear(agent, p, TIMER_TIMEOUT);
	if (p->hooks && p->hooks->on_reaped)
		p->hooks->on_reaped(agent, p);
	for (int i = 0; i < 2; i++)
		stream_drain(agent, p, i);
	if (streams_open(p))
		timer_set(agent, p, TIMER_DRAIN, p->end_us + GRACE_US);
	if (p->follows)
		follow_wake_all(agent, p);
	process_settle(agent, p);
}

void process_reap(struct agent *agent)
{
	int status, count = 0;
	pid_t pid;

	agent->reap_due = false;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct process *p = table_find_pid(agent, pid);

		if (p)
			on_reaped(agent, p, status);
		/* A fork bomb ends processes faster than they are reaped: requests come first. */
		if (++count == REAP_MAX) {
			agent->reap_due = true;
			return;
		}
	}
}

static void on_keep_over(struct agent *agent, struct process *p)
{
	if (p->follows)
		timer_set(agent, p, TIMER_KEEP, clock_us() + STILL_READ_US);
	else
		process_hide(agent, p);
}

void process_on_timer(struct agent *agent, struct process *p, enum process_timer timer)
{
	switch (timer) {
	case TIMER_TIMEOUT:
		p->timed_out = true;
		stop_kill_all(agent, p);
		break;
	case TIMER_STOP:
		stop_on_timer(agent, p);
		break;
	case TIMER_DRAIN:
		process_settle(agent, p);
		break;
	case TIMER_KEEP:
		on_keep_over(agent, p);
		break;
	case TIMER_OUT:
	case TIMER_ERR:
		stream_on_pause_over(agent, p, timer == TIMER_ERR);
		break;
	case TIMER_WINDOW:
		if (p->hooks && p->hooks->on_timer)
			p->hooks->on_timer(agent, p);
		break;
	case TIMER_HOLD:
		hold_on_over(agent, p);
		break;
	case TIMER_COUNT:
		break;
	}
}

void process_on_conn_lost(struct agent *agent)
{
	orphan_on_conn_lost(agent);
	while (agent->outbox_head)
		dequeue_head(agent);
	for (struct process *p = agent->oldest; p; p = p->newer) {
		waits_clear(&p->in_waits);
		waits_clear(&p->stop_waits);
		if (p->collect)
			process_detach(agent, p);
	}
}

/* ---- collected processes ---- */

static bool tell_output(struct agent *agent, struct process *p, int i, bool *full)
{
	const struct ring *ring = &p->streams[i].ring;
	size_t n = (size_t)MIN(ring->end - p->told[i], (uint64_t)AGENT_OUTPUT_BYTES_MAX);
	struct agent_output head = {
		.process_id = p->id,
		.stream = i ? AGENT_STREAM_ERR : AGENT_STREAM_OUT,
		.cursor = p->told[i],
		.bytes = { NULL, n },
	};
	struct iovec pieces[2];

	if (!n)
		return false;
	*full = !conn_output(agent, &head, pieces, ring_pieces(ring, p->told[i], n, pieces));
	if (!*full)
		p->told[i] += n;
	return true;
}

static void tell_exit(struct agent *agent, const struct process *p)
{
	struct agent_exit e = {
		.process_id = p->id,
		.status = process_status(p),
		.saved = str_of(p->save.path),
		.saved_all = p->save.path[0] && p->save.all,
	};

	/* a closed connection is better than a missing EXIT */
	if (agent_put_exit(&agent->out, &e) < 0)
		agent->conn_broken = true;
}

/*
 * Sends one frame and moves to the end of the queue, so that a large reply does not delay small
 * ones.
 */
bool process_tell(struct agent *agent)
{
	struct process *p = agent->outbox_head;
	bool full = false;

	if (!p)
		return false;
	if (p->collect && (tell_output(agent, p, 0, &full) || tell_output(agent, p, 1, &full))) {
		if (full)
			return false;
		dequeue_head(agent);
		enqueue(agent, p);
		return true;
	}
	dequeue_head(agent);
	if (p->collect) {
		tell_exit(agent, p);
		process_hide(agent, p);
	}
	return agent->outbox_head;
}
