/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots in the storage pool: snapshots/ID/ with the read-only subvolume "data" and its sealed
 * manifest. A directory is filled under a name with a dot in it, which no id has, and renamed when
 * it is complete; whatever has such a name when the warden starts is swept.
 *
 * snapshot_take() and snapshot_copy() wait for the disk: they run in a process of their own
 * (job.c), never in the warden's loop.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "sys/file.h"
#include "sys/syscalls.h"
#include "warden/checkpoint.h"
#include "warden/job.h"
#include "warden/snapshot.h"

#define DIRECTORY "snapshots"
#define KEY_FILE "snapshot.key"
#define KEY_FILE_NEW "snapshot.key.new"
#define FLUSHED "flushed" /* taken only for what it does to the page cache */
#define MANIFEST "manifest"
#define ENGINE "native"
#define FREEZE_WAIT_US 2000000
#define FREEZE_AGAIN_US 10000
#define FREEZE_SPIN_US 300
#define FEW_BYTES (1ULL << 20) /* as much may be left to write while the sandbox stands still */

void snapshot_name_unfinished(char dst[SNAPSHOT_NAME_SIZE], uint64_t number)
{
	(void)snprintf(dst, SNAPSHOT_NAME_SIZE, "%016" PRIx64 ".new", number);
}

static bool is_finished(const char *name)
{
	return !strchr(name, '.');
}

static int open_below(int dir_fd, const char *name)
{
	int fd = sys_openat2(dir_fd, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW,
			     RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

	return fd;
}

/* Whatever of these there is. */
void snapshot_clear(struct warden *w, const char *name)
{
	_cleanup_close_ int fd = -1;

	if (btrfs_subvolume_remove(w->snapshots_fd, name) >= 0)
		return; /* a passing one */
	fd = open_below(w->snapshots_fd, name);
	if (fd < 0)
		return;
	(void)!btrfs_subvolume_remove(fd, FLUSHED);
	(void)!btrfs_subvolume_remove(fd, CHECKPOINT_UNFINISHED);
	(void)!btrfs_subvolume_remove(fd, CHECKPOINT_MEMORY);
	(void)!btrfs_subvolume_remove(fd, SNAPSHOT_DATA);
	(void)unlinkat(fd, MANIFEST, 0);
	if (unlinkat(w->snapshots_fd, name, AT_REMOVEDIR) < 0)
		log_warn("snapshot directory %s stays: %s", name, strerror(errno));
}

static int key_make(struct warden *w)
{
	_cleanup_close_ int fd = -1;
	int r;

	(void)unlinkat(w->state_fd, KEY_FILE_NEW, 0);
	r = file_open_own(w->state_fd, KEY_FILE_NEW, O_RDWR | O_CREAT | O_EXCL, &fd);
	if (r < 0)
		return r;
	rand_bytes(w->snapshot_key, sizeof(w->snapshot_key));
	if (write(fd, w->snapshot_key, sizeof(w->snapshot_key)) != sizeof(w->snapshot_key) ||
	    fsync(fd) < 0 || renameat(w->state_fd, KEY_FILE_NEW, w->state_fd, KEY_FILE) < 0 ||
	    fsync(w->state_fd) < 0)
		return errno ? -errno : -EIO;
	return 0;
}

static int key_open(struct warden *w)
{
	_cleanup_close_ int fd = -1;
	int r = file_open_own(w->state_fd, KEY_FILE, O_RDONLY, &fd);

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
		r = passing_open(w);
	if (r < 0 || !btrfs_is(w->pool_fd))
		return r;
	if (mkdirat(w->pool_fd, DIRECTORY, 0700) < 0 && errno != EEXIST)
		return -errno;
	w->snapshots_fd = open_below(w->pool_fd, DIRECTORY);
	return w->snapshots_fd < 0 ? w->snapshots_fd : snapshot_each(w, sweep_name, w);
}

bool snapshot_exists(const struct warden *w, const char *snapshot_id)
{
	return passing_exists(w, snapshot_id) ||
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

	if (passing_delete(w, snapshot_id))
		return 0;
	snapshot_name_unfinished(name, w->next_volume++);
	if (renameat(w->snapshots_fd, snapshot_id, w->snapshots_fd, name) < 0)
		return errno == ENOENT ? 0 : -errno;
	snapshot_clear(w, name);
	return 0;
}

/*
 * A task forked while the group froze may have been missed, so the order is repeated. One that
 * waits in the kernel for something slow is waited for: its write is not over.
 */
static int freeze(struct warden *w, unsigned slot)
{
	int64_t begin_us = time_mono_us(), ordered_us = 0;

	for (unsigned pause_us = 20;; pause_us = MIN(pause_us * 2, 1000U)) {
		int64_t now_us = time_mono_us();

		if (now_us - begin_us > FREEZE_WAIT_US)
			return -EBUSY;
		if (!ordered_us || now_us - ordered_us > FREEZE_AGAIN_US) {
			int r = cgroup_freeze(&w->cgroups, slot, true);

			if (r < 0)
				return r;
			ordered_us = now_us;
		}
		if (cgroup_is_frozen(&w->cgroups, slot))
			return 0;
		if (now_us - begin_us < FREEZE_SPIN_US)
			(void)sched_yield(); /* seldom takes longer */
		else
			(void)usleep(pause_us);
	}
}

void snapshot_thaw(struct warden *w, unsigned slot)
{
	struct slot_row *row = &w->rows[slot];

	if (!row->held)
		return;
	if (!row->frozen)
		(void)!cgroup_freeze(&w->cgroups, slot, false);
	if (row->frozen) /* paused meanwhile: whoever came last, it ends frozen */
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
		.w = i->w, .slot = slot, .dir_fd = i->target->dir_fd, .copy = copy_files, .arg = i
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
	bool memory = order->memory;
	int r = 0;

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
	row->held = 1; /* before the fact: whoever finds it thaws */
	fault_point(w, "snapshot.held");
	r = freeze(w, order->slot);
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

	*ret = (struct manifest){ .engine = ENGINE, .created_ms = (uint64_t)time_real_ms() };
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
	fd = open_below(dir_fd, CHECKPOINT_MEMORY);
	if (fd < 0)
		return fd;
	m->has_memory = true;
	r = btrfs_identify(fd, &m->memory);
	return r < 0 ? r : btrfs_measure(fd, &result->memory_bytes);
}

int snapshot_write_manifest(struct warden *w, int dir_fd, const struct manifest *manifest)
{
	_cleanup_close_ int fd =
		openat(dir_fd, MANIFEST, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
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

int snapshot_take(struct warden *w, const struct snapshot_order *order, struct job_result *result)
{
	struct snapshot_target target = { .name = SNAPSHOT_DATA,
					  .flushed = FLUSHED,
					  .read_only = true };
	_cleanup_close_ int dir_fd = -1, data_fd = -1;
	struct manifest manifest;
	char name[SNAPSHOT_NAME_SIZE];
	int r;

	if (order->passing)
		return passing_take(w, order, result);
	snapshot_name_unfinished(name, order->number);
	if (mkdirat(w->snapshots_fd, name, 0700) < 0)
		return -errno;
	fault_point(w, "snapshot.begun");
	dir_fd = open_below(w->snapshots_fd, name);
	if (dir_fd < 0)
		return dir_fd;
	target.dir_fd = dir_fd;
	r = snapshot_take_data(w, order, &target, result);
	if (r < 0)
		return r;
	job_step(result, "describe");
	data_fd = open_below(dir_fd, SNAPSHOT_DATA);
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

static int read_manifest(struct warden *w, const struct snapshot_order *order, int dir_fd,
			 struct manifest *ret, const char **ret_reason)
{
	_cleanup_close_ int fd =
		openat(dir_fd, MANIFEST, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	uint8_t bytes[MANIFEST_SIZE + 1];
	ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof(bytes));
	int r;

	r = manifest_open(bytes, n < 0 ? 0 : (size_t)n, w->snapshot_key, ret, ret_reason);
	if (r < 0)
		return r;
	*ret_reason = "it belongs to another engine";
	if (strcmp(ret->engine, ENGINE) != 0)
		return -EKEYREJECTED;
	*ret_reason = "its manifest is of another snapshot";
	return strcmp(ret->snapshot_id, order->snapshot_id) != 0 ? -EKEYREJECTED : 0;
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
	_cleanup_close_ int fd = storage_volume_open(w, volume), marks_fd = -1;

	if (fd < 0)
		return fd;
	marks_fd = open_below(fd, "work/work/incompat");
	if (marks_fd == -ENOENT ||
	    (marks_fd >= 0 &&
	     (unlinkat(marks_fd, "volatile", AT_REMOVEDIR) == 0 || errno == ENOENT)))
		return 0;
	storage_remove_tree(w, fd, "work");
	return mkdirat(fd, "work", 0700) < 0 ? -errno : 0;
}

static int check_memory(int dir_fd, const struct manifest *manifest, const char **ret_reason)
{
	_cleanup_close_ int fd = open_below(dir_fd, CHECKPOINT_MEMORY);
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
	_cleanup_close_ int fd = open_below(w->snapshots_fd, snapshot_id);

	return fd < 0 ? fd : open_below(fd, CHECKPOINT_MEMORY);
}

int snapshot_copy(struct warden *w, const struct snapshot_order *order, struct job_result *result)
{
	const char *reason = "its files are missing";
	_cleanup_close_ int dir_fd = -1, data_fd = -1;
	struct manifest manifest;
	int r = passing_copy(w, order, result);

	if (r != -ENODATA)
		return r;
	job_step(result, "find snapshot");
	dir_fd = open_below(w->snapshots_fd, order->snapshot_id);
	if (dir_fd < 0)
		return dir_fd == -ENOENT ? -ENODATA : dir_fd;
	r = read_manifest(w, order, dir_fd, &manifest, &reason);
	if (r >= 0) {
		reason = "its files are missing";
		data_fd = open_below(dir_fd, SNAPSHOT_DATA);
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
