/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/kill_session.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/digits.h"
#include "agent/dirent.h"
#include "base/macro.h"
#include "base/str.h"

#define ROUNDS_MAX 8 /* a fork bomb may outrun a single scan; the pids limit bounds it */
#define ENTRIES_MAX 65536

#define ANCESTORS_MAX 4096
#define PATH_SIZE 32
#define ENVIRON_MAX_BYTES (128U << 10) /* our mark is put first; programs rarely move it far */

static char environ_bytes[ENVIRON_MAX_BYTES];

static int open_of(int proc_fd, const char *pid_name, const char *file)
{
	char path[PATH_SIZE];

	if (strlen(pid_name) + strlen(file) + 2 > sizeof(path))
		return -1;
	(void)digits_text(digits_text(digits_text(path, pid_name), "/"), file);
	return openat(proc_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
}

enum field { FIELD_PARENT, FIELD_GROUP, FIELD_SESSION };

/* A number from a process's stat; -1 if it is gone or a zombie. */
static pid_t stat_of(int proc_fd, const char *pid_name, enum field wanted)
{
	char text[512];
	struct str rest, head;
	_cleanup_close_ int fd = open_of(proc_fd, pid_name, "stat");
	const char *close_paren = NULL;
	ssize_t n;
	uint64_t number;

	if (fd < 0)
		return -1;
	n = read(fd, text, sizeof(text));
	/* "pid (name) state ppid pgrp session ..."; the name may contain anything but is short. */
	for (ssize_t i = 0; i < n; i++)
		if (text[i] == ')')
			close_paren = text + i;
	if (!close_paren || text + n - close_paren < 5 || close_paren[2] == 'Z')
		return -1;
	rest = (struct str){ close_paren + 4, (size_t)(text + n - close_paren - 4) };
	for (enum field field = FIELD_PARENT; str_cut(rest, ' ', &head, &rest); field++)
		if (field == wanted)
			return str_to_u64(head, 1U << 30, &number) < 0 ? -1 : (pid_t)number;
	return -1;
}

/*
 * Marks are unique only per agent. Where several agents share a host, each considers its own
 * descendants; orphans are reparented to us.
 */
static bool is_below_us(int proc_fd, pid_t pid)
{
	char name[DIGITS_MAX + 1];

	for (int step = 0; step < ANCESTORS_MAX && pid > 0; step++) {
		if (pid == getpid())
			return true;
		(void)digits_put(name, (uint64_t)pid);
		pid = stat_of(proc_fd, name, FIELD_PARENT);
	}
	return false;
}

/* A process is read with the rights of its own user, because the agent has no others over it. */
static size_t read_environ(int proc_fd, const char *pid_name)
{
	_cleanup_close_ int fd = -1;
	struct stat st;
	size_t size = 0;
	ssize_t n;

	if (fstatat(proc_fd, pid_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	(void)setfsgid(st.st_gid);
	(void)setfsuid(st.st_uid);
	fd = open_of(proc_fd, pid_name, "environ");
	(void)setfsuid(geteuid());
	(void)setfsgid(getegid());
	while (fd >= 0 && size < sizeof(environ_bytes) &&
	       (n = read(fd, environ_bytes + size, sizeof(environ_bytes) - size)) > 0)
		size += (size_t)n;
	return size;
}

static bool is_marked(int proc_fd, const char *pid_name, const char *mark)
{
	size_t size = read_environ(proc_fd, pid_name), mark_n = strlen(mark);
	const char *at = environ_bytes, *end = environ_bytes + size;

	while (at < end) {
		size_t n = strnlen(at, (size_t)(end - at));

		if (n == mark_n && memcmp(at, mark, n) == 0)
			return true;
		at += n + 1;
	}
	return false;
}

static bool belongs(int proc_fd, const char *pid_name, pid_t sid, const char *mark)
{
	pid_t session = stat_of(proc_fd, pid_name, FIELD_SESSION);

	if (session < 0 || session == sid)
		return session == sid;
	return is_marked(proc_fd, pid_name, mark) &&
	       is_below_us(proc_fd, stat_of(proc_fd, pid_name, FIELD_PARENT));
}

/* The descriptor pins the process: the pid cannot be reused between the check and the signal. */
static bool kill_if_in(int proc_fd, const char *pid_name, pid_t sid, const char *mark)
{
	_cleanup_close_ int pidfd = -1;
	uint64_t pid;

	if (str_to_u64(str_of(pid_name), 1U << 30, &pid) < 0 || (pid_t)pid == getpid() ||
	    !belongs(proc_fd, pid_name, sid, mark))
		return false;
	pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0U);
	if (pidfd < 0)
		return false;
	if (belongs(proc_fd, pid_name, sid, mark))
		(void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0U);
	return true;
}

static bool kill_round(int proc_fd, pid_t sid, const char *mark)
{
	static char space[16384] __attribute__((aligned(8)));
	_cleanup_close_ int fd = openat(proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t entries = 0;
	bool found = false;
	long n;

	while (fd >= 0 && entries < ENTRIES_MAX &&
	       (n = syscall(SYS_getdents64, fd, space, sizeof(space))) > 0) {
		for (long at = 0; at < n; entries++) {
			const struct dirent64 *d = (const struct dirent64 *)(space + at);

			if (d->name[0] >= '1' && d->name[0] <= '9')
				found |= kill_if_in(proc_fd, d->name, sid, mark);
			at += d->reclen;
		}
	}
	return found;
}

void session_kill(int proc_fd, pid_t sid, const char *mark)
{
	(void)kill(-sid, SIGKILL);
	for (int round = 0; proc_fd >= 0 && round < ROUNDS_MAX; round++)
		if (!kill_round(proc_fd, sid, mark))
			break;
}
