/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a program's pipe (or terminal) into the ring of its stream.
 *
 * Bytes that a foreground reader (a follow with HOLD) has not taken are never overwritten: the pipe
 * is not read until a quarter of the ring is free, and the program blocks in write(2) when the pipe
 * is full.
 *
 * For all other readers everything is read, with short pauses for a follow that keeps up: if the
 * ring would overwrite bytes that the fastest such follow has not received, the pipe is not read
 * until half the ring is free, for PAUSE_US at most. A follow that is too slow for that is lagging:
 * it gets a gap and is not waited for again until it has caught up. A stalled reader thus costs the
 * program one short pause.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>

#include "agent/agent.h"
#include "agent/system/clock.h"
#include "agent/output/follow.h"
#include "agent/output/hold.h"

#define SCRATCH_BYTES 65536
#define BULK_BYTES (256U << 10) /* one read directly into the ring; also the maximum per event */
#define BULK_FROM_BYTES 32768	/* a read of this size indicates bulk output */
#define FIRST_BYTES 4096	/* held output, for a ring without memory yet */
#define FULL_READS 4		/* consecutive full reads before the pipe is enlarged */
/*
 * A pipe holds at most 1 MiB: after this many bytes, everything that a dead program wrote was read,
 * however fast its orphans continue to write.
 */
#define LAST_DRAIN_BYTES ((1U << 20) + SCRATCH_BYTES)
#define PAUSE_US 50000

static char scratch[SCRATCH_BYTES];

void stream_watch(struct agent *agent, struct process *p, int i, bool on)
{
	static const enum agent_event events[] = { EVENT_OUT, EVENT_ERR };
	struct process_stream *s = &p->streams[i];

	if (s->fd < 0 || s->watched == on)
		return;
	/*
	 * Removed from epoll entirely, because a hang-up is reported even without requested events.
	 */
	if (agent_watch(agent, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, s->fd, EPOLLIN, events[i],
			p->id) == 0)
		s->watched = on;
}

void stream_close(struct agent *agent, struct process *p, int i)
{
	struct process_stream *s = &p->streams[i];

	if (s->fd < 0)
		return;
	if (p->tty) /* the master has a second descriptor, so epoll would keep this one */
		stream_watch(agent, p, i, false);
	(void)close(s->fd);
	s->fd = -1;
	s->watched = false;
	s->left = 0;
	s->ready = s->waiting = s->pausing = false;
	timer_clear(agent, p, TIMER_OUT + i);
}

/* A stopped pipe continues only with sufficient space. */
static bool has_room(const struct process *p, int i)
{
	const struct ring *ring = &p->streams[i].ring;

	return ring->end - hold_from(p, i) <= ring->limit_bytes / 4 * 3 &&
	       (!p->streams[i].pausing ||
		ring->end - follow_wanted_from(p, i) <= ring->limit_bytes / 2);
}

static void go_on(struct agent *agent, struct process *p, int i)
{
	p->streams[i].waiting = p->streams[i].pausing = false;
	timer_clear(agent, p, TIMER_OUT + i);
	stream_watch(agent, p, i, true);
}

void stream_on_taken(struct agent *agent, struct process *p, int i)
{
	if (p->streams[i].waiting && has_room(p, i))
		go_on(agent, p, i);
}

void stream_on_pause_over(struct agent *agent, struct process *p, int i)
{
	if (!p->streams[i].waiting)
		return;
	follow_mark_lagging(p, i);
	p->streams[i].pausing = false;
	if (has_room(p, i))
		go_on(agent, p, i);
}

static size_t wait_for_reader(struct agent *agent, struct process *p, int i, bool pausing)
{
	struct process_stream *s = &p->streams[i];

	s->waiting = true;
	s->pausing = pausing;
	stream_watch(agent, p, i, false);
	if (pausing)
		timer_set(agent, p, TIMER_OUT + i, clock_us() + PAUSE_US);
	return 0;
}

/*
 * The same for held output: memory is allocated before the read, so that nothing is overwritten if
 * there is none. A small ring doubles.
 */
static size_t held_room(struct process *p, int i)
{
	struct process_stream *s = &p->streams[i];
	uint64_t from = hold_from(p, i);
	size_t kept = (size_t)(s->ring.end - from), want, free_bytes;

	want = s->bulk ? BULK_BYTES : MIN(MAX(kept, (size_t)FIRST_BYTES), (size_t)SCRATCH_BYTES);
	free_bytes = MIN(ring_free(&s->ring, from, want), (size_t)BULK_BYTES);
	if (s->ring.capacity >= s->ring.limit_bytes &&
	    free_bytes < MIN(s->ring.limit_bytes / 4, (size_t)SCRATCH_BYTES))
		return 0;
	return free_bytes;
}

/* How much may be read now; 0: the stream waits. */
static size_t room(struct agent *agent, struct process *p, int i)
{
	struct process_stream *s = &p->streams[i];
	size_t most = BULK_BYTES;
	uint64_t wanted, limit;

	if ((!p->follows && !p->hold.readers) || p->ended || s->ring.policy == RING_KEEP_FIRST)
		return most;
	if (hold_is_on(p)) {
		most = held_room(p, i);
		if (!most)
			return wait_for_reader(agent, p, i, false);
	}
	limit = s->ring.limit_bytes;
	wanted = s->ring.end - follow_wanted_from(p, i);
	if (wanted == 0)
		return most;
	if (wanted < limit && limit - wanted >= MIN(limit / 4, (uint64_t)SCRATCH_BYTES))
		return (size_t)MIN(limit - wanted, (uint64_t)most);
	return wait_for_reader(agent, p, i, true);
}

static void keep(struct agent *agent, struct process *p, int i, struct str bytes)
{
	struct process_stream *s = &p->streams[i];
	uint64_t before;

	if (p->ended)
		return; /* output of orphans after the end is discarded */
	if (p->hooks && p->hooks->on_output) {
		p->hooks->on_output(agent, p, bytes);
		return;
	}
	before = s->ring.end;
	ring_put(&s->ring, bytes.p, bytes.n);
	if (p->save.wanted)
		save_put(p, i, before, bytes, agent);
}

void process_put(struct agent *agent, struct process *p, struct str bytes)
{
	ring_put(&p->streams[0].ring, bytes.p, bytes.n);
	follow_wake_all(agent, p);
}

void stream_grow_pipe(struct process *p, int i, size_t n)
{
	struct process_stream *s = &p->streams[i];

	if (s->grown || p->tty)
		return;
	s->full_reads = n >= SCRATCH_BYTES ? s->full_reads + 1 : 0;
	if (s->full_reads < FULL_READS)
		return;
	s->grown = true;
	(void)fcntl(s->fd, F_SETPIPE_SZ, PROCESS_PIPE_BYTES); /* refused: works with the old size */
}

/* One read: the number of bytes, 0 at the end of the stream, or -errno. */
static ssize_t read_once(struct agent *agent, struct process *p, int i, size_t max)
{
	struct process_stream *s = &p->streams[i];
	struct iovec pieces[2];
	int count = 0;
	ssize_t n;

	if (s->bulk && !p->ended)
		count = ring_room(&s->ring, max, pieces);
	if (count)
		n = readv(s->fd, pieces, count);
	else
		n = read(s->fd, scratch, MIN(max, sizeof(scratch)));
	if (n < 0)
		return errno == EIO && p->tty ? 0 : -errno; /* a terminal without a program */
	if (n == 0)
		return 0;
	if (count)
		ring_commit(&s->ring, (size_t)n);
	else
		keep(agent, p, i, (struct str){ scratch, (size_t)n });
	s->left -= MIN(s->left, (uint64_t)n);
	if (s->ring.policy == RING_KEEP_LAST && !p->hooks) {
		s->bulk = n >= BULK_FROM_BYTES;
		stream_grow_pipe(p, i, (size_t)n);
	}
	return n;
}

/* Reads up to max bytes; true if the stream is at its end, or empty for now. */
static bool read_some(struct agent *agent, struct process *p, int i, size_t max, bool thorough)
{
	struct process_stream *s = &p->streams[i];
	size_t seen = 0;

	while (s->fd >= 0 && seen < max) {
		size_t most = room(agent, p, i);
		ssize_t n;

		if (!most)
			return false;
		n = read_once(agent, p, i, most);
		if (n == -EINTR)
			continue;
		if (n == -EAGAIN)
			return true;
		if (n <= 0) {
			stream_close(agent, p, i);
			return true;
		}
		seen += (size_t)n;
		if (!thorough && (size_t)n < SCRATCH_BYTES)
			return true; /* probably empty: saves the call that would say so */
	}
	return s->fd < 0;
}

void stream_on_event(struct agent *agent, struct process *p, int i)
{
	struct process_stream *s = &p->streams[i];

	if (s->fd < 0)
		return;
	if (p->tool && p->follows) { /* follow.c reads it when there is credit */
		s->ready = true;
		stream_watch(agent, p, i, false);
		follow_wake_all(agent, p);
		return;
	}
	(void)read_some(agent, p, i, BULK_BYTES, false);
	if (p->follows)
		follow_wake_all(agent, p);
	if (p->reaped)
		process_settle(agent, p);
}

void stream_drain(struct agent *agent, struct process *p, int i)
{
	struct process_stream *s = &p->streams[i];
	int n = 0;

	if (s->fd < 0)
		return;
	if (p->tool && p->follows) {
		/*
		 * The pipe contains the program's last bytes, whether its event has arrived or not.
		 * Until the follow has read it, it does not count as empty.
		 */
		stream_on_event(agent, p, i);
		return;
	}
	if (read_some(agent, p, i, LAST_DRAIN_BYTES, true) || !s->waiting)
		return;
	if (ioctl(s->fd, FIONREAD, &n) == 0 && n > 0)
		s->left = (uint64_t)n;
}
