/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The slot table is a file mapped shared: a row is written by plain stores, which survive kill -9
 * of the warden at any instant and cost no system call. After a reboot, or a new start of the
 * container, which the ids in the header tell, it is good for one thing: to know whose the files
 * are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/time.h"
#include "sys/file.h"
#include "warden/copy/snapshot.h"
#include "wire/agent.h"

#define TABLE_NAME "warden.slots"
#define TABLE_VERSION 8

struct table_header {
	uint32_t version;
	uint32_t row_size;
	char boot_id[40];
	char start_id[TIME_START_ID_SIZE]; /* of pid 1; empty: written by an older warden */
	char owner[WARDEN_ID_SIZE];	   /* owner.c; empty: likewise */
	uint8_t pad[4096 - 48 - TIME_START_ID_SIZE - WARDEN_ID_SIZE];
};

struct table {
	struct table_header header;
	struct slot_row rows[SLOTS_MAX];
};

static_assert(sizeof(struct table_header) == 4096, "rows start on a page");

/* A container that was started again has lost its processes as a host that was rebooted has. */
static bool same_start(const struct table_header *header, const char boot_id[40],
		       const char start_id[TIME_START_ID_SIZE])
{
	return memcmp(header->boot_id, boot_id, sizeof(header->boot_id)) == 0 &&
	       (!header->start_id[0] || !start_id[0] ||
		memcmp(header->start_id, start_id, sizeof(header->start_id)) == 0);
}

/* The owner stays: it tells whose pool is missing if that is gone. */
static void reset(struct table *table, const char boot_id[40])
{
	memset(table->rows, 0, sizeof(table->rows));
	table->header.version = TABLE_VERSION;
	table->header.row_size = sizeof(struct slot_row);
	memcpy(table->header.boot_id, boot_id, sizeof(table->header.boot_id));
}

static int make_arrays(struct warden *w)
{
	w->userns_fd = malloc(SLOTS_MAX * sizeof(int));
	w->covers_fd = malloc(SLOTS_MAX * sizeof(int));
	w->programs_fd = malloc(SLOTS_MAX * sizeof(int));
	w->spaces = malloc(SLOTS_MAX * sizeof(*w->spaces));
	w->views = malloc(SLOTS_MAX * sizeof(*w->views));
	w->doors = malloc(SLOTS_MAX * sizeof(*w->doors));
	w->outlooks = malloc(SLOTS_MAX * sizeof(*w->outlooks));
	w->roots = calloc(SLOTS_MAX, sizeof(*w->roots));
	w->limits = calloc(SLOTS_MAX, sizeof(*w->limits));
	w->bonds = calloc(SLOTS_MAX, sizeof(*w->bonds));
	return w->userns_fd && w->covers_fd && w->programs_fd && w->spaces && w->views &&
			       w->doors && w->outlooks && w->roots && w->limits && w->bonds
		       ? 0
		       : -ENOMEM;
}

int slots_open(struct warden *w)
{
	_cleanup_close_ int fd = -1;
	char boot_id[40] = "", start_id[TIME_START_ID_SIZE] = "";
	struct table *table;
	bool readable;
	int r = file_open_own(w->state_fd, TABLE_NAME, O_RDWR | O_CREAT, &fd);

	if (r < 0)
		return r;
	if (ftruncate(fd, sizeof(struct table)) < 0)
		return -errno;
	/* A store to a hole of the file would end the warden if the disk is full. */
	r = posix_fallocate(fd, 0, sizeof(struct table));
	if (r && r != EOPNOTSUPP)
		log_warn(TABLE_NAME ": its space cannot be reserved: %s", strerror(r));
	table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (table == MAP_FAILED)
		return -errno;
	r = file_read(w->proc_fd, "sys/kernel/random/boot_id", boot_id, sizeof(boot_id));
	if (r < 0)
		return r;
	readable = table->header.version == TABLE_VERSION &&
		   table->header.row_size == sizeof(struct slot_row);
	if (!readable)
		memset(table, 0, sizeof(*table));
	/* Before the rows are used: those of another database name volumes that are not theirs. */
	w->table_owner = table->header.owner;
	r = owner_open(w);
	if (r < 0)
		return r;
	time_start_id(start_id);
	if (!readable || !same_start(&table->header, boot_id, start_id)) {
		salvage(w, table->rows); /* a kill in it repeats it */
		reset(table, boot_id);
	}
	memcpy(table->header.start_id, start_id, sizeof(start_id));
	w->rows = table->rows;
	if (make_arrays(w) < 0)
		return -ENOMEM;
	w->slot_top = SLOTS_MAX;
	for (unsigned i = 0; i < SLOTS_MAX; i++) {
		w->userns_fd[i] = w->covers_fd[i] = w->programs_fd[i] = w->roots[i].fd = -1;
		w->spaces[i] = (struct netspace)NETSPACE_NONE;
		w->views[i] = (struct cgroup_view){ -1, -1 };
		w->doors[i] = (struct cgroup_door)CGROUP_DOOR_NONE;
		w->outlooks[i] = (struct outlook){ .lower_fd = -1, .pool_fd = -1 };
		w->rows[i].id[WARDEN_ID_SIZE - 1] = '\0';
	}
	return 0;
}

void slots_used(struct warden *w, unsigned slot)
{
	if (slot >= w->slot_top)
		w->slot_top = slot + 1;
}

void slots_trim(struct warden *w)
{
	while (w->slot_top && w->rows[w->slot_top - 1].state == SLOT_FREE &&
	       !w->rows[w->slot_top - 1].has_cgroups)
		w->slot_top--;
}

int slots_find(const struct warden *w, const char *id)
{
	for (unsigned i = 0; i < w->slot_top; i++) {
		uint32_t state = w->rows[i].state;

		if ((state == SLOT_LIVE || state == SLOT_MAKING) && strcmp(w->rows[i].id, id) == 0)
			return (int)i;
	}
	return -ENOENT;
}

int slots_find_live(const struct warden *w, const char *id)
{
	int slot = slots_find(w, id);

	return slot >= 0 && w->rows[slot].state != SLOT_LIVE ? -ENOENT : slot;
}

/*
 * Between clone and its first step a child is in none of its cgroups yet. It is known by being
 * first in a pid namespace of its own while still running the warden's program.
 */
static bool unborn(const struct warden *w, int pid)
{
	char path[32], text[2048], *at;
	struct stat its, ours;
	int outer, inner;

	(void)snprintf(path, sizeof(path), "%d/status", pid);
	if (file_read(w->proc_fd, path, text, sizeof(text)) < 0)
		return false;
	at = strstr(text, "\nNSpid:");
	if (!at || sscanf(at, "\nNSpid: %d %d", &outer, &inner) != 2 || outer != pid || inner != 1)
		return false;
	(void)snprintf(path, sizeof(path), "%d/exe", pid);
	return fstatat(w->proc_fd, path, &its, 0) == 0 &&
	       fstatat(w->proc_fd, "self/exe", &ours, 0) == 0 && its.st_dev == ours.st_dev &&
	       its.st_ino == ours.st_ino;
}

bool slots_alive(const struct warden *w, unsigned slot)
{
	int pid = w->rows[slot].pid;

	if (w->bonds[slot] != BOND_NONE)
		return w->bonds[slot] == BOND_CHILD;
	/* By membership of the cgroup, not by number alone: pids are used again. */
	return pid > 0 && (cgroup_has_pid(&w->cgroups, slot, pid) || unborn(w, pid));
}

void slots_recover(struct warden *w)
{
	unsigned kept = 0, dropped = 0;

	slots_trim(w);
	for (unsigned i = 0; i < w->slot_top; i++) {
		struct slot_row *row = &w->rows[i];

		switch ((enum slot_state)row->state) {
		case SLOT_FREE:
			continue;
		case SLOT_BLANK:
			row->state =
				SLOT_FREE; /* its user namespace died with the warden before us */
			continue;
		case SLOT_LIVE:
			if (slots_alive(w, i)) {
				/* Held by a snapshot that died with its warden. */
				row->held |= !row->frozen && cgroup_is_frozen(&w->cgroups, i);
				snapshot_thaw(w, i);
				kept++;
				continue;
			}
			break;
		case SLOT_MAKING: /* killed in the middle: whatever exists of it goes */
		case SLOT_DYING:
			break;
		}
		row->state = SLOT_DYING;
		(void)!sweep_kill(w, i);
		dropped++;
	}
	if (kept || dropped)
		log_info("found %u living sandboxes, sweeping %u", kept, dropped);
}

/* Recorded before it continues: its clocks were stopped. */
void slots_note_frozen(struct warden *w, unsigned slot)
{
	struct slot_row *row = &w->rows[slot];
	int r;

	if (!row->frozen)
		return;
	row->frozen_us += (uint64_t)MAX(time_mono_us() - row->frozen_since_us, 0);
	row->frozen_since_us = time_mono_us();
	r = cgroup_note(&w->cgroups, slot, AGENT_FROZEN_NOTE, row->frozen_us);
	if (r < 0)
		log_debug("%s: its clocks went on: %s", row->id, strerror(-r));
}
