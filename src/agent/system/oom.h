/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sandbox's memory cgroup, read only: did the kernel kill something because of the limit? The
 * warden hands us the group as a descriptor; without it nothing is ever found.
 */
#ifndef CAY_AGENT_SYSTEM_OOM_H
#define CAY_AGENT_SYSTEM_OOM_H

#include "base/macro.h"

/* Owner: the agent. */
struct memory {
	int dir_fd; /* -1: none */
	int events_fd;
	bool v2;
	bool away;	  /* let go; nothing is found until it is taken back */
	uint64_t before;  /* added to what the present group counts */
	uint64_t claimed; /* kills that some process that ended answers for */
};

/* Takes dir_fd, whatever it is. */
void memory_open(struct memory *memory, int dir_fd);
/* Closed, and the like of it opened later, maybe another group: its count goes on from ours. */
void memory_let_go(struct memory *memory);
void memory_take_back(struct memory *memory, int dir_fd);
/* How often the kernel killed for want of memory so far, earlier users of the group included: a
 * process remembers this at its start. One small read. */
uint64_t memory_kills(const struct memory *memory);
/*
 * For a process that died by SIGKILL or with exit code 137: true when the kernel killed something
 * since (memory_kills() at its start) that no other process answers for. One kill is claimed once.
 */
bool memory_claim_kill(struct memory *memory, uint64_t since);
uint64_t memory_peak(const struct memory *memory);  /* bytes, 0: not known */
uint64_t memory_limit(const struct memory *memory); /* bytes, 0: not known or none */

#endif
