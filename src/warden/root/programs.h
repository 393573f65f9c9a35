/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all sandboxes are given to read: the agent and its tools, which every sandbox has as
 * /run/cay, and the files that cover parts of /proc. All of it exists once, in the shared tmpfs,
 * but each slot sees it through a small read-only overlay. An inode of an overlay belongs to that
 * overlay alone, so neither a lock nor a watch on one of these files reaches another sandbox
 * (docs/decisions/044).
 */
#ifndef CAY_WARDEN_ROOT_PROGRAMS_H
#define CAY_WARDEN_ROOT_PROGRAMS_H

#include "warden/warden.h"

#define PROGRAMS_DIR "bin" /* the two layers, in the shared tmpfs */
#define PROGRAMS_MASKS "masks"

/* While the shared tmpfs is attached: copies of the layers that overlays can be made of. */
int programs_open(struct warden *w, int shared_fd) _must_check_;
int programs_make(struct warden *w, unsigned slot) _must_check_; /* the slot's overlay */
/* A detached, read-only mount of a file or directory in it. */
int programs_copy(struct warden *w, unsigned slot, const char *path, uint64_t attributes,
		  int *ret_fd) _must_check_;
/* The same of an overlay with other programs: a directory of saved memory. For one sandbox. */
int programs_copy_other(struct warden *w, int dir_fd, const char *path, int *ret_fd) _must_check_;

/* mask.c */
#define MASK_DIR ".cay" /* in /run/cay */
struct mask_source {
	const char *name;  /* in MASK_DIR, and CRIU's name for it */
	const char *outer; /* where CRIU finds it in its room */
	bool is_file;
};
extern const struct mask_source mask_sources[MASK_SOURCE_COUNT];
void mask_find(struct warden *w);				  /* fills in w->masks */
int mask_fill(const struct warden *w, int layer_fd) _must_check_; /* with MASK_DIR */

#endif
