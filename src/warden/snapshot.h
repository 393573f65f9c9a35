/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WARDEN_SNAPSHOT_H
#define CAY_WARDEN_SNAPSHOT_H

#include "warden/warden.h"

/* What a job is told. */
struct snapshot_order {
	unsigned slot;
	uint64_t number; /* names what is unfinished */
	char sandbox_id[WARDEN_ID_SIZE];
	char snapshot_id[WARDEN_ID_SIZE];
};

struct job_result;

/* Sweeps what is half done. Without btrfs there are no snapshots: w->snapshots_fd is then -1. */
int snapshot_open(struct warden *w) _must_check_;
bool snapshot_exists(const struct warden *w, const char *snapshot_id);
/* Names with a dot are unfinished ones. */
int snapshot_each(struct warden *w, int (*each)(void *arg, const char *name), void *arg);
int snapshot_delete(struct warden *w,
		    const char *snapshot_id) _must_check_; /* 0 when there is none */
void snapshot_drop(struct warden *w, uint64_t number);	   /* what there is of an unfinished one */
/* Ends the hold of a snapshot, its own or one that died: the sandbox goes on, unless it is paused.
 */
void snapshot_thaw(struct warden *w, unsigned slot);

/* In a job's process: the files of a slot, as a snapshot; and back, as the slot's volume. */
int snapshot_take(struct warden *w, const struct snapshot_order *order,
		  struct job_result *result) _must_check_;
int snapshot_copy(struct warden *w, const struct snapshot_order *order,
		  struct job_result *result) _must_check_;
/* Only looks: what the files of a slot take by now, and what the quota says. */
int snapshot_measure(struct warden *w, const struct snapshot_order *order,
		     struct job_result *result) _must_check_;

#endif
