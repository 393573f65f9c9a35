/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After another boot of the host nothing runs of what the slot table says, but the files are there.
 * Each volume of a sandbox that lived becomes the snapshot "r-ID", and the daemon decides what
 * becomes of the sandbox. Every step can be repeated: the name is there before the files, what has
 * a name but no files is started again, and only what stands in its place can be made read-only.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "sys/mount/btrfs.h"
#include "warden/copy/snapshot.h"

#define PREFIX "r-"

static int publish(struct warden *w, const struct slot_row *row, int volume_fd, const char *id)
{
	struct snapshot_order order = { .number = w->next_volume++ };
	char name[SNAPSHOT_NAME_SIZE];
	struct manifest manifest;
	_cleanup_close_ int dir_fd = -1;
	int r;

	memcpy(order.snapshot_id, id, sizeof(order.snapshot_id));
	memcpy(order.sandbox_id, row->id, sizeof(order.sandbox_id));
	snapshot_name_unfinished(name, order.number);
	if (mkdirat(w->snapshots_fd, name, 0700) < 0)
		return -errno;
	dir_fd = openat(w->snapshots_fd, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (dir_fd < 0)
		return -errno;
	r = snapshot_describe(&order, row->template_hash, volume_fd, &manifest);
	if (r >= 0)
		r = snapshot_write_manifest(w, dir_fd, &manifest);
	if (r < 0)
		return r;
	fault_point(w, "salvage.described");
	if (renameat(w->snapshots_fd, name, w->snapshots_fd, id) < 0)
		return -errno;
	fault_point(w, "salvage.named");
	return storage_volume_give(w, row->volume, dir_fd, SNAPSHOT_DATA);
}

static int seal(struct warden *w, const char *id)
{
	char path[WARDEN_ID_SIZE + sizeof("/" SNAPSHOT_DATA)];
	_cleanup_close_ int fd = -1;

	(void)snprintf(path, sizeof(path), "%s/" SNAPSHOT_DATA, id);
	fd = openat(w->snapshots_fd, path, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : btrfs_set_read_only(fd);
}

static int salvage_row(struct warden *w, const struct slot_row *row)
{
	_cleanup_close_ int volume_fd = -1;
	char id[WARDEN_ID_SIZE] = PREFIX;
	int r;

	if (memchr(row->id, '\0', sizeof(row->id) - strlen(PREFIX)) == NULL || !row->id[0] ||
	    strchr(row->id, '/') || strchr(row->id, '.'))
		return -EINVAL;
	memcpy(id + strlen(PREFIX), row->id, strlen(row->id));
	volume_fd = storage_volume_open(w, row->volume);
	if (volume_fd < 0 && volume_fd != -ENOENT) /* which is so where a kill was in the middle */
		return volume_fd;
	if (volume_fd >= 0) {
		snapshot_clear(w, id);
		r = publish(w, row, volume_fd, id);
		if (r < 0) {
			snapshot_clear(w, id);
			return r;
		}
	}
	fault_point(w, "salvage.moved");
	return seal(w, id);
}

int salvage_usage(struct warden *w, const char *id, uint64_t *ret_bytes)
{
	char path[2 * WARDEN_ID_SIZE + sizeof(PREFIX SNAPSHOT_DATA)];
	_cleanup_close_ int fd = -1;

	if (w->snapshots_fd < 0)
		return -ENOENT;
	(void)snprintf(path, sizeof(path), PREFIX "%s/" SNAPSHOT_DATA, id);
	fd = openat(w->snapshots_fd, path, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : btrfs_usage(fd, ret_bytes);
}

int salvage_one(struct warden *w, const struct slot_row *row)
{
	int r = w->snapshots_fd < 0 ? -EOPNOTSUPP : salvage_row(w, row);

	return r < 0 ? r : btrfs_commit(w->snapshots_fd);
}

void salvage(struct warden *w, const struct slot_row *rows)
{
	unsigned kept = 0;

	if (w->snapshots_fd < 0)
		return;
	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		int r;

		if (rows[i].state != SLOT_LIVE || !rows[i].volume)
			continue;
		r = salvage_row(w, &rows[i]);
		if (r < 0)
			log_warn("the files of a sandbox from before the host's restart are lost: "
				 "%s",
				 strerror(-r));
		kept += r >= 0;
	}
	if (!kept)
		return;
	if (btrfs_commit(w->snapshots_fd) < 0)
		log_warn("what was saved is not on the disk yet");
	log_info("the host was restarted: the files of %u sandboxes are kept", kept);
}
