/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts a program. The child shares the agent's memory until exec, so no page table is copied, and
 * makes only raw system calls on a separate stack. The agent is stopped meanwhile. The child
 * therefore writes a failure directly into the struct, with the step at which it happened.
 */
#ifndef CAY_AGENT_PROCESS_SPAWN_H
#define CAY_AGENT_PROCESS_SPAWN_H

#include <sys/types.h>

#include "agent/process/user.h"

enum spawn_step {
	SPAWN_OK,
	SPAWN_CLONE,
	SPAWN_GROUP,
	SPAWN_SETUP,
	SPAWN_USER,
	SPAWN_CWD,
	SPAWN_EXEC
};

struct spawn {
	const char *const *argv;
	const char *const *env;
	const char *cwd;
	const struct user *user;	 /* NULL: the agent's user */
	int fds[3];			 /* become 0, 1, 2; all must be above 2 */
	int group_fd;			 /* the tasks file of its cgroup; -1: none */
	int program_fd;			 /* runs this instead of argv[0]; -1: none */
	bool tty;			 /* descriptor 0 becomes its controlling terminal */
	uint64_t files_soft, files_hard; /* RLIMIT_NOFILE; 0: unchanged */

	enum spawn_step failed_step; /* SPAWN_OK: the program runs */
	int error;		     /* positive errno */
};

/* Returns the pid, also if a later step failed (it must be reaped); -1 if there is no process. */
pid_t spawn(struct spawn *spawn);

#endif
