/* SPDX-License-Identifier: Apache-2.0 */
/* What engines on this host share: agents as processes, trees of processes and of files, answers on
 * the next turn. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "engine/host/agent.h"
#include "engine/host/deferred.h"
#include "engine/host/tree.h"

#define DEPTH_MAX 512 /* as in tree.c */

static char dir[32];
static int dir_fd;
static struct loop *loop;

static int setup(void **state)
{
	(void)state;
	(void)strcpy(dir, "/tmp/cay-host-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	dir_fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	return loop_new(&loop);
}

static int teardown(void **state)
{
	(void)state;
	loop_free(loop);
	(void)unlinkat(dir_fd, "agent.sock", 0);
	(void)close(dir_fd);
	return rmdir(dir);
}

/* ---- agents ---- */

static void an_agent_inherits_its_socket(void **state)
{
	/* Takes one connection from descriptor 3 and answers over it. */
	static const char script[] = "import socket\n"
				     "s = socket.socket(fileno=3)\n"
				     "c, _ = s.accept()\n"
				     "c.sendall(b'up')\n";
	const char *const argv[] = { "/usr/bin/python3", "-c", script, NULL };
	int fd = -1, status, again;
	char text[2];
	pid_t pid;

	(void)state;
	assert_int_equal(agent_connect(dir_fd), -ENOENT);
	assert_int_equal(agent_start(dir_fd, argv, &pid, &fd), 0);
	again = agent_connect(dir_fd); /* waits in the backlog */
	assert_true(again >= 0);
	(void)close(again);
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
	assert_int_equal(recv(fd, text, 2, MSG_WAITALL), 2);
	assert_memory_equal(text, "up", 2);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	(void)close(fd);
	assert_int_equal(agent_connect(dir_fd), -ECONNREFUSED); /* its socket is still there */
	assert_int_equal(agent_start(dir_fd, argv, &pid, &fd), -EADDRINUSE);
}

static void a_program_that_cannot_start_is_an_error(void **state)
{
	const char *const argv[] = { "/no/such/program", NULL };
	int fd = -1;
	pid_t pid = -1;

	(void)state;
	assert_int_equal(agent_start(dir_fd, argv, &pid, &fd), -ENOENT);
	assert_int_equal(fd, -1);
	assert_true(agent_start(-1, argv, &pid, &fd) < 0);
}

/* ---- processes ---- */

/* A subreaper with a child that lost its parent and a stopped one. Ready when the pipe says so. */
static pid_t start_tree(void)
{
	int ready[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
		if (fork() == 0) {
			if (fork() == 0) { /* an orphan, in a session of its own */
				(void)setsid();
				(void)!write(ready[1], "1", 1);
				for (;;)
					(void)pause();
			}
			_exit(0);
		}
		if (fork() == 0) {
			(void)!write(ready[1], "2", 1);
			(void)raise(SIGSTOP);
			_exit(0);
		}
		(void)wait(NULL);
		(void)!write(ready[1], "3", 1);
		for (;;)
			(void)pause();
	}
	for (int i = 0; i < 3; i++)
		assert_int_equal(read(ready[0], &byte, 1), 1);
	(void)close(ready[0]);
	(void)close(ready[1]);
	return pid;
}

static void a_tree_of_processes_is_counted_and_killed(void **state)
{
	pid_t root = start_tree();
	int pidfd = (int)syscall(SYS_pidfd_open, root, 0U);
	struct tree_usage usage = { 0 };

	(void)state;
	assert_int_equal(tree_usage(root, &usage), 0);
	assert_int_equal(usage.pids, 3);
	assert_true(usage.memory_bytes > 0);
	assert_int_equal(tree_kill(root, pidfd), 0);
	usage.pids = 99;
	assert_int_equal(tree_usage(root, &usage), -ESRCH); /* a zombie is none */
	assert_int_equal(usage.pids, 99);
	assert_int_equal(waitpid(root, NULL, 0), root);
	assert_int_equal(tree_kill(root, pidfd), 0); /* it is dead */
	(void)close(pidfd);
}

/* ---- files ---- */

static void a_tree_of_files_is_removed_but_not_what_links_lead_to(void **state)
{
	int fd;

	(void)state;
	assert_int_equal(tree_remove(dir_fd, "missing"), 0);
	assert_int_equal(mkdirat(dir_fd, "outside", 0700), 0);
	assert_int_equal(mkdirat(dir_fd, "top", 0700), 0);
	assert_int_equal(mkdirat(dir_fd, "top/closed", 0700), 0);
	assert_int_equal(mkdirat(dir_fd, "top/closed/inner", 0700), 0);
	assert_int_equal(fchmodat(dir_fd, "top/closed", 0, 0), 0); /* its user closed it */
	assert_int_equal(symlinkat("../outside", dir_fd, "top/link"), 0);
	fd = openat(dir_fd, "outside/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	(void)close(fd);
	assert_int_equal(tree_remove(dir_fd, "top"), 0);
	assert_int_equal(faccessat(dir_fd, "top", F_OK, 0), -1);
	assert_int_equal(faccessat(dir_fd, "outside/file", F_OK, 0), 0);
	assert_int_equal(tree_remove(dir_fd, "outside"), 0);
}

static void what_is_too_deep_is_reported(void **state)
{
	int fd = dup(dir_fd);

	(void)state;
	for (int i = 0; i <= DEPTH_MAX; i++) {
		int next;

		assert_int_equal(mkdirat(fd, "d", 0700), 0);
		next = openat(fd, "d", O_DIRECTORY | O_RDONLY | O_CLOEXEC);
		(void)close(fd);
		fd = next;
	}
	assert_int_equal(tree_remove(dir_fd, "d"), -ELOOP);
	(void)close(fd);
	assert_int_equal(renameat(dir_fd, "d/d", dir_fd, "e"),
			 0); /* one less: both can be removed */
	assert_int_equal(tree_remove(dir_fd, "d"), 0);
	assert_int_equal(tree_remove(dir_fd, "e"), 0);
}

/* ---- answers ---- */

struct answer {
	int times, listed;
	enum err_code code;
	int fd, watch_fd;
	char last[ENGINE_ID_MAX + 1];
};

static void on_made(void *arg, const struct engine_made *made, const struct err *err)
{
	struct answer *a = arg;

	a->times++;
	a->code = err ? err->code : ERR_OK;
	a->fd = made->channel.fd;
	a->watch_fd = made->watch_fd;
}

static void on_done(void *arg, const struct err *err)
{
	struct answer *a = arg;

	a->times++;
	a->code = err ? err->code : ERR_OK;
}

static void on_each(void *arg, const char *id, const struct err *err)
{
	struct answer *a = arg;

	if (id) {
		a->listed++;
		(void)strcpy(a->last, id);
		return;
	}
	a->times++;
	a->code = err ? err->code : ERR_OK;
}

static void answers_come_on_the_next_turn_and_once(void **state)
{
	const struct engine_made made = { .channel = { 41, true }, .watch_fd = 42 };
	const struct err good = { .code = ERR_OK }, bad = { .code = ERR_CONFLICT };
	struct answer a = { 0 }, b = { 0 };
	struct err err;

	(void)state;
	assert_int_equal(deferred_made(loop, on_made, &a, &made, &good, &err), 0);
	assert_int_equal(deferred_done(loop, on_done, &b, &bad, &err), 0);
	assert_int_equal(a.times + b.times, 0);
	loop_turn(loop, 0);
	loop_turn(loop, 0);
	assert_int_equal(a.times, 1);
	assert_int_equal(a.fd, 41);
	assert_int_equal(a.watch_fd, 42);
	assert_int_equal(b.times, 1);
	assert_int_equal(b.code, ERR_CONFLICT);
}

static void a_list_is_called_out_whole_or_not_at_all(void **state)
{
	char longest[ENGINE_ID_MAX + 1], longer[ENGINE_ID_MAX + 2];
	struct answer a = { 0 }, b = { 0 };
	struct deferred_list *list;
	struct err err;

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[ENGINE_ID_MAX] = '\0';
	memset(longer, 'x', sizeof(longer));
	longer[ENGINE_ID_MAX + 1] = '\0';
	deferred_list_add(NULL, "fine");
	list = deferred_list(loop, on_each, &a, &err);
	deferred_list_add(list, "one");
	deferred_list_add(list, longest);
	list = deferred_list(loop, on_each, &b, &err);
	deferred_list_add(list, "one");
	deferred_list_add(list, longer); /* fits in no name */
	assert_int_equal(a.listed, 0);
	loop_turn(loop, 0);
	assert_int_equal(a.listed, 2);
	assert_int_equal(a.times, 1);
	assert_int_equal(a.code, ERR_OK);
	assert_int_equal(b.listed, 0);
	assert_int_equal(b.times, 1);
	assert_int_equal(b.code, ERR_UNAVAILABLE);
}

static uint32_t ready_flags;

static void on_ready(void *arg, const struct engine_capabilities *can)
{
	(*(int *)arg)++;
	ready_flags = can->flags;
}

static void readiness_can_be_stopped(void **state)
{
	struct deferred_ready ready = { 0 };
	int readies = 0;
	struct engine_config config = { .loop = loop, .on_ready = on_ready, .arg = &readies };

	(void)state;
	assert_int_equal(deferred_ready_start(&ready, &config, ENGINE_SURVIVES), 0);
	deferred_ready_stop(&ready);
	deferred_ready_stop(&ready);
	loop_turn(loop, 0);
	assert_int_equal(readies, 0);
	assert_int_equal(deferred_ready_start(&ready, &config, ENGINE_SURVIVES), 0);
	assert_int_equal(readies, 0);
	for (int i = 0; i < 1000 && !readies; i++)
		loop_turn(loop, 10);
	assert_int_equal(readies, 1);
	assert_int_equal(ready_flags, ENGINE_SURVIVES);
	assert_null(ready.timer);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(an_agent_inherits_its_socket),
		T(a_program_that_cannot_start_is_an_error),
		T(a_tree_of_processes_is_counted_and_killed),
		T(a_tree_of_files_is_removed_but_not_what_links_lead_to),
		T(what_is_too_deep_is_reported),
		T(answers_come_on_the_next_turn_and_once),
		T(a_list_is_called_out_whole_or_not_at_all),
		T(readiness_can_be_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
