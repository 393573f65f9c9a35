/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The build namespace: a second, private mount namespace of the warden for kernels before 6.15.
 * These kernels copy a mount, put an overlay over it or mount into it only while it is attached in
 * the caller's mount namespace. Sandboxes are not cloned from this namespace, so its mounts are not
 * copied into each of them. On newer kernels the functions below work on detached mounts directly.
 *
 * Called only by the warden, which has one thread. mount_copy() enters the namespace itself. A job
 * inherits the namespace that its parent is in.
 */
#ifndef CAY_SYS_MOUNT_BUILDNS_H
#define CAY_SYS_MOUNT_BUILDNS_H

#include "base/macro.h"

/*
 * Called once, while the caller is in the mount namespace that sandboxes start in. Mounts that were
 * passed to mount_keep() before must be passed again.
 */
int buildns_open(int proc_fd) _must_check_;
bool buildns_is_open(void);

/*
 * Enter the build namespace, and return to the namespace that sandboxes are cloned from. If the
 * kernel refuses, the process aborts instead of continuing in the wrong namespace.
 */
void buildns_enter(void);
void buildns_leave(void);

/*
 * Prepares a detached mount for being copied, mounted into or used below an overlay. The caller
 * still owns the descriptor; mount_close() releases both.
 */
int mount_keep(int fd) _must_check_;
void mount_close(int fd);
/*
 * The name of a kept mount in the build namespace (which is entered), for mount options that take
 * names.
 */
#define MOUNT_NAME_SIZE 16
void mount_name(int fd, char dst[MOUNT_NAME_SIZE]);
/*
 * Reverts mount_keep(): *fd becomes a detached tree again, with everything that was mounted into
 * it. On failure it is closed and set to -1.
 */
int mount_settle(int *fd) _must_check_;

#endif
