/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unmounting waits for every processor, and for what the file system does at its end: that is for a
 * thread of its own. What it is given is nobody else's any more.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "warden/birth.h"

static void *close_all(void *arg)
{
	const int *pipe_fd = arg;
	int fd;

	while (read(*pipe_fd, &fd, sizeof(fd)) == sizeof(fd))
		(void)close(fd);
	return NULL;
}

int closer_open(struct warden *w)
{
	static int pipe_fds[2];

	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	w->closer_fd = pipe_fds[1];
	return thread_start(close_all, &pipe_fds[0]);
}

void close_later(struct warden *w, int fd)
{
	if (fd < 0)
		return;
	if (w->closer_fd < 0 || write(w->closer_fd, &fd, sizeof(fd)) != sizeof(fd))
		(void)close(fd);
}
