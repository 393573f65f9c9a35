/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AGENT_PROCESS_KILL_SESSION_H
#define CAY_AGENT_PROCESS_KILL_SESSION_H

#include <sys/types.h>

/*
 * For sandboxes without cgroups: sends SIGKILL to the process group sid, to every process whose
 * session is sid, and to every process whose environment contains mark ("NAME=value"). proc_fd is
 * an open /proc, or -1: then only to the group.
 */
void session_kill(int proc_fd, pid_t sid, const char *mark);

#endif
