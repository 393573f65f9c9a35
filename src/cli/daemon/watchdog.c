/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/daemon/watchdog.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/rand.h"
#include "base/str.h"
#include "base/time.h"

#define LABEL_LEN 20

/* An abstract name leaves no file behind. Any process can send to it, so the sender is checked. */
int watchdog_open(struct watchdog *ret)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char label[LABEL_LEN + 1];
	int on = 1, n;

	if (fd < 0)
		return -errno;
	rand_label(label, LABEL_LEN);
	*ret = WATCHDOG_NONE;
	n = snprintf(ret->name, sizeof(ret->name), "@cay-supervisor-%s", label);
	memcpy(address.sun_path + 1, ret->name + 1, (size_t)n - 1);
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
	    bind(fd, (struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)) < 0)
		return -errno;
	ret->fd = TAKE_FD(fd);
	return 0;
}

void watchdog_close(struct watchdog *watchdog)
{
	if (watchdog->fd >= 0)
		(void)close(watchdog->fd);
	*watchdog = WATCHDOG_NONE;
}

void watchdog_tell(const struct watchdog *watchdog)
{
	char usec[24];

	if (watchdog->fd < 0)
		return;
	(void)snprintf(usec, sizeof(usec), "%lld", WATCHDOG_MS * 1000LL);
	(void)setenv("NOTIFY_SOCKET", watchdog->name, 1);
	(void)setenv("WATCHDOG_USEC", usec, 1);
	(void)unsetenv("WATCHDOG_PID");
}

/* The sender of a message as the kernel knows it, or 0. */
static pid_t sender_of(struct msghdr *msg)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct ucred peer;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
		return 0;
	memcpy(&peer, CMSG_DATA(c), sizeof(peer));
	return peer.pid;
}

void watchdog_read(struct watchdog *watchdog, pid_t pid)
{
	char text[64];
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;

	while (watchdog->fd >= 0) {
		struct iovec part = { text, sizeof(text) };
		struct msghdr msg = { .msg_iov = &part,
				      .msg_iovlen = 1,
				      .msg_control = &control,
				      .msg_controllen = sizeof(control) };
		ssize_t n = recvmsg(watchdog->fd, &msg, MSG_CMSG_CLOEXEC);

		if (n < 0)
			return;
		if (sender_of(&msg) == pid && str_is((struct str){ text, (size_t)n }, "WATCHDOG=1"))
			watchdog->heard_ms = time_mono_us() / 1000;
	}
}

int watchdog_left_ms(const struct watchdog *watchdog)
{
	int64_t left_ms = watchdog->heard_ms + WATCHDOG_MS - time_mono_us() / 1000;

	if (watchdog->fd < 0 || !watchdog->heard_ms)
		return -1;
	return (int)MAX(left_ms, 0);
}
