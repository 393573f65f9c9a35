/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How large the pool is. Its file system is never larger than what is allocated for it on the disk
 * below, because btrfs does not survive a write that the disk refuses: it becomes read-only for all
 * sandboxes, for good. The file has the largest size from the beginning and is sparse; only the
 * part that the file system covers is allocated. A job makes the file system larger while it fills
 * and the disk has space, and smaller again when it is mostly empty. When the disk is full,
 * sandboxes get ENOSPC, and nothing else happens.
 *
 * A create is admitted while the pool is not full and has not promised too much.
 */
#include "warden/storage/space.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include "base/log.h"
#include "base/time.h"
#include "sys/mount/btrfs.h"
#include "warden/copy/job.h"

#define MIB (1ULL << 20)
#define ALIGNMENT (64 * MIB)
#define HEADROOM_SHARE 16 /* of the largest size: what is allocated ahead */
#define HEADROOM_MIN (512 * MIB)
#define HEADROOM_MAX (4096 * MIB)
#define DISK_RESERVE (128 * MIB) /* of the disk below, for the database and logs */
#define FULL_SHARE 20 /* a pool with less than this part left, or than this, admits no create */
#define FULL_BYTES (64 * MIB)
#define BUSY_MS 250	/* between two looks while sandboxes live ... */
#define QUIET_MS 2000	/* ... and while none does */
#define RETRY_MS 2000	/* after a change of size that failed */
#define SHRINK_MS 60000 /* between two steps down */

static uint64_t align_up(uint64_t bytes)
{
	return (bytes + ALIGNMENT - 1) & ~(ALIGNMENT - 1);
}

static uint64_t headroom(uint64_t max_bytes)
{
	return align_up(MIN(MAX(max_bytes / HEADROOM_SHARE, HEADROOM_MIN), HEADROOM_MAX));
}

/* ---- the file ---- */

/* A file in memory takes memory when it is allocated. */
static bool in_memory(int file_fd)
{
	struct statfs fs;

	return fstatfs(file_fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

static int allocate(int file_fd, uint64_t from, uint64_t to)
{
	if (in_memory(file_fd))
		return -EOPNOTSUPP;
	return fallocate(file_fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from)) < 0 ? -errno
											    : 0;
}

int space_begin(int file_fd, uint64_t max_bytes, uint64_t *ret_bytes)
{
	uint64_t bytes = MIN(max_bytes, headroom(max_bytes));
	int r = ftruncate(file_fd, (off_t)max_bytes) < 0 ? -errno : allocate(file_fd, 0, bytes);

	*ret_bytes = r == -EOPNOTSUPP ? max_bytes : bytes;
	return r == -EOPNOTSUPP ? 0 : r;
}

int space_open(struct warden *w, int file_fd)
{
	struct space *space = &w->space;
	struct stat st;
	int r = btrfs_size(w->pool_fd, &space->size_bytes);

	if (r < 0)
		return r;
	if (fstat(file_fd, &st) < 0)
		return -errno;
	space->file_fd = fcntl(file_fd, F_DUPFD_CLOEXEC, 0);
	if (space->file_fd < 0)
		return -errno;
	space->max_bytes = MAX((uint64_t)st.st_size, space->size_bytes);
	space->snapshots_changed = true;
	r = in_memory(file_fd) ? -EOPNOTSUPP : 0;
	if (r >= 0 && (uint64_t)st.st_blocks * 512 < space->size_bytes)
		r = space->size_bytes < space->max_bytes
			    ? allocate(file_fd, 0, space->size_bytes)
			    : -EFBIG; /* made by an older warden: made smaller first */
	space->backed = r >= 0;
	space->sparse = r == -EOPNOTSUPP;
	if (space->sparse)
		log_warn("storage pool: the file system of the state directory cannot reserve "
			 "space. When it is full, the pool is damaged: keep space free");
	return 0;
}

/* ---- the job ---- */

static int grow(const struct warden *w, uint64_t to)
{
	int r = allocate(w->space.file_fd, w->space.size_bytes, to);

	return r < 0 ? r : btrfs_resize(w->pool_fd, to);
}

static int shrink(const struct warden *w, uint64_t to)
{
	int r = btrfs_resize(w->pool_fd, to);

	if (r < 0)
		return r;
	if (!w->space.backed)
		r = allocate(w->space.file_fd, 0, to);
	(void)fallocate(w->space.file_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)to,
			(off_t)(w->space.max_bytes - to));
	return r;
}

int space_resize(struct warden *w, const struct snapshot_order *order, struct job_result *result)
{
	uint64_t to = w->space.want_bytes;

	(void)order;
	return to > w->space.size_bytes ? grow(w, to) : shrink(w, to);
}

void space_resized(struct warden *w, const struct job_result *result)
{
	struct space *space = &w->space;
	uint64_t before = space->size_bytes;
	bool grew = space->want_bytes > before;
	int64_t now_ms = time_boot_ms();

	(void)!btrfs_size(w->pool_fd, &space->size_bytes);
	space->backed |= result->error == 0 && !grew;
	space->busy = false;
	space->retry_ms = now_ms + (result->error < 0 ? RETRY_MS : 0);
	space->shrink_ms = now_ms + SHRINK_MS;
	if (result->error == 0)
		log_info("storage pool: %llu MiB, was %llu MiB",
			 (unsigned long long)(space->size_bytes / MIB),
			 (unsigned long long)(before / MIB));
	else if (grew && !space->said)
		log_warn("storage pool: it cannot be made larger: %s", strerror(-result->error));
	space->said = result->error < 0;
}

/* ---- looking ---- */

static int add_snapshot(void *arg, const char *name)
{
	struct warden *w = arg;
	struct manifest manifest;

	if (!strchr(name, '.') && snapshot_read(w, name, &manifest) >= 0)
		w->space.snapshot_bytes += manifest.size_bytes;
	return 0;
}

static uint64_t promised(struct warden *w)
{
	uint64_t bytes;

	if (w->space.snapshots_changed) {
		w->space.snapshots_changed = false;
		w->space.snapshot_bytes = 0;
		(void)snapshot_each(w, add_snapshot, w);
	}
	bytes = w->space.snapshot_bytes;
	for (unsigned i = 0; i < w->slot_top; i++)
		if (w->rows[i].state == SLOT_LIVE || w->rows[i].state == SLOT_MAKING)
			bytes += w->rows[i].disk_size_mb * MIB;
	return bytes;
}

static void measure(struct warden *w)
{
	struct space *space = &w->space;
	struct statvfs pool, disk;

	if (fstatvfs(w->pool_fd, &pool) < 0 || fstatvfs(w->state_fd, &disk) < 0)
		return;
	space->free_bytes = (uint64_t)pool.f_bavail * pool.f_frsize;
	space->disk_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
	space->read_only = pool.f_flag & ST_RDONLY;
}

/* What it may become on this disk. */
static uint64_t capacity(const struct space *space)
{
	uint64_t more = space->disk_bytes > DISK_RESERVE ? space->disk_bytes - DISK_RESERVE : 0;

	return space->sparse ? space->size_bytes : MIN(space->max_bytes, space->size_bytes + more);
}

/*
 * The size it should have; the one that it has where no change is due. least: the largest disk
 * limit of a sandbox. One that writes to memory faster than this job enlarges the pool, or faster
 * than btrfs counts it as used, then reaches its own limit first. A small pool keeps a quarter.
 */
static uint64_t wanted(const struct space *space, uint64_t least, int64_t now_ms)
{
	uint64_t ahead = headroom(space->max_bytes),
		 keep = MAX(ahead / 2, MIN(least, space->max_bytes / 4));
	uint64_t want = align_up(space->size_bytes - space->free_bytes + keep + ahead / 2);
	bool alone = want < space->size_bytes &&
		     (!space->backed ||
		      (space->free_bytes > 3 * (keep + ahead / 2) && now_ms > space->shrink_ms));

	if (space->backed && space->free_bytes < keep)
		return MAX(MIN(want, capacity(space) & ~(ALIGNMENT - 1)), space->size_bytes);
	return alone ? want : space->size_bytes;
}

int space_look_ms(const struct warden *w)
{
	int64_t wait_ms = w->space.look_ms - time_boot_ms();

	if (!w->space.max_bytes)
		return -1;
	return wait_ms < 0 ? 0 : (int)wait_ms + 1;
}

void space_look(struct warden *w)
{
	struct space *space = &w->space;
	int64_t now_ms = time_boot_ms();
	uint64_t least = 0;

	if (!space->max_bytes || now_ms < space->look_ms)
		return;
	for (unsigned i = 0; i < w->slot_top; i++)
		if (w->rows[i].state == SLOT_LIVE)
			least = MAX(least, w->rows[i].disk_size_mb * MIB);
	space->look_ms = now_ms + (least ? BUSY_MS : QUIET_MS);
	measure(w);
	if (space->sparse || space->read_only || space->busy || now_ms < space->retry_ms)
		return;
	space->want_bytes = wanted(space, least, now_ms);
	if (space->want_bytes != space->size_bytes)
		space->busy = jobs_add_resize(w);
}

void space_promised(struct warden *w, uint32_t disk_size_mb)
{
	if (disk_size_mb * MIB > w->space.free_bytes)
		w->space.look_ms = 0;
}

/* ---- admission ---- */

void space_figures(struct warden *w, struct warden_reply *reply)
{
	struct space *space = &w->space;

	if (!space->max_bytes)
		return;
	measure(w);
	reply->size_bytes = capacity(space);
	reply->disk_bytes = space->size_bytes - MIN(space->free_bytes, space->size_bytes);
	reply->memory_bytes = promised(w);
	if (space->read_only)
		(void)snprintf(reply->step, sizeof(reply->step),
			       "the storage pool is read-only after an error of the disk; see the "
			       "kernel's log");
}

int space_admit(struct warden *w, uint32_t disk_size_mb, const char **ret_step)
{
	const struct space *space = &w->space;
	uint64_t most, used;

	if (!space->max_bytes)
		return 0;
	measure(w);
	most = capacity(space);
	used = space->size_bytes - MIN(space->free_bytes, space->size_bytes);
	/* Short enough for a reply: WARDEN_STEP_SIZE. */
	*ret_step = "the storage pool is full: delete snapshots or sandboxes, or free space on its "
		    "disk";
	if (used + MAX(most / FULL_SHARE, FULL_BYTES) > most)
		return -ENOSPC;
	*ret_step = "the storage pool promised too much: delete snapshots or sandboxes, or raise "
		    "disk_overcommit";
	return promised(w) + disk_size_mb * MIB > most * w->disk_overcommit ? -ENOSPC : 0;
}
