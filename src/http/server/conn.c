/* SPDX-License-Identifier: Apache-2.0 */
/* One connection: bytes in, the steps of a request, bytes out. */
#include "http/server/conn.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/time.h"

static void on_event(void *arg, int events, int error);

static int64_t now_ms(const struct http_conn *conn)
{
	return loop_now_ms(conn->server->loop);
}

int http_conn_new(struct http_server *server, int fd, const struct http_peer *peer,
		  struct http_conn **ret)
{
	struct http_conn *conn = calloc(1, sizeof(*conn));
	int r;

	if (!conn)
		return -ENOMEM;
	r = loop_watch_new(server->loop, fd, on_event, conn, &conn->watch);
	if (r == 0)
		r = loop_watch_set(conn->watch, LOOP_READ);
	if (r < 0) {
		loop_watch_free(conn->watch);
		free(conn);
		return r;
	}
	conn->server = server;
	conn->fd = fd;
	conn->fresh = true;
	conn->peer = *peer;
	buf_init(&conn->in, server->limits.head_bytes + HTTP_READ_BYTES);
	buf_init(&conn->out, HTTP_OUT_BYTES);
	buf_init(&conn->body.bytes, 0);
	arena_init(&conn->arena, HTTP_ARENA_BYTES);
	/* A client that connects and sends nothing is not "between requests". */
	conn->read_deadline_ms = now_ms(conn) + server->limits.head_timeout_ms;
	conn->next = server->conns;
	if (conn->next)
		conn->next->prev = conn;
	server->conns = conn;
	server->conn_count++;
	*ret = conn;
	return 0;
}

void http_conn_free(struct http_conn *conn)
{
	buf_done(&conn->in);
	buf_done(&conn->out);
	buf_done(&conn->body.bytes);
	arena_done(&conn->arena);
	free(conn);
}

static void bury(struct http_conn *conn)
{
	struct http_server *server = conn->server;

	conn->dead = true;
	loop_watch_free(TAKE_PTR(conn->watch));
	if (conn->fd >= 0)
		(void)close(TAKE_FD(conn->fd));
	if (conn->prev)
		conn->prev->next = conn->next;
	else
		server->conns = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	server->conn_count--;
	http_source_release(server, &conn->peer);
	conn->dead_next = server->dead;
	server->dead = conn;
}

void http_conn_close(struct http_conn *conn)
{
	if (conn->dead)
		return;
	conn->dead = true; /* before on_gone, so that a reply from there has no effect */
	if (conn->state == HTTP_CONN_REQUEST) {
		if (conn->on_gone)
			conn->on_gone(conn->gone_arg);
		(void)slot_take(&conn->server->requests, conn->req.handle);
	}
	bury(conn);
}

int http_conn_detach(struct http_conn *conn)
{
	int fd = TAKE_FD(conn->fd);

	(void)slot_take(&conn->server->requests, conn->req.handle);
	http_server_ready(conn); /* so that it is freed */
	bury(conn);
	return fd;
}

static void http_conn_watch(struct http_conn *conn)
{
	bool serving = conn->state != HTTP_CONN_FLUSHING && conn->state != HTTP_CONN_LINGERING;
	int events = 0;

	if (conn->dead)
		return;
	if (!conn->eof && (!serving || buf_len(&conn->in) < conn->in.limit_bytes))
		events |= LOOP_READ;
	if (buf_len(&conn->out))
		events |= LOOP_WRITE;
	if (loop_watch_set(conn->watch, events) < 0)
		http_conn_close(conn);
}

void http_conn_end_request(struct http_conn *conn)
{
	(void)slot_take(&conn->server->requests, conn->req.handle);
	conn->state = HTTP_CONN_ENDED;
	conn->read_deadline_ms = 0;
	http_server_ready(conn);
}

static const char *scan_reason(enum http_verdict verdict)
{
	if (verdict == HTTP_TARGET_TOO_LONG)
		return "The request target is too long.";
	if (verdict == HTTP_HEAD_TOO_LARGE)
		return "The request head is too large.";
	if (verdict == HTTP_VERSION_UNKNOWN)
		return "Only HTTP/1.1 and HTTP/1.0 are spoken here.";
	return "The request head is malformed.";
}

static int fill_request(struct http_conn *conn, const struct http_head *head)
{
	struct http_req *req = &conn->req;
	struct str host = head->host;
	char *lower;

	*req = (struct http_req){ .server = conn->server,
				  .conn = conn,
				  .arena = &conn->arena,
				  .method = head->method,
				  .method_name = head->method_name,
				  .target = head->target,
				  .path = head->path,
				  .query = head->query,
				  .header_count = head->header_count,
				  .has_body = head->chunked || head->content_length > 0,
				  .content_length = head->content_length,
				  .started_us = time_mono_us(),
				  .peer_is_loopback = conn->peer.loopback,
				  .peer_is_here = conn->peer.here,
				  .upgrade = head->upgrade };
	http_server_label(conn->server, req->id);
	req->headers = arena_alloc(&conn->arena, head->header_count * sizeof(*req->headers) + 1);
	if (!req->headers)
		return -ENOMEM;
	if (head->header_count)
		memcpy(req->headers, head->headers, head->header_count * sizeof(*req->headers));
	if (host.n)
		(void)http_host_split(host, &host);
	lower = arena_dup(&conn->arena, host.p, host.n);
	if (!lower)
		return -ENOMEM;
	for (size_t i = 0; i < host.n; i++)
		if (lower[i] >= 'A' && lower[i] <= 'Z')
			lower[i] = (char)(lower[i] + 32);
	req->host = (struct str){ lower, host.n };
	http_forwarded_read(conn, req);
	return slot_put(&conn->server->requests, req, &req->handle);
}

/* A head may be complete: parses it and calls the handler. True if the state has changed. */
static bool work_head(struct http_conn *conn)
{
	struct http_server *server = conn->server;
	struct http_head head = { .headers = server->header_scratch,
				  .header_max = server->limits.header_count };
	enum http_verdict v;
	size_t n;
	char *p;

	if (buf_len(&conn->in) == 0)
		return false;
	v = http_head_scan(&conn->scan, true, buf_data(&conn->in), buf_len(&conn->in),
			   server->limits.head_bytes, &n);
	if (v == HTTP_MORE)
		return false;
	if (v != HTTP_OK) {
		http_reply_refuse(conn, (int)v, scan_reason(v));
		return true;
	}
	/* The input buffer moves when the body arrives; the request's views must not. */
	p = arena_dup(&conn->arena, buf_data(&conn->in), n);
	if (!p) {
		http_reply_refuse(conn, 503, "Out of memory.");
		return true;
	}
	buf_consume(&conn->in, n);
	v = http_head_parse_request(&head, p, n);
	if (v != HTTP_OK) {
		http_reply_refuse(conn, (int)v, head.why);
		return true;
	}
	if (fill_request(conn, &head) < 0) {
		http_reply_refuse(conn, 503, "Too many requests are running.");
		return true;
	}
	conn->state = HTTP_CONN_REQUEST;
	conn->read_deadline_ms = 0;
	conn->keep = head.keep_alive;
	conn->minor_zero = head.minor == 0;
	conn->expect_continue = head.expect_continue;
	http_body_begin(conn, &head);
	server->handler(server->ctx, &conn->req);
	return true;
}

static void work_drain(struct http_conn *conn)
{
	struct http_answer *answer = &conn->answer;

	if (conn->state != HTTP_CONN_REQUEST || !answer->above ||
	    buf_len(&conn->out) > conn->server->limits.write_watermark_bytes / 2)
		return;
	answer->above = false;
	if (answer->on_drain)
		answer->on_drain(answer->drain_arg);
}

/* The reply has ended: prepares for the next request, or for the end. */
static void finish(struct http_conn *conn)
{
	struct http_server *server = conn->server;
	bool clean = http_body_skip(conn);

	conn->keep = conn->keep && clean && !server->draining;
	conn->linger = conn->linger || !clean || (!conn->keep && buf_len(&conn->in));
	arena_reset(&conn->arena);
	http_body_reset(conn);
	conn->answer = (struct http_answer){ 0 };
	conn->scan = (struct http_scan){ 0 };
	conn->on_gone = NULL;
	conn->fresh = false;
	if (!conn->keep) {
		conn->state = HTTP_CONN_FLUSHING;
		return;
	}
	conn->state = HTTP_CONN_HEAD;
	if (buf_len(&conn->in)) {
		conn->read_deadline_ms = now_ms(conn) + server->limits.head_timeout_ms;
		http_server_ready(conn); /* other connections first */
	} else {
		conn->read_deadline_ms = now_ms(conn) + server->limits.idle_timeout_ms;
	}
}

static void work_flushing(struct http_conn *conn)
{
	http_conn_flush(conn);
	if (conn->broken || (buf_len(&conn->out) == 0 && (!conn->linger || conn->eof))) {
		http_conn_close(conn);
		return;
	}
	if (buf_len(&conn->out))
		return;
	/* Closing with unread input makes the kernel send a reset, which may overtake the reply. */
	(void)shutdown(conn->fd, SHUT_WR);
	conn->state = HTTP_CONN_LINGERING;
	conn->read_deadline_ms = now_ms(conn) + HTTP_LINGER_MS;
}

static bool work_once(struct http_conn *conn)
{
	enum http_conn_state before = conn->state;

	switch (conn->state) {
	case HTTP_CONN_HEAD:
		return work_head(conn);
	case HTTP_CONN_REQUEST:
		http_body_work(conn);
		work_drain(conn);
		return conn->state != before;
	case HTTP_CONN_ENDED:
		finish(conn);
		return conn->state == HTTP_CONN_FLUSHING;
	case HTTP_CONN_FLUSHING:
		work_flushing(conn);
		return false;
	case HTTP_CONN_LINGERING:
		return false;
	}
	return false;
}

void http_conn_work(struct http_conn *conn)
{
	if (!conn->dead && !conn->broken)
		http_conn_flush(conn);
	while (!conn->dead && !conn->broken && work_once(conn))
		;
	if (conn->dead)
		return;
	http_conn_flush(conn);
	if (conn->broken) {
		http_conn_close(conn);
		return;
	}
	if (conn->answer.above &&
	    buf_len(&conn->out) <= conn->server->limits.write_watermark_bytes / 2)
		http_server_ready(conn);
	http_conn_watch(conn);
}

static void on_eof(struct http_conn *conn)
{
	conn->eof = true;
	if (conn->state != HTTP_CONN_REQUEST && buf_len(&conn->out)) {
		conn->state = HTTP_CONN_FLUSHING;
		return;
	}
	/*
	 * Includes a client that only closed its sending side: half-open connections are not kept.
	 */
	http_conn_close(conn);
}

static void discard(struct http_conn *conn, size_t n)
{
	conn->lingered_bytes += n;
	if (conn->lingered_bytes > HTTP_LINGER_BYTES)
		http_conn_close(conn);
}

static void on_bytes(struct http_conn *conn, const char *p, size_t n)
{
	struct http_server *server = conn->server;
	bool empty = buf_len(&conn->in) == 0;
	size_t used = 0;

	if (conn->state == HTTP_CONN_FLUSHING || conn->state == HTTP_CONN_LINGERING) {
		discard(conn, n);
		return;
	}
	if (conn->state == HTTP_CONN_HEAD && empty)
		conn->read_deadline_ms = now_ms(conn) + server->limits.head_timeout_ms;
	if (conn->state == HTTP_CONN_REQUEST && empty && http_body_wants(conn)) {
		used = http_body_feed(conn, p, n); /* direct path without a copy */
		http_body_touch(conn);
	}
	if (!conn->dead && used < n && buf_append(&conn->in, p + used, n - used) < 0)
		http_conn_break(conn);
}

static void conn_read(struct http_conn *conn)
{
	struct http_server *server = conn->server;
	size_t room = conn->in.limit_bytes - buf_len(&conn->in);
	size_t most = conn->body.reader == HTTP_READ_STREAM ? HTTP_STREAM_BYTES : HTTP_READ_BYTES;
	ssize_t n;

	if (conn->state == HTTP_CONN_FLUSHING || conn->state == HTTP_CONN_LINGERING)
		room = HTTP_READ_BYTES;
	if (room == 0)
		return;
	n = read(conn->fd, server->read_scratch, MIN(room, most));
	if (n > 0)
		on_bytes(conn, server->read_scratch, (size_t)n);
	else if (n == 0)
		on_eof(conn);
	else if (errno != EAGAIN && errno != EINTR)
		http_conn_close(conn);
}

static void on_event(void *arg, int events, int error)
{
	struct http_conn *conn = arg;
	struct http_server *server = conn->server;

	http_server_enter(server);
	if (error)
		http_conn_close(conn);
	if (!conn->dead && (events & LOOP_READ))
		conn_read(conn);
	if (!conn->dead)
		http_conn_work(conn);
	http_server_leave(server);
}

void http_conn_expire(struct http_conn *conn, int64_t now)
{
	if (conn->dead)
		return;
	if (conn->write_deadline_ms && now >= conn->write_deadline_ms) {
		http_conn_close(conn);
		return;
	}
	if (!conn->read_deadline_ms || now < conn->read_deadline_ms)
		return;
	conn->read_deadline_ms = 0;
	if (conn->state == HTTP_CONN_REQUEST)
		http_body_fail(conn, -ETIMEDOUT);
	else if (conn->state == HTTP_CONN_HEAD && buf_len(&conn->in))
		http_reply_refuse(conn, 408, "The request head took too long.");
	else
		http_conn_close(conn);
	if (!conn->dead)
		http_server_ready(conn);
}
