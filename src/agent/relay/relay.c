/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/relay/relay.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/agent.h"
#include "base/time.h"

#define CONNECT_US 5000000LL
#define WATCHED (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET)

/* ---- the table ---- */

static struct relay **bucket(struct agent *agent, uint32_t id)
{
	return &agent->relays.by_id[(id >> 1) & (RELAY_BUCKETS - 1)];
}

static struct relay *find(struct agent *agent, uint32_t id)
{
	struct relay *relay = *bucket(agent, id);

	while (relay && relay->id != id)
		relay = relay->next;
	return relay;
}

void relay_init(struct agent *agent)
{
	agent->relays.ready_end = &agent->relays.ready;
	agent->relays.egress_fd = -1;
}

struct relay *relay_new(struct agent *agent, uint32_t id, int fd, enum relay_state state)
{
	struct relay **at = bucket(agent, id), *relay;

	if (agent->relays.count >= RELAYS_MAX)
		return NULL;
	relay = calloc(1, sizeof(*relay));
	if (!relay)
		return NULL;
	*relay = (struct relay){ .id = id, .state = state, .fd = fd, .next = *at };
	relay->flow.may_come = RELAY_WINDOW_BYTES;
	buf_init(&relay->out, RELAY_WINDOW_BYTES);
	*at = relay;
	agent->relays.count++;
	agent->relays.connecting += state == RELAY_CONNECTING;
	return relay;
}

static void drop_ready(struct agent *agent, struct relay *relay)
{
	if (!relay->ready)
		return;
	relay->ready = false;
	*relay->pprev_ready = relay->next_ready;
	if (relay->next_ready)
		relay->next_ready->pprev_ready = relay->pprev_ready;
	else
		agent->relays.ready_end = relay->pprev_ready;
}

static void set_ready(struct agent *agent, struct relay *relay)
{
	if (relay->ready || relay->state != RELAY_OPEN || !relay->readable ||
	    relay->flow.end_sent || !relay->flow.may_send)
		return;
	relay->ready = true;
	relay->next_ready = NULL;
	relay->pprev_ready = agent->relays.ready_end;
	*agent->relays.ready_end = relay;
	agent->relays.ready_end = &relay->next_ready;
}

static void leave_state(struct agent *agent, struct relay *relay, enum relay_state state)
{
	agent->relays.connecting -= relay->state == RELAY_CONNECTING;
	relay->state = state;
}

static void free_relay(struct agent *agent, struct relay *relay)
{
	struct relay **at = bucket(agent, relay->id);

	while (*at != relay)
		at = &(*at)->next;
	*at = relay->next;
	drop_ready(agent, relay);
	leave_state(agent, relay, RELAY_OPEN);
	agent->relays.count--;
	if (relay->fd >= 0)
		(void)close(relay->fd);
	buf_done(&relay->out);
	free(relay);
	egress_arm(agent);
}

/* Its peer inside sees a reset, not an orderly end. */
static void abort_relay(struct agent *agent, struct relay *relay)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	if (relay->fd >= 0)
		(void)setsockopt(relay->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	free_relay(agent, relay);
}

void relay_drop_all(struct agent *agent)
{
	for (int i = 0; agent->relays.count && i < RELAY_BUCKETS; i++)
		while (agent->relays.by_id[i])
			abort_relay(agent, agent->relays.by_id[i]);
	agent->relays.last_dial = agent->relays.last_offer = 0;
}

/* ---- frames to the daemon ---- */

static void put(struct agent *agent, const struct stream_frame *frame)
{
	if (stream_put(&agent->out, frame) < 0)
		agent->conn_broken = true;
}

static void put_plain(struct agent *agent, uint32_t id, enum stream_type type)
{
	const struct stream_frame frame = { .type = type, .stream = id };

	put(agent, &frame);
}

static void put_opened(struct agent *agent, uint32_t id, int error)
{
	const struct stream_frame frame = { .type = STREAM_OPENED,
					    .stream = id,
					    .errno_value = (uint32_t)error,
					    .credit = error ? 0 : RELAY_WINDOW_BYTES };

	put(agent, &frame);
}

static void reset(struct agent *agent, struct relay *relay)
{
	put_plain(agent, relay->id, STREAM_RESET);
	abort_relay(agent, relay);
}

static void give_credit(struct agent *agent, struct relay *relay, size_t taken)
{
	struct stream_frame frame = { .type = STREAM_CREDIT, .stream = relay->id };

	frame.credit = stream_flow_taken(&relay->flow, taken, RELAY_WINDOW_BYTES);
	if (frame.credit)
		put(agent, &frame);
}

/* ---- connecting ---- */

/*
 * 127.0.0.1 first, then ::1. 0: connected, or in progress; otherwise -errno and no socket is left.
 */
static int try_connect(struct agent *agent, struct relay *relay, bool v6)
{
	int fd = -1, r = dial_connect(relay->port, v6, &fd);

	if (fd < 0)
		return r;
	relay->fd = fd;
	relay->v6 = v6;
	if (agent_watch(agent, EPOLL_CTL_ADD, fd, WATCHED, EVENT_RELAY, relay->id) < 0) {
		(void)close(TAKE_FD(relay->fd));
		return -ENOMEM;
	}
	return 0; /* writable once connected: the event arrives even if that is already the case */
}

static int on_dial(struct agent *agent, const struct stream_frame *frame)
{
	struct relay *relay;
	int first;

	if (frame->stream <= agent->relays.last_dial)
		return -EPROTO;
	agent->relays.last_dial = frame->stream;
	relay = relay_new(agent, frame->stream, -1, RELAY_CONNECTING);
	if (!relay) {
		put_opened(agent, frame->stream, EAGAIN);
		return 0;
	}
	relay->port = frame->port;
	relay->flow.may_send = frame->credit;
	relay->until_us = time_mono_us() + CONNECT_US;
	first = try_connect(agent, relay, false);
	if (first == 0 || try_connect(agent, relay, true) == 0)
		return 0;
	put_opened(agent, relay->id, -first);
	free_relay(agent, relay);
	return 0;
}

static void on_connected(struct agent *agent, struct relay *relay)
{
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(relay->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	if (error) {
		(void)close(TAKE_FD(relay->fd));
		if (!relay->v6 && try_connect(agent, relay, true) == 0)
			return;
		put_opened(agent, relay->id, error);
		free_relay(agent, relay);
		return;
	}
	leave_state(agent, relay, RELAY_OPEN);
	relay->flow.open = true;
	put_opened(agent, relay->id, 0);
	set_ready(agent, relay);
}

void relay_run(struct agent *agent)
{
	int64_t now_us = agent->relays.connecting ? time_mono_us() : 0;
	struct relay *next;

	for (int i = 0; agent->relays.connecting && i < RELAY_BUCKETS; i++) {
		for (struct relay *relay = agent->relays.by_id[i]; relay; relay = next) {
			next = relay->next;
			if (relay->state != RELAY_CONNECTING || relay->until_us > now_us)
				continue;
			put_opened(agent, relay->id, ETIMEDOUT);
			free_relay(agent, relay);
		}
	}
}

int relay_sleep_ms(const struct agent *agent)
{
	int64_t until_us = 0;

	for (int i = 0; agent->relays.connecting && i < RELAY_BUCKETS; i++)
		for (const struct relay *relay = agent->relays.by_id[i]; relay; relay = relay->next)
			if (relay->state == RELAY_CONNECTING &&
			    (!until_us || relay->until_us < until_us))
				until_us = relay->until_us;
	return until_us ? (int)(MAX(until_us - time_mono_us(), 0) / 1000 + 1) : -1;
}

/* ---- from the daemon to the connection ---- */

/* All received bytes were written. */
static void on_drained(struct agent *agent, struct relay *relay)
{
	if (!relay->flow.end_came)
		return;
	if (relay->closing || relay->flow.end_sent)
		free_relay(agent, relay);
	else
		(void)shutdown(relay->fd, SHUT_WR);
}

/* -1: the connection accepts no more bytes. */
static ssize_t offer_bytes(const struct relay *relay, const char *p, size_t n)
{
	ssize_t sent;

	do
		sent = send(relay->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno == EAGAIN ? 0 : -1;
	return sent;
}

static void flush_out(struct agent *agent, struct relay *relay)
{
	size_t taken = 0;

	if (!buf_len(&relay->out))
		return;
	while (buf_len(&relay->out)) {
		ssize_t n = offer_bytes(relay, buf_data(&relay->out), buf_len(&relay->out));

		if (n < 0) {
			reset(agent, relay);
			return;
		}
		if (n == 0)
			break;
		buf_consume(&relay->out, (size_t)n);
		taken += (size_t)n;
	}
	give_credit(agent, relay, taken);
	if (!buf_len(&relay->out))
		on_drained(agent, relay);
}

static int on_data(struct agent *agent, struct relay *relay, struct str bytes)
{
	ssize_t n = 0;

	if (stream_flow_on_data(&relay->flow, bytes.n) < 0)
		return -EPROTO;
	if (!buf_len(&relay->out))
		n = offer_bytes(relay, bytes.p, bytes.n);
	if (n < 0 || ((size_t)n < bytes.n &&
		      buf_append(&relay->out, bytes.p + n, bytes.n - (size_t)n) < 0)) {
		reset(agent, relay);
		return 0;
	}
	give_credit(agent, relay, (size_t)n);
	return 0;
}

static int on_end(struct agent *agent, struct relay *relay, bool close)
{
	if (stream_flow_on_end(&relay->flow) < 0)
		return -EPROTO;
	relay->closing = close;
	if (close) /* the stream has ended for the daemon: nothing more is sent */
		relay->flow.end_sent = true;
	drop_ready(agent, relay);
	set_ready(agent, relay);
	if (!buf_len(&relay->out))
		on_drained(agent, relay);
	return 0;
}

static int on_opened(struct agent *agent, struct relay *relay, const struct stream_frame *frame)
{
	if (relay->state != RELAY_OFFERED)
		return -EPROTO;
	if (frame->errno_value) {
		abort_relay(agent, relay);
		return 0;
	}
	leave_state(agent, relay, RELAY_OPEN);
	if (stream_flow_on_opened(&relay->flow, frame->credit) < 0)
		return -EPROTO;
	if (agent_watch(agent, EPOLL_CTL_ADD, relay->fd, WATCHED, EVENT_RELAY, relay->id) < 0)
		reset(agent, relay);
	return 0;
}

static bool was_opened(const struct agent *agent, uint32_t id)
{
	return id <= (id & 1 ? agent->relays.last_dial : agent->relays.last_offer);
}

int relay_on_frame(struct agent *agent, const struct frame *raw)
{
	struct stream_frame frame;
	struct relay *relay;

	if (stream_get(raw, &frame) < 0)
		return -EPROTO;
	if (frame.type == STREAM_DIAL)
		return on_dial(agent, &frame);
	relay = find(agent, frame.stream);
	if (!relay)
		return was_opened(agent, frame.stream) ? 0 : -EPROTO;
	if (frame.type == STREAM_OPENED)
		return on_opened(agent, relay, &frame);
	if (frame.type == STREAM_RESET) {
		abort_relay(agent, relay);
		return 0;
	}
	if (frame.type == STREAM_DATA)
		return on_data(agent, relay, frame.bytes);
	if (frame.type == STREAM_END)
		return on_end(agent, relay, frame.close);
	if (frame.type != STREAM_CREDIT || stream_flow_on_credit(&relay->flow, frame.credit) < 0)
		return -EPROTO;
	set_ready(agent, relay);
	return 0;
}

/* ---- from the connection to the daemon ---- */

void relay_on_event(struct agent *agent, uint32_t id, uint32_t events)
{
	struct relay *relay = find(agent, id);

	if (!relay || relay->fd < 0)
		return;
	if (events & ~(uint32_t)EPOLLOUT)
		relay->readable = true;
	if (relay->state == RELAY_CONNECTING) {
		on_connected(agent, relay);
		return;
	}
	set_ready(agent, relay);
	if (events & EPOLLOUT)
		flush_out(agent, relay);
}

/* Its direction has ended. */
static void on_eof(struct agent *agent, struct relay *relay)
{
	put_plain(agent, relay->id, STREAM_END);
	relay->flow.end_sent = true;
	if (relay->flow.end_came && !buf_len(&relay->out))
		free_relay(agent, relay);
}

bool relay_pump(struct agent *agent)
{
	static char piece[FRAME_HEADER_SIZE + STREAM_DATA_MAX];
	struct relay *relay = agent->relays.ready;
	ssize_t n;

	if (!relay)
		return false;
	drop_ready(agent, relay);
	do
		n = recv(relay->fd, piece + FRAME_HEADER_SIZE,
			 MIN(relay->flow.may_send, STREAM_DATA_MAX), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN) {
		relay->readable = false;
	} else if (n < 0) {
		reset(agent, relay);
	} else if (n == 0) {
		on_eof(agent, relay);
	} else {
		stream_pack_data(piece, relay->id, (size_t)n);
		relay->flow.may_send -= (uint32_t)n;
		conn_send(agent, piece, FRAME_HEADER_SIZE + (size_t)n);
		set_ready(agent, relay);
	}
	return true;
}
