/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <time.h>

#include "wire/agent.h"

#define SPARE_MAX 4
#define PARKED_MAX 1024 /* beyond this, processes have no group */
/* parked groups checked at each take and release: empties the list faster than it grows */
#define PARKED_LOOKS 2
#define NUMBERS_TRIED 16 /* leftovers of an earlier user of the slot may occupy some */
#define KILL_ROUNDS 16	 /* needed only if something does not freeze at once */
#define FREEZE_LOOKS 10	 /* how often it is checked for that */
#define FREEZE_WAIT_NS 200000
#define PATH_SIZE 32

struct group {
	struct group *next; /* spare or parked */
	struct group *newer, *older;
	uint32_t number;
	int tasks_fd;
	bool threaded; /* v2: holds threads, not processes */
};

/* "NUMBER" or "NUMBER/file"; file is one of ours and short. */
static void name_path(char dst[PATH_SIZE], uint32_t number, const char *file)
{
	char digits[10], *at = dst;
	int n = 0;

	do
		digits[n++] = (char)('0' + number % 10);
	while (number /= 10);
	while (n)
		*at++ = digits[--n];
	if (*file)
		*at++ = '/';
	memcpy(at, file, strlen(file) + 1);
}

static int open_file(const struct groups *groups, const struct group *group, const char *file,
		     int flags)
{
	char path[PATH_SIZE];

	name_path(path, group->number, file);
	return openat(groups->dir_fd, path, flags | O_CLOEXEC | O_NOFOLLOW);
}

static void write_file(const struct groups *groups, const struct group *group, const char *file,
		       const char *text)
{
	_cleanup_close_ int fd = open_file(groups, group, file, O_WRONLY);

	if (fd >= 0 && write(fd, text, strlen(text)) < 0)
		return; /* the result is checked afterwards */
}

/*
 * On v2 a move through cgroup.procs takes a lock of the whole host and waits for an RCU grace
 * period (10 ms). A single thread that moves itself through cgroup.threads does not. That works
 * only in a threaded group. Where the kernel refuses to create one, the slow method is used.
 */
static void set_type(const struct groups *groups, struct group *group)
{
	_cleanup_close_ int fd = -1;

	group->threaded = false;
	if (!groups->v2)
		return;
	fd = open_file(groups, group, "cgroup.type", O_WRONLY);
	group->threaded = fd >= 0 && write(fd, "threaded", 8) == 8;
}

static const char *tasks_name(const struct groups *groups, const struct group *group)
{
	if (!groups->v2)
		return "tasks";
	return group->threaded ? "cgroup.threads" : "cgroup.procs";
}

static void use(struct groups *groups, int dir_fd)
{
	struct statfs fs;
	bool fits = false;

	groups->v2 = false;
	if (fstatfs(dir_fd, &fs) < 0)
		return;
	if (fs.f_type == CGROUP2_SUPER_MAGIC)
		groups->v2 = fits = true;
	else if (fs.f_type == CGROUP_SUPER_MAGIC)
		fits = faccessat(dir_fd, "freezer.state", R_OK, 0) == 0;
	if (fits && faccessat(dir_fd, ".", W_OK, 0) == 0 && fcntl(dir_fd, F_SETFD, FD_CLOEXEC) == 0)
		groups->dir_fd = dir_fd;
	else
		(void)close(dir_fd);
}

void groups_open(struct groups *groups, int dir_fd)
{
	*groups = (struct groups){ .dir_fd = -1, .next_number = 1 };
	use(groups, dir_fd);
}

uint64_t groups_note(const struct groups *groups, const char *name)
{
	_cleanup_close_ int fd = groups->dir_fd < 0 ? -1
						    : openat(groups->dir_fd, ".",
							     O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint64_t value;

	if (fd < 0 || fgetxattr(fd, name, &value, sizeof(value)) != sizeof(value))
		return 0;
	return value;
}

uint64_t groups_frozen_us(const struct groups *groups)
{
	return groups_note(groups, AGENT_FROZEN_NOTE);
}

static bool has_event(const struct groups *groups, const struct group *group, const char *event)
{
	_cleanup_close_ int fd = open_file(groups, group, "cgroup.events", O_RDONLY);
	char text[64] = "";

	return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strstr(text, event);
}

/* Opened each time, because on v1 a descriptor that was read before returns the old list. */
bool group_is_empty(struct groups *groups, struct group *group)
{
	_cleanup_close_ int fd = -1;
	char text[64] = "";

	if (!group)
		return true;
	if (groups->v2)
		return has_event(groups, group, "populated 0");
	fd = open_file(groups, group, "cgroup.procs", O_RDONLY);
	return fd >= 0 && read(fd, text, sizeof(text)) == 0;
}

static void close_tasks(struct group *group)
{
	if (group->tasks_fd >= 0)
		(void)close(group->tasks_fd);
	group->tasks_fd = -1;
}

static void open_tasks(struct groups *groups, struct group *group)
{
	set_type(groups, group);
	group->tasks_fd = open_file(groups, group, tasks_name(groups, group), O_WRONLY);
}

static void drop(struct groups *groups, struct group *group)
{
	char path[PATH_SIZE];

	close_tasks(group);
	*(group->newer ? &group->newer->older : &groups->all) = group->older;
	if (group->older)
		group->older->newer = group->newer;
	name_path(path, group->number, "");
	/* if it fails, the warden removes it later */
	(void)unlinkat(groups->dir_fd, path, AT_REMOVEDIR);
	free(group);
}

static void keep_spare(struct groups *groups, struct group *group)
{
	if (groups->spare_count == SPARE_MAX) {
		drop(groups, group);
		return;
	}
	group->next = groups->spare;
	groups->spare = group;
	groups->spare_count++;
}

static void park(struct groups *groups, struct group *group)
{
	group->next = NULL;
	*(groups->parked ? &groups->parked_last->next : &groups->parked) = group;
	groups->parked_last = group;
	groups->parked_count++;
}

/* Rotates the list: groups that are still in use move to its end. */
static void look_at_parked(struct groups *groups)
{
	for (int i = 0; i < PARKED_LOOKS && groups->parked; i++) {
		struct group *group = groups->parked;

		groups->parked = group->next;
		groups->parked_count--;
		if (group_is_empty(groups, group))
			keep_spare(groups, group);
		else
			park(groups, group);
	}
}

static struct group *add(struct groups *groups, struct group *group)
{
	group->newer = NULL;
	group->older = groups->all;
	if (groups->all)
		groups->all->newer = group;
	return groups->all = group;
}

static struct group *make(struct groups *groups)
{
	struct group *group = malloc(sizeof(*group));
	char path[PATH_SIZE];

	if (!group)
		return NULL;
	for (int i = 0; i < NUMBERS_TRIED; i++) {
		bool made;

		group->number = groups->next_number++;
		name_path(path, group->number, "");
		made = mkdirat(groups->dir_fd, path, 0755) == 0;
		if (!made && errno != EEXIST)
			break;
		open_tasks(groups, group);
		/* An earlier user of the slot may have left it, or still be in it. */
		if (group->tasks_fd >= 0 && (made || group_is_empty(groups, group)))
			return add(groups, group);
		close_tasks(group);
		if (!made)
			continue;
		(void)unlinkat(groups->dir_fd, path, AT_REMOVEDIR);
		break;
	}
	free(group);
	return NULL;
}

void groups_prepare(struct groups *groups)
{
	struct group *group = groups->dir_fd < 0 || groups->spare ? NULL : make(groups);

	if (group)
		keep_spare(groups, group);
}

struct group *group_take(struct groups *groups)
{
	struct group *group;

	if (groups->dir_fd < 0)
		return NULL;
	look_at_parked(groups);
	group = groups->spare;
	if (!group)
		return groups->parked_count < PARKED_MAX ? make(groups) : NULL;
	groups->spare = group->next;
	groups->spare_count--;
	return group;
}

int group_tasks_fd(const struct group *group)
{
	return group ? group->tasks_fd : -1;
}

bool group_try_release(struct groups *groups, struct group *group)
{
	if (!group)
		return true;
	look_at_parked(groups);
	if (!group_is_empty(groups, group))
		return false;
	keep_spare(groups, group);
	return true;
}

void group_release(struct groups *groups, struct group *group)
{
	if (!group_try_release(groups, group))
		park(groups, group);
}

/*
 * The process that a listed thread represents; 0 for none, so that each process counts once. A
 * thread other than the first represents its process if the first has ended.
 */
static pid_t process_of(pid_t tid)
{
	static const char key[] = "\nTgid:\t";
	char path[PATH_SIZE + 6] = "/proc/", text[512] = "", *at;
	_cleanup_close_ int fd = -1;
	pid_t pid = 0;

	if (syscall(SYS_tgkill, tid, tid, 0) == 0)
		return tid;
	name_path(path + strlen(path), (uint32_t)tid, "status");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return 0;
	at = strstr(text, key);
	for (at = at ? at + strlen(key) : text; *at >= '0' && *at <= '9'; at++)
		pid = pid * 10 + (*at - '0');
	name_path(path + strlen("/proc/"), (uint32_t)pid, "status");
	(void)close(fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	memset(text, 0, sizeof(text));
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return 0;
	return strstr(text, "\nState:\tZ") ? pid : 0;
}

/* Calls on_pid for every process of the group; returns their number. */
static size_t each_member(const struct groups *groups, const struct group *group,
			  void (*on_pid)(void *context, pid_t pid), void *context)
{
	const char *list = group->threaded ? "cgroup.threads" : "cgroup.procs";
	_cleanup_close_ int fd = open_file(groups, group, list, O_RDONLY);
	char space[2048];
	size_t count = 0;
	pid_t pid = 0;
	ssize_t n;

	while (fd >= 0 && (n = read(fd, space, sizeof(space))) > 0) {
		for (ssize_t i = 0; i < n; i++) {
			if (space[i] >= '0' && space[i] <= '9') {
				pid = pid * 10 + (space[i] - '0');
				continue;
			}
			if (pid > 1 && group->threaded)
				pid = process_of(pid);
			if (pid > 1) { /* 1 is the agent, 0 is outside our pid namespace */
				on_pid(context, pid);
				count++;
			}
			pid = 0;
		}
	}
	return count;
}

static void kill_one(void *context, pid_t pid)
{
	(void)context;
	(void)kill(pid, SIGKILL);
}

/* Waits briefly for FROZEN: until then a member may be in the middle of a fork. */
static bool freeze(const struct groups *groups, const struct group *group)
{
	static const struct timespec pause = { .tv_nsec = FREEZE_WAIT_NS };
	_cleanup_close_ int fd = -1;
	char state[8];

	if (groups->v2) {
		write_file(groups, group, "cgroup.freeze", "1");
	} else {
		fd = open_file(groups, group, "freezer.state", O_RDWR);
		if (fd < 0 || write(fd, "FROZEN", 6) < 0)
			return false;
	}
	for (int i = 0; i < FREEZE_LOOKS; i++) {
		if (groups->v2 ? has_event(groups, group, "frozen 1")
			       : pread(fd, state, sizeof(state), 0) >= 6 &&
					 memcmp(state, "FROZEN", 6) == 0)
			return true;
		(void)nanosleep(&pause, NULL);
	}
	return false;
}

static void thaw(const struct groups *groups, const struct group *group)
{
	write_file(groups, group, groups->v2 ? "cgroup.freeze" : "freezer.state",
		   groups->v2 ? "0" : "THAWED");
}

bool group_kill(struct groups *groups, struct group *group)
{
	if (!group)
		return true;
	if (groups->v2 && !group->threaded) {
		bool was_empty = group_is_empty(groups, group);

		write_file(groups, group, "cgroup.kill", "1");
		return was_empty;
	}
	for (int round = 0; round < KILL_ROUNDS; round++) {
		bool frozen = freeze(groups, group);
		size_t count = each_member(groups, group, kill_one, NULL);

		thaw(groups, group); /* frozen processes do not die */
		/*
		 * No process was missed, and none forks with a SIGKILL pending. Without a complete
		 * freeze, a list can be empty although a chain of forks continues.
		 */
		if (frozen)
			return count == 0;
	}
	return false;
}

struct member_list {
	pid_t *pids;
	size_t count, max;
};

static void list_one(void *context, pid_t pid)
{
	struct member_list *list = context;

	if (list->count < list->max)
		list->pids[list->count++] = pid;
}

size_t group_members(struct groups *groups, struct group *group, pid_t *ret_pids, size_t max)
{
	struct member_list list = { ret_pids, 0, max };

	return group ? each_member(groups, group, list_one, &list) : 0;
}

void groups_let_go(struct groups *groups)
{
	if (groups->dir_fd < 0)
		return;
	while (groups->spare) {
		struct group *group = groups->spare;

		groups->spare = group->next;
		drop(groups, group);
	}
	groups->spare_count = 0;
	for (struct group *group = groups->all; group; group = group->older)
		close_tasks(group);
	(void)close(groups->dir_fd);
	groups->dir_fd = -1;
	groups->away = true;
}

void groups_take_back(struct groups *groups, int dir_fd)
{
	char path[PATH_SIZE];

	if (!groups->away) {
		(void)close(dir_fd);
		return;
	}
	groups->away = false;
	use(groups, dir_fd);
	for (struct group *group = groups->all; groups->dir_fd >= 0 && group;
	     group = group->older) {
		name_path(path, group->number, "");
		(void)mkdirat(groups->dir_fd, path, 0755); /* empty groups were not restored */
		open_tasks(groups, group);
	}
}
