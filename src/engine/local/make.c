/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "engine/local/local.h"
#include "engine/host/agent.h"
#include "engine/host/tree.h"

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

static int run_agent(const struct engine *engine, const char *id, int dir_fd, pid_t *ret_pid,
		     int *ret_fd)
{
	char cwd[PATH_MAX + 128], scratch[PATH_MAX + 128];
	const char *argv[12] = { engine->agent_path,
				 "--trust-any-peer",
				 "--same-user",
				 "--cwd",
				 cwd,
				 "--scratch",
				 scratch };
	size_t n = 7;

	(void)snprintf(cwd, sizeof(cwd), "%s/%s/" LOCAL_WORKSPACE, engine->root, id);
	(void)snprintf(scratch, sizeof(scratch), "%s/%s/" LOCAL_SCRATCH, engine->root, id);
	if (engine->tools_path[0]) {
		argv[n++] = "--tools";
		argv[n++] = engine->tools_path;
	}
	if (engine->proxied)
		argv[n++] = "--egress";
	return agent_start(dir_fd, argv, ret_pid, ret_fd);
}

/* Creates everything inside the new directory; the caller removes it if this fails. */
static int populate(struct engine *engine, const char *id, struct engine_made *ret)
{
	_cleanup_close_ int dir_fd = -1, agent_fd = -1, watch_fd = -1;
	pid_t pid = -1;
	int r;

	dir_fd = openat(engine->root_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0 || mkdirat(dir_fd, LOCAL_WORKSPACE, 0700) < 0 ||
	    mkdirat(dir_fd, LOCAL_SCRATCH, 0700) < 0)
		return -errno;
	r = run_agent(engine, id, dir_fd, &pid, &agent_fd);
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
 * The listening socket shows the pid of the process that called listen() last: the agent, which has
 * the only descriptor of it. For a child of ours, the pid is known directly.
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
	fd = agent_connect(dir_fd);
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
