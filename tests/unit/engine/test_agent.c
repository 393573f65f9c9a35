/* SPDX-License-Identifier: Apache-2.0 */
/* The real agent program on a real link. */
#include <errno.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "rig.h"
#include "wire/agent.h"

static struct rig rig;

static int setup(void **state)
{
	static const char *const options[] = {
		"--trust-any-peer", "--user", "root", "--cwd", "/tmp", NULL
	};

	rig_init(&rig);
	rig_start_agent(&rig, options);
	return 0;
}

static int teardown(void **state)
{
	rig_done(&rig);
	return 0;
}

static void test_echo(void **state)
{
	const char *const argv[] = { "/bin/echo", "hi", "there", NULL };
	struct link_exec exec = { .argv = argv, .output_max_bytes = 1000 };
	struct rig_result r;

	rig_run(&rig, &exec, &r);
	assert_int_equal(r.result.status.end, LINK_END_EXIT);
	assert_int_equal(r.result.status.exit_code, 0);
	assert_string_equal(buf_data(&r.out), "hi there\n");
	assert_int_equal(r.result.status.out_total, 9);
	assert_int_equal(r.result.status.err_total, 0);
	assert_true(r.result.status.duration_us > 0);
	rig_result_done(&r);
}

static void test_exit_codes(void **state)
{
	struct rig_result r;

	rig_sh(&rig, "echo no >&2; exit 3", &r);
	assert_int_equal(r.result.status.exit_code, 3);
	assert_string_equal(buf_data(&r.errs), "no\n");
	rig_result_done(&r);
	rig_sh(&rig, "exit 255", &r);
	assert_int_equal(r.result.status.exit_code, 255);
	rig_result_done(&r);
}

static void test_signal(void **state)
{
	struct rig_result r;

	rig_sh(&rig, "kill -SEGV $$", &r);
	assert_int_equal(r.result.status.end, LINK_END_SIGNAL);
	assert_int_equal(r.result.status.signal, SIGSEGV);
	assert_int_equal(r.result.status.exit_code, 128 + SIGSEGV);
	rig_result_done(&r);
}

static void test_kill(void **state)
{
	const char *const argv[] = { "sleep", "60", NULL };
	struct link_exec exec = { .argv = argv };
	struct rig_result r;
	struct err err;

	rig_exec(&rig, &exec, &r);
	assert_int_equal(link_signal(rig.link, r.process_id, SIGTERM, NULL, NULL, &err), 0);
	rig_wait_exec(&rig, &r, 5000);
	assert_int_equal(r.result.status.end, LINK_END_KILLED);
	assert_int_equal(r.result.status.signal, SIGTERM);
	assert_int_equal(link_signal(rig.link, r.process_id + 1, SIGTERM, NULL, NULL, &err), -1);
	assert_int_equal(err.code, ERR_PROCESS_NOT_FOUND);
	assert_int_equal(link_signal(rig.link, r.process_id, 99, NULL, NULL, &err), -1);
	rig_result_done(&r);
}

static void test_stdin(void **state)
{
	static char big[3U << 20];
	const char *const cat[] = { "cat", NULL }, *const wc[] = { "wc", "-c", NULL };
	const char *const deaf[] = { "true", NULL };
	struct link_exec exec = { .argv = cat,
				  .stdin_bytes = { "a\0b\xff", 4 },
				  .output_max_bytes = 100 };
	struct rig_result r;

	rig_run(&rig, &exec, &r);
	assert_int_equal(r.result.status.out_total, 4);
	assert_memory_equal(buf_data(&r.out), "a\0b\xff", 4);
	rig_result_done(&r);

	exec.stdin_bytes.n = 0;
	rig_run(&rig, &exec, &r);
	assert_int_equal(r.result.status.out_total, 0);
	rig_result_done(&r);

	exec.argv = wc;
	exec.stdin_bytes = (struct str){ big, sizeof(big) };
	rig_run(&rig, &exec, &r);
	assert_string_equal(buf_data(&r.out), "3145728\n");
	rig_result_done(&r);

	exec.argv = deaf; /* does not read: neither side may hang or die of SIGPIPE */
	rig_run(&rig, &exec, &r);
	assert_int_equal(r.result.status.exit_code, 0);
	rig_result_done(&r);
}

/* Everything in the session dies, including processes that left the process group. */
static void on_answer(void *arg, const struct err *error)
{
	*(enum err_code *)arg = error ? error->code : ERR_OK;
}

static enum err_code write_and_wait(uint32_t process_id, size_t n)
{
	static char big[3U << 20];
	enum err_code code = ERR_CODE_COUNT;
	struct err err;

	assert_int_equal(link_stdin(rig.link, process_id, (struct str){ big, n }, false, on_answer,
				    &code, &err),
			 0);
	while (code == ERR_CODE_COUNT)
		loop_turn(rig.loop, 100);
	return code;
}

/* If a write is refused in the middle, no later part of it is taken. */
static void test_stdin_full(void **state)
{
	const char *const argv[] = { "sh", "-c", "sleep 1; wc -c", NULL };
	struct link_exec exec = { .argv = argv, .stdin_open = true, .output_max_bytes = 100 };
	struct rig_result r;
	struct err err;

	rig_exec(&rig, &exec, &r);
	assert_int_equal(write_and_wait(r.process_id, 3U << 20), ERR_OK);
	assert_int_equal(write_and_wait(r.process_id, 2 * AGENT_STDIN_BYTES_MAX + 1000),
			 ERR_QUOTA_EXCEEDED);
	assert_int_equal(write_and_wait(r.process_id, 1), ERR_OK);
	assert_int_equal(link_close_stdin(rig.link, r.process_id, NULL, NULL, &err), 0);
	rig_wait_exec(&rig, &r, 10000);
	assert_string_equal(buf_data(&r.out), "4194301\n"); /* 3 MiB, one piece, one byte */
	rig_result_done(&r);
}

static void test_timeout(void **state)
{
	const char *const argv[] = { "bash", "-mc",
				     "(sleep 987654 & sleep 987654 & wait) & sleep 987654", NULL };
	struct link_exec exec = { .argv = argv, .timeout_ms = 300 };
	int64_t start_us = time_mono_us();
	struct rig_result r;

	rig_run(&rig, &exec, &r);
	assert_int_equal(r.result.status.end, LINK_END_TIMEOUT);
	assert_int_equal(r.result.status.exit_code, 124);
	assert_in_range(time_mono_us() - start_us, 290000, 5000000);
	rig_result_done(&r);
	rig_sh(&rig, "sleep 0.05; pgrep -cf '^sleep 987654'", &r);
	assert_string_equal(buf_data(&r.out), "0\n");
	rig_result_done(&r);
}

static void test_much_output(void **state)
{
	const char *const argv[] = { "sh", "-c",
				     "head -c 10000000 /dev/zero; head -c 2000000 /dev/zero >&2",
				     NULL };
	struct link_exec exec = { .argv = argv, .output_max_bytes = 16U << 20 };
	struct rig_result r;

	rig_run(&rig, &exec, &r);
	assert_int_equal(r.result.out.n, 10000000);
	assert_int_equal(r.result.status.out_total, 10000000);
	assert_int_equal(r.result.err.n, 2000000);
	rig_result_done(&r);

	exec.output_max_bytes = 5000;
	rig_run(&rig, &exec, &r);
	assert_int_equal(r.result.out.n, 5000);
	assert_int_equal(r.result.status.out_total, 10000000);
	assert_int_equal(r.result.err.n, 5000);
	assert_int_equal(r.result.status.err_total, 2000000);
	rig_result_done(&r);

	exec.output_max_bytes = 0;
	rig_run(&rig, &exec, &r);
	assert_int_equal(r.result.out.n, 0);
	assert_int_equal(r.result.status.out_total, 10000000);
	rig_result_done(&r);
}

static void expect_refusal(struct link_exec *exec, enum err_code code, int error, int exit_code)
{
	struct rig_result r;

	rig_run(&rig, exec, &r);
	assert_int_equal(r.result.status.end, LINK_END_REFUSED);
	assert_int_equal(r.err.code, code);
	assert_int_equal(r.err.errno_value, error);
	assert_int_equal(r.result.status.exit_code, exit_code);
	rig_result_done(&r);
}

static void test_refusals(void **state)
{
	static const char *const bad_users[] = { "nobodyhere", "1000:0",     "-1",    "0x0",
						 " 1",	       "4294967296", "65536", "Root",
						 "root ",      "../root",    "01" };
	const char *const argv[] = { "true", NULL }, *const missing[] = { "no-such-program", NULL };
	const char *const dir[] = { "/tmp", NULL }, *const text[] = { "/etc/passwd", NULL };
	const char *const lost[] = { "/no/such", NULL };
	struct link_exec exec = { .argv = argv };

	for (size_t i = 0; i < ARRAY_LEN(bad_users); i++) {
		struct rig_result r;

		exec.user = bad_users[i];
		rig_run(&rig, &exec, &r);
		assert_int_equal(r.result.status.end, LINK_END_REFUSED);
		assert_int_equal(r.err.code, ERR_INVALID_REQUEST);
		rig_result_done(&r);
	}
	exec.user = NULL;
	exec.cwd = "/no/such";
	expect_refusal(&exec, ERR_INVALID_REQUEST, ENOENT, 125);
	exec.cwd = "/etc/passwd";
	expect_refusal(&exec, ERR_INVALID_REQUEST, ENOTDIR, 125);
	exec.cwd = "no/such"; /* from the default on */
	expect_refusal(&exec, ERR_INVALID_REQUEST, ENOENT, 125);
	exec.cwd = NULL;
	exec.argv = missing;
	expect_refusal(&exec, ERR_COMMAND_NOT_FOUND, ENOENT, 127);
	exec.argv = lost;
	expect_refusal(&exec, ERR_COMMAND_NOT_FOUND, ENOENT, 127);
	exec.argv = dir;
	expect_refusal(&exec, ERR_COMMAND_NOT_EXECUTABLE, EACCES, 126);
	exec.argv = text;
	expect_refusal(&exec, ERR_COMMAND_NOT_EXECUTABLE, EACCES, 126);
}

static void test_too_big(void **state)
{
	static char big[200000];
	const char *const argv[] = { "true", big, NULL };
	struct link_exec exec = { .argv = argv };

	memset(big, 'x', sizeof(big) - 1);
	expect_refusal(&exec, ERR_COMMAND_NOT_EXECUTABLE, E2BIG, 126);
}

static void test_environment(void **state)
{
	const char *const argv[] = { "env", NULL };
	const char *const env[] = { "PATH=/usr/bin:/bin", "A=b c", "HOME=/elsewhere", NULL };
	struct link_exec exec = { .argv = argv, .env = env, .output_max_bytes = 4096 };
	struct rig_result r;

	rig_run(&rig, &exec, &r);
	assert_string_equal(
		buf_data(&r.out),
		"CAY_PROCESS_ID=1\nPATH=/usr/bin:/bin\nA=b c\nHOME=/elsewhere\nUSER=root\n"
		"LOGNAME=root\n");
	rig_result_done(&r);
}

/*
 * The environment of a program: default signals, no foreign descriptors, its own session, no core
 * files.
 */
static void test_surroundings(void **state)
{
	struct rig_result r;

	rig_sh(&rig,
	       "ls /proc/self/fd | tr '\\n' ' '; umask; ulimit -c; cat /proc/self/oom_score_adj",
	       &r);
	assert_string_equal(buf_data(&r.out), "0 1 2 3 0022\n0\n500\n"); /* 3 is ls's own */
	rig_result_done(&r);
	rig_sh(&rig,
	       "grep -E '^Sig(Blk|Ign)|^CapInh|^CapAmb' /proc/self/status | cut -f2 | sort -u", &r);
	assert_string_equal(buf_data(&r.out), "0000000000000000\n");
	rig_result_done(&r);
	rig_sh(&rig, "test $(cut -d' ' -f6 /proc/$$/stat) = $$ && pwd", &r);
	assert_string_equal(buf_data(&r.out), "/tmp\n");
	rig_result_done(&r);
}

static void test_other_user(void **state)
{
	const char *const argv[] = {
		"sh", "-c",
		"id -u; id -g; id -G; grep -E '^Cap(Prm|Eff)' /proc/self/status "
		"| cut -f2 | sort -u; pwd",
		NULL
	};
	const char *const ls[] = { "ls", NULL };
	struct link_exec exec = { .argv = argv, .user = "daemon", .output_max_bytes = 4096 };
	struct rig_result r;

	if (geteuid() != 0)
		skip();
	rig_run(&rig, &exec, &r);
	assert_string_equal(buf_data(&r.out), "1\n1\n1\n0000000000000000\n/tmp\n");
	rig_result_done(&r);
	exec.user = "4321";
	rig_run(&rig, &exec, &r);
	assert_string_equal(buf_data(&r.out), "4321\n4321\n4321\n0000000000000000\n/tmp\n");
	rig_result_done(&r);
	exec.cwd = "/root";
	exec.argv = ls;
	expect_refusal(&exec, ERR_INVALID_REQUEST, EACCES, 125);
	exec.cwd = "/proc/1/root";
	expect_refusal(&exec, ERR_INVALID_REQUEST, EACCES, 125);
}

/* A grandchild that keeps the pipes open must not delay the command, and is reaped by the agent. */
static void test_orphans(void **state)
{
	int64_t start_us = time_mono_us();
	char script[128];
	struct rig_result r;

	rig_sh(&rig, "(sleep 0.3; echo late) & echo $!", &r);
	assert_int_equal(r.result.status.exit_code, 0);
	assert_in_range(time_mono_us() - start_us, 0, 250000);
	(void)snprintf(script, sizeof(script), "sleep 0.6; test ! -e /proc/%d && echo reaped",
		       atoi(buf_data(&r.out)));
	rig_result_done(&r);
	rig_sh(&rig, script, &r);
	assert_string_equal(buf_data(&r.out), "reaped\n");
	rig_result_done(&r);
	rig_sh(&rig, "(sleep 0.01; echo late) &", &r); /* a little late is still waited for */
	assert_string_equal(buf_data(&r.out), "late\n");
	rig_result_done(&r);
}

static void test_parallel(void **state)
{
	enum { N = 50 };
	const char *const argv[] = { "sh", "-c", "sleep 0.1; echo done", NULL };
	struct link_exec exec = { .argv = argv, .output_max_bytes = 100 };
	struct rig_result r[N];

	for (int i = 0; i < N; i++)
		rig_exec(&rig, &exec, &r[i]);
	for (int i = 0; i < N; i++) {
		rig_wait_exec(&rig, &r[i], 10000);
		assert_string_equal(buf_data(&r[i].out), "done\n");
		rig_result_done(&r[i]);
	}
}

/* The daemon reconnects: the old link ends, the running program does not, ids continue. */
static void test_reconnect(void **state)
{
	char path[64], write_it[128], read_it[128]; /* of this run alone */
	const char *const argv[] = { "sh", "-c", write_it, NULL };
	struct link_exec exec = { .argv = argv };
	struct rig second = { .loop = rig.loop, .agent_pid = -1 };
	struct rig_result r, again;
	uint32_t first_id;

	(void)snprintf(path, sizeof(path), "/tmp/cay-rig-alive-%d", getpid());
	(void)snprintf(write_it, sizeof(write_it), "sleep 0.3; echo alive > %s", path);
	(void)snprintf(read_it, sizeof(read_it), "sleep 0.5; cat %s", path);
	rig_exec(&rig, &exec, &r);
	first_id = r.process_id;
	/* Let the request reach the agent before it is replaced. */
	loop_turn(rig.loop, 50);
	memcpy(second.sock_path, rig.sock_path, sizeof(rig.sock_path));
	rig_adopt(&second, rig_connect(&rig), 5000);
	assert_true(rig_wait(&second, &second.ready, RIG_PATIENCE_MS));
	assert_true(rig_wait(&rig, &rig.gone, RIG_PATIENCE_MS));
	assert_int_equal(rig.why.code, ERR_SANDBOX_GONE);
	assert_int_equal(r.deliveries, 1);
	assert_int_equal(r.result.status.end, LINK_END_GONE);
	rig_result_done(&r);
	rig_sh(&second, read_it, &again);
	assert_string_equal(buf_data(&again.out), "alive\n");
	assert_true(again.process_id > first_id);
	rig_result_done(&again);
	(void)unlink(path);
	rig_drop_link(&second);
}

static void test_free_with_pending(void **state)
{
	const char *const argv[] = { "sleep", "30", NULL };
	struct link_exec exec = { .argv = argv };
	struct rig_result r;

	rig_exec(&rig, &exec, &r);
	link_free(rig.link);
	rig.link = NULL;
	assert_int_equal(r.deliveries, 0);
	loop_turn(rig.loop, 0);
	assert_int_equal(r.deliveries, 1);
	assert_int_equal(r.result.status.end, LINK_END_GONE);
	rig_result_done(&r);
}

/* Without --trust-any-peer, a connection from the agent's own pid namespace is closed. */
static void test_connection_from_inside_is_closed(void **state)
{
	char byte;
	int fd;

	rig_drop_link(&rig);
	rig_stop_agent(&rig);
	rig_spawn_agent(&rig, NULL);
	fd = rig_connect(&rig);
	assert_int_equal(read(fd, &byte, 1), 0);
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_echo),
		T(test_exit_codes),
		T(test_signal),
		T(test_kill),
		T(test_stdin),
		T(test_stdin_full),
		T(test_timeout),
		T(test_much_output),
		T(test_refusals),
		T(test_too_big),
		T(test_environment),
		T(test_surroundings),
		T(test_other_user),
		T(test_orphans),
		T(test_parallel),
		T(test_reconnect),
		T(test_free_with_pending),
		T(test_connection_from_inside_is_closed),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
