/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of the real agent: their list, their input, their end and their descendants. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/time.h"
#include "one_agent.h"

#define LIVE_OUT (AGENT_FOLLOW_LIVE | AGENT_FOLLOW_OUT)

/* How many processes have this word among their arguments. */
static int count(const char *word)
{
	char script[200];
	struct caller_follow *f;

	(void)snprintf(script, sizeof(script), "pgrep -cfx '%s'", word);
	(void)caller_sh(caller, script, 0, 1000, &f);
	caller_wait(caller, &f->ended, 30000);
	return (int)strtol(caller_text(f, 0), NULL, 10);
}

/* Programs take their time to start and to go. */
static bool count_becomes(const char *word, int n)
{
	for (int i = 0; i < 500; i++) {
		if (count(word) == n)
			return true;
		caller_pass(caller, 10);
	}
	return false;
}

static void test_list(void **state)
{
	const char *const argv[] = { "sh", "-c", "echo hi; cat", "a b", NULL };
	struct agent_exec_args args = {
		.argv = argv, .name = "my-name.1", .user = "daemon", .flags = AGENT_EXEC_STDIN_OPEN
	};
	uint32_t first = caller_start(caller, &args), pid = caller->started_pid, second;
	const struct agent_listed *l;

	second = caller_sh(caller, "exit 7", 0, 0, NULL);
	(void)caller_wait_end(caller, second, 5000);
	assert_int_equal(caller_list(caller, 0), 2);
	assert_int_equal(caller->listed[0].info.process_id, first);
	assert_int_equal(caller->listed[1].info.process_id, second);
	assert_int_equal(caller->listed[1].info.status.exit_code, 7);
	assert_true(caller->listed[1].info.status.duration_us > 0);
	l = caller_look(caller, first);
	assert_int_equal(l->pid, pid);
	assert_int_equal(l->flags, AGENT_PROCESS_STDIN_OPEN);
	assert_string_equal(l->name.p, "my-name.1");
	assert_string_equal(l->user.p, "daemon");
	assert_string_equal(l->command.p, "sh -c echo hi; cat a b");
	assert_in_range(l->start_ms, (uint64_t)time_real_ms() - 20000, (uint64_t)time_real_ms());
	assert_int_equal(l->status.end, AGENT_END_NONE);
	assert_int_equal(l->status.out_total, 3);
	assert_int_equal(l->out_begin, 0);
	assert_int_equal(caller_forget(caller, first), AGENT_REFUSED_STILL_RUNNING);
	assert_int_equal(caller_forget(caller, second), 0);
	assert_int_equal(caller_forget(caller, second), AGENT_REFUSED_NO_PROCESS);
	assert_int_equal(caller_list(caller, 0), 1);
	assert_int_equal(caller_close_stdin(caller, first), 0);
	assert_int_equal(caller_wait_end(caller, first, 5000)->status.exit_code, 0);
}

static void test_keep(void **state)
{
	const char *const argv[] = { "true", NULL };
	struct agent_exec_args brief = { .argv = argv, .keep_ms = 300 }, usual = { .argv = argv };
	uint32_t kept = caller_start(caller, &usual), id;
	int64_t start_us;

	(void)caller_wait_end(caller, kept, 60000);
	start_us = time_mono_us();
	id = caller_start(caller, &brief);
	while (caller_look(caller, id)) {
		assert_true(time_mono_us() < start_us + 60000000);
		caller_pass(caller, 5);
	}
	assert_true(time_mono_us() - start_us >= 300000);
	assert_non_null(caller_look(caller, kept)); /* it ended before, and is kept longer */
}

/* The 1025th replaces the oldest finished one; at most 1024 can run. */
static void test_places(void **state)
{
	const char *const argv[] = { "true", NULL }, *const wait[] = { "sleep", "1000", NULL };
	struct agent_exec_args args = { .argv = argv }, waiting = { .argv = wait };
	uint32_t first = caller_start(caller, &waiting), second = caller_start(caller, &args);

	(void)caller_wait_end(caller, second, 60000); /* before any other one: it is the oldest */
	for (int i = 0; i < 1022; i++)
		(void)caller_start(caller, &args);
	assert_int_equal(caller_list(caller, 0), 1024);
	assert_true(caller->listed_frames >= 1);
	(void)caller_start(caller, &args);
	assert_int_equal(caller_list(caller, 0), 1024);
	assert_null(caller_look(caller, second));
	assert_non_null(caller_look(caller, first)); /* it runs */
	assert_int_equal(caller_stop(caller, first, 0, true), 0);
}

static void test_many_listed(void **state)
{
	static char text[400];
	const char *const argv[] = { "true", text, NULL };
	struct agent_exec_args args = { .argv = argv };

	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < 1000; i++)
		(void)caller_start(caller, &args);
	assert_int_equal(caller_list(caller, 0), 1000);
	assert_int_equal(caller->listed_frames, 2); /* one frame is too small */
	assert_int_equal(caller->listed[999].info.command.n, AGENT_COMMAND_MAX);
	for (int i = 1; i < 1000; i++)
		assert_true(caller->listed[i].info.process_id >
			    caller->listed[i - 1].info.process_id);
}

static void test_stdin(void **state)
{
	static char big[AGENT_STDIN_BYTES_MAX];
	struct caller_follow *f;
	char gate[32], command[160];
	uint32_t id, tag;

	(void)snprintf(gate, sizeof(gate), "/tmp/cay-gate-%d", getpid());
	(void)snprintf(command, sizeof(command),
		       "until [ -e %s ]; do sleep 0.01; done; rm %s; exec wc -c", gate, gate);
	id = caller_sh(caller, command, AGENT_EXEC_STDIN_OPEN, 1000, &f);

	/* Into the buffer at once, all of it or nothing; with WAIT not before it is read. */
	for (int i = 0; i < 4; i++)
		assert_int_equal(caller_stdin(caller, id, big, sizeof(big), false), 0);
	assert_int_equal(caller_stdin(caller, id, big, sizeof(big), false),
			 AGENT_REFUSED_STDIN_FULL);
	tag = caller->next_tag++;
	assert_int_equal(agent_put_stdin(&caller->out, id, tag, AGENT_STDIN_WAIT, STR_LIT("x")), 0);
	caller_pass(caller, 50);
	assert_false(caller->done[tag]);
	assert_int_equal(mknod(gate, S_IFREG | 0600, 0), 0); /* now it reads */
	assert_int_equal(caller_wait_done(caller, tag, 30000), 0);
	assert_int_equal(caller_stdin(caller, id, "y", 1, true), 0);
	assert_int_equal(caller_close_stdin(caller, id), 0);
	assert_int_not_equal(caller_close_stdin(caller, id), 0);
	caller_wait(caller, &f->ended, 30000);
	assert_int_equal(strtol(caller_text(f, 0), NULL, 10), 4 * (long)sizeof(big) + 2);
	assert_int_equal(caller_stdin(caller, id, "z", 1, false), AGENT_REFUSED_ENDED);
	assert_int_equal(caller_stdin(caller, id + 100, "z", 1, false), AGENT_REFUSED_NO_PROCESS);

	/* It does not read: neither side hangs or dies, and the waiting caller is informed. */
	id = caller_sh(caller, "exec 0<&-; sleep 0.4", AGENT_EXEC_STDIN_OPEN, 0, NULL);
	caller_pass(caller, 150);
	assert_int_equal(caller_stdin(caller, id, "z", 1, false), AGENT_REFUSED_STDIN_CLOSED);
	id = caller_sh(caller, "sleep 0.2", AGENT_EXEC_STDIN_OPEN, 0, NULL);
	assert_int_not_equal(caller_stdin(caller, id, big, sizeof(big), true), 0);
	id = caller_sh(caller, "true", 0, 0, NULL); /* no signal was requested */
	assert_int_not_equal(caller_stdin(caller, id, "z", 1, false), 0);
}

/* Unread input is bounded for all processes together, and freed again. */
static void test_stdin_of_many(void **state)
{
	static char big[AGENT_STDIN_BYTES_MAX];
	uint32_t id[20], refusal = 0;
	size_t taken = 0;

	for (int i = 0; i < 20; i++)
		id[i] = caller_sh(caller, "exec sleep 60", AGENT_EXEC_STDIN_OPEN, 0, NULL);
	for (int i = 0; i < 20 && !refusal; i++)
		for (int k = 0; k < 4 && !refusal; k++) {
			refusal = caller_stdin(caller, id[i], big, sizeof(big), false);
			taken += refusal ? 0 : sizeof(big);
		}
	assert_int_equal(refusal, AGENT_REFUSED_STDIN_FULL);
	assert_in_range(taken, 60U << 20, 80U << 20); /* the pipes hold some, too */
	for (int i = 0; i < 20; i++)
		assert_int_equal(caller_stop(caller, id[i], 0, true), 0);
	id[0] = caller_sh(caller, "exec sleep 60", AGENT_EXEC_STDIN_OPEN, 0, NULL);
	for (int k = 0; k < 4; k++)
		assert_int_equal(caller_stdin(caller, id[0], big, sizeof(big), false), 0);
	assert_int_equal(caller_stop(caller, id[0], 0, true), 0);
}

static void test_kill(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller, "exec sleep 60", 0, 1000, &f);

	assert_int_equal(caller_kill(caller, id, SIGTERM), 0);
	caller_wait(caller, &f->ended, 30000);
	assert_int_equal(f->end.status.end, AGENT_END_KILLED);
	assert_int_equal(f->end.status.signal, SIGTERM);
	assert_int_equal(f->end.status.exit_code, 128 + SIGTERM);
	assert_int_equal(caller_kill(caller, id, SIGTERM), AGENT_REFUSED_ENDED);
	/* One requested signal and another that kills: not ended by request. */
	id = caller_sh(caller, "trap '' USR1; sleep 0.4; kill -SEGV $$", 0, 1000, &f);
	caller_pass(caller, 100);
	assert_int_equal(caller_kill(caller, id, SIGUSR1), 0);
	caller_wait(caller, &f->ended, 30000);
	assert_int_equal(f->end.status.end, AGENT_END_SIGNAL);
	assert_int_equal(f->end.status.signal, SIGSEGV);
	id = caller_sh(caller, "trap 'exit 5' TERM; while :; do sleep 0.05; done", 0, 1000, &f);
	caller_pass(caller, 100);
	assert_int_equal(caller_kill(caller, id, SIGTERM), 0);
	caller_wait(caller, &f->ended, 30000);
	assert_int_equal(f->end.status.end, AGENT_END_EXIT);
	assert_int_equal(f->end.status.exit_code, 5);
}

static void test_stop(void **state)
{
	struct caller_follow *f;
	int64_t start_us = time_mono_us();
	uint32_t id = caller_sh(caller, "echo x; exec sleep 60", 0, 100, &f);

	assert_int_equal(caller_stop(caller, id, 5000, true), 0); /* TERM is enough */
	assert_in_range(time_mono_us() - start_us, 0, rig_limit_us(2000));
	caller_wait(caller, &f->ended, 30000);
	assert_int_equal(f->end.status.end, AGENT_END_KILLED);
	assert_int_equal(f->end.status.signal, SIGTERM);
	assert_null(caller_look(caller, id));

	id = caller_sh(caller, "exec sleep 60", 0, 0, NULL); /* stopped: still receives it */
	assert_int_equal(caller_kill(caller, id, SIGSTOP), 0);
	caller_pass(caller, 50);
	start_us = time_mono_us();
	assert_int_equal(caller_stop(caller, id, 5000, true), 0);
	assert_in_range(time_mono_us() - start_us, 0, rig_limit_us(2000));

	/* It ignores signals, and so does a child in another session. */
	id = caller_sh(caller,
		       "trap '' TERM; setsid sh -c 'trap \"\" TERM; exec sleep 654321' & "
		       "sleep 654322; sleep 654323",
		       0, 0, NULL);
	caller_pass(caller, 200);
	start_us = time_mono_us();
	assert_int_equal(caller_stop(caller, id, 300, false), 0);
	assert_in_range(time_mono_us() - start_us, 290000, rig_limit_us(3000));
	assert_int_equal(caller_look(caller, id)->status.end, AGENT_END_KILLED);
	assert_int_equal(caller_look(caller, id)->status.signal, SIGKILL);
	assert_true(count_becomes("sleep 65432[1-3]", 0));
	assert_int_equal(caller_stop(caller, id, 300, true), 0); /* it has ended: only forgotten */
	assert_null(caller_look(caller, id));
	assert_int_equal(caller_stop(caller, id, 300, true), AGENT_REFUSED_NO_PROCESS);

	/* It goes at once, and so does a child of another session. */
	id = caller_sh(caller, "setsid sleep 654326 & exec sleep 60", 0, 0, NULL);
	assert_true(count_becomes("sleep 654326", 1));
	assert_int_equal(caller_stop(caller, id, 5000, true), 0);
	assert_true(count_becomes("sleep 654326", 0));

	/* It goes at once, its children take the rest of the grace. */
	id = caller_sh(caller, "sh -c 'trap \"\" TERM; sleep 654324; sleep 654325' & exec sleep 60",
		       0, 0, NULL);
	caller_pass(caller, 200);
	start_us = time_mono_us();
	assert_int_equal(caller_stop(caller, id, 300, true), 0);
	assert_in_range(time_mono_us() - start_us, 290000, rig_limit_us(3000));
	assert_true(count_becomes("sleep 65432[45]", 0));
}

/* Also reaches children that changed their session and user but not their environment. */
static void test_timeout_reaches_sessions(void **state)
{
	const char *const argv[] = { "sh", "-c",
				     "setsid setsid sleep 543211 & setsid setpriv --reuid 1 "
				     "--regid 1 --clear-groups sleep 543212 & sleep 543213",
				     NULL };
	struct agent_exec_args args = { .argv = argv,
					.flags = AGENT_EXEC_COLLECT,
					.timeout_ms = 3000,
					.output_max_bytes = 100 };
	uint32_t id = caller_exec(caller, &args);

	assert_true(count_becomes("sleep 54321[1-3]", 3));
	caller_wait_exit(caller, id, 20000);
	assert_int_equal(caller->exit.status.end, AGENT_END_TIMEOUT);
	assert_int_equal(caller->exit.status.exit_code, 124);
	assert_true(count_becomes("sleep 54321[1-3]", 0));
}

static void test_mark(void **state)
{
	const char *const argv[] = { "sh", "-c", "env | grep CAY_; env | grep -c CAY_", NULL };
	const char *const env[] = { "PATH=/usr/bin:/bin", "CAY_PROCESS_ID=77", NULL };
	struct agent_exec_args args = {
		.argv = argv, .env = env, .flags = AGENT_EXEC_COLLECT, .output_max_bytes = 100
	};
	uint32_t id = caller_exec(caller, &args);
	char expect[64];

	caller_wait_exit(caller, id, 5000);
	(void)snprintf(expect, sizeof(expect), "CAY_PROCESS_ID=%u\n1\n", id);
	assert_memory_equal(buf_data(&caller->collected[0]), expect, strlen(expect));
}

static void save(const char *script, uint32_t max, const char *user)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	struct agent_exec_args args = { .argv = argv,
					.user = user,
					.flags = AGENT_EXEC_COLLECT | AGENT_EXEC_SAVE,
					.output_max_bytes = max };

	caller_wait_exit(caller, caller_exec(caller, &args), 20000);
}

static void test_save(void **state)
{
	char text[64] = { 0 };
	struct stat st;
	int fd;

	save("printf 12345", 5, NULL); /* at the limit: nothing is cut */
	assert_string_equal(caller->saved, "");
	assert_false(caller->exit.saved_all);
	save("printf 12345; sleep 0.1; printf ab >&2; sleep 0.1; printf 6; sleep 0.1; printf c >&2",
	     5, "daemon");
	assert_true(caller->exit.saved_all);
	assert_int_equal(buf_len(&caller->collected[0]), 5);
	assert_int_equal(buf_len(&caller->collected[1]), 3);
	assert_memory_equal(caller->saved, "/tmp/.cay-cmd-", 14);
	fd = open(caller->saved, O_RDONLY);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	if (geteuid() == 0)
		assert_int_equal(st.st_uid, 1);
	assert_int_equal(read(fd, text, sizeof(text)), 9);
	assert_string_equal(text, "12345ab6c");
	(void)close(fd);
	(void)unlink(caller->saved);

	save("head -c 67108864 /dev/zero", 0, NULL); /* as much as a file may hold */
	assert_true(caller->exit.saved_all);
	assert_int_equal(stat(caller->saved, &st), 0);
	assert_int_equal(st.st_size, 64 << 20);
	(void)unlink(caller->saved);
	save("head -c 67108865 /dev/zero", 0, NULL);
	assert_false(caller->exit.saved_all);
	assert_int_equal(stat(caller->saved, &st), 0);
	assert_int_equal(st.st_size, 64 << 20);
	assert_int_equal(caller->exit.status.out_total, (64 << 20) + 1);
	(void)unlink(caller->saved);
}

/* Output beyond the limit of all rings: finished processes are dropped, and the agent continues. */
static void test_ring_memory(void **state)
{
	const char *const argv[] = { "head", "-c", "5000000", "/dev/zero", NULL };
	struct agent_exec_args args = { .argv = argv, .ring_bytes = 4U << 20 };
	uint32_t first = 0, id = 0;
	const struct agent_listed *l;

	for (int i = 0; i < 30; i++) {
		id = caller_start(caller, &args);
		first = first ? first : id;
		l = caller_wait_end(caller, id, 10000);
		assert_int_equal(l->status.out_total, 5000000);
		assert_int_equal(l->status.out_total - l->out_begin, 4U << 20);
	}
	assert_null(caller_look(caller, first));
	assert_in_range(caller_list(caller, 0), 10, 16);
}

/* An orphan keeps the pipe open: its process still ends, and later output is discarded. */
static void test_orphan(void **state)
{
	struct caller_follow *f;
	uint32_t id = caller_sh(caller, "(sleep 0.3; echo late; sleep 0.2) & echo now", 0, 100, &f);
	int64_t start_us = time_mono_us();

	caller_wait(caller, &f->ended, 30000);
	assert_in_range(time_mono_us() - start_us, 0, 250000);
	assert_int_equal(f->end.status.out_total, 4);
	caller_pass(caller, 400);
	assert_int_equal(caller_look(caller, id)->status.out_total, 4);
	assert_int_equal(caller_forget(caller, id), 0); /* its pipe is still held */
	caller_pass(caller, 300);
	assert_int_equal(caller_list(caller, 0), 0);
}

static void test_ids_continue(void **state)
{
	uint32_t id = caller_sh(caller, "exec sleep 30", 0, 0, NULL);
	const char *const argv[] = { "true", NULL };
	struct agent_exec_args args = { .argv = argv };

	caller_close(caller);
	caller_open(caller, &rig);
	assert_int_equal(caller->next_id, id + 1);
	assert_int_equal(caller->hello.process_count, 1);
	caller->next_id = id; /* used before */
	(void)caller_exec(caller, &args);
	caller_wait(caller, &caller->refused, 5000);
	assert_int_equal(caller->refusal.code, AGENT_REFUSED_BAD_REQUEST);
	assert_int_equal(caller_stop(caller, id, 1000, true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, one_agent_setup, one_agent_teardown)
		T(test_list),	     T(test_keep),	   T(test_places),
		T(test_many_listed), T(test_stdin),	   T(test_stdin_of_many),
		T(test_kill),	     T(test_stop),	   T(test_timeout_reaches_sessions),
		T(test_mark),	     T(test_save),	   T(test_ring_memory),
		T(test_orphan),	     T(test_ids_continue),
#undef T
	};

	cmocka_set_test_filter(getenv("CAY_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
