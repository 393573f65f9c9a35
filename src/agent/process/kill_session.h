/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_AGENT_PROCESS_KILL_SESSION_H
#define CAY_AGENT_PROCESS_KILL_SESSION_H

#include <sys/types.h>

/*
 * For sandboxes without cgroups: SIGKILL to the process group sid, to every process whose session
 * is sid, wherever in the tree it is now, and to every one whose environment holds mark
 * ("NAME=value"). proc_fd is an open /proc, or -1: then only the group.
 */
void session_kill(int proc_fd, pid_t sid, const char *mark);

#endif
