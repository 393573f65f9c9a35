/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the sandbox's memory cgroup to find out whether the kernel killed a process because of the
 * limit. The warden passes the group as a descriptor; without it, no kill is ever found.
 */
#ifndef CAY_AGENT_SYSTEM_OOM_H
#define CAY_AGENT_SYSTEM_OOM_H

#include "base/macro.h"

/* Owner: the agent. */
struct memory {
	int dir_fd; /* -1: none */
	int events_fd;
	bool v2;
	bool away;	  /* closed for a checkpoint, until TAKE_BACK */
	uint64_t before;  /* added to the count of the current group */
	uint64_t claimed; /* kills that were attributed to a process */
};

/* Takes ownership of dir_fd; -1: none. */
void memory_open(struct memory *memory, int dir_fd);
/*
 * Closes it; memory_take_back() opens an equivalent, possibly another group, whose count continues
 * ours.
 */
void memory_let_go(struct memory *memory);
void memory_take_back(struct memory *memory, int dir_fd);
/*
 * The number of OOM kills so far, including earlier users of the group; a process remembers it at
 * its start. One small read.
 */
uint64_t memory_kills(const struct memory *memory);
/*
 * For a process that died by SIGKILL or with exit code 137: true if the kernel killed a process
 * since (memory_kills() at its start) that was not attributed to another. Each kill is attributed
 * once.
 */
bool memory_claim_kill(struct memory *memory, uint64_t since);
/* How many processes the kernel killed since then, in the whole sandbox. */
uint32_t memory_kills_since(const struct memory *memory, uint64_t since);
uint64_t memory_peak(const struct memory *memory);  /* bytes, 0: unknown */
uint64_t memory_limit(const struct memory *memory); /* bytes, 0: unknown or none */

#endif
