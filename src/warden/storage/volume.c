/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Volumes of the storage pool (pool.c opens it): one per sandbox, with the overlay's upper and work
 * directories in it. On btrfs a volume is a subvolume with a quota, else a plain directory.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/log.h"
#include "base/rand.h"
#include "sys/mount/btrfs.h"
#include "sys/syscalls.h"
#include "warden/warden.h"

#define TEMPLATE_MARK "trusted.cay.template" /* above the upper layer: no sandbox sees it */
#define REMOVE_DEPTH_MAX 256		     /* descriptors held at once */

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

int storage_volume_mark(const struct warden *w, uint64_t volume,
			const uint8_t hash[WARDEN_HASH_SIZE])
{
	_cleanup_close_ int fd = storage_volume_open(w, volume);

	if (fd < 0)
		return fd;
	return fsetxattr(fd, TEMPLATE_MARK, hash, WARDEN_HASH_SIZE, 0) < 0 ? -errno : 0;
}

int storage_volume_template(const struct warden *w, uint64_t volume,
			    uint8_t ret_hash[WARDEN_HASH_SIZE])
{
	_cleanup_close_ int fd = storage_volume_open(w, volume);
	ssize_t n = fd < 0 ? -1 : fgetxattr(fd, TEMPLATE_MARK, ret_hash, WARDEN_HASH_SIZE);

	if (n < 0)
		return fd < 0 ? fd : -errno;
	return n == WARDEN_HASH_SIZE ? 0 : -EUCLEAN;
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

uint64_t storage_quota_of(const struct warden *w, uint64_t volume)
{
	_cleanup_close_ int fd = -1;
	uint64_t id = 0;

	if (!w->pool_has_quota || !control_on(w, CONTROL_DISK))
		return 0;
	fd = storage_volume_open(w, volume);
	return fd < 0 || btrfs_group_id(fd, &id) < 0 ? 0 : id;
}

int storage_quota_open(const struct warden *w, uint64_t quota)
{
	int fd = -1;

	return quota && btrfs_group_open_usage(w->quotas_fd, quota, &fd) >= 0 ? fd : -1;
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
		log_warn("volume %s could not be removed: %s", name, strerror(-r));
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
