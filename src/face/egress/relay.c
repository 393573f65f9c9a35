/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passing bytes both ways. A side is read only while the other takes what was read before, so a
 * stalled reader stalls its writer and costs one bounded buffer. Each direction ends on its own.
 */
#include "face/egress/relay.h"

#include <errno.h>
#include <sys/socket.h>

#define ROUNDS_MAX \
	2 /* pieces of 64 KiB each way in one call, so that other connections get their turn */
#define TURN_BYTES \
	262144 /* bytes of all relays in one turn of the loop: about half a millisecond */

static bool would_block(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* Buffered bytes go first. 0: all written; 1: the other side is full; -1: broken. */
static int flush(struct relay_side *from, const struct relay_side *to)
{
	while (buf_len(&from->ahead)) {
		ssize_t n =
			send(to->fd, buf_data(&from->ahead), buf_len(&from->ahead), MSG_NOSIGNAL);

		if (would_block(n))
			return 1;
		if (n < 0)
			return -1;
		buf_consume(&from->ahead, (size_t)n);
	}
	return 0;
}

/* Relays directly; only bytes that the other side does not take are buffered. As flush(); 1
 * also: nothing to read; -2: the relay was freed. */
static int move_some(struct relay *relay, struct relay_side *from, const struct relay_side *to)
{
	char *bytes = relay->face->scratch;
	bool is_in = from == &relay->in;
	ssize_t n, sent;

	if (is_in && (relay->checked || relay->hearing.state == HEARING_SILENT)) {
		int r = relay->checked ? relay_read_checked(relay) : relay_read_late(relay);

		if (r == 0 && buf_len(&from->ahead))
			relay->answered = false;
		if (r == 0)
			relay->face->turns.moved += buf_len(&from->ahead);
		return r ? r : flush(from, to);
	}
	n = recv(from->fd, bytes, MIN(sizeof(relay->face->scratch), RELAY_AHEAD_MAX), 0);
	if (would_block(n))
		return 1;
	if (n < 0)
		return -1;
	if (n == 0) {
		from->ended = true;
		return 1;
	}
	if (is_in && relay->turns && relay->answered) {
		int r = relay_read_turn(relay, bytes, (size_t)n);

		if (r != 1)
			return r ? r : flush(from, to);
	}
	relay->face->turns.moved += (size_t)n;
	relay->answered = !is_in;
	relay->spoke = relay->spoke || !is_in;
	if (!is_in && relay->checked)
		requests_answer(&relay->requests, bytes, (size_t)n);
	sent = send(to->fd, bytes, (size_t)n, MSG_NOSIGNAL);
	if (sent < 0 && !would_block(sent))
		return -1;
	sent = MAX(sent, 0);
	if (sent == n)
		return 0;
	return buf_append(&from->ahead, bytes + sent, (size_t)(n - sent)) < 0 ? -1 : 1;
}

static int pump(struct relay *relay, struct relay_side *from, struct relay_side *to)
{
	int r = flush(from, to);

	for (int i = 0; r == 0 && !from->ended && i < ROUNDS_MAX; i++)
		r = move_some(relay, from, to);
	if (r < 0)
		return r;
	if (from->ended && !from->told && buf_len(&from->ahead) == 0) {
		from->told = true;
		if (shutdown(to->fd, SHUT_WR) < 0)
			return -1;
	}
	return 0;
}

static int events_for(const struct relay_side *side, const struct relay_side *other, bool waits)
{
	int events = 0;

	if (!side->ended && !waits && buf_len(&side->ahead) == 0)
		events |= LOOP_READ;
	if (buf_len(&other->ahead))
		events |= LOOP_WRITE;
	return events;
}

void relay_pass(struct relay *relay)
{
	bool asked = relay->checked && relay->requests.state == REQUESTS_ASKED;
	int r = pump(relay, &relay->in, &relay->out);

	if (r >= 0)
		r = pump(relay, &relay->out, &relay->in);
	if (r >= 0 && asked && relay->requests.state != REQUESTS_ASKED) {
		r = relay_check(relay) < 0 ? -2 : pump(relay, &relay->in, &relay->out);
	}
	if (r == -1)
		relay_reset(relay);
	if (r < 0)
		return;
	if (relay->in.told && relay->out.told) {
		relay_free(relay);
		return;
	}
	asked = relay->checked && relay->requests.state == REQUESTS_ASKED;
	if (loop_watch_set(relay->in.watch, events_for(&relay->in, &relay->out, asked)) < 0 ||
	    loop_watch_set(relay->out.watch, events_for(&relay->out, &relay->in, false)) < 0)
		relay_reset(relay);
}

/* ---- turns ---- */

void relay_unqueue(struct relay *relay)
{
	turns_remove(&relay->face->turns.turns, &relay->turn);
}

static void enqueue(struct relay_queue *queue, struct relay *relay)
{
	if (!queue->turns.waiting)
		loop_timer_set(queue->timer, 0, 0);
	relay->turn.from = relay->from;
	turns_put(&queue->turns, &relay->turn);
}

static void on_turn(void *arg)
{
	struct egress_face *face = arg;
	struct relay_queue *queue = &face->turns;
	struct turn *turn;

	/* Timers come before the turn is counted: what is ready in it shares this budget. */
	queue->turn = loop_turns(face->config.loop) + 1;
	queue->moved = 0;
	while (queue->moved < TURN_BYTES && (turn = turns_take(&queue->turns)))
		relay_pass((struct relay *)((char *)turn - offsetof(struct relay, turn)));
	if (queue->turns.waiting)
		loop_timer_set(queue->timer, 0, 0);
}

/* Watches are level-triggered: what is queued is reported again in every turn, which costs less
 * than to change them. */
void relay_ready(struct relay *relay)
{
	struct relay_queue *queue = &relay->face->turns;
	uint64_t turn = loop_turns(relay->face->config.loop);

	if (relay->turn.queued)
		return;
	if (queue->turn != turn) {
		queue->turn = turn;
		queue->moved = 0;
	}
	if (queue->turns.waiting || queue->moved >= TURN_BYTES)
		enqueue(queue, relay);
	else
		relay_pass(relay);
}

int relay_queue_init(struct egress_face *face)
{
	return loop_timer_new(face->config.loop, on_turn, face, &face->turns.timer);
}

void relay_queue_done(struct egress_face *face)
{
	loop_timer_free(face->turns.timer);
}
