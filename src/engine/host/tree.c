/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/host/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/str.h"

#define ROUNDS_MAX 200
#define ROUND_PAUSE_US 1000
#define DEATH_TIMEOUT_MS 5000
#define PROCESSES_MAX 65536
#define DEPTH_MAX 512 /* deeper directories are not removed, and reported */

struct entry {
	pid_t pid, ppid;
	bool zombie;
	bool inside;
	uint64_t ticks;
	uint64_t rss_pages;
};

struct table {
	struct entry *entries;
	size_t count, capacity;
};

static bool read_entry(int proc_fd, const char *name, struct entry *ret)
{
	char path[300], text[1024], state;
	_cleanup_close_ int fd = -1;
	unsigned long utime, stime;
	const char *rest;
	uint64_t pid;
	long rss;
	int ppid;
	ssize_t n;

	if (str_to_u64(str_of(name), 1U << 30, &pid) < 0)
		return false;
	(void)snprintf(path, sizeof(path), "%s/stat", name);
	fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return false;
	text[n] = '\0';
	rest = strrchr(text, ')'); /* the process name before it may contain anything */
	if (!rest || sscanf(rest + 1,
			    " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d "
			    "%*d %*d %*u %*u %ld",
			    &state, &ppid, &utime, &stime, &rss) != 5)
		return false;
	*ret = (struct entry){ .pid = (pid_t)pid,
			       .ppid = ppid,
			       .zombie = state == 'Z' || state == 'X',
			       .ticks = utime + stime,
			       .rss_pages = rss > 0 ? (uint64_t)rss : 0 };
	return true;
}

static int table_add(struct table *table, const struct entry *entry)
{
	if (table->count == PROCESSES_MAX)
		return -ENOBUFS;
	if (table->count == table->capacity) {
		size_t capacity = table->capacity ? table->capacity * 2 : 256;
		struct entry *entries = realloc(table->entries, capacity * sizeof(*entries));

		if (!entries)
			return -ENOMEM;
		table->entries = entries;
		table->capacity = capacity;
	}
	table->entries[table->count++] = *entry;
	return 0;
}

/* Marks root and its descendants, in as many rounds as the tree is deep. */
static void mark(struct table *table, pid_t root)
{
	bool changed = true;

	for (size_t i = 0; i < table->count; i++)
		table->entries[i].inside = table->entries[i].pid == root;
	while (changed) {
		changed = false;
		for (size_t i = 0; i < table->count; i++) {
			struct entry *e = &table->entries[i];

			for (size_t k = 0; !e->inside && k < table->count; k++)
				if (table->entries[k].inside && table->entries[k].pid == e->ppid)
					e->inside = changed = true;
		}
	}
}

static int table_read(struct table *table, pid_t root)
{
	DIR *proc = opendir("/proc");
	const struct dirent *d;
	struct entry entry;
	int r = 0;

	table->count = 0;
	if (!proc)
		return -errno;
	while (r == 0 && (d = readdir(proc)))
		if (d->d_name[0] >= '1' && d->d_name[0] <= '9' &&
		    read_entry(dirfd(proc), d->d_name, &entry))
			r = table_add(table, &entry);
	(void)closedir(proc);
	if (r == 0)
		mark(table, root);
	return r;
}

int tree_usage(pid_t root, struct tree_usage *ret)
{
	struct table table = { 0 };
	struct tree_usage usage = { 0 };
	uint64_t tick_us = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	int r = table_read(&table, root);

	for (size_t i = 0; r == 0 && i < table.count; i++) {
		const struct entry *e = &table.entries[i];

		if (!e->inside || e->zombie)
			continue;
		usage.pids++;
		usage.memory_bytes += e->rss_pages * (uint64_t)sysconf(_SC_PAGESIZE);
		usage.cpu_us += e->ticks * tick_us;
	}
	free(table.entries);
	if (r < 0)
		return r;
	if (usage.pids == 0)
		return -ESRCH;
	*ret = usage;
	return 0;
}

static int send_signal(int pidfd, int signum)
{
	return (int)syscall(SYS_pidfd_send_signal, pidfd, signum, NULL, 0U);
}

/* The pidfd is opened before the second check, so a reused pid is spared. */
static void kill_entry(int proc_fd, const struct entry *e)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, e->pid, 0U);
	struct entry now;
	char name[16];

	(void)snprintf(name, sizeof(name), "%d", e->pid);
	if (pidfd >= 0 && read_entry(proc_fd, name, &now) && now.ppid == e->ppid)
		(void)send_signal(pidfd, SIGKILL);
}

int tree_kill(pid_t root, int root_pidfd)
{
	_cleanup_close_ int proc_fd = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct pollfd dead = { .fd = root_pidfd, .events = POLLIN };
	struct table table = { 0 };
	bool found = true;

	(void)send_signal(root_pidfd, SIGSTOP);
	for (int round = 0; found && round < ROUNDS_MAX; round++) {
		found = false;
		if (table_read(&table, root) < 0)
			break;
		for (size_t i = 0; i < table.count; i++) {
			const struct entry *e = &table.entries[i];

			if (e->inside && !e->zombie && e->pid != root) {
				found = true;
				kill_entry(proc_fd, e);
			}
		}
		if (found)
			(void)usleep(ROUND_PAUSE_US);
	}
	free(table.entries);
	(void)send_signal(root_pidfd, SIGKILL);
	return poll(&dead, 1, DEATH_TIMEOUT_MS) == 1 ? 0 : -EBUSY;
}

static int remove_below(int dir_fd, const char *name, int depth)
{
	int fd, r = 0;
	const struct dirent *d;
	DIR *dir;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (depth == DEPTH_MAX)
		return -ELOOP;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	(void)fchmod(fd, 0700);
	dir = fdopendir(fd);
	if (!dir) {
		(void)close(fd);
		return -ENOMEM;
	}
	while (r == 0 && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0)
			r = remove_below(fd, d->d_name, depth + 1);
	(void)closedir(dir);
	if (r == 0 && unlinkat(dir_fd, name, AT_REMOVEDIR) < 0)
		r = -errno;
	return r;
}

int tree_remove(int dir_fd, const char *name)
{
	return remove_below(dir_fd, name, 0);
}
