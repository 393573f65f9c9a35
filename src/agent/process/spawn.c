/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/close_range.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define STACK_SIZE 32768
#define KERNEL_SIGSET_BYTES 8
#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* The child never returns and shares the shadow of our stack: disable the sanitizers in it. */
#define IN_CHILD __attribute__((no_sanitize("address", "undefined"), noinline))

static char child_stack[STACK_SIZE] __attribute__((aligned(64)));
static char candidate[PATH_MAX];
static char where[PATH_MAX + 16];

IN_CHILD static int fail(struct spawn *s, enum spawn_step step, int error)
{
	s->failed_step = step;
	s->error = error;
	return 127;
}

IN_CHILD static int become_user(const struct user *user)
{
	/*
	 * libc's wrappers would signal all threads; the raw calls change only this task. The last
	 * one drops the capabilities unless the user is root.
	 */
	if (syscall(SYS_setgroups, user->group_count, user->groups) < 0 ||
	    syscall(SYS_setresgid, user->gid, user->gid, user->gid) < 0 ||
	    syscall(SYS_setresuid, user->uid, user->uid, user->uid) < 0)
		return errno;
	return 0;
}

/* As the user, so that the user's permissions apply. */
IN_CHILD static int enter(const char *cwd)
{
	if (syscall(SYS_chdir, cwd) < 0)
		return errno;
	/* A directory outside our root (through a leaked descriptor) has no path from "/". */
	if (syscall(SYS_getcwd, where, sizeof(where)) < 0)
		return errno;
	return where[0] == '/' ? 0 : EXDEV;
}

IN_CHILD static const char *path_of(const char *const *env)
{
	for (; *env; env++)
		if ((*env)[0] == 'P' && (*env)[1] == 'A' && (*env)[2] == 'T' && (*env)[3] == 'H' &&
		    (*env)[4] == '=')
			return *env + 5;
	return DEFAULT_PATH;
}

/* Writes DIR/NAME to candidate; returns the rest of the path list, NULL after its last entry. */
IN_CHILD static const char *next_candidate(const char *list, const char *name)
{
	size_t n = 0, i;

	candidate[0] = '\0';
	while (list[n] && list[n] != ':')
		n++;
	for (i = 0; i < n && i < sizeof(candidate) - 2; i++)
		candidate[i] = list[i];
	if (n)
		candidate[i++] = '/';
	for (size_t k = 0; i < sizeof(candidate) && (candidate[i] = name[k]); k++)
		i++;
	if (i >= sizeof(candidate) || n >= sizeof(candidate) - 2)
		candidate[0] = '\0'; /* too long to exist */
	return list[n] ? list + n + 1 : NULL;
}

/* Returns only on failure, with the most informative errno. */
IN_CHILD static int run(const struct spawn *s)
{
	const char *name = s->argv[0], *list = path_of(s->env);
	bool has_slash = false;
	int best = ENOENT;

	if (s->program_fd >= 0) {
		syscall(SYS_execveat, s->program_fd, "", s->argv, s->env, AT_EMPTY_PATH);
		return errno;
	}
	for (const char *p = name; *p; p++)
		has_slash |= *p == '/';
	if (has_slash) {
		syscall(SYS_execve, name, s->argv, s->env);
		return errno;
	}
	while (name[0] && list) {
		list = next_candidate(list, name);
		if (!candidate[0])
			continue;
		syscall(SYS_execve, candidate, s->argv, s->env);
		if (errno == EACCES)
			best = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG &&
			 errno != ELOOP)
			return errno;
	}
	return best;
}

IN_CHILD static int set_up(const struct spawn *s)
{
	uint64_t files[2] = { s->files_soft, s->files_hard };

	if (syscall(SYS_setsid) < 0)
		return errno;
	for (int i = 0; i < 3; i++)
		if (syscall(SYS_dup3, s->fds[i], i, 0) < 0)
			return errno;
	/* All descriptors are close-on-exec; this is a second safeguard. */
	(void)syscall(SYS_close_range, 3U, ~0U, s->program_fd >= 0 ? CLOSE_RANGE_CLOEXEC : 0U);
	if (s->tty && syscall(SYS_ioctl, 0, TIOCSCTTY, 0) < 0)
		return errno;
	if (s->files_soft && syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, files, NULL) < 0)
		return errno;
	return 0;
}

IN_CHILD static int child(void *arg)
{
	struct spawn *s = arg;
	uint64_t none = 0;
	int error;

	/* First, so that the process can always be found through its group. */
	if (s->group_fd >= 0 && syscall(SYS_write, s->group_fd, "0", 1) < 0)
		return fail(s, SPAWN_GROUP, errno);
	error = set_up(s);
	if (error)
		return fail(s, SPAWN_SETUP, error);
	/* All dispositions are default in the agent; only the mask must be cleared. */
	if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, KERNEL_SIGSET_BYTES) < 0)
		return fail(s, SPAWN_SETUP, errno);
	error = s->user ? become_user(s->user) : 0;
	if (error)
		return fail(s, SPAWN_USER, error);
	error = enter(s->cwd);
	if (error)
		return fail(s, SPAWN_CWD, error);
	return fail(s, SPAWN_EXEC, run(s));
}

pid_t spawn(struct spawn *s)
{
	pid_t pid;

	s->failed_step = SPAWN_OK;
	s->error = 0;
	pid = clone(child, child_stack + sizeof(child_stack), CLONE_VM | CLONE_VFORK | SIGCHLD, s);
	if (pid < 0)
		(void)fail(s, SPAWN_CLONE, errno);
	return pid;
}
