/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work that waits for the disk, in short-lived processes beside the warden's loop: taking a
 * snapshot, and creating a sandbox's volume from one. A job is killed when it is no longer needed
 * (its client, its sandbox or its name is gone) and when the warden dies. It inherits the lock of
 * the state directory, so the next warden starts only when it is dead.
 */
#ifndef CAY_WARDEN_COPY_JOB_H
#define CAY_WARDEN_COPY_JOB_H

#include "warden/copy/snapshot.h"

#define JOBS_MAX 256	   /* waiting and running; more are refused with EAGAIN */
#define JOBS_RUNNING_MAX 4 /* more only queue for the same disk */

/* In memory shared with the job's process. */
struct job_result {
	int32_t error;
	char step[WARDEN_STEP_SIZE]; /* the current step, and why it failed */
	uint64_t size_bytes;
	bool has_volume_bytes;
	uint64_t volume_bytes; /* what the quota says of the volume */
	uint64_t memory_bytes; /* that its memory takes beside its files */
	bool has_memory;
	char why[WARDEN_STEP_SIZE]; /* why it has no memory, although that was requested */
	int32_t pid;		    /* of the first process of one that was made again */
	uint8_t template_hash[WARDEN_HASH_SIZE];
};

void job_step(struct job_result *result, const char *step);

int jobs_open(struct warden *w) _must_check_;
/* Both reply later, or return -errno at once. */
int jobs_add_snapshot(struct warden *w, const struct warden_request *req,
		      unsigned slot) _must_check_;
int jobs_add_copy(struct warden *w, const struct warden_request *req, unsigned slot) _must_check_;
bool jobs_has(struct warden *w, const char *snapshot_id); /* is one of this name being taken? */
/*
 * Whether a snapshot of this name is being taken. It is then cancelled, and tag answered when it is
 * gone.
 */
bool jobs_call_off(struct warden *w, const char *snapshot_id, uint64_t tag);
/* Whether CRIU works here: w->criu_works, some time later. */
void jobs_add_check(struct warden *w);
bool jobs_add_resize(struct warden *w); /* of the pool: space.c. False: not now */
/* Files measured for limits.c, one slot at a time; false when it is another's turn. */
bool jobs_add_measure(struct warden *w, unsigned slot);
bool jobs_busy(const struct warden *w, unsigned slot);
bool jobs_taking(const struct warden *w, unsigned slot); /* a snapshot, which holds it frozen */
void jobs_kill_slot(struct warden *w, unsigned slot);
void jobs_kill_all(struct warden *w);			/* the client is gone: no answers */
bool jobs_ended(struct warden *w, int pid, int status); /* true: it was one of ours */
bool jobs_running(const struct warden *w);

#endif
