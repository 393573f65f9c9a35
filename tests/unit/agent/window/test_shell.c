/* SPDX-License-Identifier: Apache-2.0 */
/* What a window's shell reports, all of it hostile, and how a command is handed to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/window/shell.h"

static int watches, watch_result;

/* What shell.c calls of the rest of the agent. */
int agent_watch(struct agent *agent, int op, int fd, uint32_t events, enum agent_event event,
		uint32_t id)
{
	(void)agent;
	(void)op;
	(void)fd;
	(void)events;
	(void)event;
	(void)id;
	watches++;
	return watch_result;
}

struct process *process_start(struct agent *agent, const struct agent_exec *exec,
			      struct process_refusal *ret)
{
	(void)agent;
	(void)exec;
	*ret = (struct process_refusal){ .code = AGENT_REFUSED_NOT_FOUND };
	return NULL;
}

void stop_start(struct agent *agent, struct process *p, uint32_t tag, uint32_t grace_ms,
		bool forget)
{
	(void)agent;
	(void)p;
	(void)tag;
	(void)grace_ms;
	(void)forget;
}

int user_resolve(const char *wanted, struct user *ret)
{
	(void)ret;
	return strcmp(wanted, "nobody-here") == 0 ? -ENOENT : 0;
}

static struct shell shell;
static struct agent agent;
static struct process process;
static int report_to;
static char dir[] = "/tmp/cay-shell-XXXXXX";

static int setup(void **state)
{
	int fds[2];

	(void)state;
	(void)strcpy(dir, "/tmp/cay-shell-XXXXXX");
	if (!mkdtemp(dir) || pipe2(fds, O_NONBLOCK | O_CLOEXEC) < 0)
		return -1;
	shell = (struct shell){ fds[0], fds[0], -1, -1 };
	shell.dir_fd = open(dir, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
	shell_random_digits(shell.token, sizeof(shell.token) - 1);
	report_to = fds[1];
	watches = watch_result = 0;
	return mkfifoat(shell.dir_fd, "command", 0600);
}

static int teardown(void **state)
{
	(void)state;
	shell_send_end(&agent, &shell);
	(void)unlinkat(shell.dir_fd, "command", 0);
	(void)close(shell.dir_fd);
	(void)close(shell.report_fd);
	(void)close(report_to);
	return rmdir(dir);
}

static enum shell_report report(const char *bytes, unsigned *ret_status)
{
	assert_int_equal(write(report_to, bytes, strlen(bytes)), strlen(bytes));
	return shell_read(&shell, ret_status);
}

static void reports_are_read_one_by_one(void **state)
{
	unsigned status = 99;

	(void)state;
	assert_int_equal(shell_read(&shell, &status), SHELL_NOTHING);
	assert_int_equal(report("s 0\nb\np\n", &status), SHELL_READY);
	assert_int_equal(status, 0);
	assert_int_equal(shell_read(&shell, &status), SHELL_BEGINS);
	assert_int_equal(shell_read(&shell, &status), SHELL_AT_PROMPT);
	assert_int_equal(shell_read(&shell, &status), SHELL_NOTHING);
	assert_int_equal(report("s 255\n", &status), SHELL_READY);
	assert_int_equal(status, 255);
}

static void a_report_may_come_in_pieces(void **state)
{
	unsigned status = 99;

	(void)state;
	assert_int_equal(report("s", &status), SHELL_NOTHING);
	assert_int_equal(report(" 1", &status), SHELL_NOTHING);
	assert_int_equal(report("7", &status), SHELL_NOTHING);
	assert_int_equal(status, 99);
	assert_int_equal(report("\n", &status), SHELL_READY);
	assert_int_equal(status, 17);
}

static void what_is_no_report_is_passed_over(void **state)
{
	static const char *const bad[] = { "\n",     "s\n",	"s \n",	 "s 256\n", "s -1\n",
					   "s 1 \n", "s  1\n",	"S 1\n", "bb\n",    " b\n",
					   "pp\n",   "s 0x1\n", "x 1\n", "s 1s 1\n" };
	unsigned status = 99;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(report(bad[i], &status), SHELL_NOTHING);
	assert_int_equal(status, 99);
	assert_int_equal(report("b\n", &status), SHELL_BEGINS); /* and the next one is read */
}

static void lines_without_end_take_no_memory_and_no_time(void **state)
{
	static char flood[SHELL_REPORT_MAX * 200];
	unsigned status = 99;

	(void)state;
	memset(flood, 'x', sizeof(flood));
	assert_int_equal(write(report_to, flood, sizeof(flood)), sizeof(flood));
	assert_int_equal(shell_read(&shell, &status),
			 SHELL_NOTHING); /* gives up before the end of it */
	assert_true(shell.report_n <= sizeof(shell.report));
	memset(flood, '\n', sizeof(flood));
	while (shell_read(&shell, &status), read(shell.report_fd, flood, 1) == 1)
		;
	shell.report_n = 0;
	assert_int_equal(report("p\n", &status), SHELL_AT_PROMPT);
	(void)close(report_to);
	report_to = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_int_equal(shell_read(&shell, &status), SHELL_NOTHING); /* no writer is left */
}

static void digits_are_digits_and_differ(void **state)
{
	char a[32], b[32];

	(void)state;
	memset(a, 'x', sizeof(a));
	shell_random_digits(a, 20);
	shell_random_digits(b, 20);
	assert_memory_not_equal(a, b, 20);
	for (int i = 0; i < 20; i++)
		assert_in_range(a[i], '0', '9');
	assert_int_equal(a[20], 'x');
}

static void a_command_is_put_between_tokens(void **state)
{
	char text[128] = "", expected[128];
	size_t sent = 7;
	int fd;

	(void)state;
	assert_int_equal(shell_send(&agent, &shell, &process, str_of("echo"), &sent),
			 -ENXIO); /* there is no reader yet */
	assert_int_equal(shell.command_fd, -1);
	fd = openat(shell.dir_fd, "command", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_int_equal(shell_send(&agent, &shell, &process, str_of("echo"), &sent), 0);
	assert_int_equal(shell.command_fd, -1); /* closed: the reader sees its end */
	(void)snprintf(expected, sizeof(expected), "%secho%s", shell.token, shell.token);
	assert_int_equal(read(fd, text, sizeof(text)), strlen(expected));
	assert_string_equal(text, expected);
	assert_int_equal(read(fd, text, sizeof(text)), 0);
	assert_int_equal(watches, 0);
	(void)close(fd);
}

static void a_long_command_goes_on_when_the_shell_has_read(void **state)
{
	static char command[300000], text[65536];
	size_t sent = 0, got = 0, whole = sizeof(command) + 2 * (sizeof(shell.token) - 1);
	int fd, r;

	(void)state;
	memset(command, 'c', sizeof(command));
	fd = openat(shell.dir_fd, "command", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	r = shell_send(&agent, &shell, &process, (struct str){ command, sizeof(command) }, &sent);
	assert_int_equal(r, -EAGAIN);
	while (r == -EAGAIN) {
		ssize_t n = read(fd, text, sizeof(text));

		assert_true(n > 0);
		got += (size_t)n;
		r = shell_send(&agent, &shell, &process, (struct str){ command, sizeof(command) },
			       &sent);
	}
	assert_int_equal(r, 0);
	assert_int_equal(sent, whole);
	assert_int_equal(watches, 1); /* once */
	for (ssize_t n; (n = read(fd, text, sizeof(text))) > 0;)
		got += (size_t)n;
	assert_int_equal(got, whole);
	(void)close(fd);
}

static void a_command_that_cannot_be_watched_or_read_is_lost(void **state)
{
	static char command[300000];
	const struct str text = { command, sizeof(command) };
	size_t sent = 0;
	int fd;

	(void)state;
	fd = openat(shell.dir_fd, "command", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	watch_result = -1;
	assert_int_equal(shell_send(&agent, &shell, &process, text, &sent), -EIO);
	assert_int_equal(shell.command_fd, -1);
	watch_result = 0;
	assert_int_equal(shell_send(&agent, &shell, &process, text, &sent), -EAGAIN);
	(void)close(fd); /* the shell dies */
	assert_int_equal(shell_send(&agent, &shell, &process, text, &sent), -EPIPE);
	assert_int_equal(shell.command_fd, -1);
}

static void a_shell_that_cannot_start_leaves_no_files(void **state)
{
	struct shell_wish wish = { .name = "", .user = "nobody-here", .cwd = "/", .args = "" };
	struct process_refusal refusal;
	struct shell other;

	(void)state;
	agent.windows_fd = -1;
	agent.same_user = false;
	agent.default_user = "root";
	agent.scratch = dir;
	assert_null(shell_start(&agent, &other, &wish, &refusal));
	assert_int_equal(refusal.code, AGENT_REFUSED_UNKNOWN_USER);
	agent.same_user = true;
	agent.scratch = "/proc/no-such-place";
	wish.user = "";
	assert_null(shell_start(&agent, &other, &wish, &refusal));
	assert_int_equal(refusal.code, AGENT_REFUSED_OTHER);
	assert_int_equal(refusal.error, ENOENT);
	agent.scratch = dir;
	assert_null(shell_start(&agent, &other, &wish, &refusal));
	assert_int_equal(refusal.code, AGENT_REFUSED_NO_SHELL);
	assert_int_equal(other.dir_fd, -1);
	assert_int_equal(rmdir(agent.windows_path), 0); /* it is empty */
	(void)close(agent.windows_fd);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(reports_are_read_one_by_one),
		T(a_report_may_come_in_pieces),
		T(what_is_no_report_is_passed_over),
		T(lines_without_end_take_no_memory_and_no_time),
		T(digits_are_digits_and_differ),
		T(a_command_is_put_between_tokens),
		T(a_long_command_goes_on_when_the_shell_has_read),
		T(a_command_that_cannot_be_watched_or_read_is_lost),
		T(a_shell_that_cannot_start_leaves_no_files),
	};

	(void)signal(SIGPIPE, SIG_IGN); /* as the agent */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
