/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/output/follow.h"

#include <errno.h>

#include "agent/agent.h"
#include "agent/output/hold.h"

static char scratch[AGENT_OUTPUT_BYTES_MAX]; /* between a tool's pipe and the socket */

static struct follow **bucket(struct agent *agent, uint32_t id)
{
	return &agent->follows[id & (AGENT_BUCKETS - 1)];
}

static struct follow *find(const struct agent *agent, uint32_t id)
{
	struct follow *f = agent->follows[id & (AGENT_BUCKETS - 1)];

	while (f && f->id != id)
		f = f->hash_next;
	return f;
}

bool follow_exists(const struct agent *agent, uint32_t id)
{
	return find(agent, id);
}

bool follow_reads(const struct follow *f, int i)
{
	return f->flags & (i ? AGENT_FOLLOW_ERR : AGENT_FOLLOW_OUT);
}

static void enqueue(struct agent *agent, struct follow *f)
{
	if (f->queued)
		return;
	f->queued = true;
	f->ready_next = NULL;
	f->ready_prev = agent->ready_tail;
	if (agent->ready_tail)
		agent->ready_tail->ready_next = f;
	else
		agent->ready_head = f;
	agent->ready_tail = f;
}

static void dequeue(struct agent *agent, struct follow *f)
{
	if (!f->queued)
		return;
	f->queued = false;
	if (f->ready_prev)
		f->ready_prev->ready_next = f->ready_next;
	else
		agent->ready_head = f->ready_next;
	if (f->ready_next)
		f->ready_next->ready_prev = f->ready_prev;
	else
		agent->ready_tail = f->ready_prev;
}

/* Removes the reader; the process may be freed. */
static void drop(struct agent *agent, struct follow *f)
{
	struct follow **at = bucket(agent, f->id);
	struct process *p = f->process;

	while (*at != f)
		at = &(*at)->hash_next;
	*at = f->hash_next;
	dequeue(agent, f);
	if (f->prev)
		f->prev->next = f->next;
	else
		p->follows = f->next;
	if (f->next)
		f->next->prev = f->prev;
	agent->follow_count--;
	free(f);
	for (int i = 0; i < 2; i++)
		stream_on_taken(agent, p, i);
	if (p->tool && !p->ended) { /* without a reader it would wait for ever */
		if (!p->reaped)
			stop_kill_all(agent, p);
		for (int i = 0; i < 2; i++) {
			p->streams[i].ready = false;
			stream_watch(agent, p, i, true);
		}
	}
	process_try_free(agent, p);
}

static void tell_end(struct agent *agent, uint32_t process_id, uint32_t follow_id,
		     enum agent_refusal refusal, const struct agent_status *status)
{
	struct agent_followed followed = {
		.process_id = process_id,
		.follow_id = follow_id,
		.refusal = refusal,
	};

	if (status)
		followed.status = *status;
	if (agent_put_followed(&agent->out, &followed) < 0)
		agent->conn_broken = true;
}

void follow_lose_all(struct agent *agent)
{
	for (size_t i = 0; i < AGENT_BUCKETS && agent->follow_count; i++) {
		while (agent->follows[i]) {
			struct follow *f = agent->follows[i];

			if (hold_has(f) && !f->process->ended) {
				uint64_t from[2] = { hold_needed_from(f, 0),
						     hold_needed_from(f, 1) };

				hold_expect(agent, f->process, from);
			}
			drop(agent, f);
		}
	}
}

struct follow *follow_add(struct agent *agent, struct process *p, uint32_t id, uint32_t credit,
			  uint8_t flags, uint64_t out_cursor, uint64_t err_cursor)
{
	struct follow **at = bucket(agent, id);
	struct follow *f;

	if (agent->follow_count == AGENT_FOLLOWS_MAX)
		return NULL;
	f = malloc(sizeof(*f));
	if (!f)
		return NULL;
	*f = (struct follow){
		.id = id,
		.credit = credit,
		.window = credit,
		.flags = flags,
		.cursor = { out_cursor, err_cursor },
		.process = p,
		.next = p->follows,
		.hash_next = *at,
	};
	for (int i = 0; i < 2; i++) {
		const struct ring *ring = &p->streams[i].ring;

		f->end[i] = flags & AGENT_FOLLOW_LIVE ? UINT64_MAX : ring->end;
		f->lagging[i] = ring->end - f->cursor[i] > ring->limit_bytes / 2;
	}
	if (p->follows)
		p->follows->prev = f;
	p->follows = f;
	*at = f;
	agent->follow_count++;
	enqueue(agent, f);
	if (flags & AGENT_FOLLOW_HOLD)
		hold_arrived(agent, p);
	return f;
}

/* Sets the first cursor; refuses positions that are not written yet. */
static enum agent_refusal place_cursor(const struct process *p, int i, bool tail, uint64_t *cursor)
{
	const struct ring *ring = &p->streams[i].ring;

	if (tail)
		*cursor = ring->end - MIN(*cursor, ring->end);
	else if (*cursor > ring->total)
		return AGENT_REFUSED_CURSOR_AHEAD;
	*cursor = MIN(MAX(*cursor, ring->begin), ring->end);
	return 0;
}

static enum agent_refusal try_follow(struct agent *agent, const struct agent_follow *request)
{
	struct process *p = table_find(agent, request->process_id);
	uint64_t cursor[2] = { request->out_cursor, request->err_cursor };
	enum agent_refusal refusal = 0;
	struct follow *f;

	if (!p || p->tool)
		return AGENT_REFUSED_NO_PROCESS;
	if (request->flags & AGENT_FOLLOW_RUN && !(p->hooks && p->hooks->on_follow))
		return AGENT_REFUSED_BAD_REQUEST;
	for (int i = 0; i < 2 && !refusal; i++)
		if (request->flags & (i ? AGENT_FOLLOW_ERR : AGENT_FOLLOW_OUT))
			refusal =
				place_cursor(p, i, request->flags & AGENT_FOLLOW_TAIL, &cursor[i]);
	if (refusal)
		return refusal;
	f = follow_add(agent, p, request->follow_id, request->credit, request->flags, cursor[0],
		       cursor[1]);
	if (!f)
		return AGENT_REFUSED_QUOTA;
	f->run = request->run;
	if (request->flags & AGENT_FOLLOW_RUN) {
		refusal = p->hooks->on_follow(agent, p, f);
		if (refusal)
			drop(agent, f);
	}
	return refusal;
}

void follow_on_request(struct agent *agent, const struct agent_follow *request)
{
	enum agent_refusal refusal;

	if (find(agent, request->follow_id)) { /* a mistake of the daemon */
		agent->conn_broken = true;
		return;
	}
	refusal = try_follow(agent, request);
	if (refusal)
		tell_end(agent, request->process_id, request->follow_id, refusal, NULL);
}

void follow_on_credit(struct agent *agent, uint32_t id, uint32_t bytes)
{
	struct follow *f = find(agent, id);

	if (!f)
		return; /* it ended while the frame was in flight */
	f->credit = (uint32_t)MIN((uint64_t)f->credit + bytes, AGENT_CREDIT_MAX);
	f->window = MAX(f->window, f->credit);
	enqueue(agent, f);
	if (hold_has(f))
		for (int i = 0; i < 2; i++)
			stream_on_taken(agent, f->process, i);
}

void follow_on_unfollow(struct agent *agent, uint32_t id)
{
	struct follow *f = find(agent, id);

	if (f)
		drop(agent, f);
}

void follow_end_at(struct agent *agent, struct follow *f, uint64_t out_cursor,
		   const struct agent_status *status)
{
	f->over = true;
	f->end[0] = out_cursor;
	f->end[1] = 0;
	f->status = *status;
	enqueue(agent, f);
	stream_on_taken(agent, f->process, 0);
}

void follow_end_run(struct agent *agent, struct process *p, uint32_t run, uint64_t out_cursor,
		    const struct agent_status *status)
{
	for (struct follow *f = p->follows; f; f = f->next)
		if ((f->flags & AGENT_FOLLOW_RUN) && f->run == run && !f->over)
			follow_end_at(agent, f, out_cursor, status);
}

void follow_wake_all(struct agent *agent, struct process *p)
{
	for (struct follow *f = p->follows; f; f = f->next)
		if (f->credit || p->ended)
			enqueue(agent, f);
}

void follow_refuse_all(struct agent *agent, struct process *p)
{
	/* The last drop may free p, so the next one is read before. */
	for (struct follow *f = p->follows, *next; f; f = next) {
		next = f->next;
		tell_end(agent, p->id, f->id, AGENT_REFUSED_NO_PROCESS, NULL);
		drop(agent, f);
	}
}

static bool is_waited_for(const struct follow *f, int i)
{
	return follow_reads(f, i) && (f->flags & AGENT_FOLLOW_LIVE) && !hold_has(f) && !f->over &&
	       !f->lagging[i];
}

uint64_t follow_wanted_from(const struct process *p, int i)
{
	const struct ring *ring = &p->streams[i].ring;
	uint64_t fastest = 0;
	bool found = false;

	for (const struct follow *f = p->follows; f; f = f->next) {
		if (!is_waited_for(f, i))
			continue;
		found = true;
		fastest = MAX(fastest, f->cursor[i]);
	}
	return found ? MAX(fastest, ring->begin) : ring->end;
}

void follow_mark_lagging(struct process *p, int i)
{
	const struct ring *ring = &p->streams[i].ring;

	for (struct follow *f = p->follows; f; f = f->next)
		if (ring->end - f->cursor[i] > ring->limit_bytes / 2)
			f->lagging[i] = true;
}

/* No more bytes will follow. */
static bool is_at_end(const struct follow *f)
{
	const struct process *p = f->process;

	if ((f->flags & AGENT_FOLLOW_LIVE) && !f->over && !p->ended)
		return false;
	for (int i = 0; i < 2; i++)
		if (follow_reads(f, i) && f->cursor[i] < MIN(f->end[i], p->streams[i].ring.end))
			return false;
	return true;
}

static void finish(struct agent *agent, struct follow *f)
{
	struct agent_status status = f->over ? f->status : process_status(f->process);

	tell_end(agent, f->process->id, f->id, 0, &status);
	drop(agent, f);
}

/* The number of bytes of stream i that can be sent now; moves the cursor over a gap. */
static size_t sendable(struct follow *f, int i)
{
	const struct ring *ring = &f->process->streams[i].ring;
	uint64_t end = MIN(f->end[i], ring->end);

	if (!follow_reads(f, i))
		return 0;
	if (f->cursor[i] < ring->begin) {
		f->cursor[i] = ring->begin;
		f->lagging[i] = true;
	}
	if (f->cursor[i] >= end)
		return 0;
	return (size_t)MIN(end - f->cursor[i], MIN((uint64_t)f->credit, AGENT_OUTPUT_BYTES_MAX));
}

enum sent { SENT_NOTHING, SENT_SOME, SENT_FULL /* the socket is */ };

static enum sent send_ring(struct agent *agent, struct follow *f, int i)
{
	struct process *p = f->process;
	size_t n = sendable(f, i);
	struct agent_output head = {
		.process_id = p->id,
		.follow_id = f->id,
		.stream = i ? AGENT_STREAM_ERR : AGENT_STREAM_OUT,
		.cursor = f->cursor[i],
		.bytes = { NULL, n },
	};
	struct iovec pieces[2];

	if (!n)
		return SENT_NOTHING;
	if (!conn_output(agent, &head, pieces,
			 ring_pieces(&p->streams[i].ring, f->cursor[i], n, pieces)))
		return SENT_FULL;
	f->cursor[i] += n;
	f->credit -= (uint32_t)n;
	if (f->cursor[i] == p->streams[i].ring.end)
		f->lagging[i] = false;
	stream_on_taken(agent, p, i);
	return SENT_SOME;
}

/* A tool's bytes are not buffered: they are read when they can be sent. */
static enum sent send_tool(struct agent *agent, struct follow *f, int i)
{
	struct process_stream *s = &f->process->streams[i];
	struct agent_output head = {
		.process_id = f->process->id,
		.follow_id = f->id,
		.stream = i ? AGENT_STREAM_ERR : AGENT_STREAM_OUT,
		.cursor = s->ring.total,
	};
	struct iovec piece = { scratch, 0 };
	ssize_t n;

	if (!f->credit || !s->ready)
		return SENT_NOTHING;
	do
		n = read(s->fd, scratch, MIN((size_t)f->credit, sizeof(scratch)));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		s->ready = false;
		stream_watch(agent, f->process, i, true);
		return SENT_NOTHING;
	}
	if (n <= 0) {
		stream_close(agent, f->process, i);
		return SENT_NOTHING;
	}
	head.bytes.n = piece.iov_len = (size_t)n;
	s->ring.total = s->ring.begin = s->ring.end = s->ring.total + (uint64_t)n;
	stream_grow_pipe(f->process, i, (size_t)n);
	f->cursor[i] = s->ring.end;
	f->credit -= (uint32_t)n;
	if (!conn_output(agent, &head, &piece, 1))
		/* they were already read from the pipe */
		conn_queue_output(agent, &head, &piece, 1);
	return SENT_SOME;
}

bool follow_pump(struct agent *agent)
{
	struct follow *f = agent->ready_head;
	struct process *p;

	if (!f)
		return false;
	p = f->process;
	for (int k = 0; k < 2; k++) {
		int i = (f->turn + k) % 2;
		enum sent sent = p->tool ? send_tool(agent, f, i) : send_ring(agent, f, i);

		if (sent == SENT_FULL)
			return false;
		if (sent == SENT_NOTHING)
			continue;
		f->turn = (uint8_t)!i;
		dequeue(agent, f);
		enqueue(agent, f);
		return true;
	}
	dequeue(agent, f);
	if (p->tool && p->reaped && !p->ended)
		process_settle(agent, p);
	if (is_at_end(f))
		finish(agent, f);
	return agent->ready_head;
}
