/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/process/namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "sys/file.h"
#include "sys/syscalls.h"

#define AGENT_BACKLOG 16

static socklen_t agent_address(struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(address->sun_path + 1, NAMESPACE_AGENT_SOCKET, sizeof(NAMESPACE_AGENT_SOCKET) - 1);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(NAMESPACE_AGENT_SOCKET));
}

static int agent_listen(int *ret_fd)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;
	socklen_t size = agent_address(&address);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, AGENT_BACKLOG) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int agent_connect(int *ret_fd)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	socklen_t size = agent_address(&address);

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, size) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int loopback_up(void)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	if (fd < 0)
		return -errno;
	return ioctl(fd, SIOCSIFFLAGS, &request) < 0 ? -errno : 0;
}

/*
 * The files that show the state of a network namespace: packets through its links, protocol
 * counters, flow labels (which outlive their sockets) and the number of sockets. No process inside
 * can change its settings, so nothing else in it can have changed. netstat is not read, because it
 * costs twice as much as all others: what it counts is caused by packets, which dev counts, or by
 * calls that sent none, which snmp and snmp6 count.
 */
static const char *const traces[NETSPACE_TRACES] = { "self/net/dev", "self/net/snmp",
						     "self/net/snmp6", "self/net/ip6_flowlabel",
						     "self/net/sockstat" };

static int traces_open(int proc_fd, struct netspace *space)
{
	for (size_t i = 0; i < NETSPACE_TRACES; i++) {
		space->trace_fd[i] = openat(proc_fd, traces[i], O_RDONLY | O_CLOEXEC);
		if (space->trace_fd[i] < 0 && errno != ENOENT) /* a kernel without that protocol */
			return -errno;
	}
	return 0;
}

/* Returns 0 if the state is unknown. */
static size_t traces_read(const struct netspace *space, char *dst, size_t size)
{
	char *line_end;
	size_t n = 0;
	ssize_t r = 0;

	for (size_t i = 0; i < NETSPACE_TRACES; i++) {
		n += (size_t)r;
		if (space->trace_fd[i] < 0)
			r = 0;
		else
			r = pread(space->trace_fd[i], dst + n, size - n, 0);
		if (r < 0 || (size_t)r == size - n)
			return 0;
	}
	/*
	 * The first line of the last file is the namespace's own, "sockets: used 0"; its other
	 * lines count the whole host.
	 */
	line_end = memchr(dst + n, '\n', (size_t)r);
	return line_end ? (size_t)(line_end - dst) : 0;
}

static bool netspace_is_fresh(const struct netspace *space, const struct netns_home *home)
{
	static char trace[NETNS_TRACE_MAX]; /* the warden has one thread */
	size_t n = home->fresh_n ? traces_read(space, trace, sizeof(trace)) : 0;

	return n && n == home->fresh_n && memcmp(trace, home->fresh, n) == 0;
}

static int netns_fill(int proc_fd, struct netns *netns)
{
	int r;

	netns->ipc_fd = openat(proc_fd, "self/ns/ipc", O_RDONLY | O_CLOEXEC);
	if (netns->ipc_fd < 0)
		return -errno;
	r = agent_listen(&netns->listen_fd);
	if (r >= 0)
		r = agent_connect(&netns->client_fd);
	return r;
}

static int netns_leave(const struct netns_home *home, struct netns *netns, int r, struct netns *ret)
{
	if (setns(home->net_fd, CLONE_NEWNET) < 0 || setns(home->ipc_fd, CLONE_NEWIPC) < 0)
		abort(); /* continuing in a sandbox's namespace would be worse than a restart */
	if (r < 0)
		netns_close(netns);
	else
		*ret = *netns;
	return r < 0 ? r : 0;
}

int netns_make(int proc_fd, struct netns_home *home, struct netns *ret)
{
	struct netns netns = NETNS_NONE;
	int r;

	if (unshare(CLONE_NEWNET | CLONE_NEWIPC) < 0)
		return -errno;
	r = loopback_up();
	netns.space.fd = openat(proc_fd, "self/ns/net", O_RDONLY | O_CLOEXEC);
	if (r >= 0)
		r = netns.space.fd < 0 ? -errno : traces_open(proc_fd, &netns.space);
	if (r >= 0 && !home->fresh_n)
		home->fresh_n = traces_read(&netns.space, home->fresh, sizeof(home->fresh));
	if (r >= 0)
		r = netns_fill(proc_fd, &netns);
	return netns_leave(home, &netns, r, ret);
}

int netns_renew(int proc_fd, const struct netns_home *home, struct netspace *space,
		struct netns *ret)
{
	struct netns netns = NETNS_NONE;
	int r = 0;

	if (!netspace_is_fresh(space, home))
		return -ESTALE;
	if (setns(space->fd, CLONE_NEWNET) < 0)
		return -errno;
	if (unshare(CLONE_NEWIPC) < 0) /* objects in the old one stay there */
		r = -errno;
	if (r >= 0)
		r = netns_fill(proc_fd, &netns);
	r = netns_leave(home, &netns, r, ret);
	if (r >= 0)
		netspace_take(&ret->space, space);
	return r;
}

int netns_enter_new(void)
{
	return unshare(CLONE_NEWNET) < 0 ? -errno : loopback_up();
}

void netspace_forget(struct netspace *space)
{
	for (size_t i = 0; i < NETSPACE_TRACES; i++)
		if (space->trace_fd[i] >= 0)
			(void)close(TAKE_FD(space->trace_fd[i]));
}

void netspace_take(struct netspace *to, struct netspace *from)
{
	*to = *from;
	*from = (struct netspace)NETSPACE_NONE;
}

void netspace_close(struct netspace *space)
{
	netspace_forget(space);
	if (space->fd >= 0)
		(void)close(TAKE_FD(space->fd));
}

void netns_close(struct netns *netns)
{
	netspace_close(&netns->space);
	if (netns->ipc_fd >= 0)
		(void)close(netns->ipc_fd);
	if (netns->listen_fd >= 0)
		(void)close(netns->listen_fd);
	if (netns->client_fd >= 0)
		(void)close(netns->client_fd);
	*netns = (struct netns)NETNS_NONE;
}

int netns_dial(int home_fd, int ns_fd, int *ret_fd)
{
	int r;

	if (setns(ns_fd, CLONE_NEWNET) < 0)
		return -errno;
	r = agent_connect(ret_fd);
	if (setns(home_fd, CLONE_NEWNET) < 0)
		abort();
	return r;
}

/*
 * A user namespace counts inotify instances, watches and more also for its owner, the effective
 * user of its maker, and that user's limit applies to all of them together. Its owner is therefore
 * an id that no other sandbox has, not root of the host. Capabilities are kept: they are needed to
 * make it on hosts that forbid user namespaces to ordinary users.
 */
static int become_owner(uint32_t first_id)
{
	if (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0 ||
	    setresgid(first_id, first_id, first_id) < 0 ||
	    setresuid(first_id, first_id, first_id) < 0)
		return -errno;
	return unshare(CLONE_NEWUSER) < 0 ? -errno : 0;
}

/*
 * The holder process exists only while the maps are written: it says when there is a namespace, and
 * ends when its socket closes.
 */
static _noreturn_ void holder(int proc_fd, int fd, uint32_t first_id)
{
	char byte = 0;

	if (become_owner(first_id) < 0 || send(fd, &byte, 1, MSG_NOSIGNAL) != 1)
		_exit(1);
	(void)!read(fd, &byte, 1);
	/* Disables nested user namespaces; seccomp refuses them as well. */
	_exit(file_write(proc_fd, "sys/user/max_user_namespaces", "0") < 0 ? 1 : 0);
}

static int holder_map(int proc_fd, int pid, int holder_fd, uint32_t first_id, int *ret_fd)
{
	char path[64], map[64], byte;
	int r;

	if (read(holder_fd, &byte, 1) != 1)
		return -EIO;
	(void)snprintf(map, sizeof(map), "0 %u 65536\n", first_id);
	(void)snprintf(path, sizeof(path), "%d/uid_map", pid);
	r = file_write(proc_fd, path, map);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "%d/gid_map", pid);
	r = file_write(proc_fd, path, map);
	if (r < 0)
		return r;
	(void)snprintf(path, sizeof(path), "%d/ns/user", pid);
	r = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (r < 0)
		return -errno;
	*ret_fd = r;
	return 0;
}

int userns_make(int proc_fd, uint32_t first_id, int *ret_fd)
{
	struct clone_args args = { .exit_signal = SIGCHLD };
	int pair[2], pid, r, status, fd = -1;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	pid = sys_clone3(&args);
	if (pid == 0) {
		(void)close(pair[1]);
		holder(proc_fd, pair[0], first_id);
	}
	(void)close(pair[0]);
	if (pid < 0) {
		(void)close(pair[1]);
		return pid;
	}
	r = holder_map(proc_fd, pid, pair[1], first_id, &fd);
	(void)close(pair[1]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r >= 0 && status != 0)
		r = -EIO;
	if (r < 0) {
		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}
