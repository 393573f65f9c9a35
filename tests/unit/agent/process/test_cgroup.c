/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's groups for processes, and the counters of the memory group, on the host's own
 * cgroups.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "agent/process/cgroup.h"
#include "agent/system/oom.h"
#include "base/time.h"

#define FREEZER "/sys/fs/cgroup/freezer"
#define SIZE_OF_SPARE 4	 /* SPARE_MAX of cgroup.c */
#define WAIT_US 60000000 /* for expected events: a loaded machine is slow */
#define MEMORY "/sys/fs/cgroup/memory"

static char path[128];
static struct groups groups;

static bool make_group(const char *hierarchy)
{
	(void)snprintf(path, sizeof(path), "%s/cay-unit-%d", hierarchy, getpid());
	return mkdir(path, 0755) == 0;
}

static unsigned groups_made(void)
{
	DIR *dir = opendir(path);
	unsigned count = 0;

	for (struct dirent *e; dir && (e = readdir(dir));)
		count += e->d_type == DT_DIR && e->d_name[0] != '.';
	(void)closedir(dir);
	return count;
}

static int setup(void **state)
{
	(void)state;
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); /* as the agent */
	if (geteuid() != 0 || !make_group(FREEZER))
		return 0; /* the tests skip */
	groups_open(&groups, open(path, O_RDONLY | O_DIRECTORY));
	return groups_on(&groups) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	if (!groups_on(&groups))
		return 0;
	/* More than it keeps: each released one is then removed. */
	groups.spare_count = SIZE_OF_SPARE;
	for (struct group *g = groups.spare, *next; g; g = next) {
		next = *(struct group **)(void *)g; /* its first member */
		group_release(&groups, g);
	}
	(void)close(groups.dir_fd);
	groups.dir_fd = -1;
	return rmdir(path);
}

static void need_freezer(void)
{
	if (!groups_on(&groups)) {
		print_message("skipped: no v1 freezer to write to\n");
		skip();
	}
}

/* A child in the group that runs body. */
static pid_t start(struct group *group, void (*body)(void))
{
	pid_t pid = fork();

	if (pid == 0) {
		if (write(group_tasks_fd(group), "0", 1) != 1)
			_exit(1);
		body();
		_exit(0);
	}
	return pid;
}

static void reap_all(void)
{
	while (waitpid(-1, NULL, 0) > 0)
		;
}

static bool becomes_empty(struct group *group)
{
	int64_t until_us = time_mono_us() + WAIT_US;

	while (!group_is_empty(&groups, group) && time_mono_us() < until_us) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		(void)usleep(1000);
	}
	return group_is_empty(&groups, group);
}

static void body_sleep(void)
{
	(void)sleep(100);
}

/* Two that left session and parent, one that is stopped. */
static void body_scatter(void)
{
	for (int i = 0; i < 3; i++) {
		if (fork() == 0) {
			(void)setsid();
			if (i == 2)
				(void)raise(SIGSTOP);
			(void)sleep(100);
		}
	}
}

/* Never in one place: each ends as soon as the next one runs. */
static void body_run_away(void)
{
	for (;;)
		if (fork() > 0)
			_exit(0);
}

static void body_many(void)
{
	for (int i = 0; i < 200; i++)
		if (fork() == 0)
			for (;;)
				(void)getppid();
	(void)sleep(100);
}

static void test_nothing_without_cgroups(void **state)
{
	struct groups none;
	struct memory memory;
	int fd = open("/dev/null", O_RDONLY);

	(void)state;
	groups_open(&none, fd);
	assert_false(groups_on(&none));
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	groups_open(&none, 987);
	assert_false(groups_on(&none));
	assert_null(group_take(&none));
	assert_int_equal(group_tasks_fd(NULL), -1);
	assert_true(group_is_empty(&none, NULL));
	assert_true(group_kill(&none, NULL));
	assert_int_equal(group_members(&none, NULL, NULL, 0), 0);
	group_release(&none, NULL);
	memory_open(&memory, open("/dev/null", O_RDONLY));
	assert_int_equal(memory_kills(&memory), 0);
	assert_false(memory_claim_kill(&memory, 0));
	assert_int_equal(memory_limit(&memory), 0);
	assert_int_equal(memory_peak(&memory), 0);
}

static void test_used_again(void **state)
{
	(void)state;
	need_freezer();
	for (int i = 0; i < 50; i++) {
		struct group *group = group_take(&groups);
		pid_t pid = start(group, body_sleep), seen[4];

		while (group_is_empty(&groups, group))
			(void)usleep(100);
		assert_int_equal(group_members(&groups, group, seen, 4), 1);
		assert_int_equal(seen[0], pid);
		assert_false(group_kill(&groups, group));
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		group_release(&groups, group);
	}
	assert_true(groups_made() <= 2); /* a dead one may show for a moment longer */
}

/* Waits until the group has that many members. */
static void expect_members(struct group *group, size_t count)
{
	int64_t until_us = time_mono_us() + WAIT_US;
	pid_t seen[256];

	assert_true(count <= ARRAY_LEN(seen));
	while (group_members(&groups, group, seen, ARRAY_LEN(seen)) < count) {
		assert_true(time_mono_us() < until_us);
		(void)usleep(1000);
	}
}

static void kills(void (*body)(void), size_t members)
{
	struct group *group = group_take(&groups);

	(void)start(group, body);
	expect_members(group, members);
	/* On a busy host the first freezes may time out, and a later one finds it empty. */
	if (!group_kill(&groups, group))
		assert_true(becomes_empty(group));
	assert_true(group_kill(&groups, group));
	reap_all();
	group_release(&groups, group);
}

/*
 * A list of a chain of forks can be empty although one of them runs at any time: only group_kill(),
 * which freezes first, is reliable. Nothing else may be asserted before the chain is certainly
 * dead.
 */
static void kills_run_away(void)
{
	struct group *group = group_take(&groups);
	int64_t until_us = time_mono_us() + WAIT_US;
	bool empty = false, late = false;

	(void)start(group, body_run_away);
	expect_members(group, 1);
	while (!empty && !late) {
		empty = group_kill(&groups, group);
		late = time_mono_us() > until_us;
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
	}
	assert_true(empty);
	reap_all();
	group_release(&groups, group);
}

static void test_kill(void **state)
{
	(void)state;
	need_freezer();
	kills(body_sleep, 1);
	kills(body_scatter, 3);
	kills(body_many, 201);
	for (int i = 0; i < 5; i++)
		kills_run_away();
}

static void test_parked(void **state)
{
	struct group *busy[20];
	pid_t pids[20];

	(void)state;
	need_freezer();
	for (size_t i = 0; i < ARRAY_LEN(busy); i++) {
		busy[i] = group_take(&groups);
		pids[i] = start(busy[i], body_sleep);
		while (group_is_empty(&groups, busy[i]))
			(void)usleep(100);
		group_release(&groups, busy[i]); /* its processes live on */
	}
	assert_int_equal(groups.parked_count, ARRAY_LEN(busy));
	for (size_t i = 0; i < ARRAY_LEN(busy); i++)
		assert_int_equal(kill(pids[i], SIGKILL), 0);
	reap_all();
	for (size_t i = 0; i < ARRAY_LEN(busy); i++)
		group_release(&groups, group_take(&groups));
	assert_int_equal(groups.parked_count, 0);
	assert_true(groups.spare_count <= 4);
	assert_int_equal(groups_made(), groups.spare_count);
}

static bool is_unused(const char *group)
{
	char name[176], first;
	int fd;
	ssize_t n;

	(void)snprintf(name, sizeof(name), "%s/cgroup.procs", group);
	fd = open(name, O_RDONLY);
	n = read(fd, &first, 1);
	(void)close(fd);
	return n == 0;
}

/* An earlier user of the slot left one group with a process and one that is empty. */
static void test_leftovers(void **state)
{
	struct group *group, *spares[5] = { NULL };
	char busy[160], empty[160], tasks[176];
	pid_t pid, other;

	(void)state;
	need_freezer();
	for (size_t i = 0; groups.spare; i++)
		spares[i] = group_take(&groups);
	(void)snprintf(busy, sizeof(busy), "%s/%u", path, groups.next_number);
	(void)snprintf(empty, sizeof(empty), "%s/%u", path, groups.next_number + 1);
	assert_int_equal(mkdir(busy, 0755), 0);
	assert_int_equal(mkdir(empty, 0755), 0);
	(void)snprintf(tasks, sizeof(tasks), "%s/tasks", busy);
	pid = fork();
	if (pid == 0) {
		int fd = open(tasks, O_WRONLY);

		if (write(fd, "0", 1) != 1)
			_exit(1);
		body_sleep();
	}
	while (is_unused(busy))
		(void)usleep(100);
	group = group_take(&groups);
	assert_non_null(group);
	other = start(group, body_sleep);
	while (is_unused(empty)) /* it is this one */
		(void)usleep(100);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(kill(other, SIGKILL), 0);
	reap_all();
	group_release(&groups, group);
	assert_int_equal(rmdir(busy), 0);
	for (size_t i = 0; i < ARRAY_LEN(spares); i++)
		group_release(&groups, spares[i]);
}

static void test_memory(void **state)
{
	char name[160];
	struct memory memory;
	uint64_t before;
	int status;
	pid_t pid;

	(void)state;
	if (geteuid() != 0 || !make_group(MEMORY))
		skip();
	(void)snprintf(name, sizeof(name), "%s/memory.limit_in_bytes", path);
	status = open(name, O_WRONLY);
	assert_int_equal(write(status, "8388608", 7), 7);
	(void)close(status);
	memory_open(&memory, open(path, O_RDONLY | O_DIRECTORY));
	assert_int_equal(memory_limit(&memory), 8388608);
	before = memory_kills(&memory);
	assert_false(memory_claim_kill(&memory, before));
	(void)snprintf(name, sizeof(name), "%s/tasks", path);
	pid = fork();
	if (pid == 0) {
		int fd = open(name, O_WRONLY);
		volatile char *bytes;

		(void)!write(fd, "0", 1);
		bytes = malloc(64 << 20); /* in the group: MALLOC_PERTURB_ touches it at once */
		for (size_t i = 0; bytes && i < 64 << 20; i += 4096)
			bytes[i] = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(memory_kills(&memory), before + 1);
	assert_in_range(memory_peak(&memory), 4 << 20, 8 << 20);
	assert_false(memory_claim_kill(&memory, before + 1)); /* a process that started later */
	assert_true(memory_claim_kill(&memory, before));
	assert_false(memory_claim_kill(&memory, before)); /* once */
	(void)close(memory.events_fd);
	(void)close(memory.dir_fd);
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest alone[] = {
		cmocka_unit_test(test_nothing_without_cgroups),
		cmocka_unit_test(test_memory),
	};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_used_again),
		cmocka_unit_test(test_kill),
		cmocka_unit_test(test_parked),
		cmocka_unit_test(test_leftovers),
	};

	return cmocka_run_group_tests(alone, NULL, NULL) +
	       cmocka_run_group_tests(tests, setup, teardown);
}
