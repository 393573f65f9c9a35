/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The build namespace: a second, private mount namespace of the warden for kernels before 6.15.
 * Those copy a mount, lay an overlay over it or mount into it only while it is attached in the
 * mount namespace of the caller. Sandboxes are not cloned from it, so that the mounts in it are
 * not copied into each of them. Where the kernel can do without, every function here does nothing
 * more than its name says of a detached mount.
 *
 * Called by the warden alone, which has one thread; mount_copy() enters the namespace by itself. A
 * job inherits its parent's place.
 */
#ifndef CAY_SYS_MOUNT_BUILDNS_H
#define CAY_SYS_MOUNT_BUILDNS_H

#include "base/macro.h"

/*
 * Once, when the caller's own mount namespace is the one that sandboxes start in. Mounts given to
 * mount_keep() before that must be given again.
 */
int buildns_open(int proc_fd) _must_check_;
bool buildns_is_open(void);

/* Goes there, or back to the namespace that sandboxes are cloned from. Both end the process where
 * the kernel refuses: it would go on in the wrong one. */
void buildns_enter(void);
void buildns_leave(void);

/*
 * Makes it possible to copy a detached mount, to mount into it and to have it below an overlay. The
 * descriptor stays the caller's; mount_close() ends both.
 */
int mount_keep(int fd) _must_check_;
void mount_close(int fd);
/* The name of a kept mount in the build namespace, which is open: for options that take names. */
#define MOUNT_NAME_SIZE 16
void mount_name(int fd, char dst[MOUNT_NAME_SIZE]);
/*
 * The end of mount_keep(): *fd becomes a detached tree again, with everything that was mounted into
 * it. On failure it is closed and -1.
 */
int mount_settle(int *fd) _must_check_;

#endif
