/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define PIPE_BYTES (256 << 10) /* small enough for many of us: the kernel bounds them per user */

/*
 * O_NONBLOCK belongs to the open file description, which we share with other programs (the shell,
 * for one): it must not be set there. Opening the pipe again gives a description of our own. That
 * fails for another user's pipe; then writing blocks.
 */
void outlet_init(struct outlet *outlet, int fd)
{
	struct stat st;
	char path[32];
	int own;

	*outlet = (struct outlet){ .fd = fd };
	buf_init(&outlet->pending, OUTLET_MAX_BYTES);
	if (fstat(fd, &st) < 0)
		return;
	if (S_ISSOCK(st.st_mode))
		outlet->kind = OUTLET_SOCKET;
	if (!S_ISFIFO(st.st_mode))
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (own < 0)
		return;
	outlet->fd = own;
	outlet->kind = OUTLET_PIPE;
	/* A reader that computes (sha256sum, gzip) is then not stopped by each of our pauses. */
	if (fcntl(own, F_GETPIPE_SZ) < PIPE_BYTES)
		(void)fcntl(own, F_SETPIPE_SZ, PIPE_BYTES);
}

void outlet_done(struct outlet *outlet)
{
	if (outlet->kind == OUTLET_PIPE)
		(void)close(outlet->fd);
	buf_done(&outlet->pending);
}

size_t outlet_pending(const struct outlet *outlet)
{
	return buf_len(&outlet->pending);
}

static void fail(struct outlet *outlet, int error)
{
	outlet->error = -error;
	buf_clear(&outlet->pending);
}

/* Bytes written, 0 when the reader is not ready. */
static size_t write_some(struct outlet *outlet, struct str bytes)
{
	for (;;) {
		ssize_t n = outlet->kind == OUTLET_SOCKET ? send(outlet->fd, bytes.p, bytes.n,
								 MSG_DONTWAIT | MSG_NOSIGNAL)
							  : write(outlet->fd, bytes.p, bytes.n);

		if (n >= 0) {
			outlet->passed += (uint64_t)n;
			return (size_t)n;
		}
		if (errno == EAGAIN)
			return 0;
		if (errno != EINTR) {
			fail(outlet, errno);
			return 0;
		}
	}
}

static void wait_ready(const struct outlet *outlet)
{
	struct pollfd pfd = { .fd = outlet->fd, .events = POLLOUT };

	(void)poll(&pfd, 1, -1);
}

void outlet_flush(struct outlet *outlet)
{
	while (buf_len(&outlet->pending) && !outlet->error) {
		size_t n = write_some(outlet, buf_str(&outlet->pending));

		if (n == 0)
			return;
		buf_consume(&outlet->pending, n);
	}
}

void outlet_put(struct outlet *outlet, struct str bytes)
{
	while (bytes.n && !outlet->error) {
		size_t n = buf_len(&outlet->pending) ? 0 : write_some(outlet, bytes);

		bytes.p += n;
		bytes.n -= n;
		if (n || !bytes.n || outlet->error)
			continue;
		if (buf_append(&outlet->pending, bytes.p, bytes.n) == 0)
			return;
		wait_ready(outlet);
		outlet_flush(outlet);
	}
}
