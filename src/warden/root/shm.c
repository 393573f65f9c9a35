/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /dev/shm: files in memory outlive their writers, so the memory limit could only kill pid 1 if it
 * were full. It is limited to half of the sandbox's memory, and its inodes (about 1 KiB of kernel
 * memory each) to an eighth: a writer gets ENOSPC before that.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/vfs.h>

#include "sys/mount/mount.h"
#include "sys/syscalls.h"
#include "warden/root/dev.h"

#define INODES_PER_MB 128

void shm_size_of(uint32_t memory_mb, struct shm_size *ret)
{
	uint64_t bytes = MAX((uint64_t)memory_mb << 19, 1ULL << 20);

	(void)snprintf(ret->bytes, sizeof(ret->bytes), "%" PRIu64, bytes);
	(void)snprintf(ret->inodes, sizeof(ret->inodes), "%" PRIu64,
		       MAX((uint64_t)memory_mb, 1) * INODES_PER_MB);
}

/* Its /dev is read-only and it cannot mount: no process inside can replace it. */
static int open_shm(int root_fd)
{
	_cleanup_close_ int fd = -1;
	struct statfs fs;

	fd = sys_openat2(root_fd, "dev/shm", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
			 RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return fd;
	if (fstatfs(fd, &fs) < 0)
		return -errno;
	return fs.f_type == TMPFS_MAGIC ? TAKE_FD(fd) : -EXDEV;
}

static int resize(int root_fd, uint32_t memory_mb)
{
	_cleanup_close_ int fd = open_shm(root_fd);
	struct shm_size size;

	if (fd < 0)
		return fd;
	shm_size_of(memory_mb, &size);
	const struct mount_option options[] = { { "size", size.bytes, -1 },
						{ "nr_inodes", size.inodes, -1 } };
	return mount_reconfigure(fd, options, ARRAY_LEN(options));
}

int shm_size_root(struct root *root, uint32_t memory_mb)
{
	int r = root->shm_memory_mb == memory_mb ? 0 : resize(root->fd, memory_mb);

	if (r >= 0)
		root->shm_memory_mb = memory_mb;
	return r;
}

int shm_resize(const struct warden *w, unsigned slot, uint32_t memory_mb)
{
	_cleanup_close_ int pidfd = sys_pidfd_open(w->rows[slot].pid), root_fd = -1;
	char path[32];

	/* Pinned first, checked afterwards: a reused pid is not in our cgroup. */
	if (pidfd < 0 || !slots_alive(w, slot))
		return -ESRCH;
	(void)snprintf(path, sizeof(path), "%d/root", w->rows[slot].pid);
	root_fd = openat(w->proc_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return root_fd < 0 ? -errno : resize(root_fd, memory_mb);
}
