/* SPDX-License-Identifier: Apache-2.0 */
/* The sending side of a connection: directly to the socket if possible, otherwise queued. */
#include "http/server/conn.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define QUEUE_BYTES 32768 /* small pieces are collected up to this size */

static void out_moved(struct http_conn *conn, bool progress)
{
	if (buf_len(&conn->out) == 0)
		conn->write_deadline_ms = 0;
	else if (progress || !conn->write_deadline_ms)
		conn->write_deadline_ms =
			loop_now_ms(conn->server->loop) +
			(conn->answer.patience_ms ? conn->answer.patience_ms
						  : conn->server->limits.write_timeout_ms);
}

void http_conn_break(struct http_conn *conn)
{
	conn->broken = true;
	buf_clear(&conn->out);
	http_server_ready(conn);
}

/* sendmsg(), because writev() has no MSG_NOSIGNAL. Returns the bytes taken, or -EPIPE. */
static ssize_t send_parts(struct http_conn *conn, struct iovec *iov, size_t count)
{
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = count };
	ssize_t n;

	do
		n = sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return n;
	if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS)
		return 0;
	http_conn_break(conn);
	return -EPIPE;
}

void http_conn_flush(struct http_conn *conn)
{
	struct iovec iov = { buf_data(&conn->out), buf_len(&conn->out) };
	ssize_t n;

	if (conn->dead || conn->broken || iov.iov_len == 0)
		return;
	n = send_parts(conn, &iov, 1);
	if (n > 0)
		buf_consume(&conn->out, (size_t)n);
	out_moved(conn, n > 0);
}

static int keep_rest(struct http_conn *conn, struct str part, size_t *sent)
{
	size_t skip = MIN(*sent, part.n);

	*sent -= skip;
	return part.n > skip ? buf_append(&conn->out, part.p + skip, part.n - skip) : 0;
}

static int append_parts(struct http_conn *conn, struct str a, struct str b, struct str c,
			size_t sent)
{
	if (keep_rest(conn, a, &sent) < 0 || keep_rest(conn, b, &sent) < 0 ||
	    keep_rest(conn, c, &sent) < 0) {
		http_conn_break(conn);
		return -EPIPE;
	}
	return 0;
}

int http_conn_send(struct http_conn *conn, struct str a, struct str b, struct str c)
{
	size_t total = a.n + b.n + c.n;
	ssize_t sent = 0;
	int r;

	if (conn->dead || conn->broken)
		return -EPIPE;
	if (buf_len(&conn->out))
		http_conn_flush(conn);
	if (conn->broken)
		return -EPIPE;
	if (buf_len(&conn->out) == 0) {
		struct iovec iov[3] = { { (void *)(uintptr_t)a.p, a.n },
					{ (void *)(uintptr_t)b.p, b.n },
					{ (void *)(uintptr_t)c.p, c.n } };

		sent = send_parts(conn, iov, c.n ? 3 : b.n ? 2 : 1);
		if (sent < 0)
			return -EPIPE;
		if ((size_t)sent == total)
			return 0;
	}
	r = append_parts(conn, a, b, c, (size_t)sent);
	out_moved(conn, sent > 0);
	http_server_ready(conn); /* arms the watch */
	return r;
}

int http_conn_queue(struct http_conn *conn, struct str a, struct str b, struct str c)
{
	int r;

	if (conn->dead || conn->broken)
		return -EPIPE;
	if (a.n + b.n + c.n >= QUEUE_BYTES)
		return http_conn_send(conn, a, b, c);
	r = append_parts(conn, a, b, c, 0);
	if (r < 0)
		return r;
	if (buf_len(&conn->out) >= QUEUE_BYTES)
		http_conn_flush(conn);
	http_server_ready(conn);
	return conn->broken ? -EPIPE : 0;
}
