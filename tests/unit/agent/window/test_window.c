/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of the real agent, with the real bash. */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "one_agent.h"

#define WINDOWS_DIRECTORY "/run/cay-windows"

static uint32_t shell; /* process id of the window used last */
static struct agent_window answer;

static void start_agent(const char *idle_ms)
{
	const char *const options[] = { "--trust-any-peer", "--user", "root", "--cwd", "/tmp",
					"--window-idle-ms", idle_ms,  NULL };

	caller = caller_new(&rig, options);
}

static int setup(void **state)
{
	start_agent("600000");
	return 0;
}

static int setup_short_idle(void **state)
{
	start_agent("300");
	return 0;
}

static unsigned files_left(void)
{
	DIR *dir = opendir(WINDOWS_DIRECTORY);
	unsigned count = 0;
	char ours[16];

	(void)snprintf(ours, sizeof(ours), "%d-", rig.agent_pid);
	for (struct dirent *e; dir && (e = readdir(dir));)
		count += strncmp(e->d_name, ours, strlen(ours)) == 0;
	if (dir)
		(void)closedir(dir);
	return count;
}

static int teardown(void **state)
{
	for (size_t i = caller_list(caller, 0); i-- > 0;)
		if (caller->listed[i].info.status.end == AGENT_END_NONE)
			(void)caller_stop(caller, caller->listed[i].info.process_id, 0, false);
	assert_int_equal(files_left(), 0);
	(void)rmdir(WINDOWS_DIRECTORY);
	caller_free(caller, &rig);
	return 0;
}

static struct caller_follow *begin_n(const char *name, const char *command, size_t n)
{
	const char *const env[] = { "PATH=/usr/local/bin:/usr/bin:/bin:/sbin", "GIVEN=1", NULL };
	struct agent_window_args args = {
		.name = name, .env = env, .cwd = "/tmp", .command = { command, n }
	};
	struct caller_follow *f;
	uint32_t tag = caller_window(caller, &args, &f);

	caller_wait(caller, &caller->done[tag], 8000);
	if (!caller->windows[tag].tag)
		fail_msg("refused: %u errno %u", caller->dones[tag].refusal,
			 caller->dones[tag].errno_value);
	answer = caller->windows[tag];
	shell = answer.process_id;
	return f;
}

static struct caller_follow *begin(const char *command)
{
	return begin_n("w", command, strlen(command));
}

static struct caller_follow *run_n(const char *command, size_t n)
{
	struct caller_follow *f = begin_n("w", command, n);

	caller_wait(caller, &f->ended, 20000);
	return f;
}

static void expect(struct caller_follow *f, const char *text)
{
	int64_t until_us = time_mono_us() + 5000000;

	while (!strstr(caller_text(f, 0), text)) {
		if (time_mono_us() > until_us || caller->closed)
			fail_msg("no \"%s\" in \"%s\"", text, caller_text(f, 0));
		caller_turn(caller, 10);
	}
}

/* Runs a command to its end and checks its complete output and exit code. */
static void check(const char *command, unsigned code, const char *output)
{
	struct caller_follow *f = run_n(command, strlen(command));

	if (strcmp(caller_text(f, 0), output) != 0 || f->end.status.exit_code != code)
		fail_msg("%s: %u \"%s\", not %u \"%s\"", command, f->end.status.exit_code,
			 caller_text(f, 0), code, output);
	assert_int_equal(f->end.refusal, 0);
	assert_int_equal(f->end.status.end, AGENT_END_EXIT);
	assert_int_equal(f->end.status.out_total, answer.cursor + strlen(output));
	assert_int_equal(f->gap[0], 0);
}

static void test_state_stays(void **state)
{
	check("echo hi", 0, "hi\n");
	assert_true(answer.made);
	assert_int_equal(answer.run, 1);
	assert_int_equal(answer.cursor, 0);
	check("cd /usr; x=5; export y=6; f() { echo f$1; }; a=(1 2 3); alias g='echo alias'", 0,
	      "");
	assert_false(answer.made);
	assert_int_equal(answer.run, 2);
	check("pwd; echo $x ${a[1]}; f 7; printenv y; g 1", 0, "/usr\n5 2\nf7\n6\nalias 1\n");
	check("declare z=3", 0, "");
	check("echo $z $GIVEN", 0, "3 1\n");
	check("(exit 42)", 42, "");
	check("echo $?", 0, "42\n");
	check("false | true", 0, "");
	check("! true", 1, "");
	check("echo $?; printf 'no newline'", 0, "1\nno newline");
}

static void test_text_of_all_kinds(void **state)
{
	check("echo 'a\nb'\necho \"c\n\"d", 0, "a\nb\nc\nd\n");
	check("cat <<X\n$((1+1)) \"q\"\nX\n", 0, "2 \"q\"\n");
	check("cat <<'X' | tr a b\n$a aa\nX\n\n\n", 0, "$b bb\n");
	check("-x", 127, "bash: -x: command not found\n");
	check("if", 2, "bash: eval: line 2: syntax error: unexpected end of file\n");
	check("echo after $?", 0, "after 2\n");
	check("echo \"open", 2,
	      "bash: eval: line 1: unexpected EOF while looking for matching `\"'\n");
	check("echo a \\\n b", 0, "a b\n");
	check("  # only a comment", 0, "");
	check("echo '\xc3\xa9\xff' | od -An -tx1", 0, " c3 a9 ff 0a\n");
	check("echo 's 0'; echo b; echo 12345678901234567890", 0, "s 0\nb\n12345678901234567890\n");
	check("for i in 1 2 3; do\n  echo $i\ndone", 0, "1\n2\n3\n");
}

static void test_nothing_of_ours_shows(void **state)
{
	check("ls /proc/self/fd", 0, "0  1  2  3\n");
	check("env | grep -cE 'PS1|PROMPT|HISTFILE|/run/'", 1, "0\n");
	check("x=$(set | grep -cE '^(s|c)='); echo $x", 0, "0\n");
	check("tty | grep -c pts; stty -a | grep -oE ' -?(onlcr|echo) '; echo $TERM", 0,
	      "1\n -onlcr \n echo \ndumb\n");
	check("jobs; history", 0, "");
}

static void test_shell_survives(void **state)
{
	check("x=kept", 0, "");
	check("break", 0, "");
	check("continue 3", 0, "");
	run_n("break 2", 7); /* leads to the prompt: a line of its own, and back */
	run_n("return 3", 8);
	check("exec 5</nowhere", 1, "bash: /nowhere: No such file or directory\n");
	check("set -u; echo $nothing_of_that_name", 1,
	      "bash: nothing_of_that_name: unbound variable\n");
	check("set +u", 0, "");
	check("set -e", 0, "");
	check("true; set +e", 0, "");
	check("echo $x", 0, "kept\n");
	assert_false(answer.made);
}

static void test_large_command(void **state)
{
	size_t n = 512 << 10;
	char *command = malloc(n + 1);
	struct caller_follow *f;

	memset(command, 'x', n);
	memcpy(command, "echo '", 6);
	memcpy(command + n - 10, "' | wc -c\n", 10);
	command[n] = '\0';
	f = run_n(command, n);
	assert_string_equal(caller_text(f, 0), "524273\n");
	free(command);
}

static void test_large_output(void **state)
{
	struct caller_follow *f;

	for (int i = 0; i < 3; i++) {
		f = run_n("seq 1 200000", 12);
		assert_int_equal(f->bytes[0] + f->gap[0], 1288895);
		assert_int_equal(f->end.status.out_total - answer.cursor, 1288895);
		assert_memory_equal(caller_text(f, 0) + f->bytes[0] - 14, "199999\n200000\n", 14);
	}
	check("echo small", 0, "small\n");
}

static void test_exit_ends_the_window(void **state)
{
	struct caller_follow *f;
	uint32_t first;

	check("x=1", 0, "");
	first = shell;
	f = run_n("exit 7", 6);
	assert_int_equal(f->end.status.end, AGENT_END_EXIT);
	assert_int_equal(f->end.status.exit_code, 7);
	assert_false(answer.made);
	check("echo [$x]", 0, "[]\n");
	assert_true(answer.made);
	assert_int_equal(answer.run, 1);
	assert_true(shell != first);
	f = run_n("kill -9 $$", 10);
	assert_int_equal(f->end.status.end, AGENT_END_SIGNAL);
	assert_int_equal(f->end.status.exit_code, 137);
	f = run_n("exec echo last", 14);
	assert_string_equal(caller_text(f, 0), "last\n");
	check("set -e", 0, "");
	f = run_n("false; echo not", 15);
	assert_int_equal(f->end.status.exit_code, 1);
	assert_string_equal(caller_text(f, 0), "");
}

static void test_input(void **state)
{
	struct caller_follow *f = begin("read -p 'name? ' v; echo got $v");

	expect(f, "name? ");
	assert_int_equal(caller_stdin(caller, shell, "you\n", 4, false), 0);
	caller_wait(caller, &f->ended, 5000);
	assert_string_equal(caller_text(f, 0), "name? you\ngot you\n");
	f = begin("cat");
	caller_pass(caller, 100);
	assert_int_equal(caller_stdin(caller, shell, "\x03", 1, false), 0);
	caller_wait(caller, &f->ended, 5000);
	assert_int_equal(f->end.status.exit_code, 130);
	assert_int_equal(f->end.status.end, AGENT_END_EXIT);
}

/* The agent has read so much of the window's output. */
static void wait_total(uint64_t total)
{
	int64_t until_us = time_mono_us() + RIG_PATIENCE_MS * 1000LL;

	while (caller_look(caller, shell)->status.out_total < total) {
		assert_true(time_mono_us() < until_us);
		caller_pass(caller, 5);
	}
}

static void wait_idle(void)
{
	int64_t until_us = time_mono_us() + RIG_PATIENCE_MS * 1000LL;

	while (caller_look(caller, shell)->flags & AGENT_PROCESS_BUSY) {
		assert_true(time_mono_us() < until_us);
		caller_pass(caller, 5);
	}
}

static void test_background_jobs(void **state)
{
	struct caller_follow *f;

	check("sleep 100 & job=$!", 0, "");
	f = begin("sleep 100");
	caller_pass(caller, 100);
	check("kill -0 $job && echo lives", 0, "lives\n");
	caller_wait(caller, &f->ended, RIG_PATIENCE_MS);
	assert_int_equal(f->end.status.end, AGENT_END_KILLED);
	f = run_n("kill $job; wait $job; (sleep 0.2; echo late) &", 46);
	wait_total(f->end.status.out_total + strlen("late\n"));
	check("echo now", 0, "now\n"); /* what came between two commands belongs to neither */
}

/* Each is cancelled by the next command, which must have ended within_ms later. */
static void cancel(const char *command, int within_ms)
{
	struct caller_follow *f, *next;
	uint32_t run, before;
	int64_t start_us;

	check("state=here", 0, "");
	before = shell;
	f = begin(command);
	run = answer.run;
	caller_pass(caller, 150);
	assert_false(f->ended);
	start_us = time_mono_us();
	next = begin("echo next $state $?");
	caller_wait(caller, &next->ended, 8000);
	if ((time_mono_us() - start_us) / 1000 > within_ms)
		fail_msg("%s: %d ms", command, (int)((time_mono_us() - start_us) / 1000));
	assert_true(answer.cancelled);
	assert_false(answer.made);
	assert_int_equal(shell, before);
	assert_int_equal(answer.run, run + 1);
	assert_true(f->ended);
	assert_int_equal(f->end.status.end, AGENT_END_KILLED);
	assert_int_equal(f->end.status.exit_code, 130);
	if (strncmp(caller_text(next, 0), "next here ", 10) != 0)
		fail_msg("%s: \"%s\"", command, caller_text(next, 0));
}

static void test_cancel(void **state)
{
	cancel("sleep 100", 1000);
	cancel("while true; do sleep 0.05; done", 1000);
	cancel("while :; do :; done", 1000);
	cancel("cat", 1000);
	cancel("read x", 1000);
	cancel("sleep 100 | cat; echo not", 1000);
	cancel("x=$(sleep 100)", 1000);
	cancel("sleep 100 & wait", 1000);
	cancel("yes", 2000);
	cancel("set +m; sleep 100", 1000);
	cancel("set -m; (sleep 100)", 1000);
}

static void test_cancel_of_a_command_that_ignores_it(void **state)
{
	cancel("bash -c 'trap \"\" INT; while :; do sleep 1; done'", 1500);
	cancel("bash -c 'trap \"\" INT TERM; while :; do sleep 1; done'", 2000);
	cancel("x=$(trap '' INT TERM; setsid sleep 100)", 2500);
	cancel("python3 -c 'import signal, time; signal.pthread_sigmask(signal.SIG_BLOCK, "
	       "range(1, 32)); time.sleep(100)'",
	       2500);
}

static void test_shell_that_never_returns(void **state)
{
	static const char *const commands[] = { "kill -STOP $$", "trap '' INT; while :; do :; done",
						"PROMPT_COMMAND=; kill -INT $$; sleep 100" };

	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		struct caller_follow *f, *next;
		int64_t start_us;

		check("lost=1", 0, "");
		f = begin(commands[i]);
		caller_pass(caller, 100);
		start_us = time_mono_us();
		next = begin("echo [$lost]");
		caller_wait(caller, &next->ended, 8000);
		assert_true((time_mono_us() - start_us) / 1000 < 4500);
		assert_true(answer.made);
		assert_string_equal(caller_text(next, 0), "[]\n");
		assert_true(f->ended);
		assert_int_equal(f->end.status.end, AGENT_END_KILLED);
	}
}

static void test_cancel_while_it_begins(void **state)
{
	struct caller_follow *f[40];

	check("true", 0, "");
	for (size_t i = 0; i < ARRAY_LEN(f); i++) {
		const char *const env[] = { NULL };
		char command[64];
		struct agent_window_args args = { .name = "w", .env = env };

		(void)snprintf(command, sizeof(command), "echo %zu; sleep 0.00%zu; sleep 50", i,
			       i % 10);
		args.command = str_of(command);
		(void)caller_window(caller, &args, &f[i]);
		caller_pass(caller, (int)(i % 4));
	}
	check("echo done", 0, "done\n");
	for (size_t i = 0; i < ARRAY_LEN(f); i++) {
		assert_true(f[i]->ended);
		assert_int_equal(f[i]->end.status.end, AGENT_END_KILLED);
	}
	assert_int_equal(answer.run, ARRAY_LEN(f) + 2);
}

static void test_short_runs_cancelled_late(void **state)
{
	check("n=0", 0, "");
	for (int i = 0; i < 60; i++) {
		struct caller_follow *f = begin("n=$((n + 1)); sleep 0.003");

		caller_pass(caller, i % 8);
		check("true", 0, "");
		caller_wait(caller, &f->ended, 1000);
	}
	check("echo $((n > 0)) $((n <= 60))", 0,
	      "1 1\n"); /* some began, none twice; on a busy host few do */
}

static void test_listed(void **state)
{
	const struct agent_listed *l;
	struct caller_follow *f, *again;

	check("echo 12345; (exit 3)", 3, "12345\n");
	caller_pass(caller, 30);
	l = caller_look(caller, shell);
	assert_int_equal(l->flags,
			 AGENT_PROCESS_TTY | AGENT_PROCESS_WINDOW | AGENT_PROCESS_STDIN_OPEN);
	assert_true(str_is(l->name, "w"));
	assert_true(str_is(l->command, "bash"));
	assert_int_equal(l->run, 1);
	assert_int_equal(l->run_end, AGENT_END_EXIT);
	assert_int_equal(l->run_exit_code, 3);
	assert_int_equal(l->run_cursor, 0);
	assert_in_range(l->idle_ms, 20, 2000);
	f = begin("sleep 100");
	l = caller_look(caller, shell);
	assert_true(l->flags & AGENT_PROCESS_BUSY);
	assert_int_equal(l->run, 2);
	assert_int_equal(l->run_end, AGENT_END_NONE);
	assert_int_equal(l->run_cursor, 6);
	assert_int_equal(l->idle_ms, 0);
	assert_int_equal(caller_stop(caller, shell, 1000, false), 0);
	caller_wait(caller, &f->ended, 3000);
	assert_int_equal(f->end.status.end, AGENT_END_KILLED);
	again = caller_follow(caller, shell, AGENT_FOLLOW_OUT, 0, 0, 1000);
	caller_wait(caller, &again->ended, 1000);
	assert_string_equal(caller_text(again, 0), "12345\n");
}

static void test_several(void **state)
{
	struct caller_follow *a = begin_n("a", "sleep 0.2; echo a", 17),
			     *b = begin_n("b", "echo b", 6);

	caller_wait(caller, &b->ended, 3000);
	assert_false(a->ended);
	caller_wait(caller, &a->ended, 3000);
	assert_string_equal(caller_text(a, 0), "a\n");
	assert_string_equal(caller_text(b, 0), "b\n");
}

static void test_made_at_once(void **state)
{
	const char *const env[] = { "PATH=/usr/bin:/bin", NULL };
	struct caller_follow *f[24];

	for (size_t i = 0; i < ARRAY_LEN(f); i++) {
		char name[8];
		struct agent_window_args args = { .name = name,
						  .env = env,
						  .cwd = "/tmp",
						  .command = str_of("sleep 0.2; echo $0") };

		(void)snprintf(name, sizeof(name), "w%zu", i);
		(void)caller_window(caller, &args, &f[i]);
		if (i % 5 == 0) /* also those whose shell is not up yet */
			assert_int_equal(caller_list(caller, 0), i + 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(f); i++) {
		caller_wait(caller, &f[i]->ended, 8000);
		assert_string_equal(caller_text(f[i], 0), "/bin/bash\n");
	}
}

static void test_refused(void **state)
{
	const char *const no_env[] = { NULL };
	struct agent_window_args args = {
		.name = "w", .env = no_env, .command = str_of("true"), .user = "nobody-of-that-name"
	};
	struct caller_follow *f;
	uint32_t tag = caller_window(caller, &args, &f);

	assert_int_equal(caller_wait_done(caller, tag, 3000), AGENT_REFUSED_UNKNOWN_USER);
	args.user = NULL;
	args.cwd = "/not/there";
	tag = caller_window(caller, &args, &f);
	assert_int_equal(caller_wait_done(caller, tag, 3000), AGENT_REFUSED_CWD_MISSING);
	assert_int_equal(files_left(), 0);
}

static void test_other_user(void **state)
{
	const char *const env[] = { "PATH=/usr/bin:/bin", NULL };
	struct agent_window_args args = { .name = "u",
					  .env = env,
					  .cwd = "/tmp",
					  .user = "nobody",
					  .command = str_of("id -un; tty >/dev/null && echo tty") };
	struct caller_follow *f;

	(void)caller_window(caller, &args, &f);
	caller_wait(caller, &f->ended, 5000);
	assert_string_equal(caller_text(f, 0), "nobody\ntty\n");
}

static void test_connection_lost(void **state)
{
	(void)begin("x=7; sleep 0.3; y=8");
	caller_close(caller);
	caller_open(caller, &rig);
	wait_idle();
	check("echo $x $y", 0, "7 8\n");
	assert_false(answer.made);
	assert_int_equal(answer.run, 2);
}

/* The shell's user may write into its FIFOs: only its own window is affected. */
static void test_forged_reports(void **state)
{
	struct caller_follow
		*f = begin("for r in /run/cay-windows/$PPID-*/report; do printf 's 0\\ns 999\\n' "
			   ">$r; printf '%0500d\\n\\n' 5 >$r; done; sleep 1"),
		*next;

	caller_wait(caller, &f->ended, 3000);
	next = begin("echo next");
	caller_wait(caller, &next->ended, 5000);
	assert_string_equal(caller_text(next, 0), "next\n");
	(void)begin("for r in /run/cay-windows/$PPID-*/report; do yes 's 3' >$r & yes b >$r & "
		    "done; sleep 9");
	caller_pass(caller, 300);
	f = begin_n("other", "echo other; sleep 0.1", 21);
	expect(f, "other\n");
	for (size_t i = caller_list(caller, 0); i-- > 0;)
		assert_int_equal(caller_stop(caller, caller->listed[i].info.process_id, 0, false),
				 0);
	check("echo [$x]", 0, "[]\n");
}

static void test_idle_closes(void **state)
{
	struct caller_follow *f;
	uint32_t first;

	check("x=1", 0, "");
	first = shell;
	f = begin("sleep 0.7");
	caller_wait(caller, &f->ended, 3000);
	check("echo $x", 0, "1\n"); /* a live command keeps it */
	assert_int_equal(shell, first);
	for (int i = 0; i < 5; i++) {
		caller_pass(caller, 150);
		assert_int_equal(caller_stdin(caller, shell, "\n", 1, false), 0);
	}
	caller_pass(caller, 50); /* its echo */
	check("echo $x", 0, "1\n");
	assert_int_equal(shell, first);
	caller_pass(caller, 700);
	assert_int_equal(caller_look(caller, first)->status.end, AGENT_END_KILLED);
	check("echo [$x]", 0, "[]\n");
	assert_true(answer.made);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_state_stays),
		TEST(test_text_of_all_kinds),
		TEST(test_nothing_of_ours_shows),
		TEST(test_shell_survives),
		TEST(test_large_command),
		TEST(test_large_output),
		TEST(test_exit_ends_the_window),
		TEST(test_input),
		TEST(test_background_jobs),
		TEST(test_cancel),
		TEST(test_cancel_of_a_command_that_ignores_it),
		TEST(test_shell_that_never_returns),
		TEST(test_cancel_while_it_begins),
		TEST(test_short_runs_cancelled_late),
		TEST(test_listed),
		TEST(test_several),
		TEST(test_made_at_once),
		TEST(test_refused),
		TEST(test_other_user),
		TEST(test_forged_reports),
		TEST(test_connection_lost),
		cmocka_unit_test_setup_teardown(test_idle_closes, setup_short_idle, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
