/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/sys/cgroup: files and groups below <hierarchy>/cay-N. */
#ifndef CAY_SYS_CGROUP_SLOT_H
#define CAY_SYS_CGROUP_SLOT_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "sys/cgroup/cgroup.h"
#include "sys/file.h"

static inline int cgroup_open_dir(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static inline int slot_path(char dst[64], unsigned slot, const char *file)
{
	int n = snprintf(dst, 64, "%u/%s", slot, file);

	return n < 64 ? 0 : -ENAMETOOLONG;
}

static inline int slot_write(const struct cgroup_tree *tree, int which, unsigned slot,
			     const char *file, const char *text)
{
	char path[64];
	int r = slot_path(path, slot, file);

	return r < 0 ? r : file_write(tree->fd[which], path, text);
}

/* The number in a file, or in its line that begins with field; 0 if there is none. */
uint64_t cgroup_slot_read(const struct cgroup_tree *tree, int which, unsigned slot,
			  const char *file, const char *field);
/* Removes a group and all groups below it. 0 if it does not exist, -EBUSY while one is in use. */
int cgroup_remove_group(int parent_fd, const char *name);

#endif
