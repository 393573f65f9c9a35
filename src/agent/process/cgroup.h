/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cgroup of its own for every process, so that a timeout or STOP reaches whatever it started,
 * in whichever session. The warden hands us the sandbox's freezer group (v1, or the v2 group) as a
 * descriptor; engines without one give none, and everything here then does nothing.
 *
 *   struct group *g = group_take(&agent->groups);   NULL: no cgroups, go without
 *   spawn.tasks_fd = group_tasks_fd(g);             -1 for NULL
 *     in the child, before setuid: write(tasks_fd, "0", 1). A lone thread that moves itself waits
 *     for no RCU grace period, which moving it from outside would (10 ms).
 *   group_kill(&agent->groups, g);                  SIGKILL to all of it; true: it was empty
 *   group_release(&agent->groups, g);               when the process has been reaped
 *
 * All calls but groups_open() take a NULL group and do nothing then.
 */
#ifndef CAY_AGENT_PROCESS_CGROUP_H
#define CAY_AGENT_PROCESS_CGROUP_H

#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"

struct group; /* owner: the process that took it, until it is released */

/* Owner: the agent. Groups are used again: there are never more than living processes, those whose
 * orphans live on, and a few spare ones. */
struct groups {
	int dir_fd; /* -1: none */
	bool v2;
	bool away; /* let go; none, until it is taken back */
	uint32_t next_number;
	unsigned spare_count;
	unsigned parked_count;
	struct group *spare;  /* empty ones */
	struct group *parked; /* released while something was in them */
	struct group *parked_last;
	struct group *all; /* whoever has them */
};

/* Takes dir_fd (whatever it is) and finds out whether it is of use; groups without it do nothing.
 */
void groups_open(struct groups *groups, int dir_fd);
static inline bool groups_on(const struct groups *groups)
{
	return groups->dir_fd >= 0 || groups->away;
}
/*
 * Closes every descriptor of theirs and takes the like of the first one back, in which the members
 * of each group are in a directory of the same number, or there is none. In between no process
 * gets a group, and none is killed by it.
 */
void groups_let_go(struct groups *groups);
void groups_take_back(struct groups *groups, int dir_fd);

/* How long the sandbox was frozen, by the warden's note; 0 where there is none. */
uint64_t groups_frozen_us(const struct groups *groups);
uint64_t groups_note(const struct groups *groups, const char *name); /* 0: none */

/* Makes one for the next process, when there is nothing else to do. */
void groups_prepare(struct groups *groups);
struct group *group_take(struct groups *groups);
int group_tasks_fd(const struct group *group);
bool group_is_empty(struct groups *groups, struct group *group);
/*
 * Kills everything in the group, however fast it forks: frozen first, so that the list holds still.
 * true when there was nothing (left) to kill. Never waits longer than some milliseconds; what is
 * killed is gone a little later.
 */
bool group_kill(struct groups *groups, struct group *group);
/*
 * Lists the members as the agent sees their pids, at most max of them; the number of all, so that a
 * caller knows when max was too small. 0 for NULL.
 */
size_t group_members(struct groups *groups, struct group *group, pid_t *ret_pids, size_t max);
/* What is still in it (background children) lives on; the group is used again once it is empty. */
void group_release(struct groups *groups, struct group *group);

#endif
