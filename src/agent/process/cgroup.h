/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One cgroup per process, so that a timeout or STOP reaches all descendants, in any session. The
 * warden passes the sandbox's freezer group (v1) or its v2 group as a descriptor. Engines without
 * cgroups pass none, and all functions then do nothing.
 *
 *   struct group *g = group_take(&agent->groups);   NULL: no cgroups
 *   spawn.tasks_fd = group_tasks_fd(g);             -1 for NULL
 *     In the child, before setuid: write(tasks_fd, "0", 1). A single thread that moves itself does
 *     not wait for an RCU grace period, unlike a move from outside (10 ms).
 *   group_kill(&agent->groups, g);                  SIGKILL to all members; true: it was empty
 *   group_release(&agent->groups, g);               when the process was reaped
 *
 * All calls except groups_open() accept a NULL group and do nothing.
 */
#ifndef CAY_AGENT_PROCESS_CGROUP_H
#define CAY_AGENT_PROCESS_CGROUP_H

#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"

struct group; /* owner: the process that took it, until it is released */

/*
 * Owner: the agent. Groups are reused: their number is bounded by living processes, processes whose
 * orphans live on, and a few spare ones.
 */
struct groups {
	int dir_fd; /* -1: none */
	bool v2;
	bool away; /* closed for a checkpoint, until TAKE_BACK */
	uint32_t next_number;
	unsigned spare_count;
	unsigned parked_count;
	struct group *spare;  /* empty ones */
	struct group *parked; /* released while processes were in them */
	struct group *parked_last;
	struct group *all; /* all of them */
};

/* Takes ownership of dir_fd and checks whether it can be used. Without it all calls do nothing. */
void groups_open(struct groups *groups, int dir_fd);
static inline bool groups_on(const struct groups *groups)
{
	return groups->dir_fd >= 0 || groups->away;
}
/*
 * Closes all descriptors, and accepts an equivalent of the first one later, in which the members of
 * each group are in a directory of the same number, or there is none. In between no process gets a
 * group, and none is killed through one.
 */
void groups_let_go(struct groups *groups);
void groups_take_back(struct groups *groups, int dir_fd);

/* How long the sandbox was frozen, from the attribute that the warden sets; 0 if there is none. */
uint64_t groups_frozen_us(const struct groups *groups);
uint64_t groups_note(const struct groups *groups, const char *name); /* 0: none */

/* Creates a group for the next process, while there is nothing else to do. */
void groups_prepare(struct groups *groups);
struct group *group_take(struct groups *groups);
int group_tasks_fd(const struct group *group);
bool group_is_empty(struct groups *groups, struct group *group);
/*
 * Kills all processes of the group, however fast they fork: it is frozen first, so that the list
 * does not change. true if nothing was (left) to kill. Never waits longer than a few milliseconds;
 * killed processes disappear a little later.
 */
bool group_kill(struct groups *groups, struct group *group);
/*
 * Lists the pids of the members, at most max; returns the total number, so that a caller can see
 * that max was too small. 0 for NULL.
 */
size_t group_members(struct groups *groups, struct group *group, pid_t *ret_pids, size_t max);
/* Processes still in it (background children) live on; the group is reused when it is empty. */
void group_release(struct groups *groups, struct group *group);
/* Only if it is empty; false: the caller still owns it. */
bool group_try_release(struct groups *groups, struct group *group) _must_check_;

#endif
