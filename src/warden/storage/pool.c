/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the storage pool: a btrfs in a sparse file of the state directory, mounted through a loop
 * device that goes away with its last user, or plain directories. No path of the host leads to the
 * mount: it lives in a descriptor of the warden and in the overlays above it.
 *
 * A state directory keeps the kind it began with, because sandboxes and snapshots of one kind
 * cannot be found in the other: a pool file that cannot be mounted is an error.
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
#include "sys/mount/btrfs.h"
#include "sys/file.h"
#include "sys/mount/loopdev.h"
#include "sys/mount/mount.h"
#include "sys/probe.h"
#include "warden/storage/space.h"

#define POOL_FILE "pool.btrfs"
#define POOL_FILE_NEW "pool.btrfs.new"
#define POOL_DIRECTORY "volumes" /* where btrfs is not available */
#define POOL_SHARE_PERCENT \
	60 /* of what is free on the state directory's filesystem; the file is sparse */
#define POOL_MIN_BYTES (512ULL << 20)

static int run_mkfs(int file_fd, uint64_t bytes)
{
	char path[64], size[24];
	int status, pid;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", file_fd);
	(void)snprintf(size, sizeof(size), "%" PRIu64, bytes);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		int null_fd = open("/dev/null", O_WRONLY);

		(void)dup2(null_fd, STDOUT_FILENO); /* it is chatty even when quiet */
		(void)fcntl(file_fd, F_SETFD, 0);
		(void)execl("/sbin/mkfs.btrfs", "mkfs.btrfs", "-q", "-f", "-K", "-m", "single",
			    "-d", "single", "-b", size, path, (char *)NULL);
		(void)execl("/usr/sbin/mkfs.btrfs", "mkfs.btrfs", "-q", "-f", "-K", "-m", "single",
			    "-d", "single", "-b", size, path, (char *)NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) < 0)
		return -errno;
	return status == 0 ? 0 : -ENOEXEC;
}

/* Under another name: it becomes the pool when it could be mounted (pool_mount_btrfs). */
static int pool_file_make(struct warden *w, int *ret_fd)
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
	r = space_begin(fd, bytes, &bytes);
	if (r >= 0)
		r = run_mkfs(fd, bytes);
	if (r < 0)
		return r;
	if (fsync(fd) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static const struct mount_option keep_allocated = { "nodiscard", NULL, -1 }; /* space.c */

static int pool_file_mount(int file_fd, int *ret_mount_fd)
{
	_cleanup_close_ int loop_fd = -1;
	char device[32];
	int r = loopdev_open(file_fd, device, sizeof(device), &loop_fd);

	if (r < 0)
		return r;
	/*
	 * The kernel's thread that commits can overlook one who asks for a commit beside another
	 * (BTRFS_IOC_START_SYNC then waits for the next regular one, else 30 seconds away).
	 */
	const struct mount_option options[] = { { "source", device, -1 },
						keep_allocated,
						{ "commit", "1", -1 } };
	return mount_make("btrfs", options, ARRAY_LEN(options),
			  MOUNT_ATTR_NOATIME | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, ret_mount_fd);
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
	if (w->pool_has_quota)
		r = btrfs_groups_open(w->sys_fs_fd, w->pool_fd, &w->quotas_fd);
	if (r < 0)
		w->quotas_fd = -1; /* df inside shows the pool */
}

/* A kill at any point leaves a pool that has been mounted once, or none. */
static int pool_mount_btrfs(struct warden *w, bool exists)
{
	_cleanup_close_ int file_fd = -1, mount_fd = -1;
	int r;

	/* The kernel will parse it as a filesystem: only one that we made ourselves. */
	r = exists ? file_open_own(w->state_fd, POOL_FILE, O_RDWR, &file_fd)
		   : pool_file_make(w, &file_fd);
	if (r >= 0)
		r = pool_file_mount(file_fd, &mount_fd);
	if (r >= 0 && !exists && renameat(w->state_fd, POOL_FILE_NEW, w->state_fd, POOL_FILE) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(w->state_fd, POOL_FILE_NEW, 0);
		return r;
	}
	/* Where it is mounted already, with living sandboxes, the options of then hold. */
	r = mount_reconfigure(mount_fd, &keep_allocated, 1);
	if (r < 0)
		return r;
	w->pool_fd = openat(mount_fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	if (w->pool_fd < 0)
		return -errno;
	w->pool_mount_fd = TAKE_FD(mount_fd);
	enable_quota(w);
	return space_open(w, file_fd);
}

/*
 * The state directory is open to the daemon's group, so a daemon that was taken over can put
 * anything there first: a link is not followed, and a directory counts only when root made it.
 */
static int pool_directory_open(int state_fd, const char *path, int *ret_fd)
{
	_cleanup_close_ int fd =
		openat(state_fd, path, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return -EPERM;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int pool_open_directory(struct warden *w)
{
	int r;

	if (mkdirat(w->state_fd, POOL_DIRECTORY, 0700) < 0 && errno != EEXIST)
		return -errno;
	w->pool_has_quota = false;
	r = pool_directory_open(w->state_fd, POOL_DIRECTORY, &w->pool_fd);
	if (r < 0)
		log_error("storage: %s in the state directory must be a directory of root that no "
			  "other user may write to: remove what is there",
			  POOL_DIRECTORY);
	return r;
}

/* Taken again in the warden's own mount namespace: only there may the volumes' mounts be copied. */
int storage_enter(struct warden *w, const char *state_path)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX];
	int r;

	if (w->pool_mount_fd >= 0)
		return 0;
	if (snprintf(path, sizeof(path), "%s/" POOL_DIRECTORY, state_path) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	r = pool_directory_open(AT_FDCWD, path, &fd);
	if (r >= 0)
		r = mount_copy(fd, "", MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID, -1, &w->pool_mount_fd);
	if (r < 0)
		return r;
	(void)close(w->pool_fd);
	w->pool_fd = openat(w->pool_mount_fd, ".", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	return w->pool_fd < 0 ? -errno : 0;
}

static bool pool_file_exists(const struct warden *w)
{
	return faccessat(w->state_fd, POOL_FILE, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Volumes of an earlier start without btrfs; live sandboxes may stand on them. */
static bool directory_in_use(const struct warden *w)
{
	int fd = openat(w->state_fd, POOL_DIRECTORY,
			O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	bool found = false;

	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return false;
	}
	for (struct dirent *e = readdir(dir); e && !found; e = readdir(dir))
		found = e->d_name[0] == 'v';
	(void)closedir(dir);
	return found;
}

static int use_existing(struct warden *w)
{
	int r = pool_mount_btrfs(w, true);

	if (r < 0)
		log_error("storage pool: " POOL_FILE " cannot be mounted (%s). Sandboxes and "
			  "snapshots are in it, so nothing else is used instead. Make btrfs and "
			  "loop devices available ('cay doctor'), or move it and " SNAPSHOT_KEY_FILE
			  " away to begin with an empty pool",
			  strerror(-r));
	return r;
}

static int use_directories(struct warden *w, const char *why)
{
	log_warn("storage: plain directories (%s): disk limits are not enforced, and there are no "
		 "snapshots",
		 why);
	return pool_open_directory(w);
}

static int use_new(struct warden *w, enum storage_kind kind)
{
	char why[80];
	int r = pool_mount_btrfs(w, false);

	if (r >= 0)
		return r;
	if (kind == STORAGE_BTRFS) {
		log_error("storage = btrfs: no pool can be made here (%s); 'cay doctor' says what "
			  "is missing",
			  r == -ENOEXEC ? "mkfs.btrfs failed" : strerror(-r));
		return r;
	}
	(void)snprintf(why, sizeof(why), "no btrfs here: %s",
		       r == -ENOEXEC ? "mkfs.btrfs failed" : strerror(-r));
	return use_directories(w, why);
}

/*
 * The key was written when the storage was first opened, and is not in it. An empty pool in the
 * place of one that is missing would make all sandboxes and snapshots look deleted.
 */
static bool pool_is_lost(const struct warden *w)
{
	if (faccessat(w->state_fd, SNAPSHOT_KEY_FILE, F_OK, AT_SYMLINK_NOFOLLOW) < 0 ||
	    faccessat(w->state_fd, POOL_DIRECTORY, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return false;
	log_error("storage pool: " POOL_FILE " is gone, but " SNAPSHOT_KEY_FILE
		  " says that there was one. Sandboxes and snapshots are in it: put it back. To "
		  "begin with an empty pool and lose them, move " SNAPSHOT_KEY_FILE " away");
	return true;
}

int storage_open(struct warden *w, enum storage_kind kind)
{
	bool exists = pool_file_exists(w);

	w->pool_mount_fd = -1;
	rand_bytes(&w->next_volume, sizeof(w->next_volume));
	if (kind == STORAGE_DIRECTORY && exists) {
		log_error("storage = directory, but " POOL_FILE " exists: sandboxes and snapshots "
			  "are in it. Set storage = auto, or move the file away");
		return -EEXIST;
	}
	if (kind == STORAGE_DIRECTORY)
		return use_directories(w, "storage = directory");
	if (exists)
		return use_existing(w);
	if (pool_is_lost(w))
		return -ENOENT;
	if (kind == STORAGE_AUTO && directory_in_use(w))
		return use_directories(w, "sandboxes of an earlier start are in " POOL_DIRECTORY);
	return use_new(w, kind);
}

int storage_kind_parse(const char *text, enum storage_kind *ret)
{
	static const char *const names[] = { [STORAGE_AUTO] = "auto",
					     [STORAGE_BTRFS] = "btrfs",
					     [STORAGE_DIRECTORY] = "directory" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (strcmp(text, names[i]) == 0) {
			*ret = (enum storage_kind)i;
			return 0;
		}
	}
	return -EINVAL;
}
