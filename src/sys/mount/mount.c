/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/mount/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "sys/mount/buildns.h"
#include "sys/syscalls.h"

static int configure(int fs_fd, const struct mount_option *option)
{
	int r;

	if (option->fd >= 0)
		r = fsconfig(fs_fd, FSCONFIG_SET_FD, option->key, NULL, option->fd);
	else if (option->value)
		r = fsconfig(fs_fd, FSCONFIG_SET_STRING, option->key, option->value, 0);
	else
		r = fsconfig(fs_fd, FSCONFIG_SET_FLAG, option->key, NULL, 0);
	return r < 0 ? -errno : 0;
}

static int configure_all(int fs_fd, const struct mount_option *options, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = configure(fs_fd, &options[i]);
	return r;
}

int mount_make(const char *type, const struct mount_option *options, size_t count,
	       uint64_t attributes, int *ret_fd)
{
	_cleanup_close_ int fs_fd = fsopen(type, FSOPEN_CLOEXEC);
	int r;

	if (fs_fd < 0)
		return -errno;
	r = configure_all(fs_fd, options, count);
	if (r < 0)
		return r;
	if (fsconfig(fs_fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	r = fsmount(fs_fd, FSMOUNT_CLOEXEC, (unsigned)attributes);
	if (r < 0)
		return -errno;
	*ret_fd = r;
	return 0;
}

int mount_reconfigure(int dir_fd, const struct mount_option *options, size_t count)
{
	_cleanup_close_ int fs_fd = fspick(dir_fd, "", FSPICK_EMPTY_PATH | FSPICK_CLOEXEC);
	int r;

	if (fs_fd < 0)
		return -errno;
	r = configure_all(fs_fd, options, count);
	if (r < 0)
		return r;
	return fsconfig(fs_fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0 ? -errno : 0;
}

int mount_copy(int dir_fd, const char *path, uint64_t attributes, int idmap_fd, int *ret_fd)
{
	struct mount_attr attr = { .attr_set = attributes };
	_cleanup_close_ int fd = -1;
	int r;

	buildns_enter();
	fd = sys_open_tree(dir_fd, path,
			   OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH |
				   AT_SYMLINK_NOFOLLOW);
	if (fd < 0)
		return fd;
	if (idmap_fd >= 0) {
		attr.attr_set |= MOUNT_ATTR_IDMAP;
		attr.userns_fd = (uint64_t)idmap_fd;
	}
	if (attr.attr_set) {
		r = sys_mount_setattr(fd, "", AT_EMPTY_PATH, &attr);
		if (r < 0)
			return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static bool is_directory(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

int mount_attach(int mount_fd, int root_fd, const char *target)
{
	_cleanup_close_ int at =
		sys_openat2(root_fd, target, O_PATH | O_CLOEXEC | O_NOFOLLOW,
			    RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);

	int r;

	if (at < 0)
		return at;
	r = sys_move_mount(mount_fd, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
	/* The kernel says EINVAL for this and for much else. */
	return r == -EINVAL && is_directory(mount_fd) != is_directory(at) ? -ENOTDIR : r;
}

int mount_enter_root(int mount_fd)
{
	struct stat want, have;
	int r = sys_move_mount(mount_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH);

	if (r < 0)
		return r;
	if (fstat(mount_fd, &want) < 0 || fchdir(mount_fd) < 0 || chroot(".") < 0)
		return -errno;
	if (stat("/", &have) < 0)
		return -errno;
	return have.st_dev == want.st_dev && have.st_ino == want.st_ino ? 0 : -EXDEV;
}

int mount_unshare(void)
{
	if (unshare(CLONE_NEWNS) < 0)
		return -errno;
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

/* Moves the mount over "/", then pivots the old root to the same place and detaches it. */
int mount_become_root(int mount_fd)
{
	int r = sys_move_mount(mount_fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH);

	if (r < 0)
		return r;
	if (fchdir(mount_fd) < 0 || syscall(SYS_pivot_root, ".", ".") < 0)
		return -errno;
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	return 0;
}
