/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Network, IPC and user namespaces. The warden creates them in advance, because they cost more than
 * all other parts of a sandbox. The caller owns all descriptors.
 */
#ifndef CAY_SYS_PROCESS_NAMESPACE_H
#define CAY_SYS_PROCESS_NAMESPACE_H

#include "base/macro.h"

/* abstract name inside the sandbox's network namespace */
#define NAMESPACE_AGENT_SOCKET "cay-agent"

/*
 * A network namespace and the files that show its state. They stay open, because opening costs more
 * than reading.
 */
#define NETSPACE_TRACES 5
struct netspace {
	int fd;
	/* -1 if the kernel does not have the file, or the namespace will not be reused */
	int trace_fd[NETSPACE_TRACES];
};
#define NETSPACE_NONE                      \
	{                                  \
		-1,                        \
		{                          \
			-1, -1, -1, -1, -1 \
		}                          \
	}

/*
 * A network namespace owned by the host's user namespace (root inside has no power over it), with
 * the loopback link up, the agent's socket listening and the daemon's first connection queued on
 * it; and an IPC namespace with the same owner.
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

/* The caller's own namespaces, to return to. */
struct netns_home {
	int net_fd;
	int ipc_fd;
	size_t fresh_n; /* state of a network namespace in which nothing has happened */
	char fresh[NETNS_TRACE_MAX];
};

/* proc_fd: the host's /proc. One thread only. */
int netns_make(int proc_fd, struct netns_home *home, struct netns *ret) _must_check_;
/*
 * The same from a used network namespace that is unchanged: no packet was ever sent in it, it has
 * no sockets, and all its counters have their initial values. Otherwise -ESTALE. Creating and
 * removing one costs the kernel more than all other parts of a sandbox.
 */
int netns_renew(int proc_fd, const struct netns_home *home, struct netspace *space,
		struct netns *ret) _must_check_; /* takes the space on success */
void netns_close(struct netns *netns);
void netspace_close(struct netspace *space);
void netspace_take(struct netspace *to, struct netspace *from);
void netspace_forget(struct netspace *space); /* closes its state files: it will not be reused */
/* Moves this process permanently into a new network namespace with only the loopback link. */
int netns_enter_new(void) _must_check_;
/* Connects to the agent in this network namespace. */
int netns_dial(int home_fd, int ns_fd, int *ret_fd) _must_check_;

/*
 * A user namespace that maps ids 0..65535 to first_id and up, with nested user namespaces disabled.
 */
int userns_make(int proc_fd, uint32_t first_id, int *ret_fd) _must_check_;

#endif
