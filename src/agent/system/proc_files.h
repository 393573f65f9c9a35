/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/meminfo, stat, loadavg and cpuinfo as programs in the sandbox see them, and the numbers
 * that df shows (/sys/fs/disk). They are files of the slot's tmpfs, which the warden mounted over
 * the kernel's (docs/guides/inside.md). The agent writes current values of its cgroups to them:
 * before a process starts, and while processes run, every second if they use the processor and less
 * often otherwise. Where the warden mounted nothing, as with the engine "local", the agent does
 * nothing.
 */
#ifndef CAY_AGENT_SYSTEM_PROC_FILES_H
#define CAY_AGENT_SYSTEM_PROC_FILES_H

#include "sys/procfile.h"

struct agent;

/* Owner: struct agent. */
struct inside {
	bool off;	/* /proc/meminfo is the kernel's: nothing to do */
	int64_t due_us; /* the next refresh; 0: none */
	int64_t wait_us;
	int64_t done_us; /* time of the last one */
	unsigned cpus;	 /* as last written */
	uint64_t memory_limit;
	/*
	 * The group's counters include those of its last user, or belong to another group after a
	 * resume.
	 */
	bool based;
	uint64_t user_base_us, system_base_us;
	uint64_t user_us, system_us;
	int64_t load_us;       /* when the load was last averaged */
	uint64_t load_used_us; /* processor time used by then */
	struct proc_load load;
	int disk_fd;	     /* shows what the disk's quota counts; -1: none */
	uint64_t disk_limit; /* as last written */
	uint64_t disk_used;
};

/* Takes ownership of the descriptor; -1: none for now. */
void inside_take_disk(struct agent *agent, int fd);
void inside_open(struct agent *agent);
/*
 * Before a process starts: makes sure that it finds current values. A few small reads if they are
 * current.
 */
void inside_check(struct agent *agent);
/* A process started: keep the values current from now on. */
void inside_expect(struct agent *agent);
/* Another group was taken. */
void inside_rebase(struct agent *agent);
void inside_run(struct agent *agent);
int inside_sleep_ms(const struct agent *agent); /* -1: no refresh is due */

#endif
