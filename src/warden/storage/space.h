/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The size of the pool's file system and of what it has promised: space.c. Called by the pool when
 * it is opened, by the event loop, and by requests that need space.
 */
#ifndef CAY_WARDEN_STORAGE_SPACE_H
#define CAY_WARDEN_STORAGE_SPACE_H

#include "warden/warden.h"

struct snapshot_order;

/* Gives a new file its size and allocates the first part of it, for a file system of *ret_bytes. */
int space_begin(int file_fd, uint64_t max_bytes, uint64_t *ret_bytes) _must_check_;
int space_open(struct warden *w, int file_fd) _must_check_; /* of a pool that is mounted */
int space_look_ms(const struct warden *w); /* until the next look; -1: there is no pool */
/* A sandbox has this limit: the pool is enlarged at once if it has less free than that. */
void space_promised(struct warden *w, uint32_t disk_size_mb);
void space_look(struct warden *w); /* may begin to change the size */
/* In a job's process, and when that has ended. */
int space_resize(struct warden *w, const struct snapshot_order *order,
		 struct job_result *result) _must_check_;
void space_resized(struct warden *w, const struct job_result *result);
/* Of HELLO: capacity, what is used, what is promised, and what is wrong with the pool. */
void space_figures(struct warden *w, struct warden_reply *reply);
/* -ENOSPC: nothing more of this size can be made, and *ret_step says what to do. */
int space_admit(struct warden *w, uint32_t disk_size_mb, const char **ret_step) _must_check_;

#endif
