/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Passing bytes both ways. A side is read only while the other takes what was read before, so a
 * stalled reader stalls its writer and costs one bounded buffer. Each direction ends on its own.
 */
#include "face/egress/relay.h"

#include <errno.h>
#include <sys/socket.h>

#define ROUNDS_MAX 8 /* of one call: others want their turn */

static bool would_block(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* What was kept goes first. 0: all gone; 1: the other side is full; -1: broken. */
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

/* Straight through; only what does not go on at once is kept. As flush(), 1 also: nothing there;
 * -2: the relay is gone. */
static int move_some(struct relay *relay, struct relay_side *from, const struct relay_side *to)
{
	char *bytes = relay->face->scratch;
	bool is_in = from == &relay->in;
	ssize_t n, sent;

	if (is_in && (relay->checked || relay->hearing.state == HEARING_SILENT)) {
		int r = relay->checked ? relay_read_checked(relay) : relay_read_late(relay);

		if (r == 0 && buf_len(&from->ahead))
			relay->answered = false;
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
