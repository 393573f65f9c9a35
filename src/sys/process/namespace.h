/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces made ahead of time: they cost more than everything else of a sandbox. */
#ifndef CAY_SYS_PROCESS_NAMESPACE_H
#define CAY_SYS_PROCESS_NAMESPACE_H

#include "base/macro.h"

#define NAMESPACE_AGENT_SOCKET "cay-agent" /* abstract name inside the sandbox's net namespace */

/* A net namespace, and what it says of itself: kept open, as to open it costs more than to read. */
#define NETSPACE_TRACES 5
struct netspace {
	int fd;
	int trace_fd[NETSPACE_TRACES]; /* -1 where this kernel has none, or nobody will ask */
};
#define NETSPACE_NONE                      \
	{                                  \
		-1,                        \
		{                          \
			-1, -1, -1, -1, -1 \
		}                          \
	}

/*
 * A net namespace owned by the host's user namespace (root inside has no power over it), loopback
 * up, with the agent's socket listening in it and the daemon's first connection queued on it; and
 * an IPC namespace of the same owner.
 */
struct netns {
	struct netspace space;
	int ipc_fd;
	int listen_fd;
	int client_fd;
};
#define NETNS_NONE                        \
	{                                 \
		NETSPACE_NONE, -1, -1, -1 \
	}

#define NETNS_TRACE_MAX 16384

/* Our own namespaces, to come back to. */
struct netns_home {
	int net_fd;
	int ipc_fd;
	size_t fresh_n; /* what a net namespace says of itself in which nothing has happened */
	char fresh[NETNS_TRACE_MAX];
};

/* proc_fd: the host's /proc. One thread only. */
int netns_make(int proc_fd, struct netns_home *home, struct netns *ret) _must_check_;
/*
 * The same out of a net namespace that was somebody's, which is still as it was made: no packet was
 * ever sent in it, nobody has a socket in it, and all of its counters stand where they began. Else
 * -ESTALE. Making one and taking it down costs the kernel more than all else of a sandbox.
 */
int netns_renew(int proc_fd, const struct netns_home *home, struct netspace *space,
		struct netns *ret) _must_check_; /* takes the space when it succeeds */
void netns_close(struct netns *netns);
void netspace_close(struct netspace *space);
void netspace_take(struct netspace *to, struct netspace *from);
void netspace_forget(struct netspace *space); /* its traces: it will not be used again */
/* Moves this process for good into a new one with loopback up and nothing else in it. */
int netns_enter_new(void) _must_check_;
/* Connects to the agent of the sandbox whose net namespace this is. */
int netns_dial(int home_fd, int ns_fd, int *ret_fd) _must_check_;

/* A user namespace that maps ids 0..65535 to first_id.., with nested user namespaces forbidden. */
int userns_make(int proc_fd, uint32_t first_id, int *ret_fd) _must_check_;

#endif
