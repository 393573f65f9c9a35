/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a slot, and the groups that its agent created. Only pid 1 of a sandbox has a
 * descriptor of its freezer group, but pid 1 may be hostile: groups are walked with bounds on
 * number and depth, and their content is not trusted.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "sys/cgroup/slot.h"
#include "sys/syscalls.h"

#define DEPTH_MAX 64 /* one open descriptor per level; deeper groups are never removed */

static DIR *open_groups(int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_DIRECTORY | O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir && fd >= 0)
		(void)close(fd);
	return dir;
}

static const char *next_group(DIR *dir)
{
	for (struct dirent *e = readdir(dir); e; e = readdir(dir))
		if (e->d_type == DT_DIR && e->d_name[0] != '.')
			return e->d_name;
	return NULL;
}

static void remove_groups(int parent_fd, const char *name, int depth);

static void remove_below(DIR *dir, const char *below, int depth)
{
	if (unlinkat(dirfd(dir), below, AT_REMOVEDIR) == 0 || depth == DEPTH_MAX)
		return;
	remove_groups(dirfd(dir), below, depth + 1);
	(void)unlinkat(dirfd(dir), below, AT_REMOVEDIR);
}

static void remove_groups(int parent_fd, const char *name, int depth)
{
	DIR *dir = open_groups(parent_fd, name);

	for (const char *below; dir && (below = next_group(dir));)
		remove_below(dir, below, depth);
	if (dir)
		(void)closedir(dir);
}

int cgroup_remove_group(int parent_fd, const char *name)
{
	if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	remove_groups(parent_fd, name, 0);
	return unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

/* The first group that an agent creates can serve the next agent if it is empty. */
static bool stays(DIR *dir, const char *name)
{
	struct stat st;

	return strcmp(name, "1") == 0 && fstatat(dirfd(dir), name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_nlink == 2 && file_write(dirfd(dir), "1/freezer.state", "THAWED") >= 0;
}

void cgroup_clear_below(const struct cgroup_tree *tree, unsigned slot)
{
	bool v2 = tree->v2[CGROUP_FREEZER];
	char name[64];
	DIR *dir;

	if (tree->fd[CGROUP_FREEZER] < 0 || slot_path(name, slot, "") < 0)
		return;
	dir = open_groups(tree->fd[CGROUP_FREEZER], name);
	for (const char *below; dir && (below = next_group(dir));)
		if (v2 || !stays(dir, below))
			remove_below(dir, below, 0);
	if (dir)
		(void)closedir(dir);
}

static void thaw_groups(int parent_fd, const char *name, bool v2, int depth)
{
	DIR *dir = open_groups(parent_fd, name);

	if (!dir)
		return;
	(void)!file_write(dirfd(dir), v2 ? "cgroup.freeze" : "freezer.state", v2 ? "0" : "THAWED");
	for (const char *below; depth < DEPTH_MAX && (below = next_group(dir));)
		thaw_groups(dirfd(dir), below, v2, depth + 1);
	(void)closedir(dir);
}

void cgroup_thaw_below(const struct cgroup_tree *tree, unsigned slot)
{
	char name[64];

	if (tree->fd[CGROUP_FREEZER] >= 0 && slot_path(name, slot, "") >= 0)
		thaw_groups(tree->fd[CGROUP_FREEZER], name, tree->v2[CGROUP_FREEZER], 0);
}

/*
 * Members are listed in the first hierarchy in which the agent creates no groups. A pure v2 host
 * has no such hierarchy: the list then contains the processes that were never moved, including pid
 * 1.
 */
static int members_open(const struct cgroup_tree *tree, unsigned slot, FILE **ret)
{
	static const enum cgroup_controller order[] = { CGROUP_PIDS,	CGROUP_MEMORY,
							CGROUP_CPU,	CGROUP_CPUACCT,
							CGROUP_DEVICES, CGROUP_FREEZER };

	for (size_t k = 0; k < ARRAY_LEN(order); k++) {
		enum cgroup_controller i = order[k];
		char path[64];
		int fd, r;

		if (tree->fd[i] < 0)
			continue;
		r = slot_path(path, slot, "cgroup.procs");
		if (r < 0)
			return r;
		fd = openat(tree->fd[i], path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		*ret = fdopen(fd, "r");
		if (*ret)
			return 0;
		(void)close(fd);
		return -ENOMEM;
	}
	return -ENOENT;
}

bool cgroup_has_pid(const struct cgroup_tree *tree, unsigned slot, int pid)
{
	FILE *members = NULL;
	int member;
	bool found = false;

	if (members_open(tree, slot, &members) < 0 || !members)
		return false;
	while (!found && fscanf(members, "%d", &member) == 1)
		found = member == pid;
	(void)fclose(members);
	return found;
}

static void each_in(FILE *members, void (*on_pid)(void *arg, int pid), void *arg)
{
	int member;

	while (fscanf(members, "%d", &member) == 1)
		if (member > 1)
			on_pid(arg, member);
	(void)fclose(members);
}

/* One level, which is where the agent puts processes. */
static void each_below(int parent_fd, const char *name, void (*on_pid)(void *arg, int pid),
		       void *arg)
{
	DIR *dir = open_groups(parent_fd, name);

	for (const char *below; dir && (below = next_group(dir));) {
		char path[300];
		FILE *members;
		int fd;

		(void)snprintf(path, sizeof(path), "%s/cgroup.procs", below);
		fd = openat(dirfd(dir), path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		members = fd < 0 ? NULL : fdopen(fd, "r");
		if (members)
			each_in(members, on_pid, arg);
		else if (fd >= 0)
			(void)close(fd);
	}
	if (dir)
		(void)closedir(dir);
}

void cgroup_each_member(const struct cgroup_tree *tree, unsigned slot,
			void (*on_pid)(void *arg, int pid), void *arg)
{
	FILE *members = NULL;
	char name[64];

	if (members_open(tree, slot, &members) >= 0 && members)
		each_in(members, on_pid, arg);
	if (tree->v2[CGROUP_FREEZER] && slot_path(name, slot, "") >= 0)
		each_below(tree->fd[CGROUP_FREEZER], name, on_pid, arg);
}

bool cgroup_exists(const struct cgroup_tree *tree, unsigned slot)
{
	char path[64];

	if (slot_path(path, slot, "") < 0)
		return false;
	for (int i = 0; i < CGROUP_COUNT; i++)
		if (tree->fd[i] >= 0 && faccessat(tree->fd[i], path, F_OK, 0) == 0)
			return true;
	return false;
}

bool cgroup_is_empty(const struct cgroup_tree *tree, unsigned slot)
{
	FILE *members = NULL;
	int member;
	bool empty;

	if (tree->v2[CGROUP_FREEZER]) {
		char path[64];
		uint64_t populated;

		if (slot_path(path, slot, "cgroup.events") >= 0 &&
		    file_read_field(tree->fd[CGROUP_FREEZER], path, "populated", &populated) >= 0)
			return populated == 0; /* includes groups below */
	}
	if (members_open(tree, slot, &members) < 0 || !members)
		return true;
	empty = fscanf(members, "%d", &member) != 1;
	(void)fclose(members);
	return empty;
}

/* Pinned first and checked after: its number may be another process's by the time it is killed. */
static void kill_member(const struct cgroup_tree *tree, unsigned slot, int pid)
{
	_cleanup_close_ int pidfd = sys_pidfd_open(pid);

	if (pidfd >= 0 && cgroup_has_pid(tree, slot, pid))
		(void)sys_pidfd_kill(pidfd, SIGKILL);
}

int cgroup_kill(const struct cgroup_tree *tree, unsigned slot)
{
	FILE *members = NULL;
	int member, r;

	(void)!cgroup_freeze(tree, slot, false); /* a frozen task does not die */
	if (tree->v2_fd >= 0) {
		char path[64];

		r = slot_path(path, slot, "cgroup.kill");
		if (r >= 0 && file_write(tree->v2_fd, path, "1") >= 0)
			return 0;
	}
	r = members_open(tree, slot, &members);
	if (r < 0 || !members)
		return r;
	while (fscanf(members, "%d", &member) == 1)
		if (member > 1)
			kill_member(tree, slot, member);
	(void)fclose(members);
	return 0;
}
