/* SPDX-License-Identifier: Apache-2.0 */
/* /dev of a sandbox: its nodes, which are in the shared tmpfs, and the size of /dev/shm. */
#ifndef CAY_WARDEN_ROOT_DEV_H
#define CAY_WARDEN_ROOT_DEV_H

#include "warden/warden.h"

/* dev.c */
#define DEV_PATH_SIZE 24
int dev_open(int shared_fd) _must_check_;
int dev_make(struct warden *w, unsigned slot) _must_check_;  /* each slot has its own */
int dev_renew(struct warden *w, unsigned slot) _must_check_; /* for its next owner */
/* A detached mount of them, owned by the slot's root. */
int dev_copy(struct warden *w, unsigned slot, int *ret_fd) _must_check_;

/* shm.c */
struct shm_size {
	char bytes[24], inodes[24]; /* as options of its tmpfs */
};
void shm_size_of(uint32_t memory_mb, struct shm_size *ret);
/* Of a root without an owner yet. */
int shm_size_root(struct root *root, uint32_t memory_mb) _must_check_;
/* Of a running sandbox. Fails if more is in use than it may have now: it then stays unchanged. */
int shm_resize(const struct warden *w, unsigned slot, uint32_t memory_mb) _must_check_;

#endif
