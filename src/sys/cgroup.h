/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups, v1 and v2 behind one set of verbs. Each controller we want is looked for in its
 * own v1 hierarchy first and in the unified one after that; a hybrid host (v1 limits, an empty v2)
 * and a pure v2 host both work. Groups are <hierarchy>/cay-N/<slot>, made before they are needed
 * and used again by the next sandbox.
 */
#ifndef CAY_SYS_CGROUP_H
#define CAY_SYS_CGROUP_H

#include "base/macro.h"

enum cgroup_controller {
	CGROUP_CPU,
	CGROUP_CPUACCT,
	CGROUP_MEMORY,
	CGROUP_PIDS,
	CGROUP_FREEZER,
	CGROUP_DEVICES,
	CGROUP_COUNT
};

/* Owner: the warden. Descriptors are of <hierarchy>/cay-N. */
struct cgroup_tree {
	int fd[CGROUP_COUNT]; /* -1 when this host has no such controller */
	bool v2[CGROUP_COUNT];
	int v2_fd; /* the unified hierarchy's cay-N; -1 when there is none with controllers */
	int groups_view_fd, memory_view_fd; /* of cgroup_view_open(); -1: none */
};

/*
 * Descriptors for the agent: its freezer group, and its memory group read-only; each the root of a
 * mount of its own. -1 where this host has none.
 */
struct cgroup_view {
	int groups_fd, memory_fd;
};

/* The files through which one enters the groups of a slot; -1: none. */
struct cgroup_door {
	int fd[CGROUP_COUNT];
};

struct cgroup_limits {
	uint32_t cpu_milli; /* thousandths of a CPU */
	uint64_t memory_bytes;
	uint32_t pids_max;
};

struct cgroup_stat {
	uint64_t oom_kills, memory_bytes, memory_peak_bytes, cpu_us, pids;
};

/* root_fd: /sys/fs/cgroup. Makes the cay-N parents and bounds what all sandboxes together may use.
 */
int cgroup_open(int root_fd, unsigned instance, struct cgroup_tree *ret) _must_check_;
void cgroup_close(struct cgroup_tree *tree);
/* Removes cay-N and whatever empty groups are left below. */
int cgroup_remove_tree(int root_fd, unsigned instance);

int cgroup_make(const struct cgroup_tree *tree,
		unsigned slot) _must_check_; /* existing ones are fine */
/*
 * The freezer group of the slot is given to root inside, who may then make groups below it: one for
 * every process that its agent starts. What the group itself says stays the host's.
 */
int cgroup_own(const struct cgroup_tree *tree, unsigned slot, uint32_t id) _must_check_;
int cgroup_remove(const struct cgroup_tree *tree,
		  unsigned slot) _must_check_; /* -EBUSY while used */
int cgroup_limit(const struct cgroup_tree *tree, unsigned slot,
		 const struct cgroup_limits *limits) _must_check_;
int cgroup_door_open(const struct cgroup_tree *tree, unsigned slot,
		     struct cgroup_door *ret) _must_check_;
void cgroup_door_close(struct cgroup_door *door);
/* Called by the child itself: a lone thread moving itself skips the RCU grace period (10 ms cold).
 */
int cgroup_enter(const struct cgroup_door *door) _must_check_;
/* Bytes its files have not written out yet, as far as they are charged to it; UINT64_MAX: unknown.
 */
uint64_t cgroup_unwritten(const struct cgroup_tree *tree, unsigned slot);
int cgroup_stat(const struct cgroup_tree *tree, unsigned slot,
		struct cgroup_stat *ret) _must_check_;
/* A number that whoever sees the freezer group can read, as an extended attribute of it. */
int cgroup_note(const struct cgroup_tree *tree, unsigned slot, const char *name,
		uint64_t value) _must_check_;
int cgroup_freeze(const struct cgroup_tree *tree, unsigned slot, bool frozen) _must_check_;
/* Whether a freeze has reached every task, those in groups below included. */
bool cgroup_is_frozen(const struct cgroup_tree *tree, unsigned slot);
/* The groups that the agent made: an agent killed at the wrong moment leaves one frozen. */
void cgroup_thaw_below(const struct cgroup_tree *tree, unsigned slot);
/* Removes them, but for an empty first one ("1", where an agent begins to count): the next agent
 * takes that over. */
void cgroup_clear_below(const struct cgroup_tree *tree, unsigned slot);
/* The first call belongs into the mount namespace from which the others are made, while the host's
 * mounts are still there. */
void cgroup_view_open(struct cgroup_tree *tree, unsigned instance);
void cgroup_view_make(const struct cgroup_tree *tree, unsigned slot, struct cgroup_view *ret);
void cgroup_view_close(struct cgroup_view *view);
/* How often the kernel killed in this group for want of memory, all users of it included. */
uint64_t cgroup_oom_kills(const struct cgroup_tree *tree, unsigned slot);
bool cgroup_has_pid(const struct cgroup_tree *tree, unsigned slot, int pid);
bool cgroup_is_empty(const struct cgroup_tree *tree, unsigned slot);
/* SIGKILL to everything in the group, in whatever way this host has. */
int cgroup_kill(const struct cgroup_tree *tree, unsigned slot);
/* Gives back what the last user left charged and made, and clears its peaks. */
void cgroup_recycle(const struct cgroup_tree *tree, unsigned slot);

#endif
