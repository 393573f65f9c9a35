/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking a snapshot: the sandbox stands still, its files are copied on write and its memory is
 * written, at one instant; then it is described and named. It waits for the disk: in a process of
 * its own (job.c), never in the warden's loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/time.h"
#include "sys/syscalls.h"
#include "warden/memory/checkpoint.h"
#include "warden/copy/job.h"

/* A task that waits in the kernel for something slow is waited for: its write is not over. */
#define FREEZE_WAIT_US 2000000
#define FEW_BYTES (1ULL << 20) /* as much may be left to write while the sandbox stands still */

void snapshot_thaw(struct warden *w, unsigned slot)
{
	struct slot_row *row = &w->rows[slot];

	if (!row->held)
		return;
	if (!row->frozen)
		(void)!cgroup_freeze(&w->cgroups, slot, false);
	if (row->frozen) /* paused meanwhile: in either order it ends frozen */
		(void)!cgroup_freeze(&w->cgroups, slot, true);
	row->held = 0;
}

static void count_volume(struct warden *w, int volume_fd, struct job_result *result)
{
	uint64_t bytes = 0;

	result->has_volume_bytes = w->pool_has_quota && btrfs_usage(volume_fd, &bytes) >= 0;
	result->volume_bytes = bytes;
}

struct instant {
	struct warden *w;
	int volume_fd;
	const struct snapshot_target *target;
	struct job_result *result;
};

static int copy_files(void *arg)
{
	struct instant *i = arg;
	int r;

	job_step(i->result, "copy on write");
	r = btrfs_snapshot(i->volume_fd, i->target->dir_fd, i->target->name, i->target->read_only);
	count_volume(i->w, i->volume_fd, i->result); /* at the same instant */
	return r;
}

/* The memory, and the files with it; what has no memory to be kept keeps its files. */
static int copy_both(struct instant *i, unsigned slot)
{
	struct checkpoint c = {
		.w = i->w,
		.slot = slot,
		.dir_fd = i->target->dir_fd,
		.temporary = !i->target->read_only,
		.copy = copy_files,
		.arg = i,
	};
	int r;

	job_step(i->result, "write memory");
	r = checkpoint_take(&c);
	i->result->has_memory = r >= 0;
	if (r >= 0 || r == -ECANCELED)
		return r;
	(void)snprintf(i->result->why, sizeof(i->result->why), "%s", c.why);
	(void)!btrfs_subvolume_remove(c.dir_fd, CHECKPOINT_UNFINISHED);
	(void)!btrfs_subvolume_remove(c.dir_fd, CHECKPOINT_MEMORY);
	return c.copied ? 0 : copy_files(i);
}

/* The instant: nothing of the sandbox runs, and little is left to write. */
int snapshot_take_data(struct warden *w, const struct snapshot_order *order,
		       const struct snapshot_target *target, struct job_result *result)
{
	struct slot_row *row = &w->rows[order->slot];
	_cleanup_close_ int volume_fd = -1;
	struct instant instant = { w, -1, target, result };
	bool memory = order->memory && w->criu_works;
	int r = 0;

	if (order->memory && !memory)
		(void)snprintf(result->why, sizeof(result->why), "CRIU does not work on this host");
	job_step(result, "open volume");
	volume_fd = storage_volume_open(w, row->volume);
	if (volume_fd < 0)
		return volume_fd;
	if (!row->frozen && cgroup_unwritten(&w->cgroups, order->slot) > FEW_BYTES) {
		job_step(result, "write out");
		r = btrfs_snapshot(volume_fd, target->dir_fd, target->flushed, true);
		fault_point(w, "snapshot.flushed");
		if (r >= 0)
			r = btrfs_subvolume_remove(target->dir_fd, target->flushed);
		if (r < 0)
			return r;
	}
	if (memory) {
		job_step(result, "let go");
		memory = checkpoint_let_go(w, order->slot, result->why) >= 0;
		fault_point(w, "checkpoint.let_go");
	}
	job_step(result, "freeze");
	row->held = 1; /* first: a warden that finds it thaws it */
	fault_point(w, "snapshot.held");
	r = cgroup_freeze_wait(&w->cgroups, order->slot, FREEZE_WAIT_US);
	fault_point(w, "snapshot.frozen");
	instant.volume_fd = volume_fd;
	if (r >= 0)
		r = memory ? copy_both(&instant, order->slot) : copy_files(&instant);
	fault_point(w, "snapshot.copied");
	snapshot_thaw(w, order->slot);
	fault_point(w, "snapshot.thawed");
	return r;
}

int snapshot_describe(const struct snapshot_order *order,
		      const uint8_t template_hash[WARDEN_HASH_SIZE], int data_fd,
		      struct manifest *ret)
{
	struct utsname host;
	int r;

	*ret = (struct manifest){ .engine = SNAPSHOT_ENGINE,
				  .created_ms = (uint64_t)time_real_ms() };
	if (uname(&host) == 0)
		(void)snprintf(ret->kernel, sizeof(ret->kernel), "%.*s",
			       (int)sizeof(ret->kernel) - 1, host.release);
	memcpy(ret->snapshot_id, order->snapshot_id, sizeof(ret->snapshot_id));
	memcpy(ret->sandbox_id, order->sandbox_id, sizeof(ret->sandbox_id));
	memcpy(ret->template_hash, template_hash, sizeof(ret->template_hash));
	r = btrfs_identify(data_fd, &ret->subvolume);
	return r < 0 ? r : btrfs_measure(data_fd, &ret->size_bytes);
}

static int describe_memory(int dir_fd, struct manifest *m, struct job_result *result)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (!result->has_memory)
		return 0;
	fd = snapshot_open_below(dir_fd, CHECKPOINT_MEMORY);
	if (fd < 0)
		return fd;
	m->has_memory = true;
	r = btrfs_identify(fd, &m->memory);
	return r < 0 ? r : btrfs_measure(fd, &result->memory_bytes);
}

int snapshot_write_manifest(struct warden *w, int dir_fd, const struct manifest *manifest)
{
	_cleanup_close_ int fd =
		openat(dir_fd, SNAPSHOT_MANIFEST, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	uint8_t bytes[MANIFEST_SIZE];

	manifest_seal(bytes, manifest, w->snapshot_key);
	if (fd < 0)
		return -errno;
	if (write(fd, bytes, MANIFEST_SIZE) != MANIFEST_SIZE)
		return errno ? -errno : -EIO;
	return fsync(fd) < 0 ? -errno : 0;
}

static int publish(struct warden *w, const struct snapshot_order *order, const char *name)
{
	if (renameat2(w->snapshots_fd, name, w->snapshots_fd, order->snapshot_id,
		      RENAME_NOREPLACE) < 0)
		return -errno;
	fault_point(w, "snapshot.named");
	return btrfs_commit(w->snapshots_fd);
}

int snapshot_make_directory(struct warden *w, const char *name)
{
	if (mkdirat(w->snapshots_fd, name, 0700) < 0)
		return -errno;
	fault_point(w, "snapshot.begun");
	return snapshot_open_below(w->snapshots_fd, name);
}

int snapshot_take(struct warden *w, const struct snapshot_order *order, struct job_result *result)
{
	struct snapshot_target target = { .name = SNAPSHOT_DATA,
					  .flushed = SNAPSHOT_FLUSHED,
					  .read_only = true };
	_cleanup_close_ int dir_fd = -1, data_fd = -1;
	struct manifest manifest;
	char name[SNAPSHOT_NAME_SIZE];
	int r;

	if (order->temporary)
		return temporary_take(w, order, result);
	snapshot_name_unfinished(name, order->number);
	dir_fd = snapshot_make_directory(w, name);
	if (dir_fd < 0)
		return dir_fd;
	target.dir_fd = dir_fd;
	r = snapshot_take_data(w, order, &target, result);
	if (r < 0)
		return r;
	job_step(result, "describe");
	data_fd = snapshot_open_below(dir_fd, SNAPSHOT_DATA);
	if (data_fd < 0)
		return data_fd;
	r = snapshot_describe(order, w->rows[order->slot].template_hash, data_fd, &manifest);
	if (r >= 0)
		r = describe_memory(dir_fd, &manifest, result);
	if (r < 0)
		return r;
	job_step(result, "write manifest");
	r = snapshot_write_manifest(w, dir_fd, &manifest);
	fault_point(w, "snapshot.described");
	if (r >= 0)
		r = publish(w, order, name);
	fault_point(w, "snapshot.done");
	if (r < 0)
		return r;
	result->size_bytes = manifest.size_bytes;
	memcpy(result->template_hash, manifest.template_hash, sizeof(result->template_hash));
	return 0;
}

int snapshot_measure(struct warden *w, const struct snapshot_order *order,
		     struct job_result *result)
{
	_cleanup_close_ int fd = storage_volume_open(w, w->rows[order->slot].volume);
	uint64_t before = 0;
	int r;

	if (fd < 0)
		return fd;
	r = btrfs_usage(fd, &before);
	if (r >= 0)
		r = btrfs_measure(fd, &result->size_bytes);
	count_volume(w, fd, result);
	/* What changed meanwhile must not raise the limit. */
	result->volume_bytes = MIN(before, result->volume_bytes);
	return r;
}
