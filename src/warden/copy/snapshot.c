/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots in the storage pool: snapshots/ID/ with the read-only subvolume "data" and its sealed
 * manifest. A directory is filled under a name with a dot in it, which no id has, and renamed when
 * it is complete; whatever has such a name when the warden starts is swept. snapshot_take.c fills
 * them, snapshot_copy.c makes sandboxes' volumes of them.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/rand.h"
#include "sys/file.h"
#include "sys/syscalls.h"
#include "warden/memory/checkpoint.h"
#include "warden/copy/snapshot.h"

#define DIRECTORY "snapshots"
#define SNAPSHOT_KEY_FILE_NEW "snapshot.key.new"

void snapshot_name_unfinished(char dst[SNAPSHOT_NAME_SIZE], uint64_t number)
{
	(void)snprintf(dst, SNAPSHOT_NAME_SIZE, "%016" PRIx64 ".new", number);
}

static bool is_finished(const char *name)
{
	return !strchr(name, '.');
}

int snapshot_open_below(int dir_fd, const char *name)
{
	return sys_openat2(dir_fd, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW,
			   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

/* Whatever of these there is. */
void snapshot_clear(struct warden *w, const char *name)
{
	_cleanup_close_ int fd = -1;

	if (btrfs_subvolume_remove(w->snapshots_fd, name) >= 0)
		return; /* a temporary one */
	fd = snapshot_open_below(w->snapshots_fd, name);
	if (fd < 0)
		return;
	(void)!btrfs_subvolume_remove(fd, SNAPSHOT_FLUSHED);
	(void)!btrfs_subvolume_remove(fd, CHECKPOINT_UNFINISHED);
	(void)!btrfs_subvolume_remove(fd, CHECKPOINT_MEMORY);
	(void)!btrfs_subvolume_remove(fd, SNAPSHOT_DATA);
	(void)unlinkat(fd, SNAPSHOT_MANIFEST, 0);
	if (unlinkat(w->snapshots_fd, name, AT_REMOVEDIR) < 0)
		log_warn("snapshot directory %s stays: %s", name, strerror(errno));
}

static int key_make(struct warden *w)
{
	_cleanup_close_ int fd = -1;
	int r;

	(void)unlinkat(w->state_fd, SNAPSHOT_KEY_FILE_NEW, 0);
	r = file_open_own(w->state_fd, SNAPSHOT_KEY_FILE_NEW, O_RDWR | O_CREAT | O_EXCL, &fd);
	if (r < 0)
		return r;
	rand_bytes(w->snapshot_key, sizeof(w->snapshot_key));
	if (write(fd, w->snapshot_key, sizeof(w->snapshot_key)) != sizeof(w->snapshot_key) ||
	    fsync(fd) < 0 ||
	    renameat(w->state_fd, SNAPSHOT_KEY_FILE_NEW, w->state_fd, SNAPSHOT_KEY_FILE) < 0 ||
	    fsync(w->state_fd) < 0)
		return errno ? -errno : -EIO;
	return 0;
}

static int key_open(struct warden *w)
{
	_cleanup_close_ int fd = -1;
	int r = file_open_own(w->state_fd, SNAPSHOT_KEY_FILE, O_RDONLY, &fd);

	if (r == -ENOENT)
		return key_make(w);
	if (r < 0)
		return r;
	r = (int)read(fd, w->snapshot_key, sizeof(w->snapshot_key));
	return r == sizeof(w->snapshot_key) ? 0 : -EIO;
}

int snapshot_each(struct warden *w, int (*each)(void *arg, const char *name), void *arg)
{
	int fd = w->snapshots_fd < 0 ? -1 : openat(w->snapshots_fd, ".", O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;

	if (w->snapshots_fd < 0)
		return 0;
	if (!dir) {
		if (fd >= 0)
			(void)close(fd);
		return -EIO;
	}
	for (struct dirent *e = readdir(dir); e && r >= 0; e = readdir(dir))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = each(arg, e->d_name);
	(void)closedir(dir);
	return r;
}

static int sweep_name(void *arg, const char *name)
{
	if (!is_finished(name))
		snapshot_clear(arg, name);
	return 0;
}

int snapshot_open(struct warden *w)
{
	int r;

	w->snapshots_fd = -1;
	r = key_open(w);
	if (r >= 0)
		r = temporary_open(w);
	if (r < 0 || !btrfs_is(w->pool_fd))
		return r;
	if (mkdirat(w->pool_fd, DIRECTORY, 0700) < 0 && errno != EEXIST)
		return -errno;
	w->snapshots_fd = snapshot_open_below(w->pool_fd, DIRECTORY);
	return w->snapshots_fd < 0 ? w->snapshots_fd : snapshot_each(w, sweep_name, w);
}

bool snapshot_exists(const struct warden *w, const char *snapshot_id)
{
	return temporary_exists(w, snapshot_id) ||
	       faccessat(w->snapshots_fd, snapshot_id, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

void snapshot_drop(struct warden *w, uint64_t number)
{
	char name[SNAPSHOT_NAME_SIZE];

	snapshot_name_unfinished(name, number);
	snapshot_clear(w, name);
}

/* Gone at one instant, cleared away after it. */
int snapshot_delete(struct warden *w, const char *snapshot_id)
{
	char name[SNAPSHOT_NAME_SIZE];

	if (temporary_delete(w, snapshot_id))
		return 0;
	w->space.snapshots_changed = true;
	snapshot_name_unfinished(name, w->next_volume++);
	if (renameat(w->snapshots_fd, snapshot_id, w->snapshots_fd, name) < 0)
		return errno == ENOENT ? 0 : -errno;
	snapshot_clear(w, name);
	return 0;
}
