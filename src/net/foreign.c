/* SPDX-License-Identifier: Apache-2.0 */
#include "net/foreign.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

static int option(int fd, int name)
{
	int value = -1;
	socklen_t size = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &size) < 0 ? -1 : value;
}

int foreign_check(int fd)
{
	struct sockaddr_storage peer;
	socklen_t size = sizeof(peer);
	int domain = option(fd, SO_DOMAIN), one = 1;

	if ((domain != AF_INET && domain != AF_INET6) || option(fd, SO_TYPE) != SOCK_STREAM ||
	    option(fd, SO_PROTOCOL) != IPPROTO_TCP || option(fd, SO_ACCEPTCONN) != 0)
		return -EPROTO;
	if (getpeername(fd, (struct sockaddr *)&peer, &size) < 0)
		return -ENOTCONN;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return 0;
}

/* Bytes that the peer has not received, for which a close(2) could wait. */
static bool has_unsent(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 || info.tcpi_unacked ||
	       info.tcpi_notsent_bytes;
}

bool foreign_was_cut(int fd)
{
	struct pollfd p = { .fd = fd };

	return option(fd, SO_DOMAIN) == AF_UNIX && poll(&p, 1, 0) == 1 && (p.revents & POLLHUP);
}

void foreign_close(int fd)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };
	struct linger off = { 0 };

	if (fd < 0)
		return;
	/* One end of our own pair (a stream of the link) is not shared with another process. */
	if (option(fd, SO_DOMAIN) == AF_UNIX) {
		(void)close(fd);
		return;
	}
	/* A disconnected socket has nothing left to wait for, whatever its options are by then. */
	if (has_unsent(fd))
		(void)connect(fd, &none, sizeof(none));
	else
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &off, sizeof(off));
	(void)close(fd);
}
