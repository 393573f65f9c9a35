/* SPDX-License-Identifier: Apache-2.0 */
/* Terminals of the real agent. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "base/time.h"
#include "one_agent.h"

#define LIVE_OUT (AGENT_FOLLOW_LIVE | AGENT_FOLLOW_OUT)
#define OPEN_TTY (AGENT_EXEC_TTY | AGENT_EXEC_STDIN_OPEN)

static void expect(struct caller_follow *f, const char *text)
{
	int64_t until_us = time_mono_us() + rig_limit_us(5000);

	while (!strstr(caller_text(f, 0), text)) {
		if (time_mono_us() > until_us || caller->closed)
			fail_msg("no \"%s\" in \"%s\"", text, caller_text(f, 0));
		caller_turn(caller, 10);
	}
}

static void type(uint32_t id, const char *text)
{
	assert_int_equal(caller_stdin(caller, id, text, strlen(text), true), 0);
}

static void test_is_a_terminal(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller,
				"tty; test -t 0 && test -t 1 && test -t 2 && echo all; stty size; "
				"echo $TERM; ps -o tpgid= -p $$; echo $$; echo err >&2",
				AGENT_EXEC_TTY, 10000, &f);
	const struct agent_listed *l = caller_look(caller, id);

	assert_int_equal(l->flags & AGENT_PROCESS_TTY, AGENT_PROCESS_TTY);
	assert_int_equal(l->cols, 80);
	assert_int_equal(l->rows, 24);
	caller_wait(caller, &f->ended, 5000);
	assert_memory_equal(caller_text(f, 0), "/dev/pts/", 9);
	expect(f, "all\r\n24 80\r\nxterm-256color\r\n");
	expect(f, "err\r\n");
	assert_int_equal(f->bytes[1], 0);
	assert_int_equal(f->end.status.end, AGENT_END_EXIT);
}

static void test_owner(void **state)
{
	const char *const argv[] = { "sh", "-c", "stat -c %u $(tty); echo x > $(tty); id -u",
				     NULL };
	struct agent_exec_args args = {
		.argv = argv, .user = "daemon", .flags = AGENT_EXEC_TTY, .cols = 10, .rows = 5
	};
	struct caller_follow *f;
	uint32_t id = caller_start(caller, &args);

	f = caller_follow(caller, id, LIVE_OUT, 0, 0, 1000);
	caller_wait(caller, &f->ended, 5000);
	if (geteuid() == 0)
		assert_string_equal(caller_text(f, 0), "1\r\nx\r\n1\r\n");
}

static void test_input(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller, "read a; echo got:$a; cat; echo eof", OPEN_TTY, 10000, &f);

	type(id, "one\n");
	expect(f, "got:one\r\n");
	type(id, "two\n");
	expect(f, "two\r\ntwo\r\n");
	assert_true(caller_look(caller, id)->flags & AGENT_PROCESS_STDIN_OPEN);
	assert_int_equal(caller_close_stdin(caller, id), 0); /* ^D */
	expect(f, "eof\r\n");
	caller_wait(caller, &f->ended, 5000);
	assert_int_equal(caller_stdin(caller, id, "x", 1, false), AGENT_REFUSED_ENDED);
	/* Without stdin_open: the input of the start, then its end. */
	id = caller_sh(caller, "cat; echo eof", AGENT_EXEC_TTY, 10000, &f);
	caller_wait(caller, &f->ended, 5000);
	expect(f, "eof\r\n");
}

static void test_resize(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller,
				"trap 'echo winch $(stty size)' WINCH; echo ready; "
				"while :; do sleep 0.02; done",
				OPEN_TTY, 10000, &f);

	expect(f, "ready");
	assert_int_equal(caller_resize(caller, id, 132, 50), 0);
	expect(f, "winch 50 132\r\n");
	assert_int_equal(caller_look(caller, id)->cols, 132);
	f->data[0].tail = f->data[0].head;
	assert_int_equal(caller_resize(caller, id, 132, 50), 0); /* the same: draws again */
	expect(f, "winch 50 132\r\n");
	assert_int_equal(caller_stop(caller, id, 0, true), 0);
	id = caller_sh(caller, "sleep 30", 0, 0, NULL);
	assert_int_equal(caller_resize(caller, id, 132, 50), AGENT_REFUSED_NO_TTY);
	assert_int_equal(caller_stop(caller, id, 0, true), 0);
	assert_int_equal(caller_resize(caller, id, 132, 50), AGENT_REFUSED_NO_PROCESS);
}

/* ^C as a key and as KILL reach what is in the foreground, not the shell. */
static void test_foreground(void **state)
{
	const char *const argv[] = { "bash", "--norc", "--noprofile", "-i", NULL };
	const char *const env[] = { "PATH=/usr/bin:/bin", "PS1=P> ", "TERM=dumb", NULL };
	struct agent_exec_args args = {
		.argv = argv, .env = env, .flags = OPEN_TTY, .cols = 80, .rows = 24
	};
	struct caller_follow *f;
	uint32_t id = caller_start(caller, &args);

	f = caller_follow(caller, id, LIVE_OUT, 0, 0, 100000);
	expect(f, "P> ");
	type(id, "sleep 30\n");
	caller_pass(caller, 200);
	type(id, "\003");
	type(id, "echo a=$?\n");
	expect(f, "\na=130\r\n");
	type(id, "sleep 30\n");
	caller_pass(caller, 200);
	assert_int_equal(caller_kill(caller, id, SIGINT), 0);
	type(id, "echo b=$?\n");
	expect(f, "\nb=130\r\n");
	type(id, "sleep 31\n");
	caller_pass(caller, 200);
	assert_int_equal(caller_kill(caller, id, SIGTSTP), 0);
	expect(f, "Stopped");
	type(id, "kill -9 %1; sleep 0.2; exit 4\n");
	caller_wait(caller, &f->ended, 5000);
	assert_int_equal(f->end.status.exit_code, 4);
}

/* A shell at its prompt ignores TERM; without its terminal it ends. */
static void test_stop_shell(void **state)
{
	const char *const argv[] = { "bash", "--norc", "--noprofile", "-i", NULL };
	const char *const env[] = { "PATH=/usr/bin:/bin", "PS1=P> ", "TERM=dumb", NULL };
	struct agent_exec_args args = {
		.argv = argv, .env = env, .flags = OPEN_TTY, .cols = 80, .rows = 24
	};
	uint32_t id = caller_start(caller, &args);
	struct caller_follow *f = caller_follow(caller, id, LIVE_OUT, 0, 0, 100000);
	int64_t start_us;

	expect(f, "P> ");
	start_us = time_mono_us();
	assert_int_equal(caller_stop(caller, id, 5000, true), 0);
	assert_in_range(time_mono_us() - start_us, 0, 2000000);
	caller_wait(caller, &f->ended, 5000);
	assert_int_equal(f->end.status.end, AGENT_END_KILLED);
}

static void test_reattach(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller, "stty -echo; echo one; read x; echo two-$x; read x",
				OPEN_TTY, 10000, &f);
	uint64_t cursor;

	expect(f, "one\r\n");
	cursor = f->cursor[0];
	caller_close(caller);
	caller_open(caller, &rig);
	type(id, "k\n");
	f = caller_follow(caller, id, LIVE_OUT, cursor, 0, 1000);
	expect(f, "two-k\r\n");
	assert_int_equal(f->gap[0], 0);
	f = caller_follow(caller, id, LIVE_OUT | AGENT_FOLLOW_TAIL, 65536, 0, 1000);
	expect(f, "one\r\ntwo-k\r\n");
	assert_int_equal(caller_stop(caller, id, 200, true), 0);
}

/* More input than it takes: the rest waits, nothing is lost. In raw mode, like a pipe. */
static void test_input_back_pressure(void **state)
{
	enum { BYTES = 600000 };
	static char bytes[BYTES];
	struct caller_follow *f;
	uint32_t id =
		caller_sh(caller, "stty raw -echo; echo ready; sleep 0.2; head -c 600000 | cksum",
			  OPEN_TTY, 10000, &f);
	unsigned sum_want = 0;
	char expected[32];
	FILE *p;

	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = (char)(i * 31 + (i >> 9));
	p = fopen("/tmp/cay-rig-bytes", "w");
	assert_int_equal(fwrite(bytes, 1, BYTES, p), BYTES);
	(void)fclose(p);
	expect(f, "ready");
	for (size_t at = 0; at < BYTES; at += 100000)
		assert_int_equal(caller_stdin(caller, id, bytes + at, 100000, true), 0);
	caller_wait(caller, &f->ended, 20000);
	(void)caller_sh(caller, "cksum < /tmp/cay-rig-bytes; rm /tmp/cay-rig-bytes", 0, 1000, &f);
	caller_wait(caller, &f->ended, 5000);
	sum_want = (unsigned)strtoul(caller_text(f, 0), NULL, 10);
	(void)snprintf(expected, sizeof(expected), "%u %d", sum_want, BYTES);
	f = &caller->follows[caller->follow_count - 2];
	expect(f, expected);
}

static void test_leader_gone(void **state)
{
	struct caller_follow *f;
	int64_t start_us = time_mono_us();

	(void)caller_sh(caller, "(trap '' HUP; sleep 5) & echo bye", OPEN_TTY, 1000, &f);
	caller_wait(caller, &f->ended, 5000);
	assert_string_equal(caller_text(f, 0), "bye\r\n");
	assert_in_range(time_mono_us() - start_us, 0, 1000000);
}

/* With fewer descriptors than needed, which the agent raises only for itself. */
static int setup_few_files(void **state)
{
	struct rlimit before, few;
	int r;

	(void)getrlimit(RLIMIT_NOFILE, &before);
	few = (struct rlimit){ 256, before.rlim_max };
	(void)setrlimit(RLIMIT_NOFILE, &few);
	r = one_agent_setup(state);
	(void)setrlimit(RLIMIT_NOFILE, &before);
	return r;
}

static void test_two_hundred(void **state)
{
	enum { N = 200 };
	struct caller_follow *f[N];
	uint32_t id[N];
	char text[32];

	for (int i = 0; i < N; i++)
		id[i] = caller_sh(caller, "stty -echo; echo up; read x; echo $x; ulimit -n",
				  OPEN_TTY, 10000, &f[i]);
	for (int i = 0; i < N; i++)
		expect(f[i], "up");
	for (int i = 0; i < N; i++) {
		(void)snprintf(text, sizeof(text), "line-%d\n", i);
		type(id[i], text);
	}
	for (int i = 0; i < N; i++) {
		caller_wait(caller, &f[i]->ended, 10000);
		(void)snprintf(text, sizeof(text), "line-%d\r\n", i);
		expect(f[i], text);
	}
	expect(f[0], "\n256\r\n");
	expect(f[N - 1], "\n256\r\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, one_agent_setup, one_agent_teardown)
		T(test_is_a_terminal),
		T(test_owner),
		T(test_input),
		T(test_resize),
		T(test_foreground),
		T(test_stop_shell),
		T(test_reattach),
		T(test_input_back_pressure),
		T(test_leader_gone),
		cmocka_unit_test_setup_teardown(test_two_hundred, setup_few_files,
						one_agent_teardown),
#undef T
	};

	cmocka_set_test_filter(getenv("CAY_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
