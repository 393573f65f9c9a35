/* SPDX-License-Identifier: Apache-2.0 */
/* The agent as a process of this host, listening on agent.sock in a directory. */
#ifndef CAY_ENGINE_HOST_AGENT_H
#define CAY_ENGINE_HOST_AGENT_H

#include <sys/types.h>

#include "base/macro.h"

/* A new connection, or -errno: -ENOENT and -ECONNREFUSED mean that no agent listens. */
int agent_connect(int dir_fd) _must_check_;
/*
 * Makes the socket and starts argv[0] as a session of its own that inherits it as descriptor 3.
 * *ret_fd is a connection, which waits there before the agent even starts. 0 or -errno.
 */
int agent_start(int dir_fd, const char *const argv[], pid_t *ret_pid, int *ret_fd) _must_check_;

#endif
