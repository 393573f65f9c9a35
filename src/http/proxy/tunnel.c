/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes after an upgrade, in both directions until both sides have ended. An idle tunnel has no
 * buffer. One whose reader is slow holds the bytes of one read, and is not read further.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "http/proxy/state.h"
#include "net/foreign.h"

#define TUNNEL_READ_BYTES 65536

enum { CLIENT, SERVER };

static struct tunnel_end *other(struct tunnel_end *end)
{
	return &end->tunnel->ends[end == &end->tunnel->ends[CLIENT] ? SERVER : CLIENT];
}

static void tell(struct tunnel *t)
{
	if (t->traffic.bytes_in || t->traffic.bytes_out)
		t->hooks.moved(t->arg, &t->traffic);
	t->traffic = (struct proxy_traffic){ 0 };
}

static void tunnel_close(struct tunnel *t)
{
	struct proxy *proxy = t->proxy;

	if (t->dead)
		return;
	t->dead = true;
	for (int i = 0; i < 2; i++) {
		loop_watch_free(TAKE_PTR(t->ends[i].watch));
		if (t->ends[i].foreign)
			foreign_close(TAKE_FD(t->ends[i].fd));
		else if (t->ends[i].fd >= 0)
			(void)close(TAKE_FD(t->ends[i].fd));
		buf_done(&t->ends[i].out);
	}
	if (t->prev)
		t->prev->next = t->next;
	else
		proxy->tunnels = t->next;
	if (t->next)
		t->next->prev = t->prev;
	proxy->open_tunnels--;
	t->dead_next = proxy->dead_tunnels;
	proxy->dead_tunnels = t;
	tell(t);
	t->hooks.ended(t->arg);
	if (proxy->depth == 0)
		tunnel_reap(proxy);
}

void tunnel_reap(struct proxy *proxy)
{
	while (proxy->dead_tunnels) {
		struct tunnel *t = proxy->dead_tunnels;

		proxy->dead_tunnels = t->dead_next;
		free(t);
	}
}

static void watch(struct tunnel_end *end)
{
	/* Not read while the other side has not taken the bytes read before. */
	int events = (!end->eof && buf_len(&other(end)->out) == 0 ? LOOP_READ : 0) |
		     (buf_len(&end->out) ? LOOP_WRITE : 0);

	if (events == end->events)
		return;
	if (loop_watch_set(end->watch, events) == 0)
		end->events = events;
}

/* false: the tunnel has ended. */
static bool flush(struct tunnel_end *end)
{
	while (buf_len(&end->out)) {
		ssize_t n = send(end->fd, buf_data(&end->out), buf_len(&end->out),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			buf_consume(&end->out, (size_t)n);
		else if (n < 0 && errno == EAGAIN)
			return true;
		else if (n < 0 && errno != EINTR)
			return false;
	}
	buf_done(&end->out);
	if (other(end)->eof && !end->shut) {
		end->shut = true;
		(void)shutdown(end->fd, SHUT_WR);
	}
	return true;
}

static bool pass(struct tunnel_end *from, const char *p, size_t n)
{
	struct tunnel_end *to = other(from);
	struct tunnel *t = from->tunnel;
	ssize_t sent = 0;

	if (from == &t->ends[CLIENT])
		t->traffic.bytes_in += n;
	else
		t->traffic.bytes_out += n;
	t->deadline_ms = loop_now_ms(t->proxy->loop) + t->proxy->limits.tunnel_ms;
	if (buf_len(&to->out) == 0)
		sent = send(to->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent < 0 && errno != EAGAIN && errno != EINTR)
		return false;
	sent = MAX(sent, 0);
	return (size_t)sent == n || buf_append(&to->out, p + sent, n - (size_t)sent) == 0;
}

static bool read_end(struct tunnel_end *end)
{
	struct proxy *proxy = end->tunnel->proxy;
	ssize_t n = recv(end->fd, proxy->scratch, TUNNEL_READ_BYTES, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n > 0)
		return pass(end, proxy->scratch, (size_t)n);
	if (end->foreign && !end->shut && foreign_was_cut(end->fd))
		return false;
	end->eof = true;
	return flush(other(end));
}

static void on_event(void *arg, int events, int error)
{
	struct tunnel_end *end = arg;
	struct tunnel *t = end->tunnel;
	struct proxy *proxy = t->proxy;
	bool ok = error == 0;

	proxy_enter(proxy);
	if (ok && (events & LOOP_WRITE))
		ok = flush(end);
	if (ok && (events & LOOP_READ) && !end->eof)
		ok = read_end(end);
	if (!ok || (t->ends[CLIENT].shut && t->ends[SERVER].shut)) {
		tunnel_close(t);
	} else {
		watch(&t->ends[CLIENT]);
		watch(&t->ends[SERVER]);
	}
	proxy_leave(proxy);
}

static int open_end(struct tunnel *t, int i, int fd, bool foreign)
{
	struct tunnel_end *end = &t->ends[i];
	int one = 1, r;

	end->tunnel = t;
	end->fd = fd;
	end->foreign = foreign;
	buf_init(&end->out, PROXY_OUT_LIMIT);
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	r = loop_watch_new(t->proxy->loop, fd, on_event, end, &end->watch);
	if (r == 0)
		r = loop_watch_set(end->watch, LOOP_READ);
	end->events = LOOP_READ;
	return r;
}

static struct tunnel *tunnel_new(struct exchange *x)
{
	struct proxy *proxy = x->proxy;
	struct tunnel *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->proxy = proxy;
	t->hooks = x->hooks;
	t->arg = x->arg;
	t->ends[CLIENT].fd = t->ends[SERVER].fd = -1;
	t->ends[CLIENT].tunnel = t->ends[SERVER].tunnel = t;
	t->deadline_ms = loop_now_ms(proxy->loop) + proxy->limits.tunnel_ms;
	t->next = proxy->tunnels;
	if (t->next)
		t->next->prev = t;
	proxy->tunnels = t;
	proxy->open_tunnels++;
	proxy_sweep_on(proxy);
	return t;
}

/* Takes the server's connection over from x. -1: no reply was sent. */
int tunnel_start(struct exchange *x, struct http_req *req, const struct http_header *headers,
		 size_t count, struct str early)
{
	struct upstream *up = x->up;
	struct str unread;
	struct tunnel *t = tunnel_new(x);
	int client_fd, server_fd;
	bool ok;

	if (!t)
		return -1;
	if (http_reply_upgrade(req, 101, headers, count, &client_fd, &unread) < 0) {
		t->hooks = x->hooks;
		t->dead = true;
		proxy_enter(x->proxy);
		if (t->next)
			t->next->prev = NULL;
		x->proxy->tunnels = t->next;
		x->proxy->open_tunnels--;
		t->dead_next = x->proxy->dead_tunnels;
		x->proxy->dead_tunnels = t;
		proxy_leave(x->proxy);
		return -1;
	}
	server_fd = TAKE_FD(up->fd);
	loop_watch_free(TAKE_PTR(up->watch));
	ok = open_end(t, CLIENT, client_fd, false) == 0;
	if (open_end(t, SERVER, server_fd, true) < 0 || !ok ||
	    (early.n && !pass(&t->ends[SERVER], early.p, early.n)) ||
	    (unread.n && !pass(&t->ends[CLIENT], unread.p, unread.n)) || !flush(&t->ends[SERVER])) {
		tunnel_close(t);
		return 0;
	}
	watch(&t->ends[CLIENT]);
	watch(&t->ends[SERVER]);
	return 0;
}

void tunnel_sweep(struct proxy *proxy, int64_t now_ms)
{
	struct tunnel *next;

	for (struct tunnel *t = proxy->tunnels; t; t = next) {
		next = t->next;
		tell(t);
		if (now_ms >= t->deadline_ms)
			tunnel_close(t);
	}
}

void tunnel_close_all(struct proxy *proxy)
{
	while (proxy->tunnels)
		tunnel_close(proxy->tunnels);
}
