/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_SYS_MOUNT_LOOPDEV_H
#define CAY_SYS_MOUNT_LOOPDEV_H

#include "base/macro.h"

/*
 * Opens the loop device of a backing file: an existing one, or a new one that the kernel removes
 * with its last user. The descriptor keeps it alive until it is mounted; the caller owns it.
 */
int loopdev_open(int file_fd, char *ret_path, size_t size, int *ret_fd) _must_check_;

#endif
