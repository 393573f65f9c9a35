/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a sandbox beside its files: written into the snapshot by a job while it stands
 * still, and made again in a new slot. What has a name here is in the snapshot's directory.
 */
#ifndef CAY_WARDEN_MEMORY_CHECKPOINT_H
#define CAY_WARDEN_MEMORY_CHECKPOINT_H

#include "warden/memory/criu.h"
#include "warden/copy/snapshot.h"

#define CHECKPOINT_MEMORY "memory"     /* read-only subvolume: CRIU's images and our own files */
#define CHECKPOINT_UNFINISHED "pages"  /* the same, while it is written */
#define CHECKPOINT_GROUPS "cay-groups" /* in it: which process is in which group of the agent's */
#define CHECKPOINT_PROGRAMS "cay-bin"  /* in it: /run/cay, whose programs are mapped */

/* Before it is frozen: the agent closes what it holds from outside. why: for people, on failure. */
int checkpoint_let_go(struct warden *w, unsigned slot, char why[CRIU_WHY_SIZE]) _must_check_;

/* Of a frozen sandbox. copy is called when all of it is written and before anything of it moves. */
struct checkpoint {
	struct warden *w;
	unsigned slot;
	int dir_fd;
	bool temporary; /* needed briefly: not sealed as a read-only snapshot */
	int (*copy)(void *arg);
	void *arg;
	bool copied; /* copy was called and came back well */
	char why[CRIU_WHY_SIZE];
};
int checkpoint_take(struct checkpoint *c) _must_check_;
/* Whether the programs in its memory are those that every new sandbox gets. */
bool checkpoint_same_programs(struct warden *w, int images_fd);

/* restore.c. What a slot needs besides its volume, in the loop; and in a job: its processes. */
int restore_prepare(struct warden *w, const struct warden_request *req, unsigned slot,
		    const struct job_result *copied, const char **ret_step) _must_check_;
int restore_run(struct warden *w, const struct snapshot_order *order,
		struct job_result *result) _must_check_;
/* When the job has ended: the sandbox is there, or its slot is dying. */
int restore_finish(struct warden *w, const struct warden_request *req, unsigned slot, int error,
		   const struct job_result *result, int ret_fds[WARDEN_FDS_MAX]) _must_check_;

/* cgroups.c: members of the agent's groups, by their numbers inside. */
int groups_write(struct warden *w, unsigned slot, int dir_fd, const char *name) _must_check_;
int groups_place(struct warden *w, unsigned slot, int dir_fd, const char *name) _must_check_;

#endif
