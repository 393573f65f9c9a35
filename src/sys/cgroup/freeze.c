/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing and thawing a slot. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "sys/cgroup/slot.h"

#define AGAIN_US 10000
#define SPIN_US 300
#define PAUSE_MAX_US 1000U

int cgroup_freeze(const struct cgroup_tree *tree, unsigned slot, bool frozen)
{
	if (tree->fd[CGROUP_FREEZER] < 0)
		return -EOPNOTSUPP;
	if (tree->v2[CGROUP_FREEZER])
		return slot_write(tree, CGROUP_FREEZER, slot, "cgroup.freeze", frozen ? "1" : "0");
	return slot_write(tree, CGROUP_FREEZER, slot, "freezer.state",
			  frozen ? "FROZEN" : "THAWED");
}

bool cgroup_is_frozen(const struct cgroup_tree *tree, unsigned slot)
{
	bool v2 = tree->v2[CGROUP_FREEZER];
	char path[64], text[16];
	uint64_t frozen;
	int fd = tree->fd[CGROUP_FREEZER];

	if (fd < 0 || slot_path(path, slot, v2 ? "cgroup.events" : "freezer.state") < 0)
		return false;
	if (v2)
		return file_read_field(fd, path, "frozen", &frozen) >= 0 && frozen;
	return file_read(fd, path, text, sizeof(text)) > 0 && strncmp(text, "FROZEN", 6) == 0;
}

/*
 * v1 has no event, so the state is read repeatedly. A task that was forked during the freeze may
 * have been missed, so the request is repeated as well.
 */
static int wait_v1(const struct cgroup_tree *tree, unsigned slot, int64_t end_us)
{
	int64_t begin_us = time_mono_us(), ordered_us = begin_us;

	for (unsigned pause_us = 20;; pause_us = MIN(pause_us * 2, PAUSE_MAX_US)) {
		int64_t now_us = time_mono_us();

		if (cgroup_is_frozen(tree, slot))
			return 0;
		if (now_us > end_us)
			return -EBUSY;
		if (now_us - ordered_us > AGAIN_US) {
			int r = cgroup_freeze(tree, slot, true);

			if (r < 0)
				return r;
			ordered_us = now_us;
		}
		if (now_us - begin_us < SPIN_US)
			(void)sched_yield(); /* usually sufficient */
		else
			(void)usleep(pause_us);
	}
}

/* Every change of cgroup.events wakes a poll; reading the file arms it again. */
static int wait_v2(const struct cgroup_tree *tree, unsigned slot, int64_t end_us)
{
	char path[64];
	_cleanup_close_ int fd = -1;
	int r = slot_path(path, slot, "cgroup.events");

	if (r < 0)
		return r;
	fd = openat(tree->fd[CGROUP_FREEZER], path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (;;) {
		struct pollfd changed = { fd, POLLPRI, 0 };
		int64_t left_us = end_us - time_mono_us();
		char text[64];
		ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

		if (n < 0)
			return -errno;
		text[n] = '\0';
		if (strstr(text, "frozen 1"))
			return 0;
		if (left_us <= 0)
			return -EBUSY;
		if (poll(&changed, 1, (int)(left_us / 1000) + 1) < 0 && errno != EINTR)
			return -errno;
	}
}

int cgroup_freeze_wait(const struct cgroup_tree *tree, unsigned slot, int64_t timeout_us)
{
	int64_t end_us = time_mono_us() + timeout_us;
	int r = cgroup_freeze(tree, slot, true);

	if (r < 0)
		return r;
	return tree->v2[CGROUP_FREEZER] ? wait_v2(tree, slot, end_us) : wait_v1(tree, slot, end_us);
}
