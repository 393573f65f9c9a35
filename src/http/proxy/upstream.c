/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to servers. They are always watched for reading, also while idle: a server that
 * closes one is noticed before it is reused, and a request does not change the watch.
 */
#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "http/proxy/state.h"
#include "net/foreign.h"

#define READS_PER_EVENT 4

static struct upstream **bucket(struct proxy *proxy, const struct proxy_target *target)
{
	uint64_t h = (target->id * 0x9E3779B97F4A7C15ULL) ^ ((uint64_t)target->port * 0x85EBCA6BU);

	return &proxy->buckets[(h >> 20) & (PROXY_BUCKETS - 1)];
}

static void out_of_pool(struct upstream *up)
{
	struct proxy *proxy = up->proxy;

	if (!up->idle_ms)
		return;
	if (up->prev)
		up->prev->next = up->next;
	else
		*bucket(proxy, &up->target) = up->next;
	if (up->next)
		up->next->prev = up->prev;
	if (up->older)
		up->older->newer = up->newer;
	else
		proxy->oldest = up->newer;
	if (up->newer)
		up->newer->older = up->older;
	else
		proxy->newest = up->older;
	up->prev = up->next = up->older = up->newer = NULL;
	up->idle_ms = 0;
	proxy->idle--;
}

void upstream_close(struct upstream *up)
{
	struct proxy *proxy = up->proxy;

	if (up->dead)
		return;
	out_of_pool(up);
	up->dead = true;
	up->exchange = NULL;
	loop_watch_free(TAKE_PTR(up->watch));
	foreign_close(TAKE_FD(up->fd));
	buf_done(&up->out);
	up->dead_next = proxy->dead_upstreams;
	proxy->dead_upstreams = up;
	if (proxy->depth == 0)
		upstream_reap(proxy);
}

void upstream_reap(struct proxy *proxy)
{
	while (proxy->dead_upstreams) {
		struct upstream *up = proxy->dead_upstreams;

		proxy->dead_upstreams = up->dead_next;
		free(up);
	}
}

static void flush(struct upstream *up)
{
	while (buf_len(&up->out) && !up->deaf) {
		ssize_t n = send(up->fd, buf_data(&up->out), buf_len(&up->out),
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			buf_consume(&up->out, (size_t)n);
		else if (n < 0 && errno == EAGAIN)
			break;
		else if (n < 0 && errno != EINTR)
			up->deaf = true; /* its reply may have arrived nevertheless */
	}
	if (up->deaf)
		buf_clear(&up->out);
}

void upstream_watch(struct upstream *up, bool read)
{
	int events = (read ? LOOP_READ : 0) | (buf_len(&up->out) ? LOOP_WRITE : 0);

	if (up->dead || events == up->events)
		return;
	if (loop_watch_set(up->watch, events) == 0)
		up->events = events;
}

static bool wants_read(const struct upstream *up)
{
	return !up->exchange || !up->exchange->paused;
}

static void read_some(struct upstream *up)
{
	struct proxy *proxy = up->proxy;

	for (int i = 0; i < READS_PER_EVENT && !up->dead && up->exchange && wants_read(up); i++) {
		ssize_t n = recv(up->fd, proxy->scratch, PROXY_READ_BYTES, MSG_DONTWAIT);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			exchange_on_end(up->exchange, n < 0			? errno
						      : foreign_was_cut(up->fd) ? ECONNRESET
										: 0);
			return;
		}
		exchange_on_bytes(up->exchange, proxy->scratch, (size_t)n);
		if (n < PROXY_READ_BYTES)
			return;
	}
}

static void on_event(void *arg, int events, int error)
{
	struct upstream *up = arg;
	struct proxy *proxy = up->proxy;

	proxy_enter(proxy);
	if (error < 0 || !up->exchange) {
		/* Idle: any event ends it, because nothing was requested. */
		if (up->exchange)
			exchange_on_end(up->exchange, error < 0 ? -error : 0);
		else
			upstream_close(up);
		proxy_leave(proxy);
		return;
	}
	if (events & LOOP_WRITE) {
		flush(up);
		exchange_on_writable(up->exchange);
	}
	if ((events & LOOP_READ) && !up->dead && up->exchange)
		read_some(up);
	if (!up->dead)
		upstream_watch(up, wants_read(up));
	proxy_leave(proxy);
}

struct upstream *upstream_new(struct proxy *proxy, const struct proxy_target *target, int fd)
{
	struct upstream *up = calloc(1, sizeof(*up));

	if (!up || loop_watch_new(proxy->loop, fd, on_event, up, &up->watch) < 0) {
		free(up);
		foreign_close(fd);
		return NULL;
	}
	up->proxy = proxy;
	up->target = *target;
	up->fd = fd;
	buf_init(&up->out, PROXY_OUT_LIMIT);
	if (loop_watch_set(up->watch, LOOP_READ) < 0) {
		upstream_close(up);
		return NULL;
	}
	up->events = LOOP_READ;
	return up;
}

/* Closed or sent bytes without a request: cannot be reused. */
static bool is_quiet(const struct upstream *up)
{
	char c;

	return recv(up->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

struct upstream *upstream_take_idle(struct proxy *proxy, const struct proxy_target *target,
				    bool certain)
{
	struct upstream *up = *bucket(proxy, target), *next;

	for (; up; up = next) {
		next = up->next;
		if (up->target.id != target->id || up->target.port != target->port)
			continue;
		if (certain && !is_quiet(up)) {
			upstream_close(up);
			continue;
		}
		out_of_pool(up);
		up->reused = true;
		return up;
	}
	return NULL;
}

static uint32_t count_idle(struct upstream *at, const struct proxy_target *target)
{
	uint32_t count = 0;

	for (; at; at = at->next)
		count += at->target.id == target->id && at->target.port == target->port;
	return count;
}

void upstream_keep(struct upstream *up)
{
	struct proxy *proxy = up->proxy;
	struct upstream **first = bucket(proxy, &up->target);

	up->exchange = NULL;
	if (count_idle(*first, &up->target) >= proxy->limits.idle_per_target ||
	    proxy->limits.idle_total == 0) {
		upstream_close(up);
		return;
	}
	if (proxy->idle >= proxy->limits.idle_total)
		upstream_close(proxy->oldest);
	buf_done(&up->out);
	up->idle_ms = MAX(loop_now_ms(proxy->loop), 1);
	up->next = *first;
	if (up->next)
		up->next->prev = up;
	*first = up;
	up->older = proxy->newest;
	if (up->older)
		up->older->newer = up;
	else
		proxy->oldest = up;
	proxy->newest = up;
	proxy->idle++;
	upstream_watch(up, true);
	proxy_sweep_on(proxy);
}

void upstream_expire(struct proxy *proxy, int64_t now_ms)
{
	while (proxy->oldest && now_ms - proxy->oldest->idle_ms >= proxy->limits.idle_ms)
		upstream_close(proxy->oldest);
}

static int keep_rest(struct upstream *up, struct str part, size_t *sent)
{
	size_t skip = MIN(*sent, part.n);

	*sent -= skip;
	return part.n > skip ? buf_append(&up->out, part.p + skip, part.n - skip) : 0;
}

/*
 * 0; -ENOBUFS: over the limit. A server that stopped reading is not an error, because it may reply.
 */
int upstream_send(struct upstream *up, struct str a, struct str b, struct str c)
{
	struct iovec iov[3] = { { (void *)(uintptr_t)a.p, a.n },
				{ (void *)(uintptr_t)b.p, b.n },
				{ (void *)(uintptr_t)c.p, c.n } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = c.n ? 3 : b.n ? 2 : 1 };
	size_t sent = 0;
	int r;

	if (up->deaf)
		return 0;
	if (buf_len(&up->out) == 0) {
		ssize_t n = sendmsg(up->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno != EAGAIN && errno != EINTR) {
			up->deaf = true;
			return 0;
		}
		sent = n > 0 ? (size_t)n : 0;
		if (sent == a.n + b.n + c.n)
			return 0;
	}
	r = keep_rest(up, a, &sent);
	if (r == 0)
		r = keep_rest(up, b, &sent);
	if (r == 0)
		r = keep_rest(up, c, &sent);
	upstream_watch(up, wants_read(up));
	return r;
}
