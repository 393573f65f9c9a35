/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel files, locks and namespaces. Tests that need root are skipped without it, with a message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "need_root.h"
#include "sys/cgroup/cgroup.h"
#include "sys/file.h"

#define TEST_INSTANCE 9999 /* never a real one: those end at 14 */

/* In the place of libc's: between reading a number and killing it, it may have become another's. */
static int kills_by_number;

int kill(pid_t pid, int signum)
{
	kills_by_number++;
	return (int)syscall(SYS_kill, pid, signum);
}

static char directory[] = "/tmp/cay-test-sys-XXXXXX";
static int dir_fd;

static void write_text(const char *name, const char *text)
{
	int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static void numbers(void **state)
{
	static const struct {
		const char *text;
		int r;
		uint64_t value;
	} cases[] = {
		{ "0\n", 0, 0 },
		{ "42", 0, 42 },
		{ "max\n", 0, UINT64_MAX },
		{ "18446744073709551615\n", 0, UINT64_MAX },
		{ "18446744073709551616\n", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "-1", -EINVAL, 0 },
		{ "x", -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t value = 7;

		write_text("number", cases[i].text);
		assert_int_equal(file_read_u64(dir_fd, "number", &value), cases[i].r);
		assert_true(value == (cases[i].r ? 7 : cases[i].value));
	}
}

static void fields(void **state)
{
	uint64_t value = 0;

	(void)state;
	write_text("events", "oom_kill_disable 0\nunder_oom 0\noom_kill 12\nlast");
	assert_int_equal(file_read_field(dir_fd, "events", "oom_kill", &value), 0);
	assert_int_equal(value, 12);
	assert_int_equal(file_read_field(dir_fd, "events", "oom_kill_disable", &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(file_read_field(dir_fd, "events", "oom", &value), -ENOENT);
	assert_int_equal(file_read_field(dir_fd, "events", "last", &value), -ENOENT);
	assert_int_equal(file_read_field(dir_fd, "missing", "x", &value), -ENOENT);
}

static void links_are_not_followed(void **state)
{
	char text[16];

	(void)state;
	assert_int_equal(symlinkat("/etc/hostname", dir_fd, "link"), 0);
	assert_int_equal(file_read(dir_fd, "link", text, sizeof(text)), -ELOOP);
	assert_int_equal(file_write(dir_fd, "link", "x"), -ELOOP);
}

static void one_lock(void **state)
{
	int first, second, status;
	pid_t pid;

	(void)state;
	assert_int_equal(file_lock(dir_fd, "lock", &first), 0);
	pid = fork();
	if (pid == 0)
		_exit(file_lock(dir_fd, "lock", &second) == -EWOULDBLOCK ? 0 : 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(first);
	assert_int_equal(file_lock(dir_fd, "lock", &second), 0);
	(void)close(second);
}

static void group_limits(void **state)
{
	int root_fd = open("/sys/fs/cgroup", O_DIRECTORY | O_RDONLY), status;
	struct cgroup_limits limits = { .cpu_milli = 1000,
					.memory_bytes = 64 << 20,
					.pids_max = 16 };
	struct cgroup_tree tree;
	struct cgroup_door door;
	struct cgroup_stat stat;
	pid_t pid;

	(void)state;
	need_root();
	if (root_fd < 0 || cgroup_open(root_fd, "/", TEST_INSTANCE, &tree) < 0) {
		print_message("skipped: no writable cgroups\n");
		skip();
	}
	assert_int_equal(cgroup_make(&tree, 3), 0);
	assert_int_equal(cgroup_make(&tree, 3), 0);
	assert_int_equal(cgroup_limit(&tree, 3, &limits), 0);
	limits.memory_bytes = 32 << 20; /* down, then up again: v1 wants two orders of writing */
	assert_int_equal(cgroup_limit(&tree, 3, &limits), 0);
	limits.memory_bytes = 128 << 20;
	assert_int_equal(cgroup_limit(&tree, 3, &limits), 0);
	assert_true(cgroup_is_empty(&tree, 3));
	assert_int_equal(cgroup_door_open(&tree, 3, &door), 0);
	pid = fork();
	if (pid == 0) {
		if (cgroup_enter(&door, false) < 0)
			_exit(1);
		(void)pause();
	}
	while (!cgroup_has_pid(&tree, 3, pid) && waitpid(pid, &status, WNOHANG) == 0)
		(void)usleep(1000);
	assert_false(cgroup_is_empty(&tree, 3));
	assert_false(cgroup_has_pid(&tree, 3, 1));
	assert_int_equal(cgroup_stat(&tree, 3, &stat), 0);
	assert_int_equal(stat.oom_kills, 0);
	assert_int_equal(cgroup_kill(&tree, 3), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	cgroup_recycle(&tree, 3);
	cgroup_door_close(&door);
	cgroup_close(&tree);
	assert_int_equal(cgroup_remove_tree(root_fd, "/", TEST_INSTANCE), 0);
	assert_int_equal(faccessat(root_fd, "pids/cay-9999", F_OK, 0), -1);
	(void)close(root_fd);
	assert_int_equal(kills_by_number, 0);
}

/* The next agent's first group stays, thawed; all others are removed. */
static void first_group_stays(const struct cgroup_tree *tree, int freezer_fd)
{
	char text[16];

	assert_int_equal(mkdirat(freezer_fd, "4/1", 0755), 0);
	assert_int_equal(file_write(freezer_fd, "4/1/freezer.state", "FROZEN"), 0);
	assert_int_equal(mkdirat(freezer_fd, "4/3", 0755), 0);
	cgroup_recycle(tree, 4);
	assert_int_equal(faccessat(freezer_fd, "4/3", F_OK, 0), -1);
	assert_int_equal(file_read(freezer_fd, "4/1/freezer.state", text, sizeof(text)), 7);
	assert_string_equal(text, "THAWED\n");
}

/* An agent's groups below its slot: they are listed, thawed and removed. */
static void groups_below(void **state)
{
	int root_fd = open("/sys/fs/cgroup", O_DIRECTORY | O_RDONLY), status, freezer_fd;
	struct cgroup_tree tree;
	struct cgroup_door door;
	struct stat info;
	pid_t pid;

	(void)state;
	need_root();
	if (root_fd < 0 || cgroup_open(root_fd, "/", TEST_INSTANCE, &tree) < 0 ||
	    tree.fd[CGROUP_FREEZER] < 0 || tree.v2[CGROUP_FREEZER]) {
		print_message("skipped: no v1 freezer\n");
		skip();
	}
	freezer_fd = tree.fd[CGROUP_FREEZER];
	assert_int_equal(cgroup_make(&tree, 4), 0);
	assert_int_equal(cgroup_own(&tree, 4, 1048576), 0);
	assert_int_equal(fstatat(freezer_fd, "4", &info, 0), 0);
	assert_int_equal(info.st_uid, 1048576);
	assert_int_equal(fstatat(freezer_fd, "4/freezer.state", &info, 0), 0);
	assert_int_equal(info.st_uid, 0);
	assert_int_equal(mkdirat(freezer_fd, "4/1", 0755), 0);
	assert_int_equal(mkdirat(freezer_fd, "4/1/deeper", 0755), 0);
	assert_int_equal(mkdirat(freezer_fd, "4/2", 0755), 0);
	assert_int_equal(cgroup_door_open(&tree, 4, &door), 0);
	pid = fork();
	if (pid == 0) {
		if (cgroup_enter(&door, false) < 0 ||
		    file_write(freezer_fd, "4/1/deeper/tasks", "0") < 0)
			_exit(1);
		(void)pause();
	}
	while (!cgroup_has_pid(&tree, 4, pid) && waitpid(pid, &status, WNOHANG) == 0)
		(void)usleep(1000);
	(void)usleep(20000);
	assert_true(cgroup_has_pid(&tree, 4, pid));
	assert_false(cgroup_is_empty(&tree, 4));
	assert_int_equal(cgroup_remove(&tree, 4), -EBUSY);
	assert_int_equal(cgroup_make(&tree, 4), 0);
	assert_int_equal(file_write(freezer_fd, "4/1/freezer.state", "FROZEN"), 0);
	assert_int_equal(cgroup_kill(&tree, 4), 0);
	(void)usleep(50000);
	assert_int_equal(waitpid(pid, &status, WNOHANG), 0); /* frozen: it cannot die */
	cgroup_thaw_below(&tree, 4);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	cgroup_recycle(&tree, 4);
	assert_int_equal(faccessat(freezer_fd, "4/1", F_OK, 0), -1);
	assert_int_equal(faccessat(freezer_fd, "4/2", F_OK, 0), -1);
	first_group_stays(&tree, freezer_fd);
	assert_int_equal(mkdirat(freezer_fd, "4/3", 0755), 0);
	assert_int_equal(cgroup_remove(&tree, 4), 0);
	cgroup_door_close(&door);
	cgroup_close(&tree);
	assert_int_equal(cgroup_remove_tree(root_fd, "/", TEST_INSTANCE), 0);
	(void)close(root_fd);
	assert_int_equal(kills_by_number, 0);
}

static int make(void **state)
{
	(void)state;
	if (!mkdtemp(directory))
		return -1;
	dir_fd = open(directory, O_DIRECTORY | O_RDONLY);
	return dir_fd < 0;
}

static int clear(void **state)
{
	static const char *const names[] = { "number", "events", "link", "lock" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		(void)unlinkat(dir_fd, names[i], 0);
	(void)close(dir_fd);
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(fields),
		cmocka_unit_test(links_are_not_followed),
		cmocka_unit_test(one_lock),
		cmocka_unit_test(group_limits),
		cmocka_unit_test(groups_below),
	};

	return cmocka_run_group_tests(tests, make, clear);
}
