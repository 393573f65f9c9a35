/* SPDX-License-Identifier: Apache-2.0 */
/* Lock files: real holders and false claims. */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/daemon/lock.h"

static char dir[64];

static int setup(void **state)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/cay-lock-XXXXXX");
	return mkdtemp(dir) == NULL ? -1 : 0;
}

static int teardown(void **state)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/x.lock", dir);
	(void)unlink(path);
	return rmdir(dir);
}

/* A child that holds the lock until it is ended; lie is the pid that it writes instead. */
static pid_t holder_child(pid_t lie)
{
	int fds[2], fd;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		if (lock_take(dir, "x.lock", &fd) < 0)
			_exit(1);
		if (lie != 0) {
			if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
				_exit(1);
			(void)dprintf(fd, "%d\n", (int)lie);
		}
		if (write(fds[1], "x", 1) != 1)
			_exit(1);
		(void)pause();
		_exit(0);
	}
	(void)close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	(void)close(fds[0]);
	return pid;
}

static void test_no_holder(void **state)
{
	struct lock_holder holder;
	char path[128];
	int fd;

	assert_int_equal(lock_find(dir, "x.lock", &holder), -ENOENT);
	assert_false(lock_is_held(dir, "x.lock"));
	/* A file left behind by a dead process: its pid means nothing. */
	(void)snprintf(path, sizeof(path), "%s/x.lock", dir);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	(void)dprintf(fd, "%d\n", (int)getppid());
	(void)close(fd);
	assert_int_equal(lock_find(dir, "x.lock", &holder), -ENOENT);
}

static void test_holder(void **state)
{
	pid_t pid = holder_child(0);
	struct lock_holder holder;
	int fd;

	assert_true(lock_is_held(dir, "x.lock"));
	assert_int_equal(lock_take(dir, "x.lock", &fd), -EWOULDBLOCK);
	assert_int_equal(lock_find(dir, "x.lock", &holder), 0);
	assert_int_equal(holder.pid, pid);
	assert_int_equal(lock_wait(&holder, 10), -ETIMEDOUT);
	assert_int_equal(lock_signal(&holder, SIGTERM), 0);
	assert_int_equal(lock_wait(&holder, 5000), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	lock_holder_done(&holder);
	assert_false(lock_is_held(dir, "x.lock"));
	assert_int_equal(lock_find(dir, "x.lock", &holder), -ENOENT);
	/* And the lock can be taken again. */
	assert_int_equal(lock_take(dir, "x.lock", &fd), 0);
	(void)close(fd);
}

/* A holder that names another process must not get that one signalled. */
static void test_holder_that_names_another_process(void **state)
{
	pid_t pid = holder_child(getpid());
	struct lock_holder holder;

	assert_int_equal(lock_find(dir, "x.lock", &holder), -EBADMSG);
	assert_true(lock_is_held(dir, "x.lock"));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_link_is_refused(void **state)
{
	struct lock_holder holder;
	char path[128];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/x.lock", dir);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_int_equal(lock_take(dir, "x.lock", &fd), -ELOOP);
	assert_int_equal(lock_find(dir, "x.lock", &holder), -ELOOP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_holder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_holder, setup, teardown),
		cmocka_unit_test_setup_teardown(test_holder_that_names_another_process, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_link_is_refused, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
