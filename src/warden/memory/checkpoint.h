/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a sandbox: a job writes it into the snapshot beside the files while the sandbox is
 * stopped, and creates it again in a new slot. The names below are in the snapshot's directory.
 */
#ifndef CAY_WARDEN_MEMORY_CHECKPOINT_H
#define CAY_WARDEN_MEMORY_CHECKPOINT_H

#include "warden/memory/criu.h"
#include "warden/copy/snapshot.h"

#define CHECKPOINT_MEMORY "memory"     /* read-only subvolume: CRIU's images and our own files */
#define CHECKPOINT_UNFINISHED "pages"  /* the same, while it is being written */
#define CHECKPOINT_GROUPS "cay-groups" /* in it: which process is in which group of the agent */
/* in it: /run/cay, whose programs are mapped by the processes */
#define CHECKPOINT_PROGRAMS "cay-bin"

/*
 * Before the freeze: the agent closes what it holds from outside. why: the reason for people, on
 * failure.
 */
int checkpoint_let_go(struct warden *w, unsigned slot, char why[CRIU_WHY_SIZE]) _must_check_;

/*
 * For a frozen sandbox. copy is called when everything is written and before any process continues.
 */
struct checkpoint {
	struct warden *w;
	unsigned slot;
	int dir_fd;
	bool temporary; /* needed only briefly: not sealed as a read-only snapshot */
	int (*copy)(void *arg);
	void *arg;
	bool copied; /* copy was called and succeeded */
	char why[CRIU_WHY_SIZE];
};
int checkpoint_take(struct checkpoint *c) _must_check_;
/* Whether the programs in its memory are those that every new sandbox gets. */
bool checkpoint_same_programs(struct warden *w, int images_fd);

/* restore.c. In the loop: what a slot needs besides its volume. In a job: its processes. */
int restore_prepare(struct warden *w, const struct warden_request *req, unsigned slot,
		    const struct job_result *copied, const char **ret_step) _must_check_;
int restore_run(struct warden *w, const struct snapshot_order *order,
		struct job_result *result) _must_check_;
/* When the job has ended: the sandbox exists, or its slot is dying. */
int restore_finish(struct warden *w, const struct warden_request *req, unsigned slot, int error,
		   const struct job_result *result, int ret_fds[WARDEN_FDS_MAX]) _must_check_;

/* cgroups.c: members of the agent's groups, by their pids inside. */
int groups_write(struct warden *w, unsigned slot, int dir_fd, const char *name) _must_check_;
int groups_place(struct warden *w, unsigned slot, int dir_fd, const char *name) _must_check_;

#endif
