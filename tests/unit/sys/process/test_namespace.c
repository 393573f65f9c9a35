/* SPDX-License-Identifier: Apache-2.0 */
/* Namespaces: what they map and connect, and when one may be reused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "need_root.h"
#include "sys/file.h"
#include "sys/process/namespace.h"

static void user_namespace_maps(void **state)
{
	int proc_fd = open("/proc", O_DIRECTORY | O_RDONLY), ns_fd, status;
	pid_t pid;

	(void)state;
	need_root();
	assert_int_equal(userns_make(proc_fd, 0x200000, &ns_fd), 0);
	pid = fork();
	if (pid == 0) {
		struct stat st;
		uint64_t nested;
		int ok = setns(ns_fd, CLONE_NEWUSER) == 0 && setresgid(5, 5, 5) == 0 &&
			 setresuid(7, 7, 7) == 0;

		ok = ok && file_read_u64(proc_fd, "sys/user/max_user_namespaces", &nested) == 0 &&
		     nested == 0;
		ok = ok && fstatat(proc_fd, "self", &st, AT_SYMLINK_NOFOLLOW) == 0;
		_exit(ok && unshare(CLONE_NEWUSER) < 0 && errno == ENOSPC ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(ns_fd);
	(void)close(proc_fd);
}

static void net_namespace_dials(void **state)
{
	struct netns_home home = { .net_fd = open("/proc/self/ns/net", O_RDONLY),
				   .ipc_fd = open("/proc/self/ns/ipc", O_RDONLY) };
	int proc_fd = open("/proc", O_DIRECTORY | O_RDONLY);
	struct stat ours, its;
	struct netns net;
	int again, served;
	char byte = 0;

	(void)state;
	need_root();
	assert_int_equal(netns_make(proc_fd, &home, &net), 0);
	assert_int_equal(fstat(home.ipc_fd, &ours), 0);
	assert_int_equal(fstat(net.ipc_fd, &its), 0);
	assert_int_not_equal(ours.st_ino, its.st_ino);
	assert_int_equal(stat("/proc/self/ns/ipc", &its), 0); /* we are back home */
	assert_int_equal(ours.st_ino, its.st_ino);
	served = accept(net.listen_fd, NULL, NULL); /* the first connection is already there */
	assert_true(served >= 0);
	assert_int_equal(write(net.client_fd, "a", 1), 1);
	assert_int_equal(read(served, &byte, 1), 1);
	assert_int_equal(byte, 'a');
	assert_int_equal(netns_dial(home.net_fd, net.space.fd, &again), 0);
	(void)close(served);
	served = accept(net.listen_fd, NULL, NULL);
	assert_int_equal(write(again, "b", 1), 1);
	assert_int_equal(read(served, &byte, 1), 1);
	assert_int_equal(byte, 'b');
	(void)close(served);
	(void)close(again);
	netns_close(&net);
	(void)close(home.net_fd);
	(void)close(home.ipc_fd);
	(void)close(proc_fd);
}

/* Runs in the network namespace and returns. */
static void in_net(const struct netns_home *home, int ns_fd, void (*fn)(void))
{
	assert_int_equal(setns(ns_fd, CLONE_NEWNET), 0);
	fn();
	assert_int_equal(setns(home->net_fd, CLONE_NEWNET), 0);
}

static void try_unreachable(void)
{
	struct sockaddr_in far = { .sin_family = AF_INET, .sin_port = htons(9) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	far.sin_addr.s_addr = htonl(0x08080808);
	assert_int_not_equal(connect(fd, (struct sockaddr *)&far, sizeof(far)), 0);
	(void)close(fd);
}

static void send_to_itself(void)
{
	struct sockaddr_in self = { .sin_family = AF_INET, .sin_port = htons(9) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	self.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(sendto(fd, "x", 1, 0, (struct sockaddr *)&self, sizeof(self)), 1);
	(void)close(fd);
}

static int held_fd;

static void hold_a_socket(void)
{
	held_fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_true(held_fd >= 0);
}

static void come_and_go(void)
{
	for (int i = 0; i < 3; i++) {
		int fd = socket(i == 2 ? AF_UNIX : AF_INET, i ? SOCK_STREAM : SOCK_DGRAM, 0);
		assert_true(fd >= 0);
		(void)close(fd);
	}
}

static void connect_to(int family, int protocol, bool self)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(9) };
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, protocol);

	if (fd < 0)
		return; /* a kernel without that protocol */
	v4.sin_addr.s_addr = htonl(self ? INADDR_LOOPBACK : 0x08080808);
	v6.sin6_addr = in6addr_loopback;
	if (!self)
		v6.sin6_addr.s6_addr[0] = 0x20;
	(void)!connect(fd, family == AF_INET ? (void *)&v4 : (void *)&v6,
		       family == AF_INET ? sizeof(v4) : sizeof(v6));
	(void)close(fd);
}

static size_t netstat_of(const struct netns_home *home, int ns_fd, char *dst, size_t size)
{
	int r;

	assert_int_equal(setns(ns_fd, CLONE_NEWNET), 0);
	r = file_read(AT_FDCWD, "/proc/self/net/netstat", dst, size);
	assert_int_equal(setns(home->net_fd, CLONE_NEWNET), 0);
	assert_true(r > 0);
	return (size_t)r;
}

/* netstat is not read: whatever changes it must be visible elsewhere. */
static void net_namespace_netstat(void **state)
{
	static const struct {
		int family, protocol;
		bool self;
	} tries[] = { { AF_INET, 0, false },	{ AF_INET, 0, true },
		      { AF_INET6, 0, false },	{ AF_INET6, 0, true },
		      { AF_INET, 262, false },	{ AF_INET, 262, true }, /* MPTCP */
		      { AF_INET6, 262, false }, { AF_INET6, 262, true } };
	static struct netns_home home;
	static char before[32768], after[32768];
	int proc_fd = open("/proc", O_DIRECTORY | O_RDONLY), moved = 0;

	(void)state;
	need_root();
	home.net_fd = open("/proc/self/ns/net", O_RDONLY);
	home.ipc_fd = open("/proc/self/ns/ipc", O_RDONLY);
	for (size_t i = 0; i < ARRAY_LEN(tries); i++) {
		struct netns net, again;
		size_t n;

		assert_int_equal(netns_make(proc_fd, &home, &net), 0);
		(void)close(TAKE_FD(net.listen_fd));
		(void)close(TAKE_FD(net.client_fd));
		n = netstat_of(&home, net.space.fd, before, sizeof(before));
		assert_int_equal(setns(net.space.fd, CLONE_NEWNET), 0);
		connect_to(tries[i].family, tries[i].protocol, tries[i].self);
		assert_int_equal(setns(home.net_fd, CLONE_NEWNET), 0);
		if (netstat_of(&home, net.space.fd, after, sizeof(after)) != n ||
		    memcmp(before, after, n) != 0) {
			assert_int_equal(netns_renew(proc_fd, &home, &net.space, &again), -ESTALE);
			moved++;
		}
		netns_close(&net);
	}
	assert_true(moved > 0);
	(void)close(home.net_fd);
	(void)close(home.ipc_fd);
	(void)close(proc_fd);
}

/* A network namespace is reused only if nothing happened in it. */
static void net_namespace_again(void **state)
{
	static struct netns_home home;
	static void (*const marks[])(void) = { try_unreachable, send_to_itself };
	int proc_fd = open("/proc", O_DIRECTORY | O_RDONLY), served;
	struct netns net, again;
	struct stat before, after;

	(void)state;
	need_root();
	home.net_fd = open("/proc/self/ns/net", O_RDONLY);
	home.ipc_fd = open("/proc/self/ns/ipc", O_RDONLY);
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		assert_int_equal(netns_make(proc_fd, &home, &net), 0);
		in_net(&home, net.space.fd, marks[i]);
		(void)close(TAKE_FD(net.listen_fd));
		(void)close(TAKE_FD(net.client_fd));
		assert_int_equal(netns_renew(proc_fd, &home, &net.space, &again), -ESTALE);
		netns_close(&net);
	}
	assert_int_equal(netns_make(proc_fd, &home, &net), 0);
	assert_int_equal(netns_renew(proc_fd, &home, &net.space, &again), -ESTALE); /* its own */
	(void)close(TAKE_FD(net.listen_fd));
	(void)close(TAKE_FD(net.client_fd));
	in_net(&home, net.space.fd, hold_a_socket);
	assert_int_equal(netns_renew(proc_fd, &home, &net.space, &again), -ESTALE);
	(void)close(held_fd);
	in_net(&home, net.space.fd, come_and_go);
	assert_int_equal(fstat(net.space.fd, &before), 0);
	assert_int_equal(netns_renew(proc_fd, &home, &net.space, &again), 0);
	assert_int_equal(net.space.fd, -1); /* it is the new one's now */
	assert_int_equal(fstat(again.space.fd, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(fstat(net.ipc_fd, &before), 0);
	assert_int_equal(fstat(again.ipc_fd, &after), 0);
	assert_int_not_equal(before.st_ino, after.st_ino); /* that one is always new */
	served = accept(again.listen_fd, NULL, NULL);
	assert_true(served >= 0);
	(void)close(served);
	netns_close(&net);
	netns_close(&again);
	net = (struct netns)NETNS_NONE; /* one without traces, as the host's */
	net.space.fd = dup(home.net_fd);
	assert_int_equal(netns_renew(proc_fd, &home, &net.space, &again), -ESTALE);
	netns_close(&net);
	(void)close(home.net_fd);
	(void)close(home.ipc_fd);
	(void)close(proc_fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(user_namespace_maps),
		cmocka_unit_test(net_namespace_dials),
		cmocka_unit_test(net_namespace_again),
		cmocka_unit_test(net_namespace_netstat),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
