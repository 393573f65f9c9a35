/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small kernel files (proc, cgroup) and lock files, always relative to a directory descriptor. The
 * caller owns returned descriptors.
 */
#ifndef CAY_SYS_FILE_H
#define CAY_SYS_FILE_H

#include "base/macro.h"

/* Writes text in one call. */
int file_write(int dir_fd, const char *path, const char *text) _must_check_;
/* Reads at most size-1 bytes and adds a NUL; returns the length. */
int file_read(int dir_fd, const char *path, char *dst, size_t size) _must_check_;
/* The first number in a file; "max" gives UINT64_MAX. */
int file_read_u64(int dir_fd, const char *path, uint64_t *ret) _must_check_;
/* The number after "key " at the start of a line, as in memory.oom_control; -ENOENT if absent. */
int file_read_field(int dir_fd, const char *path, const char *key, uint64_t *ret) _must_check_;
/*
 * Opens one of our files in a (sticky) directory that others may write to. -EPERM for a link,
 * anything but a regular file, a file with a second name, or one that belongs to another user.
 */
int file_open_own(int dir_fd, const char *path, int flags, int *ret_fd) _must_check_;
/* Opens and locks a file that contains our pid; -EWOULDBLOCK if another process holds the lock. */
int file_lock(int dir_fd, const char *path, int *ret_fd) _must_check_;

#endif
