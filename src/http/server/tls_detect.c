/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS and plain HTTP on one port. The first byte of a connection distinguishes them: 22 begins a
 * handshake, and no method begins with it. A connection waits here until the byte has arrived, and
 * during its handshake; then the server takes it.
 */
#include <errno.h>
#include <sys/socket.h>

#include "http/server/conn.h"

#define TLS_FIRST_BYTE 0x16

/* Owner: the server's list. Counts as a connection; at the limit new ones are refused. */
struct http_sniff {
	struct http_server *server;
	struct http_sniff *prev, *next;
	struct http_peer peer;
	int fd; /* -1: passed to TLS */
	struct loop_watch *watch;
	slot_handle tls;
	int64_t deadline_ms;
};

static void sniff_free(struct http_sniff *sniff)
{
	struct http_server *server = sniff->server;

	if (sniff->prev)
		sniff->prev->next = sniff->next;
	else
		server->sniffs = sniff->next;
	if (sniff->next)
		sniff->next->prev = sniff->prev;
	server->sniff_count--;
	http_source_release(server, &sniff->peer);
	loop_watch_free(sniff->watch);
	if (sniff->tls)
		tls_cancel(server->tls, sniff->tls);
	if (sniff->fd >= 0)
		(void)close(sniff->fd);
	free(sniff);
}

static void pass_on(struct http_sniff *sniff)
{
	struct http_server *server = sniff->server;
	struct http_conn *conn;

	http_server_enter(server);
	if (http_conn_new(server, sniff->fd, &sniff->peer, &conn) == 0) {
		(void)TAKE_FD(sniff->fd);
		sniff->peer.source = NULL; /* the connection counts now */
	}
	sniff_free(sniff);
	http_server_leave(server);
}

static void on_tls(void *arg, int status, int fd)
{
	struct http_sniff *sniff = arg;

	sniff->tls = 0;
	if (status < 0) {
		sniff_free(sniff); /* the peer would not understand a reply */
		return;
	}
	sniff->fd = fd;
	sniff->peer.secure = true;
	pass_on(sniff);
}

static void on_first_byte(void *arg, int events, int error)
{
	struct http_sniff *sniff = arg;
	struct http_server *server = sniff->server;
	unsigned char first = 0;
	ssize_t n = error ? 0 : recv(sniff->fd, &first, 1, MSG_PEEK);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		sniff_free(sniff);
		return;
	}
	loop_watch_free(TAKE_PTR(sniff->watch));
	if (first != TLS_FIRST_BYTE) {
		pass_on(sniff);
		return;
	}
	if (tls_accept(server->tls, server->tls_ctx, TAKE_FD(sniff->fd), (struct str){ NULL, 0 },
		       on_tls, sniff, &sniff->tls) < 0)
		sniff_free(sniff);
}

int http_sniff_new(struct http_server *server, int fd, struct http_peer *peer)
{
	struct http_sniff *sniff = calloc(1, sizeof(*sniff));
	int r = -ENOMEM;

	if (!sniff) {
		http_source_release(server, peer);
		(void)close(fd);
		return r;
	}
	*sniff = (struct http_sniff){
		.server = server, .next = server->sniffs, .peer = *peer, .fd = fd
	};
	if (sniff->next)
		sniff->next->prev = sniff;
	server->sniffs = sniff;
	server->sniff_count++;
	sniff->deadline_ms = loop_now_ms(server->loop) + server->limits.head_timeout_ms;
	r = loop_watch_new(server->loop, fd, on_first_byte, sniff, &sniff->watch);
	if (r == 0)
		r = loop_watch_set(sniff->watch, LOOP_READ);
	if (r < 0)
		sniff_free(sniff);
	return r;
}

void http_sniff_expire(struct http_server *server, int64_t now_ms)
{
	struct http_sniff *next;

	for (struct http_sniff *sniff = server->sniffs; sniff; sniff = next) {
		next = sniff->next;
		if (now_ms >= sniff->deadline_ms)
			sniff_free(sniff);
	}
}

void http_sniff_close_all(struct http_server *server)
{
	while (server->sniffs)
		sniff_free(server->sniffs);
}

void http_server_secure(struct http_server *server, struct tls *tls, struct tls_ctx *ctx)
{
	struct tls_ctx *old = server->tls_ctx;

	server->tls = tls;
	server->tls_ctx = ctx ? tls_ctx_ref(ctx) : NULL;
	tls_ctx_unref(old);
}
