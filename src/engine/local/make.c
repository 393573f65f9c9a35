/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "engine/local/local.h"
#include "engine/local/tree.h"

/* By descriptor: a state directory may be longer than a socket's name may be. */
static struct sockaddr_un socket_address(int dir_fd)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	(void)snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/" LOCAL_SOCKET,
		       dir_fd);
	return addr;
}

static int connect_to(int dir_fd)
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

static void free_child(struct local_child *child)
{
	loop_watch_free(child->watch);
	(void)close(child->pidfd);
	free(child);
}

static void on_child(void *arg, int events, int error)
{
	struct local_child *child = arg;

	if (waitpid(child->pid, NULL, WNOHANG) == 0)
		return;
	for (struct local_child **p = &child->engine->children; *p; p = &(*p)->next) {
		if (*p == child) {
			*p = child->next;
			break;
		}
	}
	free_child(child);
}

void local_reap_all(struct engine *engine)
{
	while (engine->children) {
		struct local_child *child = engine->children;

		engine->children = child->next;
		(void)waitpid(child->pid, NULL, WNOHANG);
		free_child(child);
	}
}

int local_follow(struct engine *engine, const char *id, pid_t pid)
{
	struct local_child *child = calloc(1, sizeof(*child));
	int r;

	if (!child)
		return -ENOMEM;
	child->engine = engine;
	child->pid = pid;
	(void)snprintf(child->id, sizeof(child->id), "%s", id);
	child->pidfd = (int)syscall(SYS_pidfd_open, pid, 0U);
	r = child->pidfd < 0 ? -errno : 0;
	if (r == 0)
		r = loop_watch_new(engine->loop, child->pidfd, on_child, child, &child->watch);
	if (r == 0)
		r = loop_watch_set(child->watch, LOOP_READ);
	if (r < 0) {
		free_child(child);
		return r;
	}
	child->next = engine->children;
	engine->children = child;
	return 0;
}

static int run_agent(const struct engine *engine, const char *id, int listen_fd, pid_t *ret_pid)
{
	char cwd[PATH_MAX + 128], agent[PATH_MAX], tools[PATH_MAX];
	char trust[] = "--trust-any-peer", same[] = "--same-user", where[] = "--cwd";
	char with[] = "--tools", keep[] = "--scratch", scratch[PATH_MAX + 128];
	char egress[] = "--egress";
	char *argv[12] = { agent, trust, same, where, cwd, keep, scratch };
	size_t n = 7;
	char *env[] = { NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int r;

	(void)snprintf(cwd, sizeof(cwd), "%s/%s/" LOCAL_WORKSPACE, engine->root, id);
	(void)snprintf(scratch, sizeof(scratch), "%s/%s/" LOCAL_SCRATCH, engine->root, id);
	(void)snprintf(agent, sizeof(agent), "%s", engine->agent_path);
	(void)snprintf(tools, sizeof(tools), "%s", engine->tools_path);
	if (engine->tools_path[0]) {
		argv[n++] = with;
		argv[n++] = tools;
	}
	if (engine->proxied)
		argv[n++] = egress;
	r = posix_spawn_file_actions_init(&files);
	if (r)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (r) {
		(void)posix_spawn_file_actions_destroy(&files);
		return -r;
	}
	(void)sigemptyset(&none);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
	for (int fd = 0; r == 0 && fd < 3; fd++)
		r = posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&files, listen_fd, 3);
	if (r == 0)
		r = posix_spawn(ret_pid, agent, &files, &attr, argv, env);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&files);
	return -r;
}

/* Everything inside the new directory; the caller removes it when this fails. */
static int populate(struct engine *engine, const char *id, struct engine_made *ret)
{
	_cleanup_close_ int dir_fd = -1, listen_fd = -1, agent_fd = -1, watch_fd = -1;
	pid_t pid = -1;
	int r;

	dir_fd = openat(engine->root_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0 || mkdirat(dir_fd, LOCAL_WORKSPACE, 0700) < 0 ||
	    mkdirat(dir_fd, LOCAL_SCRATCH, 0700) < 0)
		return -errno;
	listen_fd = listen_in(dir_fd);
	if (listen_fd < 0)
		return listen_fd;
	agent_fd = connect_to(dir_fd); /* waits there before the agent even starts */
	if (agent_fd < 0)
		return agent_fd;
	r = run_agent(engine, id, listen_fd, &pid);
	if (r < 0)
		return r;
	watch_fd = (int)syscall(SYS_pidfd_open, pid, 0U);
	r = watch_fd < 0 ? -errno : local_follow(engine, id, pid);
	if (r < 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		return r;
	}
	ret->channel = (struct channel){ TAKE_FD(agent_fd), !engine->streams };
	ret->watch_fd = TAKE_FD(watch_fd);
	return 0;
}

int local_make(struct engine *engine, const char *id, struct engine_made *ret, struct err *err)
{
	int r;

	if (mkdirat(engine->root_fd, id, 0700) < 0)
		return err_set_errno(err, errno == EEXIST ? ERR_CONFLICT : ERR_ENGINE_FAILED, errno,
				     "cannot make the directory of sandbox %s", id);
	r = populate(engine, id, ret);
	if (r == 0)
		return 0;
	if (tree_remove(engine->root_fd, id) < 0)
		return err_set_errno(err, ERR_ENGINE_FAILED, -r,
				     "cannot start the agent of sandbox %s, nor clean up", id);
	return err_set_errno(err, ERR_ENGINE_FAILED, -r, "cannot start the agent of sandbox %s",
			     id);
}

/*
 * The listening socket shows the pid of whoever called listen() last: the agent, which holds the
 * only descriptor of it. A child of ours is known better.
 */
int local_dial(struct engine *engine, const char *id, int *ret_fd, pid_t *ret_pid, int *ret_pidfd)
{
	_cleanup_close_ int dir_fd = -1, fd = -1;
	struct ucred cred;
	socklen_t size = sizeof(cred);
	int pidfd;

	dir_fd = openat(engine->root_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0)
		return -errno;
	fd = connect_to(dir_fd);
	if (fd < 0)
		return fd == -ECONNREFUSED || fd == -ENOENT ? -ESRCH : fd;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) < 0)
		return -errno;
	for (struct local_child *c = engine->children; c; c = c->next)
		if (str_is(str_of(c->id), id))
			cred.pid = c->pid;
	if (cred.pid <= 1 || cred.pid == getpid())
		return -ESRCH;
	pidfd = (int)syscall(SYS_pidfd_open, cred.pid, 0U);
	if (pidfd < 0)
		return -ESRCH;
	*ret_fd = TAKE_FD(fd);
	*ret_pid = cred.pid;
	*ret_pidfd = pidfd;
	return 0;
}
