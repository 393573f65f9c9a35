/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/kill_session.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/stat.h>

#include "agent/digits.h"
#include "agent/process/proc_stat.h"
#include "base/str.h"

#define ROUNDS_MAX 8 /* a fork bomb may outrun a single scan; the pids limit bounds it */

#define ANCESTORS_MAX 4096
#define ENVIRON_MAX_BYTES (128U << 10) /* our mark is put first; programs rarely move it far */

static char environ_bytes[ENVIRON_MAX_BYTES];

struct search {
	int proc_fd;
	pid_t sid;
	const char *mark;
	int signum;
	size_t found;
};

/*
 * Marks are unique only per agent. Where several agents share a host, each considers its own
 * descendants; orphans are reparented to us.
 */
static bool is_below_us(int proc_fd, pid_t pid)
{
	struct proc_stat stat;

	for (int step = 0; step < ANCESTORS_MAX && pid > 0; step++) {
		if (pid == getpid())
			return true;
		if (!proc_stat_of(proc_fd, pid, &stat))
			return false;
		pid = stat.parent;
	}
	return false;
}

/* A process is read with the rights of its own user, because the agent has no others over it. */
static size_t read_environ(int proc_fd, pid_t pid)
{
	char pid_name[DIGITS_MAX + 1];
	_cleanup_close_ int fd = -1;
	struct stat st;
	size_t size = 0;
	ssize_t n;

	(void)digits_put(pid_name, (uint64_t)pid);
	if (fstatat(proc_fd, pid_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	(void)setfsgid(st.st_gid);
	(void)setfsuid(st.st_uid);
	fd = proc_open(proc_fd, pid_name, "environ");
	(void)setfsuid(geteuid());
	(void)setfsgid(getegid());
	while (fd >= 0 && size < sizeof(environ_bytes) &&
	       (n = read(fd, environ_bytes + size, sizeof(environ_bytes) - size)) > 0)
		size += (size_t)n;
	return size;
}

static bool is_marked(int proc_fd, pid_t pid, const char *mark)
{
	size_t size = read_environ(proc_fd, pid), mark_n = strlen(mark);
	const char *at = environ_bytes, *end = environ_bytes + size;

	while (at < end) {
		size_t n = strnlen(at, (size_t)(end - at));

		if (n == mark_n && memcmp(at, mark, n) == 0)
			return true;
		at += n + 1;
	}
	return false;
}

static bool try_one(void *context, const struct proc_stat *stat)
{
	struct search *search = context;
	bool in_session = search->sid > 0 && stat->session == search->sid;

	if (stat->zombie || stat->pid == getpid() ||
	    !(in_session || is_marked(search->proc_fd, stat->pid, search->mark)) ||
	    !is_below_us(search->proc_fd, stat->parent))
		return true;
	if (!search->signum || proc_signal(search->proc_fd, stat, search->signum) == 0)
		search->found++;
	return true;
}

size_t session_signal(int proc_fd, pid_t sid, const char *mark, int signum)
{
	struct search search = { proc_fd, sid, mark, signum, 0 };

	if (proc_fd >= 0)
		proc_each(proc_fd, try_one, &search);
	return search.found;
}

void session_kill(int proc_fd, pid_t sid, const char *mark)
{
	for (int round = 0; round < ROUNDS_MAX; round++)
		if (session_signal(proc_fd, sid, mark, SIGKILL) == 0)
			break;
}
