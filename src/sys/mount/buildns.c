/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/mount/buildns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "sys/mount/mount.h"
#include "sys/probe.h"
#include "sys/syscalls.h"

/* One per process, like the mount namespace itself. */
static struct {
	bool open, inside;
	int build_fd, start_fd;
} place;

static bool is_needed(void)
{
	return !probe_has(PROBE_OVERLAY_FD) || !probe_has(PROBE_DETACHED_COPY) ||
	       !probe_has(PROBE_DETACHED_TARGET);
}

static int open_own(int proc_fd)
{
	int fd = openat(proc_fd, "self/ns/mnt", O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* An empty root directory, in which mount points are created by number. */
static int make_root(void)
{
	const struct mount_option options[] = { { "mode", "0700", -1 } };
	_cleanup_close_ int fd = -1;
	int r = mount_make("tmpfs", options, ARRAY_LEN(options),
			   MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, &fd);

	return r < 0 ? r : mount_become_root(fd);
}

int buildns_open(int proc_fd)
{
	_cleanup_close_ int start_fd = -1, build_fd = -1;
	int r;

	if (!is_needed())
		return 0;
	start_fd = open_own(proc_fd);
	if (start_fd < 0)
		return start_fd;
	if (unshare(CLONE_NEWNS) < 0)
		return -errno;
	r = make_root();
	if (r < 0)
		return r;
	build_fd = open_own(proc_fd);
	if (build_fd < 0)
		return build_fd;
	place.start_fd = TAKE_FD(start_fd);
	place.build_fd = TAKE_FD(build_fd);
	place.open = place.inside = true;
	return 0;
}

bool buildns_is_open(void)
{
	return place.open;
}

static void go(bool inside)
{
	if (!place.open || place.inside == inside)
		return;
	if (setns(inside ? place.build_fd : place.start_fd, CLONE_NEWNS) < 0)
		abort();
	place.inside = inside;
}

void buildns_enter(void)
{
	go(true);
}

void buildns_leave(void)
{
	go(false);
}

/* The number of the descriptor, which is unique as long as it is open. */
void mount_name(int fd, char dst[MOUNT_NAME_SIZE])
{
	(void)snprintf(dst, MOUNT_NAME_SIZE, "/%d", fd);
}

int mount_keep(int fd)
{
	char name[MOUNT_NAME_SIZE];

	if (!place.open)
		return 0;
	buildns_enter();
	mount_name(fd, name);
	if (mkdir(name, 0700) < 0 && errno != EEXIST)
		return -errno;
	return sys_move_mount(fd, "", AT_FDCWD, name, MOVE_MOUNT_F_EMPTY_PATH);
}

void mount_close(int fd)
{
	char name[MOUNT_NAME_SIZE];

	if (fd < 0)
		return;
	if (place.open) {
		buildns_enter();
		mount_name(fd, name);
		/* A mount that was never kept is not there, and nothing is unmounted. */
		(void)umount2(name, MNT_DETACH | UMOUNT_NOFOLLOW);
	}
	(void)close(fd);
}

int mount_settle(int *fd)
{
	int tree_fd;

	if (!place.open)
		return 0;
	buildns_enter();
	tree_fd = sys_open_tree(*fd, "",
				OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
	mount_close(*fd);
	*fd = tree_fd < 0 ? -1 : tree_fd;
	return tree_fd < 0 ? tree_fd : 0;
}
