/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/host/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

/* By descriptor, because the path of a state directory may exceed the limit of socket names. */
static struct sockaddr_un socket_address(int dir_fd)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/agent.sock", dir_fd);
	return addr;
}

int agent_connect(int dir_fd)
{
	struct sockaddr_un addr = socket_address(dir_fd);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
		int r = -errno;

		(void)close(fd);
		return r;
	}
	return fd;
}

static int listen_in(int dir_fd)
{
	struct sockaddr_un addr = socket_address(dir_fd);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || listen(fd, 16) < 0) {
		int r = -errno;

		(void)close(fd);
		return r;
	}
	return fd;
}

static int set_files(posix_spawn_file_actions_t *files, int listen_fd)
{
	int r = 0;

	for (int fd = 0; r == 0 && fd < 3; fd++)
		r = posix_spawn_file_actions_addopen(files, fd, "/dev/null", O_RDWR, 0);
	return r ? r : posix_spawn_file_actions_adddup2(files, listen_fd, 3);
}

/* The cast is only for exec()'s type. */
static int spawn(int listen_fd, const char *const argv[], pid_t *ret_pid)
{
	union {
		const char *const *in;
		char *const *out;
	} args = { .in = argv };
	char *env[] = { NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int r = posix_spawn_file_actions_init(&files);

	if (r)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (r == 0) {
		(void)sigemptyset(&none);
		(void)posix_spawnattr_setsigmask(&attr, &none);
		(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
		r = set_files(&files, listen_fd);
		if (r == 0)
			r = posix_spawn(ret_pid, argv[0], &files, &attr, args.out, env);
		(void)posix_spawnattr_destroy(&attr);
	}
	(void)posix_spawn_file_actions_destroy(&files);
	return -r;
}

int agent_start(int dir_fd, const char *const argv[], pid_t *ret_pid, int *ret_fd)
{
	_cleanup_close_ int listen_fd = listen_in(dir_fd), agent_fd = -1;
	int r;

	if (listen_fd < 0)
		return listen_fd;
	agent_fd = agent_connect(dir_fd);
	r = agent_fd < 0 ? agent_fd : spawn(listen_fd, argv, ret_pid);
	if (r == 0)
		*ret_fd = TAKE_FD(agent_fd);
	return r;
}
