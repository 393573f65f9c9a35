/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /proc/meminfo, stat, loadavg and cpuinfo as programs in the sandbox see them, and the numbers
 * that df shows (/sys/fs/disk): files of the slot's
 * own tmpfs, which the warden mounted over the kernel's (docs/guides/inside.md). The agent writes
 * current values of its cgroups into them: before a process starts, and while processes run, every
 * second if they use the processor and less often if they do not. Where the warden mounted nothing,
 * as in the engine "local", the agent does nothing.
 */
#ifndef CAY_AGENT_SYSTEM_PROC_FILES_H
#define CAY_AGENT_SYSTEM_PROC_FILES_H

#include "sys/procfile.h"

struct agent;

/* Owner: struct agent. */
struct inside {
	bool off;	/* /proc/meminfo is the kernel's */
	int64_t due_us; /* the next refresh; 0: none */
	int64_t wait_us;
	int64_t done_us; /* when the last one was */
	unsigned cpus;	 /* as last written */
	uint64_t memory_limit;
	/* Counters of the group go on from its last user's, or are another group's after a wake. */
	bool based;
	uint64_t user_base_us, system_base_us;
	uint64_t user_us, system_us;
	int64_t load_us;       /* when the load was averaged last */
	uint64_t load_used_us; /* and what had been used by then */
	struct proc_load load;
	int disk_fd;	     /* shows what the disk's quota counts; -1: there is none */
	uint64_t disk_limit; /* as last written */
	uint64_t disk_used;
};

/* Takes the descriptor, whatever it is; -1: none for now. */
void inside_take_disk(struct agent *agent, int fd);
void inside_open(struct agent *agent);
/* Before a process starts: it shall find current values. A few small reads if they are. */
void inside_check(struct agent *agent);
/* A process started: values are kept current from now on. */
void inside_expect(struct agent *agent);
/* After another group was taken. */
void inside_rebase(struct agent *agent);
void inside_run(struct agent *agent);
int inside_sleep_ms(const struct agent *agent); /* -1: no refresh is due */

#endif
