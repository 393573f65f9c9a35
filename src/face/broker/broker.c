/* SPDX-License-Identifier: Apache-2.0 */
#include "face/broker/broker.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/json.h"
#include "base/log.h"
#include "face/broker/conn.h"
#include "face/kit/refusal.h"

#define HOLD_MS 50	 /* space for bytes that may become a secret */
#define STEPS_PER_TURN 4 /* pieces of 16 KiB per turn, so that other connections get theirs */

static void pass(struct broker_conn *conn);
static void on_event(void *arg, int events, int error);

static void wipe(struct buf *buf)
{
	if (buf->base)
		explicit_bzero(buf->base, buf->capacity);
	buf_done(buf);
}

void conn_free(struct broker_conn *conn)
{
	struct broker *broker = conn->broker;

	(void)slot_take(&broker->conns, conn->handle);
	if (conn->tls)
		tls_cancel(broker->tls, conn->tls);
	loop_watch_free(conn->in_watch);
	loop_watch_free(conn->out_watch);
	loop_timer_free(conn->timer);
	if (conn->in_fd >= 0)
		(void)close(conn->in_fd);
	if (conn->out_fd >= 0)
		(void)close(conn->out_fd);
	wipe(&conn->in);
	wipe(&conn->up);
	wipe(&conn->down);
	buf_done(&conn->refusal);
	scrub_stream_done(&conn->scrub);
	free(conn);
}

/* Sends the reason to the client and ends the connection. */
static void conn_refuse(struct broker_conn *conn, const char *status, const char *code,
			const char *message)
{
	struct json_writer w;
	struct buf body, whole;

	buf_init(&body, 2048);
	buf_init(&whole, 4096);
	json_writer_init(&w, &body);
	json_begin_object(&w, NULL);
	json_begin_object(&w, "error");
	json_put_text(&w, "code", code);
	json_put_text(&w, "message", message);
	json_put_text(&w, "host", conn->name);
	json_put_int(&w, "port", conn->port);
	json_end_object(&w);
	json_end_object(&w);
	if (conn->in_fd >= 0 && json_writer_end(&w) == 0 &&
	    buf_printf(&whole,
		       "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
		       "Cache-Control: no-store\r\nConnection: close\r\n\r\n",
		       status, buf_len(&body)) == 0 &&
	    buf_append(&whole, buf_data(&body), buf_len(&body)) == 0)
		(void)!send(conn->in_fd, buf_data(&whole), buf_len(&whole), MSG_NOSIGNAL);
	buf_done(&body);
	buf_done(&whole);
	conn_free(conn); /* the TLS pipe sends the rest and close_notify */
}

/* ---- the host's side ---- */

static void on_secure_out(void *arg, int status, int fd)
{
	struct broker_conn *conn = arg;

	conn->tls = 0;
	if (status < 0) {
		conn_refuse(conn, "502 Bad Gateway", "broker_unreachable",
			    status == -EKEYREJECTED ? "the certificate of the host is not trusted"
						    : "the TLS connection to the host failed");
		return;
	}
	conn->out_fd = fd;
	conn->state = CONN_PASS;
	loop_timer_clear(conn->timer);
	if (loop_watch_new(conn->broker->loop, fd, on_event, conn, &conn->out_watch) < 0)
		conn_free(conn);
	else
		pass(conn);
}

static void on_connected(struct broker_conn *conn)
{
	int error = 0, fd;
	socklen_t len = sizeof(error);

	if (getsockopt(conn->out_fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error) {
		conn_refuse(conn, "502 Bad Gateway", "broker_unreachable", strerror(error));
		return;
	}
	loop_watch_free(TAKE_PTR(conn->out_watch));
	conn->state = CONN_SECURE_OUT;
	fd = TAKE_FD(conn->out_fd);
	if (tls_connect(conn->broker->tls, conn->broker->outside, fd, conn->name, on_secure_out,
			conn, &conn->tls) < 0)
		conn_refuse(conn, "503 Service Unavailable", "broker_busy", "too many connections");
}

static void connect_out(struct broker_conn *conn)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(conn->port),
				  .sin_addr.s_addr = htonl(conn->address) };
	int one = 1;

	if (loop_watch_set(conn->in_watch, 0) < 0) {
		conn_free(conn);
		return;
	}
	conn->state = CONN_CONNECT;
	loop_timer_set(conn->timer, CONNECT_MS, 0);
	conn->out_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (conn->out_fd < 0 || (connect(conn->out_fd, (struct sockaddr *)&to, sizeof(to)) < 0 &&
				 errno != EINPROGRESS)) {
		conn_refuse(conn, "502 Bad Gateway", "broker_unreachable", strerror(errno));
		return;
	}
	(void)setsockopt(conn->out_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (loop_watch_new(conn->broker->loop, conn->out_fd, on_event, conn, &conn->out_watch) <
		    0 ||
	    loop_watch_set(conn->out_watch, LOOP_WRITE) < 0)
		conn_free(conn);
}

/* ---- passing ---- */

static bool would_block(ssize_t n)
{
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

/* 1: moved; 0: not now; -1: broken. */
static int send_some(int fd, struct buf *from)
{
	ssize_t n;

	if (!buf_len(from))
		return 0;
	n = send(fd, buf_data(from), buf_len(from), MSG_NOSIGNAL);
	if (would_block(n))
		return 0;
	if (n < 0)
		return -1;
	explicit_bzero(buf_data(from), (size_t)n);
	buf_consume(from, (size_t)n);
	return 1;
}

static int take_body(struct broker_conn *conn)
{
	ssize_t n = request_body_take(&conn->body, buf_data(&conn->in), buf_len(&conn->in));

	if (n < 0 || (n && buf_append(&conn->up, buf_data(&conn->in), (size_t)n) < 0))
		return -1;
	buf_consume(&conn->in, (size_t)n);
	return n > 0;
}

static int read_client(struct broker_conn *conn)
{
	ssize_t n;
	char *p;

	if (buf_len(&conn->in))
		return take_body(conn);
	if (conn->body.done || buf_len(&conn->up))
		return 0;
	if (buf_reserve(&conn->in, CONN_BYTES / 2, &p) < 0)
		return -1;
	n = recv(conn->in_fd, p, CONN_BYTES / 2, 0);
	if (would_block(n))
		return 0;
	if (n <= 0)
		return -1; /* the client is still sending its request */
	buf_commit(&conn->in, (size_t)n);
	return take_body(conn);
}

static int read_host(struct broker_conn *conn)
{
	char bytes[16384];
	struct str shown;
	ssize_t n;

	if (conn->host_done || buf_len(&conn->down))
		return 0;
	n = recv(conn->out_fd, bytes, sizeof(bytes), 0);
	if (would_block(n))
		return 0;
	conn->host_done = n <= 0;
	shown = n > 0 ? scrub_stream_feed(&conn->scrub, (struct str){ bytes, (size_t)n })
		      : scrub_stream_flush(&conn->scrub);
	if (shown.n && buf_append(&conn->down, shown.p, shown.n) < 0)
		return -1;
	if (scrub_stream_held(&conn->scrub))
		loop_timer_set(conn->timer, HOLD_MS, 0);
	else
		loop_timer_clear(conn->timer);
	return 1;
}

static void pass(struct broker_conn *conn)
{
	int in, out;

	for (int i = 0; i < STEPS_PER_TURN; i++) {
		int a = read_client(conn), b = a < 0 ? a : send_some(conn->out_fd, &conn->up);
		int c = read_host(conn), d = c < 0 ? c : send_some(conn->in_fd, &conn->down);

		/* A host that replied early does not read the rest of the request. Its reply is
		 * still relayed. */
		if (b < 0 && a >= 0) {
			buf_clear(&conn->up);
			conn->body.done = true;
			conn->body.endless = false;
			b = 0;
		}
		if (a < 0 || c < 0 || d < 0 || (conn->host_done && !buf_len(&conn->down))) {
			conn_free(conn);
			return;
		}
		if (a + b + c + d == 0)
			break;
	}
	in = (buf_len(&conn->down) ? LOOP_WRITE : 0) |
	     (!conn->body.done && !buf_len(&conn->up) ? LOOP_READ : 0);
	out = (buf_len(&conn->up) ? LOOP_WRITE : 0) |
	      (!conn->host_done && !buf_len(&conn->down) ? LOOP_READ : 0);
	if (loop_watch_set(conn->in_watch, in) < 0 || loop_watch_set(conn->out_watch, out) < 0)
		conn_free(conn);
}

/* ---- the sandbox's side ---- */

/* Writes the head of conn->in, with secrets, into conn->up. */
static void rewrite(struct broker_conn *conn)
{
	struct broker *broker = conn->broker;
	const struct sandbox *sandbox = sandbox_get(broker->service, conn->sandbox);
	struct request *req = &conn->request;
	int r;

	req->head =
		(struct http_head){ .headers = broker->headers, .header_max = REQUEST_HEADERS_MAX };
	r = request_read(req, buf_data(&conn->in), buf_len(&conn->in));
	if (r == 0)
		return;
	if (r < 0) {
		conn_refuse(conn, req->status, "broker_refused", req->why);
		return;
	}
	if (!sandbox || request_write(req, sandbox, &conn->up) < 0) {
		conn_refuse(conn, "502 Bad Gateway", "broker_refused",
			    "the secret cannot be inserted into the header of this request");
		return;
	}
	request_body_init(&conn->body, &req->head);
	buf_consume(&conn->in, req->head_bytes);
	connect_out(conn);
}

static void read_head(struct broker_conn *conn)
{
	ssize_t n;
	char *p;

	if (buf_reserve(&conn->in, 16384, &p) < 0) {
		conn_refuse(conn, "431 Request Header Fields Too Large", "broker_refused",
			    "the request's header is too large");
		return;
	}
	n = recv(conn->in_fd, p, 16384, 0);
	if (would_block(n))
		return;
	if (n <= 0) {
		conn_free(conn);
		return;
	}
	buf_commit(&conn->in, (size_t)n);
	if (buf_len(&conn->refusal))
		deny_read(conn);
	else
		rewrite(conn);
}

static void on_event(void *arg, int events, int error)
{
	struct broker_conn *conn = arg;

	(void)events;
	if (error)
		conn_free(conn);
	else if (conn->state == CONN_HEAD)
		read_head(conn);
	else if (conn->state == CONN_CONNECT)
		on_connected(conn);
	else if (conn->state == CONN_PASS)
		pass(conn);
}

static void on_timer(void *arg)
{
	struct broker_conn *conn = arg;
	struct str shown;

	if (conn->state == CONN_CONNECT || conn->state == CONN_SECURE_OUT) {
		conn_refuse(conn, "504 Gateway Timeout", "broker_unreachable",
			    "the host does not answer");
		return;
	}
	if (conn->state != CONN_PASS) {
		conn_free(conn);
		return;
	}
	shown = scrub_stream_flush(&conn->scrub);
	if (shown.n && buf_append(&conn->down, shown.p, shown.n) < 0)
		conn_free(conn);
	else
		pass(conn);
}

static void on_secure_in(void *arg, int status, int fd)
{
	struct broker_conn *conn = arg;

	conn->tls = 0;
	if (status < 0) {
		conn_free(conn);
		return;
	}
	conn->in_fd = fd;
	conn->state = CONN_HEAD;
	if (loop_watch_new(conn->broker->loop, fd, on_event, conn, &conn->in_watch) < 0 ||
	    loop_watch_set(conn->in_watch, LOOP_READ) < 0) {
		conn_free(conn);
		return;
	}
	loop_timer_set(conn->timer, HEAD_MS, 0);
}

struct broker_conn *conn_new(struct broker *broker, struct sandbox *sandbox,
			     const struct egress_ask *ask, const char *name)
{
	struct broker_conn *conn = calloc(1, sizeof(*conn));

	if (!conn)
		return NULL;
	conn->broker = broker;
	conn->in_fd = conn->out_fd = -1;
	conn->sandbox = egress_handle(sandbox);
	conn->address = ask->address;
	conn->port = ask->port;
	conn->request.name = conn->name;
	conn->request.port = ask->port;
	buf_init(&conn->refusal, REFUSAL_MAX);
	buf_init(&conn->in, REQUEST_HEAD_MAX + CONN_BYTES);
	buf_init(&conn->up, REQUEST_HEAD_MAX + CONN_BYTES + SECRET_VALUE_MAX);
	buf_init(&conn->down, CONN_BYTES + 6 * SECRET_VALUE_MAX);
	scrub_stream_init(&conn->scrub, sandbox_scrub(sandbox));
	if (str_copy(conn->name, sizeof(conn->name), str_of(name)) < 0 ||
	    loop_timer_new(broker->loop, on_timer, conn, &conn->timer) < 0 ||
	    slot_put(&broker->conns, conn, &conn->handle) < 0) {
		loop_timer_free(conn->timer);
		scrub_stream_done(&conn->scrub);
		free(conn);
		return NULL;
	}
	return conn;
}

int conn_secure(struct broker_conn *conn, struct tls_ca *ca, int fd, struct str read)
{
	struct tls_ctx *ctx;
	int r = tls_ca_server(ca, conn->name, &ctx);

	if (r < 0) {
		(void)close(fd);
		conn_free(conn);
		return r;
	}
	r = tls_accept(conn->broker->tls, ctx, fd, read, on_secure_in, conn, &conn->tls);
	tls_ctx_unref(ctx);
	if (r < 0)
		conn_free(conn);
	return r;
}

int broker_intercept(void *arg, struct sandbox *sandbox, const struct egress_ask *ask,
		     const struct egress_verdict *verdict, int fd, struct str read)
{
	struct broker *broker = arg;
	struct authority *authority;
	struct broker_conn *conn;
	char name[EGRESS_NAME_MAX + 1];

	if (ask->protocol != EGRESS_TLS)
		return 0;
	if (!egress_passes(verdict))
		return deny_intercept(broker, sandbox, ask, verdict, fd, read);
	if (!ask->name.n || !broker_has(sandbox, ask->name, ask->port))
		return 0;
	egress_host_text(ask, name);
	authority = authority_find(broker, sandbox);
	conn = authority ? conn_new(broker, sandbox, ask, name) : NULL;
	if (!conn)
		(void)close(fd);
	/* Relayed unchanged it contains a placeholder at most, but the log should show the
	 * failure. */
	if (!conn || conn_secure(conn, authority->ca, fd, read) < 0)
		log_warn("sandbox %s: a connection to be brokered was refused", egress_id(sandbox));
	return 1;
}

/* ---- the broker ---- */

int broker_new(struct loop *loop, const char *ca_path, struct broker **ret, struct err *err)
{
	struct broker *broker = calloc(1, sizeof(*broker));

	if (!broker)
		return err_set(err, ERR_INTERNAL, "out of memory");
	broker->loop = loop;
	slot_init(&broker->conns, CONNS_MAX);
	if (tls_client_new(ca_path, &broker->outside) < 0) {
		broker_free(broker);
		return err_set(err, ERR_INVALID_REQUEST, "egress_ca_file '%s' cannot be used",
			       ca_path);
	}
	if (tls_new(loop, 2 * CONNS_MAX, &broker->tls) < 0) {
		broker_free(broker);
		return err_set(err, ERR_INTERNAL, "out of memory");
	}
	*ret = broker;
	return 0;
}

void broker_set_service(struct broker *broker, struct service *service)
{
	broker->service = service;
}

void broker_free(struct broker *broker)
{
	struct broker_conn *conn;
	uint32_t cursor = 0;

	if (!broker)
		return;
	while ((conn = slot_next(&broker->conns, &cursor)))
		conn_free(conn);
	for (size_t i = 0; i < AUTHORITIES_MAX; i++)
		tls_ca_free(broker->authorities[i].ca);
	tls_free(broker->tls);
	tls_ctx_unref(broker->outside);
	slot_done(&broker->conns);
	free(broker);
}
