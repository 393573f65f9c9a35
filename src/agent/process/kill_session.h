/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For sandboxes without cgroups: finds the descendants of a process by their session and by the
 * mark in their environment. Only descendants of the agent count, because several agents and
 * unrelated programs may share the host.
 */
#ifndef CAY_AGENT_PROCESS_KILL_SESSION_H
#define CAY_AGENT_PROCESS_KILL_SESSION_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Sends a signal (0: none) to every process whose session is sid (0: none) and to every process
 * whose environment contains mark ("NAME=value"). proc_fd is an open /proc, or -1: then to none.
 * Returns how many there were.
 */
size_t session_signal(int proc_fd, pid_t sid, const char *mark, int signum);
/* SIGKILL, repeated for processes that fork meanwhile. */
void session_kill(int proc_fd, pid_t sid, const char *mark);

#endif
