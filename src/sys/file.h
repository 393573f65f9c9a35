/* SPDX-License-Identifier: Apache-2.0 */
/* Small kernel files (proc, cgroup) and lock files, always relative to a directory descriptor. */
#ifndef CAY_SYS_FILE_H
#define CAY_SYS_FILE_H

#include "base/macro.h"

/* Writes text in one call. */
int file_write(int dir_fd, const char *path, const char *text) _must_check_;
/* Reads at most size-1 bytes and ends them with NUL; returns the length. */
int file_read(int dir_fd, const char *path, char *dst, size_t size) _must_check_;
/* The first number in a file; "max" gives UINT64_MAX. */
int file_read_u64(int dir_fd, const char *path, uint64_t *ret) _must_check_;
/* The number behind "key " at the start of a line, as in memory.oom_control. -ENOENT when absent.
 */
int file_read_field(int dir_fd, const char *path, const char *key, uint64_t *ret) _must_check_;
/*
 * Opens a file of our own in a directory that others may write to (sticky): refuses links, and
 * whatever is not a regular file, has a second name, or belongs to somebody else. -EPERM then.
 */
int file_open_own(int dir_fd, const char *path, int flags, int *ret_fd) _must_check_;
/* Opens and locks a file that holds our pid; -EWOULDBLOCK when another process holds it. */
int file_lock(int dir_fd, const char *path, int *ret_fd) _must_check_;

#endif
