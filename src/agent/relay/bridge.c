/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bridge: a second run of the program that connects its standard input and output to the
 * running agent. Anything that can run a command inside can reach the agent in this way.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/relay/relay.h"

#define PIECE_BYTES 65536

/* One direction: bytes read and not yet written. */
struct way {
	int from, to;
	bool ended;
	size_t begin, end;
	char bytes[PIECE_BYTES];
};

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		int r = -errno;

		(void)close(fd);
		return r;
	}
	return fd;
}

/* Reads if there is nothing to write; false: broken. */
static bool pass(struct way *way, bool readable)
{
	ssize_t n;

	if (way->begin == way->end && readable) {
		n = read(way->from, way->bytes, sizeof(way->bytes));
		if (n < 0)
			return errno == EINTR || errno == EAGAIN;
		way->begin = 0;
		way->end = (size_t)n;
		way->ended = n == 0;
	}
	while (way->begin < way->end) {
		n = write(way->to, way->bytes + way->begin, way->end - way->begin);
		if (n < 0)
			return errno == EINTR || errno == EAGAIN;
		way->begin += (size_t)n;
	}
	return true;
}

/* What this direction waits for: its source, or its target while bytes are pending. */
static struct pollfd need(const struct way *way)
{
	if (way->begin < way->end)
		return (struct pollfd){ .fd = way->to, .events = POLLOUT };
	return (struct pollfd){ .fd = way->ended ? -1 : way->from, .events = POLLIN };
}

/*
 * The agent ends its connection when ours has ended, so only the outgoing direction is waited for.
 */
static int copy(struct way *in, struct way *out)
{
	bool told = false;

	while (!out->ended || out->begin < out->end) {
		struct pollfd fds[2] = { need(in), need(out) };

		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return 1;
		if ((fds[0].revents && !pass(in, true)) || (fds[1].revents && !pass(out, true)))
			return 1;
		if (in->ended && !told) {
			told = true;
			(void)shutdown(in->to, SHUT_WR);
		}
	}
	return 0;
}

int bridge_run(const char *path)
{
	static struct way in, out;
	static const char failed[] = "cay-agent: no agent listens at ";
	int fd = connect_to(path);

	if (fd < 0) {
		(void)!write(STDERR_FILENO, failed, sizeof(failed) - 1);
		(void)!write(STDERR_FILENO, path, strlen(path));
		(void)!write(STDERR_FILENO, "\n", 1);
		return 1;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	in.from = STDIN_FILENO;
	out.to = STDOUT_FILENO;
	in.to = out.from = fd;
	(void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	(void)fcntl(STDOUT_FILENO, F_SETFL, O_NONBLOCK);
	(void)fcntl(fd, F_SETFL, O_NONBLOCK);
	return copy(&in, &out);
}
