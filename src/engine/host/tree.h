/* SPDX-License-Identifier: Apache-2.0 */
/* A process and all that descend from it, as /proc shows them. */
#ifndef CAY_ENGINE_HOST_TREE_H
#define CAY_ENGINE_HOST_TREE_H

#include <sys/types.h>

#include "base/macro.h"

struct tree_usage {
	uint64_t pids;
	uint64_t memory_bytes;
	uint64_t cpu_us;
};

/* Sums up root and its living descendants; -ESRCH when root is gone. */
int tree_usage(pid_t root, struct tree_usage *ret) _must_check_;
/*
 * Ends them all. root must be a subreaper (nobody escapes its tree) and root_pidfd refer to it; it
 * is stopped first, so that the tree only shrinks by our hand. 0 when root is dead at the end.
 */
int tree_kill(pid_t root, int root_pidfd) _must_check_;

/* Removes name below dir_fd with everything in it, never through a link. -ENOENT is 0. */
int tree_remove(int dir_fd, const char *name) _must_check_;

#endif
