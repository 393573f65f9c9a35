/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_SYS_MOUNT_LOOPDEV_H
#define CAY_SYS_MOUNT_LOOPDEV_H

#include "base/macro.h"

/*
 * The loop device of a backing file: the one that is already set up on it, or a new one that goes
 * away by itself with its last user. The descriptor keeps it alive until something is mounted.
 */
int loopdev_open(int file_fd, char *ret_path, size_t size, int *ret_fd) _must_check_;

#endif
