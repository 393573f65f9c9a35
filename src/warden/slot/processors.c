/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many processors a sandbox sees. Its cgroup limits what it uses; programs that ask how many
 * threads to start ask for the processors they may run on, and would get all of the host's. So the
 * sandbox runs on as many as its limit, rounded up, spread over the host by slot.
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

void processors_open(struct warden *w, bool spread)
{
	CPU_ZERO(&w->processors);
	if (!spread)
		log_info("sandboxes run on all processors of the host and see all of them");
	else if (sched_getaffinity(0, sizeof(w->processors), &w->processors) < 0)
		CPU_ZERO(&w->processors); /* more than a cpu_set_t holds */
}

/* Neighbours in number share caches, so they stay together. */
static bool choose(const struct warden *w, unsigned slot, unsigned count, cpu_set_t *ret)
{
	unsigned have = (unsigned)CPU_COUNT(&w->processors), first, at = 0;

	if (!count || !have)
		return false;
	if (count >= have) {
		*ret = w->processors;
		return true;
	}
	first = (unsigned)((uint64_t)slot * count % have);
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

/* Twice: a process that forked during the first round left a child with the old set. */
void processors_change(const struct warden *w, unsigned slot, const struct warden_limits *limits)
{
	struct processors_change change = { .proc_fd = w->proc_fd };

	if (!choose(w, slot, cover_cpus(limits), &change.set))
		return;
	for (int i = 0; i < 2; i++)
		cgroup_each_member(&w->cgroups, slot, set_threads, &change);
}
