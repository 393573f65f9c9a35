/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The child that becomes a sandbox, between its parts, which spawn.c collects, and its first
 * process.
 */
#ifndef CAY_WARDEN_SLOT_CHILD_H
#define CAY_WARDEN_SLOT_CHILD_H

#include "warden/warden.h"

struct birth {
	struct warden *w;
	unsigned slot;
	const char *id;
	int userns_fd;
	struct netns net;
	int tell_fd; /* the agent's socket, as numbered in the child */
	struct cgroup_view view;
	int disk_fd;	 /* shows what its quota counts; -1: none */
	bool is_copy;	 /* of a snapshot */
	bool has_covers; /* /sys is the slot's tmpfs (cover.c) */
	int root_fd;	 /* the overlay with everything mounted in it, still detached */
	int covers_fd;	 /* where the child finds the files that cover others; -1: not open */
};

/*
 * Before any other descriptor is opened: reserves the low numbers for the child, which shares the
 * table with the warden for a while.
 */
int child_reserve_descriptors(struct warden *w) _must_check_;
/* Returns its pid when the agent runs, or failed to start. */
int child_clone(struct birth *b, int *ret_pidfd) _must_check_;

#endif
