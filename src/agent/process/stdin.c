/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Standard input. Bytes that the pipe does not take at once wait here, up to AGENT_STDIN_MAX_BYTES;
 * at the limit a piece is refused as a whole. Terminals receive input through a second descriptor
 * of their master.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include "agent/agent.h"
#include "agent/process/tty.h"

#define WAITS_MAX 4096 /* further ones are refused like input over the limit */

int waits_add(struct process_waits *waits, struct process_wait wait)
{
	if (waits->count == waits->capacity && waits->first) {
		waits->count -= waits->first;
		memmove(waits->items, waits->items + waits->first,
			waits->count * sizeof(*waits->items));
		waits->first = 0;
	}
	if (waits->count == waits->capacity) {
		size_t capacity = MAX(waits->capacity * 2, 4);
		struct process_wait *items;

		if (waits->capacity >= WAITS_MAX)
			return -ENOBUFS;
		items = realloc(waits->items, capacity * sizeof(*items));
		if (!items)
			return -ENOMEM;
		waits->items = items;
		waits->capacity = capacity;
	}
	waits->items[waits->count++] = wait;
	return 0;
}

void waits_clear(struct process_waits *waits)
{
	free(waits->items);
	*waits = (struct process_waits){ 0 };
}

static void answer_waits(struct agent *agent, struct process *p, enum agent_refusal refusal)
{
	struct process_waits *waits = &p->in_waits;

	while (waits->first < waits->count &&
	       (refusal || waits->items[waits->first].upto <= p->in_written))
		conn_done(agent, waits->items[waits->first++].tag, refusal, 0);
	if (waits->first == waits->count)
		waits_clear(waits);
}

static void close_pipe(struct agent *agent, struct process *p)
{
	if (p->in_fd < 0)
		return;
	if (p->tty) /* the master has a second descriptor, so epoll would keep this one */
		(void)agent_watch(agent, EPOLL_CTL_DEL, p->in_fd, 0, EVENT_IN, p->id);
	(void)close(p->in_fd);
	p->in_fd = -1;
}

void stdin_drop(struct agent *agent, struct process *p, enum agent_refusal why)
{
	close_pipe(agent, p);
	agent->in_waiting -= buf_len(&p->in);
	buf_done(&p->in);
	answer_waits(agent, p, why);
}

bool stdin_is_open(const struct process *p)
{
	return p->in_fd >= 0 && !p->in_last && !p->reaped;
}

/* A tool receives a stream of input: its memory is kept as long as the tool. */
static void consume(struct agent *agent, struct process *p, size_t n)
{
	agent->in_waiting -= n;
	if (!p->tool || n < buf_len(&p->in))
		buf_consume(&p->in, n);
	else
		p->in.head = p->in.tail = 0;
}

/* Writes the queue. A terminal stays open after the last byte. */
static void write_out(struct agent *agent, struct process *p)
{
	while (buf_len(&p->in)) {
		ssize_t n = write(p->in_fd, buf_data(&p->in), buf_len(&p->in));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) { /* the program has closed its input, which it may */
			stdin_drop(agent, p, AGENT_REFUSED_STDIN_CLOSED);
			return;
		}
		p->in_written += (uint64_t)n;
		consume(agent, p, (size_t)n);
	}
	answer_waits(agent, p, 0);
	if (p->in_last && !p->tty && buf_len(&p->in) == 0)
		close_pipe(agent, p);
}

/* More bytes wait than the pipe holds: enlarges it, permanently. */
static bool grow_pipe(struct process *p)
{
	if (p->in_grown || p->tty)
		return false;
	p->in_grown = true;
	return fcntl(p->in_fd, F_SETPIPE_SZ, PROCESS_PIPE_BYTES) > 0;
}

/* Writes as much as the pipe takes at once, usually everything; or -errno. */
static ssize_t write_now(struct process *p, struct str bytes)
{
	size_t done = 0;

	do {
		ssize_t n = write(p->in_fd, bytes.p + done, bytes.n - done);

		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		done += (size_t)MAX(n, 0);
	} while (done < bytes.n && grow_pipe(p));
	return (ssize_t)done;
}

static int keep(struct agent *agent, struct process *p, struct str bytes)
{
	int r = buf_append(&p->in, bytes.p, bytes.n);

	if (r == 0)
		agent->in_waiting += bytes.n;
	return r;
}

static void watch(struct agent *agent, struct process *p, bool had_more)
{
	bool has_more = buf_len(&p->in);

	if (p->in_fd >= 0 && had_more != has_more)
		(void)agent_watch(agent, EPOLL_CTL_MOD, p->in_fd, has_more ? EPOLLOUT : 0, EVENT_IN,
				  p->id);
}

void stdin_on_event(struct agent *agent, struct process *p)
{
	if (p->in_fd < 0)
		return;
	if (buf_len(&p->in) == 0) { /* woken with nothing to write: the other end is closed */
		stdin_drop(agent, p, AGENT_REFUSED_STDIN_CLOSED);
		return;
	}
	write_out(agent, p);
	watch(agent, p, true);
}

/* Limit of all processes together, because the agent shares the sandbox's memory limit. */
bool stdin_has_room(const struct agent *agent, size_t n)
{
	return agent->in_waiting + n <= agent->rings.max_bytes;
}

int stdin_put(struct agent *agent, struct process *p, struct str bytes)
{
	bool had_more = buf_len(&p->in);
	ssize_t n = 0;

	if (p->in_fd < 0)
		return -EPIPE;
	if (bytes.n > p->in.limit_bytes - buf_len(&p->in) || !stdin_has_room(agent, bytes.n))
		return -ENOBUFS;
	if (!had_more)
		n = write_now(p, bytes);
	if (n < 0) {
		stdin_drop(agent, p, AGENT_REFUSED_STDIN_CLOSED);
		return -EPIPE;
	}
	if ((size_t)n < bytes.n &&
	    keep(agent, p, (struct str){ bytes.p + n, bytes.n - (size_t)n }) < 0) {
		if (n == 0)
			return -ENOMEM;
		stdin_drop(agent, p, AGENT_REFUSED_STDIN_CLOSED); /* a part was lost: report it */
		return -EPIPE;
	}
	p->in_written += (uint64_t)n;
	watch(agent, p, had_more);
	return 0;
}

/* After a refused piece, the rest of the same write is refused as well. */
static void refuse_full(struct agent *agent, struct process *p, uint32_t tag, uint8_t flags)
{
	p->in_refusing = flags & AGENT_STDIN_MORE ? agent->connection : 0;
	conn_done(agent, tag, AGENT_REFUSED_STDIN_FULL, 0);
}

void stdin_take(struct agent *agent, struct process *p, struct str bytes, uint32_t tag,
		uint8_t flags)
{
	bool wait = tag && (flags & AGENT_STDIN_WAIT);
	struct process_wait w = { tag, p->in_written + buf_len(&p->in) + bytes.n };
	int r;

	if (p->reaped || !stdin_is_open(p)) {
		conn_done(agent, tag, p->reaped ? AGENT_REFUSED_ENDED : AGENT_REFUSED_STDIN_CLOSED,
			  0);
		return;
	}
	if (p->in_refusing == agent->connection ||
	    (wait && p->in_waits.count - p->in_waits.first >= WAITS_MAX)) {
		refuse_full(agent, p, tag, flags);
		return;
	}
	r = stdin_put(agent, p, bytes);
	if (r == 0 && wait && buf_len(&p->in) && waits_add(&p->in_waits, w) < 0)
		wait = false; /* no memory to wait: they are accepted at least */
	if (r == -EPIPE)
		conn_done(agent, tag, AGENT_REFUSED_STDIN_CLOSED, 0);
	else if (r < 0)
		refuse_full(agent, p, tag, flags);
	else if (!wait || !buf_len(&p->in))
		conn_done(agent, tag, 0, 0);
	if (r == 0 && p->hooks && p->hooks->on_stdin)
		p->hooks->on_stdin(agent, p);
}

/* A terminal has no end of input, only a key for it. */
static int put_end_key(struct agent *agent, struct process *p)
{
	char key = tty_end_key(p->in_fd);

	return stdin_put(agent, p, (struct str){ &key, 1 });
}

void stdin_close(struct agent *agent, struct process *p, uint32_t tag)
{
	if (p->reaped || !stdin_is_open(p)) {
		conn_done(agent, tag, p->reaped ? AGENT_REFUSED_ENDED : AGENT_REFUSED_STDIN_CLOSED,
			  0);
		return;
	}
	if (p->tty) {
		int r = put_end_key(agent, p);

		conn_done(agent, tag,
			  r == 0	? 0
			  : r == -EPIPE ? AGENT_REFUSED_STDIN_CLOSED
					: AGENT_REFUSED_STDIN_FULL,
			  0);
		return;
	}
	p->in_last = true;
	if (buf_len(&p->in) == 0)
		close_pipe(agent, p);
	conn_done(agent, tag, 0, 0);
}

/* Most input fits into the pipe at once; its end is then closed before the program reads. */
void stdin_start(struct agent *agent, struct process *p, const struct agent_exec *exec)
{
	struct str rest = exec->stdin_bytes;

	if (p->in_fd < 0)
		return;
	p->in_last = !(exec->flags & AGENT_EXEC_STDIN_OPEN);
	if (rest.n) {
		ssize_t n = write(p->in_fd, rest.p, rest.n);

		n = MAX(n, 0);
		rest.p += n;
		rest.n -= (size_t)n;
		p->in_written = (uint64_t)n;
	}
	if (rest.n && keep(agent, p, rest) < 0)
		p->in_last = true;
	if (p->in_last && !p->tty && buf_len(&p->in) == 0) {
		(void)close(p->in_fd);
		p->in_fd = -1;
		return;
	}
	(void)agent_watch(agent, EPOLL_CTL_ADD, p->in_fd, buf_len(&p->in) ? EPOLLOUT : 0, EVENT_IN,
			  p->id);
	if (p->in_last && p->tty)
		/* no space: it was not meant to wait for input anyway */
		(void)put_end_key(agent, p);
}
