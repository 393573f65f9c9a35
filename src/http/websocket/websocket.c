/* SPDX-License-Identifier: Apache-2.0 */
/* One WebSocket on the loop, server side. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "http/websocket/state.h"

#define BYTES_PER_TURN ((size_t)256 << 10) /* then other connections are served */

int64_t websocket_now_ms(const struct websocket *ws)
{
	return loop_now_ms(ws->list->server->loop);
}

/*
 * A peer that does not read is not read from without limit, so its pings cannot grow the queue. The
 * limit is above the watermark: a peer that first writes everything, and a Ctrl-C against a flood
 * of output, must get through.
 */
bool websocket_wants_read(const struct websocket *ws)
{
	if (ws->eof || ws->state == WEBSOCKET_IS_DEAD || ws->state == WEBSOCKET_IS_FLUSHING)
		return false;
	if (ws->state != WEBSOCKET_IS_OPEN)
		return true;
	return !ws->paused && buf_len(&ws->out) <= 4 * ws->limits.watermark_bytes;
}

void websocket_lose(struct websocket *ws)
{
	if (ws->state == WEBSOCKET_IS_OPEN)
		ws->code = WEBSOCKET_ABNORMAL;
	ws->state = WEBSOCKET_IS_DEAD;
}

static void on_deferred(void *arg)
{
	struct websocket *ws = arg;

	ws->deferred = false;
	if (ws->freed)
		free(ws);
	else
		websocket_work(ws);
}

/* If memory is short, the sweep does the work soon. */
void websocket_make_ready(struct websocket *ws)
{
	ws->ready = true;
	if (!ws->busy && !ws->deferred && loop_defer(ws->list->server->loop, on_deferred, ws) == 0)
		ws->deferred = true;
}

void websocket_set_watch(struct websocket *ws)
{
	int events =
		(websocket_wants_read(ws) ? LOOP_READ : 0) | (buf_len(&ws->out) ? LOOP_WRITE : 0);

	if (ws->state == WEBSOCKET_IS_DEAD || events == ws->watched)
		return;
	if (loop_watch_set(ws->watch, events) < 0) {
		websocket_lose(ws);
		websocket_make_ready(ws);
		return;
	}
	ws->watched = events;
}

static void out_moved(struct websocket *ws, bool progress)
{
	if (buf_len(&ws->out) == 0)
		ws->write_deadline_ms = 0;
	else if (progress || !ws->write_deadline_ms)
		ws->write_deadline_ms = websocket_now_ms(ws) + ws->limits.write_ms;
}

/* Returns the bytes that the socket took; none if the connection is lost. */
static size_t send_parts(struct websocket *ws, struct iovec *iov, size_t count)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = count };
	ssize_t n;

	do
		n = sendmsg(ws->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return (size_t)n;
	if (errno != EAGAIN && errno != ENOBUFS) {
		websocket_lose(ws);
		websocket_make_ready(ws);
	}
	return 0;
}

static void flush(struct websocket *ws)
{
	struct iovec iov = { buf_data(&ws->out), buf_len(&ws->out) };
	size_t n;

	if (ws->state == WEBSOCKET_IS_DEAD || iov.iov_len == 0)
		return;
	n = send_parts(ws, &iov, 1);
	buf_consume(&ws->out, n);
	out_moved(ws, n > 0);
}

static int keep_rest(struct websocket *ws, const struct iovec *part, size_t *sent)
{
	size_t skip = MIN(*sent, part->iov_len);

	*sent -= skip;
	return part->iov_len > skip ? buf_append(&ws->out, (const char *)part->iov_base + skip,
						 part->iov_len - skip)
				    : 0;
}

int websocket_send_frame(struct websocket *ws, enum websocket_opcode opcode, struct str a,
			 struct str b)
{
	unsigned char head[WEBSOCKET_HEAD_MAX];
	size_t sent = 0, n = websocket_put_head(head, opcode, a.n + b.n, NULL);
	struct iovec iov[3] = { { head, n },
				{ (void *)(uintptr_t)a.p, a.n },
				{ (void *)(uintptr_t)b.p, b.n } };

	if (buf_len(&ws->out) == 0)
		sent = send_parts(ws, iov, b.n ? 3 : 2);
	if (ws->state == WEBSOCKET_IS_DEAD)
		return -EPIPE;
	if (sent < n + a.n + b.n) {
		bool progress = sent > 0;

		for (size_t i = 0; i < ARRAY_LEN(iov); i++) {
			if (keep_rest(ws, &iov[i], &sent) == 0)
				continue;
			websocket_lose(ws);
			websocket_make_ready(ws);
			return -EPIPE;
		}
		out_moved(ws, progress);
	}
	websocket_set_watch(ws);
	return 0;
}

int websocket_send(struct websocket *ws, bool is_text, struct str head, struct str bytes)
{
	int r;

	if (ws->state != WEBSOCKET_IS_OPEN)
		return -EPIPE;
	r = websocket_send_frame(ws, is_text ? WEBSOCKET_TEXT : WEBSOCKET_BINARY, head, bytes);
	if (r < 0)
		return r;
	if (buf_len(&ws->out) <= ws->limits.watermark_bytes)
		return 0;
	ws->above = true;
	return -EAGAIN;
}

size_t websocket_unsent_bytes(const struct websocket *ws)
{
	return buf_len(&ws->out);
}

void websocket_pause(struct websocket *ws, bool paused)
{
	if (ws->paused == paused)
		return;
	ws->paused = paused;
	if (paused) {
		websocket_set_watch(ws);
		return;
	}
	/* while reading was paused, the peer could not be heard */
	ws->heard_ms = websocket_now_ms(ws);
	websocket_make_ready(ws); /* the reader may hold complete messages */
}

/* Queues a close; next is the state until it is sent. */
static void begin_close(struct websocket *ws, enum websocket_state next, int code,
			struct str reason)
{
	char payload[WEBSOCKET_CONTROL_MAX];
	size_t n = websocket_put_close(payload, code, reason);

	ws->code = code;
	if (websocket_send_frame(ws, WEBSOCKET_CLOSE, (struct str){ payload, n },
				 (struct str){ "", 0 }) < 0)
		return;
	ws->state = next;
	websocket_make_ready(ws);
}

void websocket_close(struct websocket *ws, int code, const char *reason)
{
	if (ws->state == WEBSOCKET_IS_OPEN)
		begin_close(ws, WEBSOCKET_IS_CLOSING, code, str_of(reason));
}

size_t websocket_source(void *arg, void *dst, size_t n)
{
	struct websocket *ws = arg;
	size_t early = MIN(n, buf_len(&ws->unread));
	ssize_t got;

	if (early) {
		memcpy(dst, buf_data(&ws->unread), early);
		buf_consume(&ws->unread, early);
		if (buf_len(&ws->unread) == 0)
			buf_done(&ws->unread);
		return early;
	}
	if (ws->eof || ws->bytes_left == 0)
		return 0;
	do
		got = recv(ws->fd, dst, MIN(n, ws->bytes_left), MSG_DONTWAIT);
	while (got < 0 && errno == EINTR);
	if (got > 0) {
		ws->bytes_left -= (size_t)got;
		ws->heard_ms = websocket_now_ms(ws);
		return (size_t)got;
	}
	if (got == 0 || (errno != EAGAIN && errno != ENOBUFS))
		ws->eof = true;
	return 0;
}

static void on_event(struct websocket *ws, enum websocket_event event,
		     const struct websocket_got *got)
{
	bool open = ws->state == WEBSOCKET_IS_OPEN;

	switch (event) {
	case WEBSOCKET_GOT_MESSAGE:
		if (open && ws->hooks.on_message)
			ws->hooks.on_message(ws->arg, got->is_text, got->bytes);
		break;
	case WEBSOCKET_GOT_PING:
		if (open)
			(void)!websocket_send_frame(ws, WEBSOCKET_PONG, got->bytes,
						    (struct str){ "", 0 });
		break;
	case WEBSOCKET_GOT_CLOSE:
		if (open)
			begin_close(ws, WEBSOCKET_IS_FLUSHING, got->code, got->bytes);
		else
			ws->state = WEBSOCKET_IS_FLUSHING;
		break;
	case WEBSOCKET_GOT_BAD:
		if (open)
			begin_close(ws, WEBSOCKET_IS_DEAF, got->code, (struct str){ "", 0 });
		else
			ws->state = WEBSOCKET_IS_DEAF;
		break;
	case WEBSOCKET_GOT_NOTHING:
	case WEBSOCKET_GOT_PONG:
		break;
	}
}

/*
 * Discards input that arrived with or after an invalid frame, so that a reset does not overtake our
 * close.
 */
static void hear_nothing(struct websocket *ws)
{
	char drop[4096];

	while (ws->state == WEBSOCKET_IS_DEAF && websocket_source(ws, drop, sizeof(drop)))
		;
}

static void read_messages(struct websocket *ws)
{
	enum websocket_event event;
	struct websocket_got got;

	ws->bytes_left = BYTES_PER_TURN;
	while (websocket_wants_read(ws) && ws->state != WEBSOCKET_IS_DEAF) {
		event = websocket_reader_next(&ws->reader, &got);
		if (event == WEBSOCKET_GOT_NOTHING)
			break;
		on_event(ws, event, &got);
	}
	if (ws->state == WEBSOCKET_IS_DEAF)
		hear_nothing(ws);
	if (ws->eof)
		websocket_lose(ws);
}

static void list_remove(struct websocket *ws)
{
	struct websocket_list *list = ws->list;

	if (ws->prev)
		ws->prev->next = ws->next;
	else
		list->head = ws->next;
	if (ws->next)
		ws->next->prev = ws->prev;
	list->count--;
}

void websocket_release(struct websocket *ws)
{
	struct http_server *server = ws->list->server;

	list_remove(ws);
	loop_watch_free(ws->watch);
	(void)close(ws->fd);
	if (ws->hooks.on_close)
		ws->hooks.on_close(ws->arg, ws->code);
	websocket_reader_done(&ws->reader);
	buf_done(&ws->unread);
	buf_done(&ws->out);
	ws->freed = true;
	if (!ws->deferred)
		free(ws);
	if (server->draining) { /* it may have been the last one */
		http_server_enter(server);
		http_server_leave(server);
	}
}

static void tell_drained(struct websocket *ws)
{
	if (!ws->above || ws->state != WEBSOCKET_IS_OPEN ||
	    buf_len(&ws->out) > ws->limits.watermark_bytes / 2)
		return;
	ws->above = false;
	if (ws->hooks.on_drain)
		ws->hooks.on_drain(ws->arg);
}

static void end_step(struct websocket *ws)
{
	if (ws->state != WEBSOCKET_IS_OPEN && buf_len(&ws->out) == 0) {
		if (ws->state == WEBSOCKET_IS_FLUSHING)
			ws->state = WEBSOCKET_IS_DEAD;
		else if (!ws->close_deadline_ms)
			ws->close_deadline_ms = websocket_now_ms(ws) + ws->limits.close_ms;
		if (ws->state == WEBSOCKET_IS_DEAF && !ws->shut) {
			(void)shutdown(ws->fd, SHUT_WR);
			ws->shut = true;
		}
	}
	websocket_set_watch(ws);
	ws->busy = false;
	if (ws->state == WEBSOCKET_IS_DEAD)
		websocket_release(ws);
	else if (ws->ready)
		websocket_make_ready(ws);
}

void websocket_work(struct websocket *ws)
{
	ws->busy = true;
	ws->ready = false;
	flush(ws);
	if (ws->state != WEBSOCKET_IS_DEAD)
		read_messages(ws);
	tell_drained(ws);
	end_step(ws);
}

void websocket_on_watch(void *arg, int events, int error)
{
	struct websocket *ws = arg;

	(void)events;
	if (error < 0 && ws->state != WEBSOCKET_IS_DEAD)
		websocket_lose(ws);
	websocket_work(ws);
}
