/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups: one interface for v1 and v2. Called by the warden, which owns the tree and all
 * descriptors.
 *
 * The usual host has v2 only. The groups are <place>/cay-N/<slot> below a place that was delegated
 * to cay (docs/decisions/024). A controller that is bound to a v1 hierarchy is used there instead,
 * as <hierarchy>/cay-N/<slot>. Groups are created before they are needed. On v1 the next sandbox
 * reuses them. On v2 they are created again, because v2 cannot reset the peak.
 */
#ifndef CAY_SYS_CGROUP_CGROUP_H
#define CAY_SYS_CGROUP_CGROUP_H

#include "base/macro.h"
#include "base/value/stall.h"

enum cgroup_controller {
	CGROUP_CPU,
	CGROUP_CPUACCT,
	CGROUP_MEMORY,
	CGROUP_PIDS,
	CGROUP_FREEZER,
	CGROUP_DEVICES,
	CGROUP_IO, /* v2 only */
	CGROUP_COUNT
};

#define CGROUP_ROOT "/sys/fs/cgroup"
#define CGROUP_PATH_SIZE 256

/*
 * What a sandbox sees below /sys/fs/cgroup, read-only: its own group at the top if memory is
 * limited by v2, otherwise one directory per v1 hierarchy. The JVM uses v1 limits only if a cpuset
 * exists as well, so each sandbox has one that limits nothing.
 */
enum cgroup_shown {
	CGROUP_SHOWN_V2,
	CGROUP_SHOWN_MEMORY,
	CGROUP_SHOWN_CPU,
	CGROUP_SHOWN_CPUACCT,
	CGROUP_SHOWN_PIDS,
	CGROUP_SHOWN_CPUSET,
	CGROUP_SHOWN_COUNT
};
extern const char *const cgroup_shown_names[CGROUP_SHOWN_COUNT]; /* directory names; "": the top */

/* Owner: the warden. The descriptors refer to <hierarchy>/cay-N. */
struct cgroup_tree {
	int fd[CGROUP_COUNT]; /* -1 if the host does not have the controller */
	bool v2[CGROUP_COUNT];
	int v2_fd; /* cay-N of the unified hierarchy; -1 if that has no controllers */
	char v2_path[CGROUP_PATH_SIZE];	    /* its absolute path */
	int groups_view_fd, memory_view_fd; /* from cgroup_view_open(); -1: none */
	int cpuset_fd; /* v1, only to be visible; from cgroup_view_open(); -1: none */
	int shown_fd[CGROUP_SHOWN_COUNT]; /* likewise; what sandboxes see as /sys/fs/cgroup */
};

/*
 * Descriptors for the agent: its freezer group, and its memory group read-only. Each is the root of
 * a separate mount. -1 if the host does not have it.
 */
struct cgroup_view {
	int groups_fd, memory_fd;
};

/* The files through which a process enters the groups of a slot; -1: none. */
struct cgroup_door {
	int fd[CGROUP_COUNT];
	int v2_index; /* which of them belongs to v2; -1: none */
	int into_fd;  /* the v2 group itself, for CLONE_INTO_CGROUP; -1: none */
	int cpuset_fd;
};

#define CGROUP_DOOR_NONE                                                                \
	{                                                                               \
		.fd = { [0 ... CGROUP_COUNT - 1] = -1 }, .v2_index = -1, .into_fd = -1, \
		.cpuset_fd = -1                                                         \
	}

struct cgroup_limits {
	uint32_t cpu_milli; /* thousandths of a CPU */
	uint64_t memory_bytes;
	uint64_t swap_bytes; /* in addition to memory_bytes */
	uint32_t pids_max;
};

struct cgroup_stat {
	uint64_t oom_kills, memory_bytes, memory_peak_bytes, cpu_us, pids;
	bool has_stall; /* v2 only, if the kernel counts it */
	struct stall stall[STALL_COUNT];
};

/*
 * root_fd: /sys/fs/cgroup. place: the v2 group to stay inside, from cgroup_place(). Creates the
 * cay-N parents and limits what all sandboxes together may use.
 */
int cgroup_open(int root_fd, const char *place, unsigned instance,
		struct cgroup_tree *ret) _must_check_;
void cgroup_close(struct cgroup_tree *tree);
/* Removes cay-N and all empty groups below it. */
int cgroup_remove_tree(int root_fd, const char *place, unsigned instance);

/* place.c: where in the v2 hierarchy the sandboxes are. Paths begin with "/". */

/* Finds the v2 path in the text of /proc/PID/cgroup; -ENOENT if there is none. */
int cgroup_path_parse(const char *text, char dst[CGROUP_PATH_SIZE]) _must_check_;
/*
 * Resolves the argument of --cgroup for a process in the group own: "/a/b" is relative to the root,
 * "../b" and "." to own. -EINVAL for anything else, such as a path that leads above the root.
 */
int cgroup_path_resolve(const char *own, const char *wanted,
			char dst[CGROUP_PATH_SIZE]) _must_check_;
/* Resolves wanted (NULL: the root of the mounted hierarchy) for this process. */
int cgroup_place(int proc_fd, const char *wanted, char dst[CGROUP_PATH_SIZE]) _must_check_;
/* Whether the unified hierarchy of this host has controllers. Only then does a place matter. */
bool cgroup_v2_has_controllers(int root_fd);
/* Whether <place>/cay-N contains a process. */
bool cgroup_place_busy(int root_fd, const char *place, unsigned instance);
/* Opens the unified hierarchy: the mount itself, or "unified" in it on hybrid hosts. */
int cgroup_open_unified(int root_fd) _must_check_;
/*
 * Enables a controller for the children of a group. v2 allows that only in a group without
 * processes, so processes in it are first moved to a child "cay-host".
 */
int cgroup_enable(int group_fd, const char *controller) _must_check_;
/* Moves the processes of the group itself to its child "cay-host". */
int cgroup_vacate(int group_fd) _must_check_;

/* device.c: allows processes in this v2 group to open the devices of a sandbox and no others. */
int cgroup_limit_devices(int group_fd) _must_check_;

int cgroup_make(const struct cgroup_tree *tree,
		unsigned slot) _must_check_; /* existing ones are accepted */
/*
 * Gives the freezer group of the slot to root inside, which can then create groups below it: one
 * for every process that the agent starts. The control files of the group stay the host's.
 */
int cgroup_own(const struct cgroup_tree *tree, unsigned slot, uint32_t id) _must_check_;
int cgroup_remove(const struct cgroup_tree *tree,
		  unsigned slot) _must_check_; /* -EBUSY while in use */
int cgroup_limit(const struct cgroup_tree *tree, unsigned slot,
		 const struct cgroup_limits *limits) _must_check_;
/*
 * The largest share of the processors among the groups beside it, or the usual one. Without effect
 * where the kernel refuses it.
 */
void cgroup_hurry(const struct cgroup_tree *tree, unsigned slot, bool hurry);
int cgroup_door_open(const struct cgroup_tree *tree, unsigned slot,
		     struct cgroup_door *ret) _must_check_;
void cgroup_door_close(struct cgroup_door *door);
/*
 * Called by the child itself: a single thread that moves itself avoids the RCU grace period (10 ms
 * on an idle host) on v1. On v2 only a clone into the group is as fast; is_born_inside says that
 * this was done.
 */
int cgroup_enter(const struct cgroup_door *door, bool is_born_inside) _must_check_;
/* The same for the cpuset group, which exists only to be visible. */
int cgroup_enter_cpuset(const struct cgroup_door *door) _must_check_;
/* Dirty bytes of files that are charged to the group; UINT64_MAX: unknown. */
uint64_t cgroup_unwritten(const struct cgroup_tree *tree, unsigned slot);
int cgroup_stat(const struct cgroup_tree *tree, unsigned slot,
		struct cgroup_stat *ret) _must_check_;
/*
 * Stores a number as an extended attribute of the freezer group, for readers inside and after a
 * restart.
 */
int cgroup_note(const struct cgroup_tree *tree, unsigned slot, const char *name,
		uint64_t value) _must_check_;
int cgroup_freeze(const struct cgroup_tree *tree, unsigned slot, bool frozen) _must_check_;
/*
 * Freezes and waits until every task is frozen. -EBUSY after timeout_us; some tasks may then be
 * frozen.
 */
int cgroup_freeze_wait(const struct cgroup_tree *tree, unsigned slot,
		       int64_t timeout_us) _must_check_;
/* Whether a freeze has reached every task, including those in groups below. */
bool cgroup_is_frozen(const struct cgroup_tree *tree, unsigned slot);
/*
 * Thaws the groups that the agent created: an agent that is killed during a kill leaves one frozen.
 */
void cgroup_thaw_below(const struct cgroup_tree *tree, unsigned slot);
/*
 * Removes these groups, except an empty first one ("1", the first name that an agent uses), which
 * the next agent takes over.
 */
void cgroup_clear_below(const struct cgroup_tree *tree, unsigned slot);
/*
 * Call first in the mount namespace that later calls use, while the host's mounts are still there.
 */
void cgroup_view_open(struct cgroup_tree *tree, unsigned instance);
void cgroup_view_make(const struct cgroup_tree *tree, unsigned slot, struct cgroup_view *ret);
void cgroup_view_close(struct cgroup_view *view);
/*
 * Makes a detached read-only mount for a sandbox's /sys/fs/cgroup; -ENOENT if the host does not
 * have the hierarchy.
 */
int cgroup_show(const struct cgroup_tree *tree, unsigned slot, enum cgroup_shown which,
		int *ret_fd) _must_check_;
/* How many processes the kernel has killed in this group for lack of memory, over all its users. */
uint64_t cgroup_oom_kills(const struct cgroup_tree *tree, unsigned slot);
bool cgroup_has_pid(const struct cgroup_tree *tree, unsigned slot, int pid);
/*
 * Calls a function for every process of the slot, including those in the groups that its agent
 * created.
 */
void cgroup_each_member(const struct cgroup_tree *tree, unsigned slot,
			void (*on_pid)(void *arg, int pid), void *arg);
bool cgroup_exists(const struct cgroup_tree *tree, unsigned slot); /* any group of the slot */
bool cgroup_is_empty(const struct cgroup_tree *tree, unsigned slot);
/* Sends SIGKILL to every process of the group, by the method that this host supports. */
int cgroup_kill(const struct cgroup_tree *tree, unsigned slot);
/*
 * Reclaims memory and removes groups that the last user left, and resets peaks where the host can.
 */
void cgroup_recycle(const struct cgroup_tree *tree, unsigned slot);
/* Whether a recycled group shows no trace of its last user. */
bool cgroup_is_reusable(const struct cgroup_tree *tree);

/* Parses the text of a pressure file; -EINVAL if it is malformed. */
int cgroup_stall_parse(const char *text, struct stall *ret) _must_check_;

#endif
