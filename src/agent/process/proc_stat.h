/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What /proc says about processes that the agent did not start itself. orphan.c and kill_session.c
 * use it. Nothing here is kept: a pid may be reused at any time, so a caller that sends a signal
 * pins the process first (proc_signal()).
 */
#ifndef CAY_AGENT_PROCESS_PROC_STAT_H
#define CAY_AGENT_PROCESS_PROC_STAT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macro.h"

#define PROC_ENTRIES_MAX 65536 /* of one pass over /proc; further ones are not seen */

struct proc_stat {
	pid_t pid, parent, session;
	uint64_t start_ticks; /* since boot: together with the pid it identifies a process */
	bool zombie;
	bool stopped;
};

/* A file of a process, for reading; -1: it is gone. */
int proc_open(int proc_fd, const char *pid_name, const char *file);
/* false: it is gone. */
bool proc_stat_of(int proc_fd, pid_t pid, struct proc_stat *ret) _must_check_;
/* Calls on_process for each process that /proc shows, by increasing pid, until it returns false. */
void proc_each(int proc_fd, bool (*on_process)(void *context, const struct proc_stat *stat),
	       void *context);
/*
 * Sends a signal to this process and to no later one with the same pid. 0, -ESRCH if it is gone,
 * or another -errno.
 */
int proc_signal(int proc_fd, const struct proc_stat *stat, int signum) _must_check_;

#endif
