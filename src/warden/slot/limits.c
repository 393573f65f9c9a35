/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of a sandbox. Slots and volumes in stock are set in advance to the last requested values,
 * and a value that is already set is not written again: most creates write no limit at all.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "warden/copy/job.h"
#include "warden/storage/space.h"
#include "wire/agent.h"

#define LOOK_MS 500
#define LOOK_MAX_MS 64000

/* When the files of a slot were last measured because it was near its limit. */
struct recount {
	uint64_t usage;
	int64_t due_ms;
	int64_t wait_ms;
};

int limits_open(struct warden *w)
{
	w->recounts = calloc(SLOTS_MAX, sizeof(*w->recounts));
	w->recount_ms = 1; /* those of the previous warden */
	return w->recounts ? 0 : -ENOMEM;
}

static bool same_groups(const struct warden_limits *a, const struct warden_limits *b)
{
	return a->cpu_milli == b->cpu_milli && a->memory_mb == b->memory_mb &&
	       a->pids_max == b->pids_max;
}

int limits_set_groups(struct warden *w, unsigned slot, const struct warden_limits *limits)
{
	struct cgroup_limits groups = {
		.cpu_milli = control_on(w, CONTROL_CPU) ? limits->cpu_milli : BOUNDS_CPU_MILLI_MAX,
		.memory_bytes = control_on(w, CONTROL_MEMORY) ? (uint64_t)limits->memory_mb << 20
							      : 1ULL << 40,
		.swap_bytes = (uint64_t)w->swap_mb << 20,
		.pids_max = control_on(w, CONTROL_PIDS) ? limits->pids_max : 1U << 22,
	};
	int r;

	if (same_groups(&w->limits[slot], limits))
		return 0;
	w->limits[slot] = (struct warden_limits){ 0 }; /* unknown if this fails in the middle */
	r = cgroup_limit(&w->cgroups, slot, &groups);
	if (r >= 0 && w->rows[slot].state == SLOT_MAKING)
		r = cover_renew(w, slot, limits);
	if (r >= 0)
		w->limits[slot] = *limits;
	return r;
}

/* A copy that starts above its limit can still start: with this much space. */
#define QUOTA_LEAST_BYTES (1 << 20)

/*
 * Where shared files count, only while the sandbox is created: a later change does not grant more.
 */
static int64_t quota_at_start(const struct warden *w, const struct slot_row *row)
{
	if (!w->pool_counts_shared || row->state != SLOT_MAKING)
		return MAX(row->disk_offset, 0);
	return (int64_t)storage_volume_usage(w, row->volume);
}

static uint64_t quota_for(const struct warden *w, const struct slot_row *row, uint32_t disk_size_mb)
{
	int64_t bytes = ((int64_t)disk_size_mb << 20) + row->disk_offset;

	return (uint64_t)MAX(bytes, quota_at_start(w, row) + QUOTA_LEAST_BYTES);
}

static void note_offset(struct warden *w, unsigned slot)
{
	(void)!cgroup_note(&w->cgroups, slot, AGENT_DISK_OFFSET_NOTE,
			   (uint64_t)w->rows[slot].disk_offset);
}

/* For the agent, which shows them in df. */
static void note_disk(struct warden *w, unsigned slot, uint32_t disk_size_mb)
{
	bool enforced = w->pool_has_quota && control_on(w, CONTROL_DISK);

	(void)!cgroup_note(&w->cgroups, slot, AGENT_DISK_NOTE,
			   enforced ? (uint64_t)disk_size_mb << 20 : 0);
	if (w->rows[slot].disk_offset)
		note_offset(w, slot);
}

int limits_set(struct warden *w, unsigned slot, const struct warden_limits *limits)
{
	struct slot_row *row = &w->rows[slot];
	int r = limits_set_groups(w, slot, limits);

	w->usual = *limits;
	if (r >= 0)
		note_disk(w, slot, limits->disk_size_mb);
	if (r < 0 || row->disk_size_mb == limits->disk_size_mb)
		return r;
	row->disk_size_mb = 0;
	r = storage_volume_limit(w, row->volume, quota_for(w, row, limits->disk_size_mb));
	if (r >= 0)
		row->disk_size_mb = limits->disk_size_mb;
	space_promised(w, row->disk_size_mb);
	return r;
}

void limits_shared(struct warden *w, unsigned slot)
{
	if (!w->pool_has_quota || w->pool_counts_shared)
		return;
	w->rows[slot].shares_disk = 1;
	if (!w->recount_ms)
		w->recount_ms = time_boot_ms() + LOOK_MS;
}

void limits_recount(struct warden *w, unsigned slot, uint64_t quota_bytes, uint64_t file_bytes)
{
	struct slot_row *row = &w->rows[slot];
	int r;

	if (!w->pool_has_quota || w->pool_counts_shared)
		return;
	limits_shared(w, slot);
	row->disk_offset = (int64_t)quota_bytes - (int64_t)file_bytes;
	note_offset(w, slot);
	if (!row->disk_size_mb)
		return; /* not set yet */
	r = storage_volume_limit(w, row->volume, quota_for(w, row, row->disk_size_mb));
	if (r < 0)
		log_warn("%s: the disk limit stays as it was: %s", row->id, strerror(-r));
}

int limits_look_ms(const struct warden *w)
{
	int64_t wait_ms = w->recount_ms - time_boot_ms();

	if (!w->recount_ms)
		return -1;
	return wait_ms < 0 ? 0 : (int)wait_ms + 1;
}

/* Measured again when little space is left, and less often while nothing is written. */
static void look_at(struct warden *w, unsigned slot, int64_t now_ms)
{
	const struct slot_row *row = &w->rows[slot];
	struct recount *last = &w->recounts[slot];
	uint64_t limit = quota_for(w, row, row->disk_size_mb);
	uint64_t usage = storage_volume_usage(w, row->volume);

	if (usage + limit / 4 < limit)
		return;
	if (usage != last->usage)
		last->due_ms = last->wait_ms = 0;
	if (now_ms < last->due_ms || !jobs_add_measure(w, slot))
		return;
	last->usage = usage;
	last->wait_ms = MIN(last->wait_ms ? last->wait_ms * 2 : LOOK_MS, LOOK_MAX_MS);
	last->due_ms = now_ms + last->wait_ms;
}

void limits_look(struct warden *w)
{
	int64_t now_ms;
	bool any = false;

	if (!w->recount_ms)
		return;
	now_ms = time_boot_ms();
	if (now_ms < w->recount_ms)
		return;
	for (unsigned i = 0; i < w->slot_top; i++) {
		if (w->rows[i].state != SLOT_LIVE || !w->rows[i].shares_disk)
			continue;
		any = true;
		if (!w->rows[i].frozen)
			look_at(w, i, now_ms);
	}
	w->recount_ms = any ? now_ms + LOOK_MS : 0;
}

uint64_t limits_disk_usage(const struct warden *w, unsigned slot)
{
	const struct slot_row *row = &w->rows[slot];
	int64_t bytes = (int64_t)storage_volume_usage(w, row->volume) - row->disk_offset;

	return bytes < 0 ? 0 : (uint64_t)bytes;
}
