/* SPDX-License-Identifier: Apache-2.0 */
/* The server: accepting, the ready queue, deadlines, draining. */
#include "http/server/conn.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/rand.h"
#include "http/websocket/websocket.h"

#define ACCEPTS_PER_TURN 64
#define HEAD_SCRATCH_BYTES 65536 /* head of a reply; a larger one resets the connection */

const struct http_limits http_limits_default = {
	.head_bytes = 32768,
	.header_count = 100,
	.body_bytes = 1 << 20,
	.write_watermark_bytes = 262144,
	.connections = 4096,
	.head_timeout_ms = 10000,
	.body_timeout_ms = 30000,
	.write_timeout_ms = 30000,
	.idle_timeout_ms = 75000,
};

void http_server_enter(struct http_server *server)
{
	server->depth++;
}

static void reap(struct http_server *server)
{
	struct http_conn **at = &server->dead;

	while (*at) {
		struct http_conn *conn = *at;

		if (conn->ready) { /* still in the queue: next time */
			at = &conn->dead_next;
			continue;
		}
		*at = conn->dead_next;
		http_conn_free(conn);
	}
}

static void on_deferred(void *arg)
{
	struct http_server *server = arg;

	server->deferred = false;
	if (server->freed) {
		free(server);
		return;
	}
	http_server_enter(server);
	http_server_leave(server);
}

static void defer(struct http_server *server)
{
	/* If it fails, the sweep does the work soon. */
	if (!server->deferred && loop_defer(server->loop, on_deferred, server) == 0)
		server->deferred = true;
}

void http_server_ready(struct http_conn *conn)
{
	struct http_server *server = conn->server;

	if (!conn->ready) {
		conn->ready = true;
		conn->ready_next = NULL;
		if (server->ready_tail)
			server->ready_tail->ready_next = conn;
		else
			server->ready_head = conn;
		server->ready_tail = conn;
	}
	if (server->depth == 0)
		defer(server);
}

static struct http_conn *ready_pop(struct http_server *server)
{
	struct http_conn *conn = server->ready_head;

	if (!conn)
		return NULL;
	server->ready_head = conn->ready_next;
	if (!server->ready_head)
		server->ready_tail = NULL;
	conn->ready = false;
	return conn;
}

void http_server_leave(struct http_server *server)
{
	struct http_conn *conn;

	if (server->depth > 1) {
		server->depth--;
		return;
	}
	for (int i = 0; i < HTTP_WORK_PER_TURN && (conn = ready_pop(server)); i++)
		if (!conn->dead)
			http_conn_work(conn);
	server->depth = 0;
	if (server->dead)
		reap(server);
	if (server->ready_head)
		defer(server);
	if (server->draining && server->conn_count == 0 && websocket_count(server) == 0 &&
	    server->drained && loop_defer(server->loop, server->drained, server->drained_arg) == 0)
		server->drained = NULL;
}

void http_server_label(struct http_server *server, char dst[27])
{
	static const char alphabet[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	size_t i = 0;

	/* The same alphabet as rand_label(), but one system call serves many requests. */
	while (i < 26) {
		unsigned char c;

		if (server->random_left == 0) {
			rand_bytes(server->random, sizeof(server->random));
			server->random_left = sizeof(server->random);
		}
		c = server->random[--server->random_left];
		if (c < 252)
			dst[i++] = alphabet[c % 36];
	}
	dst[26] = '\0';
}

static void accept_watch(struct http_server *server, bool on)
{
	for (struct http_listener *l = server->listeners; l; l = l->next)
		if (loop_watch_set(l->watch, on ? LOOP_READ : 0) < 0)
			server->accept_paused = true;
}

/* One timer for all: connections carry deadlines, so a request needs no timer. */
static void on_sweep(void *arg)
{
	struct http_server *server = arg;
	int64_t now = loop_now_ms(server->loop);
	struct http_conn *next;

	http_server_enter(server);
	for (struct http_conn *conn = server->conns; conn; conn = next) {
		next = conn->next;
		http_conn_expire(conn, now);
	}
	http_sniff_expire(server, now);
	if (server->accept_paused) {
		server->accept_paused = false;
		accept_watch(server, true);
	}
	http_server_leave(server);
	if (server->conn_count + server->sniff_count == 0 && !server->accept_paused &&
	    !server->drained) {
		server->sweeping = false;
		loop_timer_clear(server->sweep);
	}
}

static void sweep_start(struct http_server *server)
{
	if (server->sweeping)
		return;
	server->sweeping = true;
	loop_timer_set(server->sweep, server->sweep_ms, server->sweep_ms);
}

static int pick_sweep_ms(const struct http_limits *l)
{
	int least = MIN(MIN(l->head_timeout_ms, l->body_timeout_ms),
			MIN(l->write_timeout_ms, l->idle_timeout_ms));

	return MAX(10, MIN(least / 4, 500));
}

static int server_fill(struct http_server *server)
{
	server->header_scratch =
		calloc(server->limits.header_count + 1, sizeof(*server->header_scratch));
	server->read_scratch = malloc(HTTP_STREAM_BYTES);
	if (!server->header_scratch || !server->read_scratch)
		return -ENOMEM;
	return loop_timer_new(server->loop, on_sweep, server, &server->sweep);
}

int http_server_new(struct loop *loop, const struct http_limits *limits, http_handler_fn handler,
		    void *ctx, struct http_server **ret)
{
	struct http_server *server = calloc(1, sizeof(*server));
	int r;

	if (!server)
		return -ENOMEM;
	server->loop = loop;
	server->limits = limits ? *limits : http_limits_default;
	server->handler = handler;
	server->ctx = ctx;
	server->sweep_ms = pick_sweep_ms(&server->limits);
	slot_init(&server->requests, server->limits.connections);
	map_init(&server->sources);
	buf_init(&server->head_scratch, HEAD_SCRATCH_BYTES);
	r = server_fill(server);
	if (r < 0) {
		http_server_free(server);
		return r;
	}
	*ret = server;
	return 0;
}

static const void *address_of(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return &((const struct sockaddr_in *)addr)->sin_addr;
	return &((const struct sockaddr_in6 *)addr)->sin6_addr;
}

static bool is_loopback(const struct sockaddr_storage *addr)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)addr;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)addr;

	if (addr->ss_family == AF_UNIX)
		return true;
	if (addr->ss_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == 127;
	if (addr->ss_family != AF_INET6)
		return false;
	return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) ||
	       (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr) && v6->sin6_addr.s6_addr[12] == 127);
}

static void describe(int fd, const struct sockaddr_storage *addr, struct http_peer *ret)
{
	struct sockaddr_storage own = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(own);
	size_t n = addr->ss_family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr);

	*ret = (struct http_peer){ .loopback = is_loopback(addr) };
	ret->here = ret->loopback;
	if (addr->ss_family != AF_INET && addr->ss_family != AF_INET6)
		return;
	(void)inet_ntop(addr->ss_family, address_of(addr), ret->address, sizeof(ret->address));
	if (getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
	    own.ss_family == addr->ss_family && memcmp(address_of(&own), address_of(addr), n) == 0)
		ret->here = true;
}

static void refuse_busy(struct http_server *server, int fd)
{
	char text[1024], id[27], drop[4096];
	size_t n;

	http_server_label(server, id);
	n = http_reply_busy(text, sizeof(text), id);
	/*
	 * Read available input first: closing with unread input would reset the connection and lose
	 * the reply.
	 */
	(void)!recv(fd, drop, sizeof(drop), MSG_DONTWAIT);
	(void)!send(fd, text, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)shutdown(fd, SHUT_WR);
}

static int take_conn(struct http_server *server, int own_fd, const struct sockaddr_storage *addr,
		     bool sniff)
{
	_cleanup_close_ int fd = own_fd;
	struct http_peer peer;
	struct http_conn *conn;
	int one = 1, r;

	if (server->conn_count + server->sniff_count + websocket_count(server) >=
		    server->limits.connections ||
	    server->draining) {
		refuse_busy(server, fd);
		return -ENOBUFS;
	}
	if (addr->ss_family == AF_INET || addr->ss_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	describe(fd, addr, &peer);
	r = http_source_take(server, &peer);
	if (r < 0) {
		refuse_busy(server, fd);
		return r;
	}
	sweep_start(server);
	if (sniff)
		return http_sniff_new(server, TAKE_FD(fd), &peer);
	r = http_conn_new(server, fd, &peer, &conn);
	if (r == 0)
		(void)TAKE_FD(fd);
	else
		http_source_release(server, &peer);
	return r;
}

int http_server_adopt(struct http_server *server, int fd)
{
	struct sockaddr_storage addr = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(addr);
	int flags = fcntl(fd, F_GETFL);

	if (getpeername(fd, (struct sockaddr *)&addr, &len) < 0 || flags < 0 ||
	    fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		int r = -errno;

		(void)close(fd);
		return r;
	}
	return take_conn(server, fd, &addr, false);
}

static void on_accept(void *arg, int events, int error)
{
	struct http_listener *listener = arg;
	struct http_server *server = listener->server;

	(void)events;
	(void)error;
	for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
		struct sockaddr_storage addr = { .ss_family = AF_UNSPEC };
		socklen_t len = sizeof(addr);
		int fd = accept4(listener->fd, (struct sockaddr *)&addr, &len,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			(void)!take_conn(server, fd, &addr, server->tls_ctx != NULL);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			/* Level-triggered: without a pause the loop would spin. */
			accept_watch(server, false);
			server->accept_paused = true;
			sweep_start(server);
		}
		if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

int http_server_listen(struct http_server *server, int listen_fd)
{
	struct http_listener *listener = calloc(1, sizeof(*listener));
	int r = -ENOMEM;

	if (!listener) {
		(void)close(listen_fd);
		return r;
	}
	listener->server = server;
	listener->fd = listen_fd;
	r = loop_watch_new(server->loop, listen_fd, on_accept, listener, &listener->watch);
	if (r == 0)
		r = loop_watch_set(listener->watch, LOOP_READ);
	if (r < 0) {
		loop_watch_free(listener->watch);
		(void)close(listen_fd);
		free(listener);
		return r;
	}
	listener->next = server->listeners;
	server->listeners = listener;
	return 0;
}

static void close_listeners(struct http_server *server)
{
	while (server->listeners) {
		struct http_listener *listener = server->listeners;

		server->listeners = listener->next;
		loop_watch_free(listener->watch);
		(void)close(listener->fd);
		free(listener);
	}
}

static void close_all(struct http_server *server)
{
	while (server->conns)
		http_conn_close(server->conns);
}

static void on_grace(void *arg)
{
	struct http_server *server = arg;

	http_server_enter(server);
	close_all(server);
	websocket_cut_all(server);
	http_server_leave(server);
}

void http_server_drain(struct http_server *server, int grace_ms, void (*done)(void *arg), void *arg)
{
	struct http_conn *next;

	if (server->draining)
		return;
	server->draining = true;
	server->drained = done;
	server->drained_arg = arg;
	close_listeners(server);
	http_sniff_close_all(server);
	http_server_enter(server);
	if (loop_timer_new(server->loop, on_grace, server, &server->grace) == 0)
		loop_timer_set(server->grace, grace_ms, 0);
	else
		on_grace(server);
	websocket_close_all(server);
	for (struct http_conn *conn = server->conns; conn; conn = next) {
		next = conn->next;
		if (conn->state != HTTP_CONN_HEAD)
			continue;
		/* No request is active; the last reply may still be in the queue. */
		conn->state = HTTP_CONN_FLUSHING;
		http_server_ready(conn);
	}
	sweep_start(server); /* also retries a done call that failed for lack of memory */
	http_server_leave(server);
}

void http_server_free(struct http_server *server)
{
	if (!server)
		return;
	assert(server->depth == 0);
	server->depth = 1;
	close_listeners(server);
	http_sniff_close_all(server);
	http_server_secure(server, NULL, NULL);
	close_all(server);
	websocket_free_all(server);
	while (ready_pop(server))
		;
	reap(server);
	loop_timer_free(server->sweep);
	loop_timer_free(server->grace);
	slot_done(&server->requests);
	map_done(&server->sources);
	buf_done(&server->head_scratch);
	free(server->header_scratch);
	free(server->read_scratch);
	server->freed = true;
	if (!server->deferred)
		free(server);
}

uint32_t http_server_connections(const struct http_server *server)
{
	return server->conn_count;
}

struct http_req *http_req_get(struct http_server *server, slot_handle handle)
{
	return slot_get(&server->requests, handle);
}

const struct str *http_req_header(const struct http_req *req, const char *name)
{
	for (size_t i = 0; i < req->header_count; i++)
		if (str_eq_nocase(req->headers[i].name, name))
			return &req->headers[i].value;
	return NULL;
}

int http_req_query(struct http_req *req, const char *name, struct str *ret)
{
	return http_query_get(req->arena, req->query, name, ret);
}

void http_req_on_gone(struct http_req *req, void (*fn)(void *arg), void *arg)
{
	req->conn->on_gone = fn;
	req->conn->gone_arg = arg;
}
