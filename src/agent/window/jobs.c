/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The foreground programs of a window's shell, found by descent: cgroups do not distinguish jobs.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "agent/agent.h"
#include "agent/digits.h"
#include "agent/window/shell.h"

#define TICK_MS 10	/* of /proc/PID/stat */
#define VISITS_MAX 1024 /* processes inspected for one signal */
#define DEPTH_MAX 64

static pid_t foreground(const struct process *p)
{
	pid_t group;

	return ioctl(p->streams[0].fd, TIOCGPGRP, &group) == 0 && group > 1 ? group : -1;
}

void shell_interrupt(const struct process *p)
{
	pid_t group = foreground(p);

	if (p->reaped)
		return;
	/* The shell first: it then treats its program's death and its own signal as one. */
	if (group != p->pid)
		(void)kill(p->pid, SIGINT);
	if (group > 1)
		(void)kill(-group, SIGINT);
}

static struct str read_proc(int proc_fd, const char *path, char *space, size_t size)
{
	_cleanup_close_ int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = fd < 0 ? 0 : read(fd, space, size);

	return (struct str){ space, n > 0 ? (size_t)n : 0 };
}

struct look {
	uint64_t group, session, start_ticks;
};

/* false if it is gone. */
static bool look_at(int proc_fd, pid_t pid, struct look *ret)
{
	char path[DIGITS_MAX + 8], space[1024];
	struct str rest, field;
	size_t at;

	(void)digits_text(digits_put(path, (uint64_t)pid), "/stat");
	rest = read_proc(proc_fd, path, space, sizeof(space));
	/* "pid (name) state ppid pgrp ... starttime": the name may contain anything. */
	for (at = rest.n; at && rest.p[at - 1] != ')'; at--)
		;
	if (!at || at + 1 >= rest.n)
		return false;
	rest = (struct str){ rest.p + at + 1, rest.n - at - 1 };
	for (int i = 3; i <= 22; i++) {
		uint64_t *value = i == 5    ? &ret->group
				  : i == 6  ? &ret->session
				  : i == 22 ? &ret->start_ticks
					    : NULL;

		if (!str_cut(rest, ' ', &field, &rest) ||
		    (value && str_to_u64(field, INT64_MAX / TICK_MS, value) < 0))
			return false;
	}
	return true;
}

struct hunt {
	int proc_fd;
	int signum;
	unsigned visits, depth;
	pid_t shell, group;
	int64_t start_ms;
};

static void visit_children(struct hunt *hunt, pid_t parent, bool all);

/* A background job of the shell has its own process group, or is older than the command. */
static bool is_foreground(const struct hunt *hunt, pid_t child)
{
	struct look look;

	if (!look_at(hunt->proc_fd, child, &look) ||
	    (int64_t)(look.start_ticks + 1) * TICK_MS <= hunt->start_ms)
		return false;
	return look.group == (uint64_t)hunt->group || look.group == (uint64_t)hunt->shell ||
	       look.session != (uint64_t)hunt->shell;
}

static void visit(struct hunt *hunt, pid_t pid, bool all)
{
	if (hunt->visits++ >= VISITS_MAX || (!all && !is_foreground(hunt, pid)))
		return;
	if (hunt->depth < DEPTH_MAX) {
		hunt->depth++;
		visit_children(hunt, pid, true);
		hunt->depth--;
	}
	(void)kill(pid, hunt->signum);
}

static void visit_children(struct hunt *hunt, pid_t parent, bool all)
{
	char path[2 * DIGITS_MAX + 24], space[4096], *end;
	struct str rest, field;
	uint64_t pid;

	end = digits_text(digits_put(path, (uint64_t)parent), "/task/");
	(void)digits_text(digits_put(end, (uint64_t)parent), "/children");
	rest = read_proc(hunt->proc_fd, path, space, sizeof(space));
	while (str_cut(rest, ' ', &field, &rest))
		if (str_to_u64(field, INT32_MAX, &pid) == 0 && pid > 1)
			visit(hunt, (pid_t)pid, all);
}

void shell_signal_foreground(struct agent *agent, const struct process *p, int64_t start_ms,
			     int signum)
{
	struct hunt hunt = {
		.proc_fd = agent->proc_fd,
		.signum = signum,
		.shell = p->pid,
		.group = foreground(p),
		.start_ms = start_ms,
	};

	if (p->reaped)
		return;
	visit_children(&hunt, p->pid, false);
	if (hunt.group > 1 && hunt.group != p->pid)
		(void)kill(-hunt.group, signum);
}
