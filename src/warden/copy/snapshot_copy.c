/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A snapshot looked at, and copied for a new sandbox: only what its manifest speaks of, as it was
 * sealed. In a process of its own (job.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "warden/memory/checkpoint.h"
#include "warden/copy/job.h"

static int read_manifest(struct warden *w, const char *snapshot_id, int dir_fd,
			 struct manifest *ret, const char **ret_reason)
{
	_cleanup_close_ int fd =
		openat(dir_fd, SNAPSHOT_MANIFEST, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	uint8_t bytes[MANIFEST_SIZE + 1];
	ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));
	int r;

	r = manifest_open(bytes, n < 0 ? 0 : (size_t)n, w->snapshot_key, ret, ret_reason);
	if (r < 0)
		return r;
	*ret_reason = "it belongs to another engine";
	if (strcmp(ret->engine, SNAPSHOT_ENGINE) != 0)
		return -EKEYREJECTED;
	*ret_reason = "its manifest is of another snapshot";
	return strcmp(ret->snapshot_id, snapshot_id) != 0 ? -EKEYREJECTED : 0;
}

int snapshot_read(struct warden *w, const char *snapshot_id, struct manifest *ret)
{
	_cleanup_close_ int dir_fd = snapshot_open_below(w->snapshots_fd, snapshot_id);
	const char *reason;

	return dir_fd < 0 ? dir_fd : read_manifest(w, snapshot_id, dir_fd, ret, &reason);
}

static int check_data(int data_fd, const struct btrfs_identity *was, const char **ret_reason)
{
	struct btrfs_identity is;
	int r = btrfs_identify(data_fd, &is);

	if (r < 0)
		return r;
	*ret_reason = "its files are those of another one";
	if (memcmp(is.uuid, was->uuid, sizeof(is.uuid)) != 0 || is.created != was->created)
		return -EKEYREJECTED;
	*ret_reason = "its files were altered";
	return is.changed != was->changed || !is.read_only ? -EKEYREJECTED : 0;
}

/* The mark lies in the overlay's own directory; the rest there is cleared away by its next mount.
 */
int snapshot_renew_work(struct warden *w, uint64_t volume)
{
	_cleanup_close_ int fd = storage_volume_open(w, volume), marks_fd = -1, mark_fd = -1;

	if (fd < 0)
		return fd;
	marks_fd = snapshot_open_below(fd, "work/work/incompat");
	mark_fd = marks_fd < 0 ? -1 : snapshot_open_below(marks_fd, "volatile");
	if (mark_fd >= 0)
		(void)unlinkat(mark_fd, "dirty", 0);
	if (marks_fd == -ENOENT ||
	    (marks_fd >= 0 &&
	     (unlinkat(marks_fd, "volatile", AT_REMOVEDIR) == 0 || errno == ENOENT)))
		return 0;
	storage_remove_tree(w, fd, "work");
	return mkdirat(fd, "work", 0700) < 0 ? -errno : 0;
}

static int check_memory(int dir_fd, const struct manifest *manifest, const char **ret_reason)
{
	_cleanup_close_ int fd = snapshot_open_below(dir_fd, CHECKPOINT_MEMORY);
	int r;

	*ret_reason = manifest->has_memory ? "its memory is missing" : "it holds no memory";
	if (!manifest->has_memory || fd < 0)
		return -EKEYREJECTED;
	r = check_data(fd, &manifest->memory, ret_reason);
	if (r < 0)
		*ret_reason = "its memory was altered";
	return r;
}

int snapshot_open_memory(struct warden *w, const char *snapshot_id)
{
	_cleanup_close_ int fd = -1;
	int r = temporary_open_memory(w, snapshot_id);

	if (r != -ENODATA)
		return r;
	fd = snapshot_open_below(w->snapshots_fd, snapshot_id);
	return fd < 0 ? fd : snapshot_open_below(fd, CHECKPOINT_MEMORY);
}

int snapshot_copy(struct warden *w, const struct snapshot_order *order, struct job_result *result)
{
	const char *reason = "its files are missing";
	_cleanup_close_ int dir_fd = -1, data_fd = -1;
	struct manifest manifest;
	int r = temporary_copy(w, order, result);

	if (r != -ENODATA)
		return r;
	job_step(result, "find snapshot");
	dir_fd = snapshot_open_below(w->snapshots_fd, order->snapshot_id);
	if (dir_fd < 0)
		return dir_fd == -ENOENT ? -ENODATA : dir_fd;
	r = read_manifest(w, order->snapshot_id, dir_fd, &manifest, &reason);
	if (r >= 0) {
		reason = "its files are missing";
		data_fd = snapshot_open_below(dir_fd, SNAPSHOT_DATA);
		r = data_fd < 0 ? -EKEYREJECTED : check_data(data_fd, &manifest.subvolume, &reason);
	}
	if (r >= 0 && order->memory)
		r = check_memory(dir_fd, &manifest, &reason);
	if (r < 0) {
		job_step(result, reason);
		return r;
	}
	job_step(result, "copy on write");
	fault_point(w, "copy.checked");
	r = storage_volume_copy(w, w->rows[order->slot].volume, data_fd);
	fault_point(w, "copy.copied");
	if (r >= 0)
		r = snapshot_renew_work(w, w->rows[order->slot].volume);
	fault_point(w, "copy.renewed");
	result->size_bytes = manifest.size_bytes;
	memcpy(result->template_hash, manifest.template_hash, sizeof(result->template_hash));
	return r;
}
