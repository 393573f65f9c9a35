/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mounts by descriptor. Every tree is built detached and attached last, and targets are opened
 * inside the new root without following links, so no path of a hostile image is ever resolved by
 * name. Called by the warden and its children; the caller owns returned descriptors.
 */
#ifndef CAY_SYS_MOUNT_MOUNT_H
#define CAY_SYS_MOUNT_MOUNT_H

#include "base/macro.h"

/* One fsconfig() step. */
struct mount_option {
	const char *key;
	const char *value; /* NULL with fd < 0: a flag */
	int fd;		   /* >= 0: passed by descriptor */
};

/* Creates a new file system and a detached mount of it. attributes: MOUNT_ATTR_*. */
int mount_make(const char *type, const struct mount_option *options, size_t count,
	       uint64_t attributes, int *ret_fd) _must_check_;
/* Changes options of the file system mounted at dir_fd, which must be the root of its mount. */
int mount_reconfigure(int dir_fd, const struct mount_option *options, size_t count) _must_check_;
/*
 * Makes a detached copy of the mount at dir_fd/path. idmap_fd >= 0 maps its ids through that user
 * namespace. A detached mount can be copied only after mount_keep() (buildns.h).
 */
int mount_copy(int dir_fd, const char *path, uint64_t attributes, int idmap_fd,
	       int *ret_fd) _must_check_;
/* Attaches a detached mount at a directory or file below root_fd, which is attached or was given to
 * mount_keep(); links on the way are refused. -ENOTDIR: one of the two is a directory, the other is
 * not. */
int mount_attach(int mount_fd, int root_fd, const char *target) _must_check_;
/* Makes a detached mount the root of this (empty) mount namespace and enters it. */
int mount_enter_root(int mount_fd) _must_check_;
/* The same in a namespace that is not empty: its other mounts are dropped. */
int mount_become_root(int mount_fd) _must_check_;
/*
 * Gives this process a private copy of the host's mounts. mount_become_root() then replaces all of
 * them by one root.
 */
int mount_unshare(void) _must_check_;

#endif
