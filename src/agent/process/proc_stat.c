/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/proc_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>

#include "agent/digits.h"
#include "agent/dirent.h"
#include "base/str.h"

#define PATH_SIZE 32
#define PID_MAX (1U << 30)

/* Positions after the name in /proc/PID/stat. */
enum { FIELD_STATE, FIELD_PARENT, FIELD_GROUP, FIELD_SESSION, FIELD_START = 19 };

int proc_open(int proc_fd, const char *pid_name, const char *file)
{
	char path[PATH_SIZE];

	if (strlen(pid_name) + strlen(file) + 2 > sizeof(path))
		return -1;
	(void)digits_text(digits_text(digits_text(path, pid_name), "/"), file);
	return openat(proc_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

static bool take_field(struct proc_stat *to, int field, struct str text)
{
	uint64_t number = 0;

	if (field == FIELD_STATE) {
		to->zombie = text.n && (text.p[0] == 'Z' || text.p[0] == 'X');
		to->stopped = text.n && (text.p[0] == 'T' || text.p[0] == 't');
		return true;
	}
	if (field != FIELD_PARENT && field != FIELD_SESSION && field != FIELD_START)
		return true;
	if (str_to_u64(text, field == FIELD_START ? UINT64_MAX : PID_MAX, &number) < 0)
		return false;
	if (field == FIELD_PARENT)
		to->parent = (pid_t)number;
	else if (field == FIELD_SESSION)
		to->session = (pid_t)number;
	else
		to->start_ticks = number;
	return true;
}

/* "pid (name) state ppid pgrp session ..."; the name may contain anything but is short. */
static bool parse(struct str text, struct proc_stat *to)
{
	struct str rest, head;
	size_t at = text.n;
	int field = 0;

	while (at && text.p[at - 1] != ')')
		at--;
	if (!at || at + 1 >= text.n)
		return false;
	rest = (struct str){ text.p + at + 1, text.n - at - 1 };
	for (; field <= FIELD_START && str_cut(rest, ' ', &head, &rest); field++)
		if (!take_field(to, field, head))
			return false;
	return field > FIELD_START;
}

static bool read_stat(int proc_fd, const char *pid_name, struct proc_stat *ret)
{
	_cleanup_close_ int fd = proc_open(proc_fd, pid_name, "stat");
	struct proc_stat stat = { 0 };
	char text[512];
	uint64_t pid;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

	if (n <= 0 || str_to_u64(str_of(pid_name), PID_MAX, &pid) < 0 ||
	    !parse((struct str){ text, (size_t)n }, &stat))
		return false;
	stat.pid = (pid_t)pid;
	*ret = stat;
	return true;
}

bool proc_stat_of(int proc_fd, pid_t pid, struct proc_stat *ret)
{
	char name[DIGITS_MAX + 1];

	if (pid <= 0)
		return false;
	(void)digits_put(name, (uint64_t)pid);
	return read_stat(proc_fd, name, ret);
}

void proc_each(int proc_fd, bool (*on_process)(void *context, const struct proc_stat *stat),
	       void *context)
{
	static char space[16384] __attribute__((aligned(8)));
	_cleanup_close_ int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct proc_stat stat;
	size_t entries = 0;
	long n;

	while (fd >= 0 && entries < PROC_ENTRIES_MAX &&
	       (n = syscall(SYS_getdents64, fd, space, sizeof(space))) > 0) {
		for (long at = 0; at < n; entries++) {
			const struct dirent64 *d = (const struct dirent64 *)(space + at);

			if (d->name[0] >= '1' && d->name[0] <= '9' &&
			    read_stat(proc_fd, d->name, &stat) && !on_process(context, &stat))
				return;
			at += d->reclen;
		}
	}
}

/* The descriptor pins the process: the pid cannot be reused between the check and the signal. */
int proc_signal(int proc_fd, const struct proc_stat *stat, int signum)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, stat->pid, 0U);
	struct proc_stat now;

	if (pidfd < 0)
		return -errno;
	if (!proc_stat_of(proc_fd, stat->pid, &now) || now.start_ticks != stat->start_ticks)
		return -ESRCH;
	return syscall(SYS_pidfd_send_signal, pidfd, signum, NULL, 0U) < 0 ? -errno : 0;
}
