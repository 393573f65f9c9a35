/* SPDX-License-Identifier: Apache-2.0 */
#include "net/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG 1024

int listen_parse(const char *text, char *ret_host, size_t host_size, uint16_t *ret_port)
{
	const char *colon = strrchr(text, ':');
	struct str host;
	uint64_t port;
	int r;

	if (!colon || str_to_u64(str_of(colon + 1), UINT16_MAX, &port) < 0)
		return -EINVAL;
	host = (struct str){ text, (size_t)(colon - text) };
	if (host.n && host.p[0] == '[') {
		if (host.n < 2 || host.p[host.n - 1] != ']')
			return -EINVAL;
		host = (struct str){ host.p + 1, host.n - 2 };
	} else if (memchr(host.p, ':', host.n)) {
		return -EINVAL; /* an IPv6 address without brackets is ambiguous */
	}
	r = str_copy(ret_host, host_size, host);
	if (r < 0)
		return -EINVAL;
	*ret_port = (uint16_t)port;
	return 0;
}

static int open_at(const struct addrinfo *at, int *ret_fd)
{
	_cleanup_close_ int fd = -1;
	int one = 1;

	fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;
	if (bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0)
		return -errno;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

int listen_open_tcp(const char *host, uint16_t port, int *ret_fd)
{
	struct addrinfo want = { .ai_family = AF_UNSPEC,
				 .ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *list = NULL;
	char service[8];
	int r;

	(void)snprintf(service, sizeof(service), "%u", (unsigned)port);
	if (getaddrinfo(host && *host ? host : NULL, service, &want, &list) != 0)
		return -EADDRNOTAVAIL;
	r = -EADDRNOTAVAIL;
	for (struct addrinfo *at = list; at; at = at->ai_next) {
		r = open_at(at, ret_fd);
		if (r == 0)
			break;
	}
	freeaddrinfo(list);
	return r;
}

int listen_port(int fd, uint16_t *ret_port)
{
	struct sockaddr_storage addr = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
		return -errno;
	if (addr.ss_family == AF_INET)
		*ret_port = ntohs(((struct sockaddr_in *)&addr)->sin_port);
	else if (addr.ss_family == AF_INET6)
		*ret_port = ntohs(((struct sockaddr_in6 *)&addr)->sin6_port);
	else
		return -EAFNOSUPPORT;
	return 0;
}
