/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control groups, v1 and v2 behind one set of verbs. The normal host has v2 alone, and the groups
 * are <place>/cay-N/<slot> below a place that was delegated to cay (docs/decisions/024). A
 * controller that is bound to a v1 hierarchy is used there instead, as <hierarchy>/cay-N/<slot>.
 * Groups are made before they are needed. On v1 the next sandbox uses them again; on v2 they are
 * made anew, because v2 cannot reset the peak.
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
 * What a sandbox sees below /sys/fs/cgroup, all of it read-only: its own group at the top where
 * memory is limited by v2, else one directory per v1 hierarchy. The JVM takes v1 for limits only
 * if there is a cpuset, too: all sandboxes share one.
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
extern const char *const cgroup_shown_names[CGROUP_SHOWN_COUNT]; /* directories; "": the top */

/* Owner: the warden. Descriptors are of <hierarchy>/cay-N. */
struct cgroup_tree {
	int fd[CGROUP_COUNT]; /* -1 when this host has no such controller */
	bool v2[CGROUP_COUNT];
	int v2_fd; /* the unified hierarchy's cay-N; -1 when there is none with controllers */
	char v2_path[CGROUP_PATH_SIZE];	    /* its absolute path */
	int groups_view_fd, memory_view_fd; /* of cgroup_view_open(); -1: none */
	int cpuset_door_fd;		  /* of the v1 cpuset that all sandboxes share; -1: none */
	int shown_fd[CGROUP_SHOWN_COUNT]; /* the same; what sandboxes see as /sys/fs/cgroup */
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
	int v2_index; /* which of them belongs to v2; -1: none */
	int into_fd;  /* the v2 group itself, for CLONE_INTO_CGROUP; -1: none */
};

#define CGROUP_DOOR_NONE                                                               \
	{                                                                              \
		.fd = { [0 ... CGROUP_COUNT - 1] = -1 }, .v2_index = -1, .into_fd = -1 \
	}

struct cgroup_limits {
	uint32_t cpu_milli; /* thousandths of a CPU */
	uint64_t memory_bytes;
	uint64_t swap_bytes; /* besides memory_bytes */
	uint32_t pids_max;
};

struct cgroup_stat {
	uint64_t oom_kills, memory_bytes, memory_peak_bytes, cpu_us, pids;
	bool has_stall; /* v2, and the kernel counts it */
	struct stall stall[STALL_COUNT];
};

/*
 * root_fd: /sys/fs/cgroup. place: the v2 group to stay inside, from cgroup_place(). Makes the
 * cay-N parents and bounds what all sandboxes together may use.
 */
int cgroup_open(int root_fd, const char *place, unsigned instance,
		struct cgroup_tree *ret) _must_check_;
void cgroup_close(struct cgroup_tree *tree);
/* Removes cay-N and whatever empty groups are left below. */
int cgroup_remove_tree(int root_fd, const char *place, unsigned instance);

/* place.c: where in the v2 hierarchy the sandboxes are. Paths begin with "/". */

/* The v2 path out of the text of /proc/PID/cgroup; -ENOENT when it has none. */
int cgroup_path_parse(const char *text, char dst[CGROUP_PATH_SIZE]) _must_check_;
/*
 * What --cgroup means to a process in the group own: "/a/b" from the root, "../b" and "." from
 * own. -EINVAL for anything else, such as a path that leads above the root.
 */
int cgroup_path_resolve(const char *own, const char *wanted,
			char dst[CGROUP_PATH_SIZE]) _must_check_;
/* Resolves wanted (NULL: the root of what is mounted) for this process. */
int cgroup_place(int proc_fd, const char *wanted, char dst[CGROUP_PATH_SIZE]) _must_check_;
/* Whether the unified hierarchy of this host has controllers: only then a place matters. */
bool cgroup_v2_has_controllers(int root_fd);
/* Whether a process lives in <place>/cay-N. */
bool cgroup_place_busy(int root_fd, const char *place, unsigned instance);
/* The unified hierarchy, at the mount itself or at "unified" on hybrid hosts. */
int cgroup_open_unified(int root_fd) _must_check_;
/*
 * Enables a controller for the children of a group. v2 allows that only in a group without
 * processes: those that are in it are moved to a child "cay-host" first.
 */
int cgroup_enable(int group_fd, const char *controller) _must_check_;
/* Moves the processes that are in a group itself to its child "cay-host". */
int cgroup_vacate(int group_fd) _must_check_;

/* device.c: lets everything in this v2 group open the devices of a sandbox and no others. */
int cgroup_limit_devices(int group_fd) _must_check_;

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
/*
 * Called by the child itself: a lone thread moving itself skips the RCU grace period (10 ms cold)
 * on v1. On v2 only a clone into the group is as cheap: is_born_inside says that it was.
 */
int cgroup_enter(const struct cgroup_door *door, bool is_born_inside) _must_check_;
/* The same for the cpuset that only exists to be seen. */
int cgroup_enter_cpuset(const struct cgroup_tree *tree) _must_check_;
/* Bytes its files have not written out yet, as far as they are charged to it; UINT64_MAX: unknown.
 */
uint64_t cgroup_unwritten(const struct cgroup_tree *tree, unsigned slot);
int cgroup_stat(const struct cgroup_tree *tree, unsigned slot,
		struct cgroup_stat *ret) _must_check_;
/* A number that whoever sees the freezer group can read, as an extended attribute of it. */
int cgroup_note(const struct cgroup_tree *tree, unsigned slot, const char *name,
		uint64_t value) _must_check_;
int cgroup_freeze(const struct cgroup_tree *tree, unsigned slot, bool frozen) _must_check_;
/* Freezes and waits until every task is frozen; -EBUSY after timeout_us: it may be half frozen. */
int cgroup_freeze_wait(const struct cgroup_tree *tree, unsigned slot,
		       int64_t timeout_us) _must_check_;
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
/* A detached read-only mount for a sandbox's /sys/fs/cgroup; -ENOENT: this host has no such. */
int cgroup_show(const struct cgroup_tree *tree, unsigned slot, enum cgroup_shown which,
		int *ret_fd) _must_check_;
/* How often the kernel killed in this group for want of memory, all users of it included. */
uint64_t cgroup_oom_kills(const struct cgroup_tree *tree, unsigned slot);
bool cgroup_has_pid(const struct cgroup_tree *tree, unsigned slot, int pid);
/* Every process of the slot, also in the groups that its agent made. */
void cgroup_each_member(const struct cgroup_tree *tree, unsigned slot,
			void (*on_pid)(void *arg, int pid), void *arg);
bool cgroup_exists(const struct cgroup_tree *tree, unsigned slot); /* any group of the slot */
bool cgroup_is_empty(const struct cgroup_tree *tree, unsigned slot);
/* SIGKILL to everything in the group, in whatever way this host has. */
int cgroup_kill(const struct cgroup_tree *tree, unsigned slot);
/* Gives back what the last user left charged and made, and clears its peaks where it can. */
void cgroup_recycle(const struct cgroup_tree *tree, unsigned slot);
/* Whether a group shows nothing of its last user after that. */
bool cgroup_is_reusable(const struct cgroup_tree *tree);

/* The text of a pressure file; -EINVAL when it is none. */
int cgroup_stall_parse(const char *text, struct stall *ret) _must_check_;

#endif
