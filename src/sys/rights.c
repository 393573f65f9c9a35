/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/rights.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(RIGHTS_MAX * sizeof(int))];
};

ssize_t rights_send(int socket_fd, const void *bytes, size_t size, const int *fds, size_t count,
		    int flags)
{
	union control control = { 0 };
	struct iovec iov = { (void *)(uintptr_t)bytes, size };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (count > RIGHTS_MAX)
		return -EINVAL;
	if (count) {
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
	}
	do
		n = sendmsg(socket_fd, &message, flags | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* The kernel also fills the padding of the buffer: count what arrived, not what was requested. */
static void take(struct cmsghdr *c, size_t max, struct rights *rights)
{
	size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
		if (rights->count < max) {
			rights->fds[rights->count++] = fd;
		} else {
			(void)close(fd);
			rights->cut = true;
		}
	}
}

ssize_t rights_receive(int socket_fd, void *bytes, size_t size, size_t max, int flags,
		       struct rights *ret)
{
	union control control;
	struct iovec iov = { bytes, size };
	struct msghdr message = { .msg_iov = &iov,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control.space) };
	ssize_t n = recvmsg(socket_fd, &message, flags | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return -errno;
	*ret = (struct rights){ .cut = message.msg_flags & MSG_CTRUNC };
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			take(c, MIN(max, (size_t)RIGHTS_MAX), ret);
		else
			ret->cut = true;
	}
	for (size_t i = ret->count; i < RIGHTS_MAX; i++)
		ret->fds[i] = -1;
	return n;
}
