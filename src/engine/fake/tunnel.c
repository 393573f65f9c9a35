/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of a scripted sandbox over a channel without descriptors: the server's end is a TCP socket,
 * and the client's end is relayed in frames, with the real codec and rules.
 */
#include <errno.h>
#include <sys/socket.h>

#include "engine/fake/process.h"
#include "wire/stream.h"

#define WINDOW_BYTES 65536
#define PIECE_BYTES 16384

/* Owner: agent->tunnels. */
struct fake_tunnel {
	struct fake_tunnel *next;
	struct fake_agent *agent;
	uint32_t id;
	int fd; /* the client's end */
	struct loop_watch *watch;
	struct stream_flow flow;
	struct buf out;
	bool closing;
};

static void say(struct fake_tunnel *t, enum stream_type type, uint32_t credit)
{
	const struct stream_frame frame = { .type = type, .stream = t->id, .credit = credit };

	must(stream_put(&t->agent->out, &frame));
}

static void tunnel_free(struct fake_tunnel *t)
{
	struct fake_tunnel **at = &t->agent->tunnels;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	loop_watch_free(t->watch);
	(void)close(t->fd);
	buf_done(&t->out);
	free(t);
}

void fake_tunnels_free(struct fake_agent *agent)
{
	while (agent->tunnels)
		tunnel_free(agent->tunnels);
}

static void abort_tunnel(struct fake_tunnel *t)
{
	struct linger now = { .l_onoff = 1 };

	(void)setsockopt(t->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	tunnel_free(t);
}

static void arm(struct fake_tunnel *t)
{
	bool reads = !t->flow.end_sent && t->flow.may_send;

	must(loop_watch_set(t->watch,
			    (reads ? LOOP_READ : 0) | (buf_len(&t->out) ? LOOP_WRITE : 0)));
}

/* false: it was freed. */
static bool flush(struct fake_tunnel *t)
{
	while (buf_len(&t->out)) {
		ssize_t n = send(t->fd, buf_data(&t->out), buf_len(&t->out),
				 MSG_DONTWAIT | MSG_NOSIGNAL);
		uint32_t credit;

		if (n < 0 && errno == EAGAIN)
			return true;
		if (n < 0) {
			say(t, STREAM_RESET, 0);
			tunnel_free(t);
			return false;
		}
		buf_consume(&t->out, (size_t)n);
		credit = stream_flow_taken(&t->flow, (size_t)n, WINDOW_BYTES);
		if (credit)
			say(t, STREAM_CREDIT, credit);
	}
	if (t->flow.end_came && (t->closing || t->flow.end_sent)) {
		tunnel_free(t);
		return false;
	}
	if (t->flow.end_came)
		(void)shutdown(t->fd, SHUT_WR);
	return true;
}

/* false: it was freed. */
static bool pull(struct fake_tunnel *t)
{
	char bytes[PIECE_BYTES];
	struct stream_frame data = { .type = STREAM_DATA, .stream = t->id };
	ssize_t n = recv(t->fd, bytes, MIN(sizeof(bytes), t->flow.may_send), MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return true;
	if (n < 0) {
		say(t, STREAM_RESET, 0);
		tunnel_free(t);
		return false;
	}
	if (n == 0) {
		say(t, STREAM_END, 0);
		t->flow.end_sent = true;
		return flush(t);
	}
	data.bytes = (struct str){ bytes, (size_t)n };
	t->flow.may_send -= (uint32_t)n;
	must(stream_put(&t->agent->out, &data));
	return true;
}

static void on_watch(void *arg, int events, int error)
{
	struct fake_tunnel *t = arg;
	struct fake_agent *agent = t->agent;
	bool there = error == 0;

	if (there && (events & LOOP_WRITE))
		there = flush(t);
	if (there && (events & LOOP_READ))
		there = pull(t);
	if (there)
		arm(t);
	fake_flush(agent);
}

static void open_tunnel(struct fake_agent *agent, const struct stream_frame *dial)
{
	struct fake_tunnel *t = calloc(1, sizeof(*t));
	int ends[2];

	must(t ? 0 : -ENOMEM);
	*t = (struct fake_tunnel){ .next = agent->tunnels, .agent = agent, .id = dial->stream };
	if (!fake_port_accept(agent, dial->port, ends)) {
		const struct stream_frame refused = { .type = STREAM_OPENED,
						      .stream = dial->stream,
						      .errno_value = ECONNREFUSED };

		free(t);
		must(stream_put(&agent->out, &refused));
		return;
	}
	t->fd = ends[0];
	t->flow = (struct stream_flow){ .open = true,
					.may_send = dial->credit,
					.may_come = WINDOW_BYTES };
	buf_init(&t->out, WINDOW_BYTES);
	agent->tunnels = t;
	must(loop_watch_new(agent->loop, t->fd, on_watch, t, &t->watch));
	say(t, STREAM_OPENED, WINDOW_BYTES);
	arm(t);
	fake_port_connected(agent, dial->port, ends[1]);
}

void fake_tunnel_frame(struct fake_agent *agent, const struct frame *raw)
{
	struct fake_tunnel *t = agent->tunnels;
	struct stream_frame frame;

	must(stream_get(raw, &frame));
	if (frame.type == STREAM_DIAL) {
		open_tunnel(agent, &frame);
		return;
	}
	while (t && t->id != frame.stream)
		t = t->next;
	if (!t)
		return; /* ended: it was in flight */
	if (frame.type == STREAM_RESET) {
		abort_tunnel(t);
		return;
	}
	if (frame.type == STREAM_DATA) {
		must(stream_flow_on_data(&t->flow, frame.bytes.n));
		must(buf_append(&t->out, frame.bytes.p, frame.bytes.n));
	} else if (frame.type == STREAM_CREDIT) {
		must(stream_flow_on_credit(&t->flow, frame.credit));
	} else {
		must(frame.type == STREAM_END ? stream_flow_on_end(&t->flow) : -EPROTO);
		t->closing = frame.close;
	}
	if (frame.type == STREAM_CREDIT || flush(t))
		arm(t);
}
