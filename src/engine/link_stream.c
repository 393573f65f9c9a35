/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections carried as streams (wire/stream.h). The caller gets one end of a socket pair and uses
 * it like a passed socket; the other end is ours, and bytes are copied between it and the frames of
 * the link. The layers above see no difference, except that a reset connection appears as a hang-up
 * (net/foreign.h).
 *
 * Towards the agent: our end is read as far as the agent gave credit, and not at all while the
 * link's queue is above its mark. Towards the caller: bytes that our end does not take at once are
 * kept, at most LINK_WINDOW_BYTES, and credit is returned as the end takes them.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "engine/link_stream.h"

#define READS_PER_EVENT 4

static bool is_offer(const struct link_stream *stream)
{
	return (stream->node.id & 1) == 0;
}

static void stop_waiting(struct link_stream *stream)
{
	if (!stream->waits)
		return;
	stream->waits = false;
	*stream->pprev_waiting = stream->next_waiting;
	if (stream->next_waiting)
		stream->next_waiting->pprev_waiting = stream->pprev_waiting;
}

static void start_waiting(struct link_stream *stream)
{
	struct link *link = stream->link;

	if (stream->waits)
		return;
	stream->waits = true;
	stream->next_waiting = link->waiting;
	stream->pprev_waiting = &link->waiting;
	if (link->waiting)
		link->waiting->pprev_waiting = &stream->next_waiting;
	link->waiting = stream;
}

void link_stream_free(struct link_stream *stream)
{
	struct link *link = stream->link;

	stop_waiting(stream);
	link_table_remove(&link->streams, &stream->node);
	if (is_offer(stream))
		link->offer_count--;
	loop_watch_free(stream->watch);
	if (stream->fd >= 0)
		(void)close(stream->fd);
	buf_done(&stream->out);
	free(stream);
}

struct link_stream *link_stream_new(struct link *link, uint32_t id)
{
	struct link_stream *stream = calloc(1, sizeof(*stream));

	if (!stream)
		return NULL;
	*stream = (struct link_stream){ .node = { .id = id }, .link = link, .fd = -1 };
	stream->flow.may_come = LINK_WINDOW_BYTES;
	buf_init(&stream->out, LINK_WINDOW_BYTES);
	if (link_table_add(&link->streams, &stream->node) < 0) {
		free(stream);
		return NULL;
	}
	if (is_offer(stream))
		link->offer_count++;
	return stream;
}

void link_stream_put(struct link *link, const struct stream_frame *frame)
{
	if (link->state == LINK_GONE)
		return;
	if (stream_put(&link->out, frame) < 0)
		link_break(link, ERR_ENGINE_FAILED, "the agent does not read its connection");
}

static void put_plain(struct link_stream *stream, enum stream_type type, bool close)
{
	const struct stream_frame frame = { .type = type,
					    .stream = stream->node.id,
					    .close = close };

	link_stream_put(stream->link, &frame);
}

/* Both directions end at once. */
static void stream_reset(struct link_stream *stream)
{
	put_plain(stream, STREAM_RESET, false);
	link_stream_free(stream);
}

/* Watches for reading and writing as needed, and for a hang-up where neither would show it. */
static int arm(struct link_stream *stream)
{
	int events = buf_len(&stream->out) ? LOOP_WRITE : 0;

	if (!stream->flow.end_sent && stream->flow.may_send && !stream->waits)
		events |= LOOP_READ;
	if (!events && !stream->waits)
		events = LOOP_HANGUP;
	return loop_watch_set(stream->watch, events);
}

/* ---- from the caller to the agent ---- */

static bool hung_up(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

/* The caller's end has ended. false: the stream was freed. */
static bool on_caller_end(struct link_stream *stream)
{
	bool closed = hung_up(stream->fd);

	put_plain(stream, STREAM_END, closed);
	stream->flow.end_sent = true;
	if (!closed && !(stream_flow_over(&stream->flow) && buf_len(&stream->out) == 0))
		return true;
	link_stream_free(stream);
	return false;
}

/*
 * Reads one frame directly into the queue. 1: there may be more; 0: not now; -1: the stream was
 * freed.
 */
static int pull(struct link_stream *stream)
{
	struct buf *out = &stream->link->out;
	size_t want = MIN(stream->flow.may_send, STREAM_DATA_MAX);
	ssize_t n;
	char *at;

	if (buf_len(out) >= LINK_STREAMS_HIGH_BYTES) {
		start_waiting(stream);
		return 0;
	}
	if (!want)
		return 0;
	if (buf_reserve(out, FRAME_HEADER_SIZE + want, &at) < 0) {
		stream_reset(stream);
		return -1;
	}
	do
		n = recv(stream->fd, at + FRAME_HEADER_SIZE, want, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n < 0) {
		stream_reset(stream);
		return -1;
	}
	if (n == 0)
		return on_caller_end(stream) ? 0 : -1;
	stream_pack_data(at, stream->node.id, (size_t)n);
	buf_commit(out, FRAME_HEADER_SIZE + (size_t)n);
	stream->flow.may_send -= (uint32_t)n;
	return (size_t)n == want;
}

static void rearm(struct link_stream *stream)
{
	if (arm(stream) < 0)
		stream_reset(stream);
}

void link_streams_resume(struct link *link)
{
	while (link->waiting && link->state != LINK_GONE) {
		struct link_stream *stream = link->waiting;

		stop_waiting(stream);
		rearm(stream);
	}
}

/* ---- from the agent to the caller ---- */

static void give_credit(struct link_stream *stream, size_t taken)
{
	struct stream_frame frame = { .type = STREAM_CREDIT, .stream = stream->node.id };

	frame.credit = stream_flow_taken(&stream->flow, taken, LINK_WINDOW_BYTES);
	if (frame.credit)
		link_stream_put(stream->link, &frame);
}

/* All received bytes were taken. false: the stream was freed. */
static bool on_drained(struct link_stream *stream)
{
	if (!stream->flow.end_came)
		return true;
	if (stream->flow.end_sent) {
		link_stream_free(stream);
		return false;
	}
	(void)shutdown(stream->fd, SHUT_WR);
	return true;
}

/* How many bytes the caller's socket took, or -1: it is closed. */
static ssize_t offer_bytes(const struct link_stream *stream, const char *p, size_t n)
{
	ssize_t sent;

	do
		sent = send(stream->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno == EAGAIN ? 0 : -1;
	return sent;
}

/* false: the stream was freed. */
static bool flush_out(struct link_stream *stream)
{
	size_t taken = 0;

	while (buf_len(&stream->out)) {
		ssize_t n = offer_bytes(stream, buf_data(&stream->out), buf_len(&stream->out));

		if (n < 0) {
			stream_reset(stream);
			return false;
		}
		if (n == 0)
			break;
		buf_consume(&stream->out, (size_t)n);
		taken += (size_t)n;
	}
	give_credit(stream, taken);
	return buf_len(&stream->out) > 0 || on_drained(stream);
}

static void on_watch(void *arg, int events, int error)
{
	struct link_stream *stream = arg;
	struct link *link = stream->link;
	bool there = true;

	if (link->state == LINK_GONE)
		return; /* freed in this iteration or the next */
	if (error < 0 || ((events & LOOP_HANGUP) && hung_up(stream->fd))) {
		stream_reset(stream);
		link_flush(link);
		return;
	}
	if (events & LOOP_WRITE)
		there = flush_out(stream);
	for (int i = 0; there && (events & LOOP_READ) && i < READS_PER_EVENT; i++) {
		int r = pull(stream);

		there = r >= 0;
		if (r <= 0)
			break;
	}
	if (there)
		rearm(stream);
	link_flush(link);
}

static int on_data(struct link_stream *stream, struct str bytes)
{
	ssize_t n = 0;

	if (stream_flow_on_data(&stream->flow, bytes.n) < 0)
		return link_protocol_error(stream->link, "more bytes of a stream than it may send");
	if (buf_len(&stream->out) == 0)
		n = offer_bytes(stream, bytes.p, bytes.n);
	if (n < 0 || ((size_t)n < bytes.n &&
		      buf_append(&stream->out, bytes.p + n, bytes.n - (size_t)n) < 0)) {
		stream_reset(stream);
		return 0;
	}
	give_credit(stream, (size_t)n);
	rearm(stream);
	return 0;
}

static int on_end(struct link_stream *stream, bool close)
{
	if (stream_flow_on_end(&stream->flow) < 0)
		return link_protocol_error(stream->link, "a stream that ends twice");
	if (close)
		stream->flow.end_sent = true;
	if (buf_len(&stream->out) || on_drained(stream))
		rearm(stream);
	return 0;
}

int link_stream_pair(struct link_stream *stream, int *ret_fd)
{
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
		return -errno;
	stream->fd = ends[0];
	r = loop_watch_new(stream->link->loop, stream->fd, on_watch, stream, &stream->watch);
	if (r == 0)
		r = arm(stream);
	if (r < 0) {
		(void)close(ends[1]);
		return r;
	}
	*ret_fd = ends[1];
	return 0;
}

/* ---- frames ---- */

/* Whether a stream with this number ever existed. */
static bool was_opened(const struct link *link, uint32_t id)
{
	return id & 1 ? id < link->next_stream : id <= link->last_offer;
}

static int on_stream(struct link_stream *stream, const struct stream_frame *frame)
{
	if (frame->type == STREAM_OPENED)
		return link_stream_on_opened(stream, frame);
	if (!stream->flow.open)
		return link_protocol_error(stream->link, "bytes of a stream that is not open");
	switch (frame->type) {
	case STREAM_DATA:
		return on_data(stream, frame->bytes);
	case STREAM_CREDIT:
		if (stream_flow_on_credit(&stream->flow, frame->credit) < 0)
			return link_protocol_error(stream->link, "more credit than the window");
		rearm(stream);
		return 0;
	case STREAM_END:
		return on_end(stream, frame->close);
	case STREAM_RESET:
		link_stream_free(stream);
		return 0;
	case STREAM_DIAL:
	case STREAM_OFFER:
	case STREAM_OPENED:
		break;
	}
	return link_protocol_error(stream->link, "a stream frame of the wrong direction");
}

int link_on_stream(struct link *link, const struct frame *frame)
{
	struct stream_frame decoded;
	struct link_node *node;
	int r = 0;

	if (stream_get(frame, &decoded) < 0 || decoded.type == STREAM_DIAL)
		return link_protocol_error(link, "bad stream frame");
	node = link_table_find(&link->streams, decoded.stream);
	if (decoded.type == STREAM_OFFER)
		r = link_stream_on_offer(link, &decoded);
	else if (node)
		r = on_stream(CONTAINER_OF(node, struct link_stream, node), &decoded);
	else if (!was_opened(link, decoded.stream))
		return link_protocol_error(link, "a stream that was never opened");
	if (r == 0 && link->state != LINK_GONE && buf_len(&link->out))
		link_flush(link);
	return r;
}

void link_drop_streams(struct link *link)
{
	struct link_node *node;
	uint32_t cursor = 0;

	while ((node = link_table_any(&link->streams, &cursor))) {
		struct link_stream *stream = CONTAINER_OF(node, struct link_stream, node);

		if (stream->dialed)
			link_stream_answer(stream, -1, &link->why);
		else
			link_stream_free(stream);
	}
}
