/* SPDX-License-Identifier: Apache-2.0 */
/* Request bodies: decodes the framing, and delivers pieces or the whole. */
#include "http/server/conn.h"

#include <errno.h>

#define COLLECT_TIMEOUTS 4 /* limits a body that arrives slowly but within each timeout */

void http_body_begin(struct http_conn *conn, const struct http_head *head)
{
	struct http_body *body = &conn->body;

	if (head->chunked) {
		body->framing = HTTP_FRAME_CHUNKED;
		http_chunked_init(&body->chunked);
	} else if (head->content_length > 0) {
		body->framing = HTTP_FRAME_LENGTH;
		body->left = (uint64_t)head->content_length;
	} else {
		body->framing = HTTP_FRAME_NONE;
		body->complete = true;
	}
}

void http_body_reset(struct http_conn *conn)
{
	struct buf bytes = conn->body.bytes;

	buf_clear(&bytes);
	conn->body = (struct http_body){ .bytes = bytes };
	conn->in.limit_bytes = conn->server->limits.head_bytes + HTTP_READ_BYTES;
}

bool http_body_wants(const struct http_conn *conn)
{
	const struct http_body *body = &conn->body;

	return conn->state == HTTP_CONN_REQUEST && !conn->dead && body->reader != HTTP_READ_NONE &&
	       !body->paused && !body->complete && !body->error;
}

void http_body_touch(struct http_conn *conn)
{
	struct http_server *server = conn->server;

	if (!http_body_wants(conn)) {
		conn->read_deadline_ms = 0;
		return;
	}
	conn->read_deadline_ms = loop_now_ms(server->loop) + server->limits.body_timeout_ms;
	if (conn->body.until_ms && conn->body.until_ms < conn->read_deadline_ms)
		conn->read_deadline_ms = conn->body.until_ms;
}

void http_body_fail(struct http_conn *conn, int error)
{
	conn->body.error = error;
	conn->keep = false;
	conn->linger = true;
	conn->read_deadline_ms = 0;
}

static void deliver(struct http_conn *conn, struct str piece)
{
	struct http_body *body = &conn->body;

	if (body->reader == HTTP_READ_STREAM) {
		body->feeding = true;
		body->data(body->arg, &conn->req, 0, piece.p, piece.n);
		body->feeding = false;
		return;
	}
	if (piece.n > body->limit_bytes - buf_len(&body->bytes))
		http_body_fail(conn, -EFBIG);
	else if (buf_append(&body->bytes, piece.p, piece.n) < 0)
		http_body_fail(conn, -ENOMEM);
}

/* One step of the framing: consumes a prefix of the bytes. False if they are malformed. */
static bool unframe(struct http_body *body, const char *p, size_t n, size_t *ret_used,
		    struct str *ret_piece)
{
	int r;

	if (body->framing == HTTP_FRAME_LENGTH) {
		size_t take = (size_t)MIN((uint64_t)n, body->left);

		*ret_piece = (struct str){ p, take };
		*ret_used = take;
		body->left -= take;
		body->complete = body->left == 0;
		return true;
	}
	r = http_chunked_next(&body->chunked, p, n, ret_used, ret_piece);
	if (r < 0)
		return false;
	body->complete = r == 1;
	return true;
}

size_t http_body_feed(struct http_conn *conn, const char *p, size_t n)
{
	size_t used = 0;

	while (used < n && http_body_wants(conn)) {
		struct str piece;
		size_t took;

		if (!unframe(&conn->body, p + used, n - used, &took, &piece)) {
			http_body_fail(conn, -EPROTO);
			break;
		}
		used += took;
		if (piece.n)
			deliver(conn, piece);
	}
	return used;
}

/* The last call: once, when everything has arrived or cannot arrive any more. */
static void tell_end(struct http_conn *conn)
{
	struct http_body *body = &conn->body;

	body->told = true;
	conn->read_deadline_ms = 0;
	if (body->reader == HTTP_READ_STREAM)
		body->data(body->arg, &conn->req, body->error, NULL, 0);
	else
		body->done(body->arg, &conn->req, body->error,
			   body->error ? (struct str){ "", 0 } : buf_str(&body->bytes));
}

void http_body_work(struct http_conn *conn)
{
	struct http_body *body = &conn->body;

	if (http_body_wants(conn) && buf_len(&conn->in)) {
		size_t used = http_body_feed(conn, buf_data(&conn->in), buf_len(&conn->in));

		if (!conn->dead)
			buf_consume(&conn->in, used);
		http_body_touch(conn);
	}
	if (conn->state == HTTP_CONN_REQUEST && !conn->dead && body->reader != HTTP_READ_NONE &&
	    !body->told && (body->error || (body->complete && !body->paused)))
		tell_end(conn);
}

bool http_body_skip(struct http_conn *conn)
{
	struct http_body *body = &conn->body;

	while (!body->complete && !body->error && !body->feeding && buf_len(&conn->in)) {
		struct str piece;
		size_t took;

		if (!unframe(body, buf_data(&conn->in), buf_len(&conn->in), &took, &piece)) {
			http_body_fail(conn, -EPROTO);
			break;
		}
		buf_consume(&conn->in, took);
	}
	return body->complete && !body->error;
}

/* The client waits for 100 before it sends: send it, unless the bytes are already here. */
static void invite(struct http_conn *conn)
{
	if (!conn->expect_continue || conn->answer.started || buf_len(&conn->in))
		return;
	conn->expect_continue = false;
	if (http_conn_send(conn, STR_LIT("HTTP/1.1 100 Continue\r\n\r\n"), (struct str){ "", 0 },
			   (struct str){ "", 0 }) < 0)
		http_server_ready(conn);
}

static int start(struct http_req *req, enum http_reader reader, void *arg)
{
	struct http_conn *conn = req->conn;
	struct http_body *body = &conn->body;

	if (conn->dead || conn->state != HTTP_CONN_REQUEST)
		return -EPIPE;
	if (body->reader != HTTP_READ_NONE)
		return -EALREADY;
	body->reader = reader;
	body->arg = arg;
	return 0;
}

int http_req_read_body(struct http_req *req, size_t limit_bytes, http_body_fn done, void *arg)
{
	struct http_conn *conn = req->conn;
	struct http_server *server = conn->server;
	struct http_body *body = &conn->body;
	int r = start(req, HTTP_READ_COLLECT, arg);

	if (r < 0)
		return r;
	body->done = done;
	body->limit_bytes = limit_bytes ? limit_bytes : server->limits.body_bytes;
	body->bytes.limit_bytes = body->limit_bytes;
	if (body->framing == HTTP_FRAME_LENGTH && body->left > body->limit_bytes)
		http_body_fail(conn, -EFBIG); /* no need to read it */
	else if (!body->complete)
		invite(conn);
	body->until_ms = loop_now_ms(server->loop) +
			 (int64_t)server->limits.body_timeout_ms * COLLECT_TIMEOUTS;
	http_body_touch(conn);
	http_server_ready(conn);
	return 0;
}

int http_req_stream_body(struct http_req *req, http_data_fn data, void *arg)
{
	struct http_conn *conn = req->conn;
	int r = start(req, HTTP_READ_STREAM, arg);

	if (r < 0)
		return r;
	conn->body.data = data;
	/* For the bytes that a reader leaves when it pauses during a read. */
	conn->in.limit_bytes = conn->server->limits.head_bytes + HTTP_STREAM_BYTES;
	if (!conn->body.complete)
		invite(conn);
	http_body_touch(conn);
	http_server_ready(conn);
	return 0;
}

void http_req_pause_body(struct http_req *req, bool paused)
{
	struct http_conn *conn = req->conn;

	if (conn->dead || conn->body.paused == paused)
		return;
	conn->body.paused = paused;
	http_body_touch(conn);
	if (!paused)
		http_server_ready(conn);
}
