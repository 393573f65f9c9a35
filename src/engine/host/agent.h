/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent as a process of this host, listening on agent.sock in a directory. Used by engines that
 * run it directly; the caller owns returned descriptors.
 */
#ifndef CAY_ENGINE_HOST_AGENT_H
#define CAY_ENGINE_HOST_AGENT_H

#include <sys/types.h>

#include "base/macro.h"

/* A new connection, or -errno: -ENOENT and -ECONNREFUSED mean that no agent listens. */
int agent_connect(int dir_fd) _must_check_;
/*
 * Creates the socket and starts argv[0] in a new session, with the socket as descriptor 3. *ret_fd
 * is a connection, which is queued before the agent starts. 0 or -errno.
 */
int agent_start(int dir_fd, const char *const argv[], pid_t *ret_pid, int *ret_fd) _must_check_;

#endif
