/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of processors that a sandbox sees. Its cgroup limits its use. Programs that choose a
 * number of threads count the processors that they may run on, and would get all of the host's. The
 * sandbox therefore runs on as many as its limit, rounded up, spread over the host.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "warden/warden.h"

#define CROWD_MORE 1 /* sandboxes more than on the least used processor */

void processors_open(struct warden *w, bool spread)
{
	CPU_ZERO(&w->processors);
	if (!spread)
		log_info("sandboxes run on all processors of the host and see all of them");
	else if (sched_getaffinity(0, sizeof(w->processors), &w->processors) < 0)
		CPU_ZERO(&w->processors); /* more than a cpu_set_t can represent */
}

/* The index of the current processor among those for sandboxes; -1: not one of them. */
static int current_place(const struct warden *w)
{
	int cpu = sched_getcpu(), place = 0;

	if (cpu < 0 || !CPU_ISSET(cpu, &w->processors))
		return -1;
	for (int i = 0; i < cpu; i++)
		place += CPU_ISSET(i, &w->processors) != 0;
	return place;
}

/*
 * Moving a process to another processor takes longer than all its mounts, and so does waking it
 * there for every frame. A sandbox is therefore placed where the warden runs, as long as not many
 * more are there than elsewhere.
 */
static unsigned best_place(const struct warden *w, unsigned have)
{
	int here = current_place(w);
	unsigned best = 0;

	for (unsigned i = 1; i < have; i++)
		if (w->crowd[i] < w->crowd[best])
			best = i;
	if (here >= 0 && w->crowd[here] <= w->crowd[best] + CROWD_MORE)
		best = (unsigned)here;
	return best;
}

static void count_seat(struct warden *w, const struct seat *seat, int by)
{
	unsigned have = (unsigned)CPU_COUNT(&w->processors);

	for (unsigned i = 0; i < seat->count; i++)
		w->crowd[(seat->first + i) % have] += (unsigned)by;
}

void processors_free(struct warden *w, unsigned slot)
{
	count_seat(w, &w->seats[slot], -1);
	w->seats[slot] = (struct seat){ 0 };
}

void processors_seat(struct warden *w, unsigned slot, const struct warden_limits *limits)
{
	unsigned have = (unsigned)CPU_COUNT(&w->processors), count = cover_cpus(limits);

	processors_free(w, slot);
	if (!count || count >= have)
		return;
	w->seats[slot] =
		(struct seat){ .first = (uint16_t)best_place(w, have), .count = (uint16_t)count };
	count_seat(w, &w->seats[slot], 1);
}

/* Processors with adjacent numbers share caches, so they stay together. */
static bool choose(const struct warden *w, unsigned slot, unsigned count, cpu_set_t *ret)
{
	unsigned have = (unsigned)CPU_COUNT(&w->processors), first, at = 0;

	if (!count || !have)
		return false;
	if (count >= have) {
		*ret = w->processors;
		return true;
	}
	/* Without a recorded place it was created by a previous warden, or from memory. */
	first = w->seats[slot].count ? w->seats[slot].first
				     : (unsigned)((uint64_t)slot * count % have);
	CPU_ZERO(ret);
	for (unsigned i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, &w->processors))
			continue;
		if ((at + have - first) % have < count)
			CPU_SET(i, ret);
		at++;
	}
	return true;
}

int processors_enter(const struct warden *w, unsigned slot, const struct warden_limits *limits)
{
	unsigned count = cover_cpus(limits);
	cpu_set_t set;

	if (count >= (unsigned)CPU_COUNT(&w->processors) || !choose(w, slot, count, &set))
		return 0;
	return sched_setaffinity(0, sizeof(set), &set) < 0 ? -errno : 0;
}

/*
 * The kernel starts a new process on any idle processor, unless its parent may not run there
 * either.
 */
bool processors_narrow(const struct warden *w, unsigned slot, const struct warden_limits *limits)
{
	unsigned count = cover_cpus(limits);
	int cpu = sched_getcpu();
	cpu_set_t set;

	return count < (unsigned)CPU_COUNT(&w->processors) && choose(w, slot, count, &set) &&
	       cpu >= 0 && CPU_ISSET(cpu, &set) && sched_setaffinity(0, sizeof(set), &set) == 0;
}

void processors_widen(const struct warden *w)
{
	(void)sched_setaffinity(0, sizeof(w->processors), &w->processors);
}

static void set_threads(void *arg, int pid)
{
	const struct processors_change *change = arg;
	char path[32];
	int fd;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%d/task", pid);
	fd = openat(change->proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		uint64_t tid;

		if (str_to_u64(str_of(e->d_name), INT32_MAX, &tid) >= 0)
			(void)sched_setaffinity((pid_t)tid, sizeof(change->set), &change->set);
	}
	(void)closedir(dir);
}

/* Starts at the same place. */
static void resize_seat(struct warden *w, unsigned slot, unsigned count)
{
	struct seat seat = w->seats[slot];

	processors_free(w, slot);
	if (!seat.count || count >= (unsigned)CPU_COUNT(&w->processors))
		return;
	seat.count = (uint16_t)count;
	w->seats[slot] = seat;
	count_seat(w, &seat, 1);
}

/* Twice: a process that forked during the first round left a child with the old set. */
void processors_change(struct warden *w, unsigned slot, const struct warden_limits *limits)
{
	struct processors_change change = { .proc_fd = w->proc_fd };

	resize_seat(w, slot, cover_cpus(limits));
	if (!choose(w, slot, cover_cpus(limits), &change.set))
		return;
	for (int i = 0; i < 2; i++)
		cgroup_each_member(&w->cgroups, slot, set_threads, &change);
}
