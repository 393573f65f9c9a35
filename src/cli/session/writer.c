/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/session/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* small enough for many runs: the kernel limits the total per user */
#define PIPE_BYTES (256 << 10)

/*
 * O_NONBLOCK belongs to the open file description, which we share with other programs (for example
 * the shell), so it must not be set there. Opening the pipe again creates our own description. That
 * fails for another user's pipe; writing then blocks.
 */
void writer_init(struct writer *writer, int fd)
{
	struct stat st;
	char path[32];
	int own;

	*writer = (struct writer){ .fd = fd };
	buf_init(&writer->pending, WRITER_MAX_BYTES);
	if (fstat(fd, &st) < 0)
		return;
	if (S_ISSOCK(st.st_mode))
		writer->kind = WRITER_SOCKET;
	if (!S_ISFIFO(st.st_mode))
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	own = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
	if (own < 0)
		return;
	writer->fd = own;
	writer->kind = WRITER_PIPE;
	/* A reader that computes (sha256sum, gzip) does not stop at each of our pauses. */
	if (fcntl(own, F_GETPIPE_SZ) < PIPE_BYTES)
		(void)fcntl(own, F_SETPIPE_SZ, PIPE_BYTES);
}

void writer_done(struct writer *writer)
{
	if (writer->kind == WRITER_PIPE)
		(void)close(writer->fd);
	buf_done(&writer->pending);
}

size_t writer_pending(const struct writer *writer)
{
	return buf_len(&writer->pending);
}

static void fail(struct writer *writer, int error)
{
	writer->error = -error;
	buf_clear(&writer->pending);
}

/* Returns the bytes written, 0 if the reader is not ready. */
static size_t write_some(struct writer *writer, struct str bytes)
{
	for (;;) {
		ssize_t n = writer->kind == WRITER_SOCKET ? send(writer->fd, bytes.p, bytes.n,
								 MSG_DONTWAIT | MSG_NOSIGNAL)
							  : write(writer->fd, bytes.p, bytes.n);

		if (n >= 0) {
			writer->passed += (uint64_t)n;
			return (size_t)n;
		}
		if (errno == EAGAIN)
			return 0;
		if (errno != EINTR) {
			fail(writer, errno);
			return 0;
		}
	}
}

static void wait_ready(const struct writer *writer)
{
	struct pollfd pfd = { .fd = writer->fd, .events = POLLOUT };

	(void)poll(&pfd, 1, -1);
}

void writer_flush(struct writer *writer)
{
	while (buf_len(&writer->pending) && !writer->error) {
		size_t n = write_some(writer, buf_str(&writer->pending));

		if (n == 0)
			return;
		buf_consume(&writer->pending, n);
	}
}

void writer_put(struct writer *writer, struct str bytes)
{
	while (bytes.n && !writer->error) {
		size_t n = buf_len(&writer->pending) ? 0 : write_some(writer, bytes);

		bytes.p += n;
		bytes.n -= n;
		if (n || !bytes.n || writer->error)
			continue;
		if (buf_append(&writer->pending, bytes.p, bytes.n) == 0)
			return;
		wait_ready(writer);
		writer_flush(writer);
	}
}
