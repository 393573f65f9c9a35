/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device nodes in the shared tmpfs, which sandboxes see read-only as their /dev. Every slot has a
 * directory whose nodes belong to its ids, because a node that two sandboxes can open is a channel
 * between them: one sees when the other opens it, and both can lock it (docs/decisions/044).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "sys/mount/mount.h"
#include "warden/root/dev.h"

#define PATH_SIZE (DEV_PATH_SIZE + 16)

static const struct {
	const char *name;
	unsigned major_number, minor_number;
} nodes[] = { { "null", 1, 3 },	  { "zero", 1, 5 },    { "full", 1, 7 },
	      { "random", 1, 8 }, { "urandom", 1, 9 }, { "tty", 5, 0 } };

static const struct {
	const char *name, *target;
} links[] = { { "fd", "/proc/self/fd" },
	      { "stdin", "/proc/self/fd/0" },
	      { "stdout", "/proc/self/fd/1" },
	      { "stderr", "/proc/self/fd/2" },
	      { "ptmx", "pts/ptmx" } };

static int own(int shared_fd, const char *path, uint32_t id)
{
	return fchownat(shared_fd, path, id, id, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int make_dir(int shared_fd, const char *path, uint32_t id)
{
	return mkdirat(shared_fd, path, 0755) < 0 ? -errno : own(shared_fd, path, id);
}

static int fill(int shared_fd, const char *dir, uint32_t id)
{
	static const char *const dirs[] = { "", "pts", "shm", "mqueue" };
	char path[PATH_SIZE];
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(dirs); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, dirs[i]);
		r = make_dir(shared_fd, path, id);
	}
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(nodes); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, nodes[i].name);
		if (mknodat(shared_fd, path, S_IFCHR | 0666,
			    makedev(nodes[i].major_number, nodes[i].minor_number)) < 0)
			return -errno;
		r = own(shared_fd, path, id);
	}
	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(links); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, links[i].name);
		if (symlinkat(links[i].target, shared_fd, path) < 0)
			return -errno;
		r = own(shared_fd, path, id);
	}
	return r;
}

int dev_open(int shared_fd)
{
	int r = fill(shared_fd, "dev", 0);

	return r < 0 ? r : make_dir(shared_fd, "devs", 0);
}

static void own_path(const struct warden *w, char dst[DEV_PATH_SIZE], unsigned slot)
{
	(void)snprintf(dst, DEV_PATH_SIZE, "devs/%u", control_on(w, CONTROL_INODES) ? slot : 0);
}

/* The ids of a slot never change, and no process inside can change a node: it is created once. */
int dev_make(struct warden *w, unsigned slot)
{
	bool mapped = control_on(w, CONTROL_IDMAP) && control_on(w, CONTROL_USERNS);
	char path[DEV_PATH_SIZE];
	mode_t mask;
	int r;

	own_path(w, path, slot);
	if (faccessat(w->shared_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	mask = umask(0);
	r = fill(w->shared_fd, path, mapped ? slot_first_id(w, slot) : 0);
	(void)umask(mask);
	if (r < 0)
		storage_remove_tree(w, w->shared_fd, path);
	return r;
}

/* Use of a terminal changes the times of /dev/tty, on a read-only mount, too. */
int dev_renew(struct warden *w, unsigned slot)
{
	char path[PATH_SIZE], dir[DEV_PATH_SIZE];

	own_path(w, dir, slot);
	(void)snprintf(path, sizeof(path), "%s/tty", dir);
	return utimensat(w->shared_fd, path, NULL, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

int dev_copy(struct warden *w, unsigned slot, int *ret_fd)
{
	const uint64_t attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
	char path[DEV_PATH_SIZE];

	own_path(w, path, slot);
	return mount_copy(w->shared_fd, path, attributes, -1, ret_fd);
}
