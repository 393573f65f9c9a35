/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dial.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/str.h"
#include "base/time.h"

static int wait_connected(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLOUT };
	int64_t end_us = time_mono_us() + (int64_t)timeout_ms * 1000;
	int error = 0, r;
	socklen_t len = sizeof(error);

	for (;;) {
		int64_t left_ms = timeout_ms < 0 ? -1 : (end_us - time_mono_us() + 999) / 1000;

		r = poll(&pfd, 1, (int)(timeout_ms < 0 ? -1 : MAX(left_ms, 0)));
		if (r > 0)
			break;
		if (r == 0)
			return -ETIMEDOUT;
		if (errno != EINTR)
			return -errno;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
		return -errno;
	return -error;
}

static int dial_one(const struct addrinfo *at, int timeout_ms, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	int one = 1, r;

	fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(fd, at->ai_addr, at->ai_addrlen) < 0) {
		if (errno != EINPROGRESS)
			return -errno;
		r = wait_connected(fd, timeout_ms);
		if (r < 0)
			return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int dial_tcp(const char *host, uint16_t port, int timeout_ms, int *ret_fd)
{
	struct addrinfo want = { .ai_family = AF_UNSPEC,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	char service[8];
	int r = -EHOSTUNREACH;

	(void)snprintf(service, sizeof(service), "%u", (unsigned)port);
	if (getaddrinfo(host, service, &want, &list) != 0)
		return -EHOSTUNREACH;
	for (struct addrinfo *at = list; at; at = at->ai_next) {
		r = dial_one(at, timeout_ms, ret_fd);
		if (r == 0)
			break;
	}
	freeaddrinfo(list);
	return r;
}

int dial_unix(const char *path, int *ret_fd)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;

	if (str_copy(addr.sun_path, sizeof(addr.sun_path), str_of(path)) < 0)
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}
