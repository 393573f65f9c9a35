/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage pool: one volume per sandbox, with the overlay's upper and work directories in it. On
 * btrfs (a sparse file in the state directory, mounted through a loop device that goes away with
 * its last user) a volume is a subvolume with a quota. No path of the host leads to the mount: it
 * lives in a descriptor of the warden and in the overlays above it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "base/log.h"
#include "base/rand.h"
#include "sys/btrfs.h"
#include "sys/file.h"
#include "sys/loopdev.h"
#include "sys/mount.h"
#include "sys/probe.h"
#include "sys/syscalls.h"
#include "warden/warden.h"

#define POOL_FILE "pool.btrfs"
#define POOL_FILE_NEW "pool.btrfs.new"
#define POOL_DIRECTORY "volumes" /* where btrfs is not to be had */
#define POOL_SHARE_PERCENT \
	60 /* of what is free on the state directory's filesystem; the file is sparse */
#define POOL_MIN_BYTES (512ULL << 20)
#define REMOVE_DEPTH_MAX 256 /* descriptors held at once */

static int run_mkfs(int file_fd)
{
	char path[64];
	int status, pid;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file_fd);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		int null_fd = open("/dev/null", O_WRONLY);

		(void)dup2(null_fd, STDOUT_FILENO); /* it is chatty even when quiet */
		(void)fcntl(file_fd, F_SETFD, 0);
		(void)execl("/sbin/mkfs.btrfs", "mkfs.btrfs", "-q", "-f", "-K", "-m", "single",
			    "-d", "single", path, (char *)NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return status == 0 ? 0 : -ENOEXEC;
}

/* Made under another name and renamed when complete: a kill in the middle leaves no half pool. */
static int pool_file_make(struct warden *w)
{
	_cleanup_close_ int fd = -1;
	struct statvfs fs;
	uint64_t bytes;
	int r;

	(void)unlinkat(w->state_fd, POOL_FILE_NEW, 0);
	r = file_open_own(w->state_fd, POOL_FILE_NEW, O_RDWR | O_CREAT | O_EXCL, &fd);
	if (r < 0)
		return r;
	if (fstatvfs(fd, &fs) < 0)
		return -errno;
	bytes = (uint64_t)fs.f_bavail * fs.f_frsize / 100 * POOL_SHARE_PERCENT;
	bytes &= ~((64ULL << 20) - 1);
	if (bytes < POOL_MIN_BYTES)
		return -ENOSPC;
	if (ftruncate(fd, (off_t)bytes) < 0)
		return -errno;
	r = run_mkfs(fd);
	if (r < 0)
		return r;
	if (fsync(fd) < 0 || renameat(w->state_fd, POOL_FILE_NEW, w->state_fd, POOL_FILE) < 0)
		return -errno;
	return 0;
}

static void enable_quota(struct warden *w)
{
	enum btrfs_quota kind = BTRFS_QUOTA_SIMPLE;
	int r = btrfs_quota_enable(w->pool_fd, probe_has(PROBE_SIMPLE_QUOTA), &kind);

	if (r < 0)
		log_warn("storage pool: no quotas (%s): disk limits are not enforced",
			 strerror(-r));
	w->pool_has_quota = r >= 0;
	w->pool_counts_shared = kind == BTRFS_QUOTA_GROUPS;
}

static int pool_mount_btrfs(struct warden *w)
{
	_cleanup_close_ int file_fd = -1, loop_fd = -1, mount_fd = -1;
	char device[32];
	int r;

	if (faccessat(w->state_fd, POOL_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
		r = pool_file_make(w);
		if (r < 0)
			return r;
	}
	/* The kernel will parse it as a filesystem: only one that we made ourselves. */
	r = file_open_own(w->state_fd, POOL_FILE, O_RDWR, &file_fd);
	if (r < 0)
		return r;
	r = loopdev_open(file_fd, device, sizeof(device), &loop_fd);
	if (r < 0)
		return r;
	/*
	 * The kernel's thread that commits can overlook one who asks for a commit beside another
	 * (BTRFS_IOC_START_SYNC then waits for the next regular one, else 30 seconds away).
	 */
	const struct mount_option options[] = { { "source", device, -1 },
						{ "discard", "async", -1 },
						{ "commit", "1", -1 } };
	r = mount_make("btrfs", options, ARRAY_LEN(options),
		       MOUNT_ATTR_NOATIME | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, &mount_fd);
	if (r < 0)
		return r;
	w->pool_fd = openat(mount_fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (w->pool_fd < 0)
		return -errno;
	w->pool_mount_fd = TAKE_FD(mount_fd);
	enable_quota(w);
	return 0;
}

/* Taken again in the warden's own mount namespace: only there may the volumes' mounts be copied. */
int storage_enter(struct warden *w, const char *state_path)
{
	char path[PATH_MAX];
	int r;

	if (w->pool_mount_fd >= 0)
		return 0;
	if (snprintf(path, sizeof(path), "%s/" POOL_DIRECTORY, state_path) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	r = mount_copy(AT_FDCWD, path, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, -1, &w->pool_mount_fd);
	if (r < 0)
		return r;
	(void)close(w->pool_fd);
	w->pool_fd = openat(w->pool_mount_fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	return w->pool_fd < 0 ? -errno : 0;
}

static int pool_open_directory(struct warden *w)
{
	if (mkdirat(w->state_fd, POOL_DIRECTORY, 0700) < 0 && errno != EEXIST)
		return -errno;
	w->pool_has_quota = false;
	w->pool_fd = openat(w->state_fd, POOL_DIRECTORY, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	return w->pool_fd < 0 ? -errno : 0;
}

int storage_open(struct warden *w)
{
	int r;

	w->pool_mount_fd = -1;
	r = pool_mount_btrfs(w);
	if (r < 0) {
		log_warn("storage pool: no btrfs here (%s): plain directories, disk limits are not "
			 "enforced",
			 strerror(-r));
		r = pool_open_directory(w);
	}
	rand_bytes(&w->next_volume, sizeof(w->next_volume));
	return r;
}

void storage_volume_name(char dst[VOLUME_NAME_SIZE], uint64_t volume)
{
	(void)snprintf(dst, VOLUME_NAME_SIZE, "v%016" PRIx64, volume);
}

int storage_volume_open_in(int pool_fd, uint64_t volume)
{
	char name[VOLUME_NAME_SIZE];
	int fd;

	storage_volume_name(name, volume);
	fd = openat(pool_fd, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

int storage_volume_open(const struct warden *w, uint64_t volume)
{
	return storage_volume_open_in(w->pool_fd, volume);
}

/* By chance: a sandbox sees its own in its mounts, and is to learn nothing of others by it. */
uint64_t storage_volume_number(void)
{
	uint64_t volume = 0; /* means none */

	while (!volume)
		rand_bytes(&volume, sizeof(volume));
	return volume;
}

int storage_volume_copy(struct warden *w, uint64_t volume, int from_fd)
{
	char name[VOLUME_NAME_SIZE];

	storage_volume_name(name, volume);
	return btrfs_snapshot(from_fd, w->pool_fd, name, false);
}

int storage_volume_adopt(struct warden *w, uint64_t volume, int dir_fd, const char *from)
{
	char name[VOLUME_NAME_SIZE];

	storage_volume_name(name, volume);
	return renameat(dir_fd, from, w->pool_fd, name) < 0 ? -errno : 0;
}

int storage_volume_give(struct warden *w, uint64_t volume, int dir_fd, const char *to)
{
	char name[VOLUME_NAME_SIZE];

	storage_volume_name(name, volume);
	return renameat(w->pool_fd, name, dir_fd, to) < 0 ? -errno : 0;
}

int storage_volume_make(struct warden *w, uint64_t *ret)
{
	uint64_t volume = storage_volume_number();
	char name[VOLUME_NAME_SIZE];
	_cleanup_close_ int fd = -1;
	int r;

	storage_volume_name(name, volume);
	if (btrfs_is(w->pool_fd))
		r = btrfs_subvolume_make(w->pool_fd, name);
	else
		r = mkdirat(w->pool_fd, name, 0700) < 0 ? -errno : 0;
	if (r < 0)
		return r;
	fd = storage_volume_open(w, volume);
	if (fd < 0)
		return fd;
	if (mkdirat(fd, "upper", 0755) < 0 || mkdirat(fd, "work", 0700) < 0)
		return -errno;
	*ret = volume;
	return 0;
}

int storage_volume_limit(const struct warden *w, uint64_t volume, uint64_t bytes)
{
	_cleanup_close_ int fd = -1;

	if (!w->pool_has_quota || !control_on(w, CONTROL_DISK))
		return 0;
	fd = storage_volume_open(w, volume);
	return fd < 0 ? fd : btrfs_limit(fd, bytes);
}

uint64_t storage_volume_usage(const struct warden *w, uint64_t volume)
{
	_cleanup_close_ int fd = storage_volume_open(w, volume);
	uint64_t bytes = 0;

	if (fd < 0 || !w->pool_has_quota || btrfs_usage(fd, &bytes) < 0)
		return 0;
	return bytes;
}

/*
 * Plain directories only: a hostile tree, so no links are followed and no mount is crossed. What
 * lies too deep is moved to the top as a volume of its own, and removed after this one.
 */
static void move_to_top(struct warden *w, int dir_fd, const char *name)
{
	char top[VOLUME_NAME_SIZE];

	storage_volume_name(top, w->next_volume++);
	if (renameat(dir_fd, name, w->pool_fd, top) < 0)
		log_warn("a deep directory of a volume stays: %s", strerror(errno));
}

static void remove_tree(struct warden *w, int dir_fd, const char *name, unsigned depth)
{
	int fd = sys_openat2(dir_fd, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW,
			     RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (unlinkat(dirfd(dir), e->d_name, 0) == 0)
			continue;
		if (depth < REMOVE_DEPTH_MAX)
			remove_tree(w, dirfd(dir), e->d_name, depth + 1);
		else
			move_to_top(w, dirfd(dir), e->d_name);
	}
	(void)closedir(dir);
	(void)unlinkat(dir_fd, name, AT_REMOVEDIR);
}

void storage_remove_tree(struct warden *w, int dir_fd, const char *name)
{
	remove_tree(w, dir_fd, name, 0);
}

void storage_volume_remove(struct warden *w, uint64_t volume)
{
	uint64_t deep = w->next_volume;
	char name[VOLUME_NAME_SIZE];
	int r;

	storage_volume_name(name, volume);
	if (!btrfs_is(w->pool_fd)) {
		remove_tree(w, w->pool_fd, name, 0);
		for (; deep != w->next_volume; deep++) { /* grows while it goes */
			storage_volume_name(name, deep);
			remove_tree(w, w->pool_fd, name, 0);
		}
		return;
	}
	r = btrfs_subvolume_remove(w->pool_fd, name);
	if (r < 0 && r != -ENOENT)
		log_warn("volume %s is not gone: %s", name, strerror(-r));
}

static bool volume_known(const struct warden *w, uint64_t volume)
{
	for (unsigned i = 0; i < w->slot_top; i++)
		if (w->rows[i].volume == volume)
			return true;
	return false;
}

void storage_sweep(struct warden *w)
{
	int fd = openat(w->pool_fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return;
	}
	for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
		uint64_t volume;

		if (sscanf(e->d_name, "v%16" SCNx64, &volume) == 1 && !volume_known(w, volume))
			storage_volume_remove(w, volume);
	}
	(void)closedir(dir);
}
