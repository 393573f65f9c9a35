/* SPDX-License-Identifier: Apache-2.0 */
/* How a new process enters the groups of a slot: through descriptors that its parent opened. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "sys/cgroup/slot.h"

static int open_in_slot(int dir_fd, unsigned slot, const char *file, int flags)
{
	char path[64];
	int fd, r = slot_path(path, slot, file);

	if (r < 0)
		return r;
	fd = openat(dir_fd, path, flags | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int cgroup_door_open(const struct cgroup_tree *tree, unsigned slot, struct cgroup_door *ret)
{
	struct cgroup_door door = CGROUP_DOOR_NONE;
	int r = 0;

	for (int i = 0; r >= 0 && i < CGROUP_COUNT; i++) {
		if (tree->fd[i] < 0 || (tree->v2[i] && door.v2_index >= 0))
			continue;
		if (tree->v2[i])
			door.v2_index = i;
		r = open_in_slot(tree->fd[i], slot, tree->v2[i] ? "cgroup.procs" : "tasks",
				 O_WRONLY);
		door.fd[i] = r;
	}
	if (r >= 0 && tree->v2_fd >= 0)
		door.into_fd = r = open_in_slot(tree->v2_fd, slot, "", O_PATH | O_DIRECTORY);
	if (r >= 0 && tree->cpuset_fd >= 0)
		door.cpuset_fd = r = open_in_slot(tree->cpuset_fd, slot, "tasks", O_WRONLY);
	if (r < 0) {
		cgroup_door_close(&door);
		return r;
	}
	*ret = door;
	return 0;
}

void cgroup_door_close(struct cgroup_door *door)
{
	for (int i = 0; i < CGROUP_COUNT; i++)
		if (door->fd[i] >= 0)
			(void)close(door->fd[i]);
	if (door->into_fd >= 0)
		(void)close(door->into_fd);
	if (door->cpuset_fd >= 0)
		(void)close(door->cpuset_fd);
	*door = (struct cgroup_door)CGROUP_DOOR_NONE;
}

int cgroup_enter(const struct cgroup_door *door, bool is_born_inside)
{
	for (int i = 0; i < CGROUP_COUNT; i++)
		if (door->fd[i] >= 0 && !(is_born_inside && i == door->v2_index) &&
		    write(door->fd[i], "0", 1) < 0)
			return -errno;
	return 0;
}
