/* SPDX-License-Identifier: Apache-2.0 */
/* A process and all its descendants, from /proc. */
#ifndef CAY_ENGINE_HOST_TREE_H
#define CAY_ENGINE_HOST_TREE_H

#include <sys/types.h>

#include "base/macro.h"

struct tree_usage {
	uint64_t pids;
	uint64_t memory_bytes;
	uint64_t cpu_us;
};

/* Sums up root and its living descendants; -ESRCH if root is gone. */
int tree_usage(pid_t root, struct tree_usage *ret) _must_check_;
/*
 * Kills them all. root must be a subreaper, so that no process leaves its tree, and root_pidfd must
 * refer to it. It is stopped first, so that the tree only shrinks. Returns 0 if root is dead at the
 * end.
 */
int tree_kill(pid_t root, int root_pidfd) _must_check_;

/* Removes name below dir_fd with everything in it, never through a link. -ENOENT is 0. */
int tree_remove(int dir_fd, const char *name) _must_check_;

#endif
