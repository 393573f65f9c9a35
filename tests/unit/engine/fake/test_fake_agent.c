/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scripted agent of component tests, through a real link: it follows the rules of the real one.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "engine/fake/agent.h"
#include "rig.h"
#include "wire/agent.h"

static struct rig rig;
static struct fake_agent *agent;

/* One program and its reader. */
struct job {
	uint32_t process_id, follow_id;
	bool started, ended, answered, list_ended;
	struct link_window window;
	struct link_status status;
	struct err err;	   /* of the start or the reader */
	struct err answer; /* of a request */
	struct buf text;
	uint64_t gap, next;
	unsigned listed;
	struct link_process_info info; /* the last one listed; its strings are gone */
	char name[65];
};

static struct job job;
static bool keeps_credit; /* what is read stays used up */

static void connect_agent(void)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
			 0);
	fake_agent_connect(agent, ends[1]);
	rig_adopt(&rig, ends[0], 1000);
	assert_true(rig_wait(&rig, &rig.ready, RIG_PATIENCE_MS));
}

static void clear(void)
{
	buf_done(&job.text);
	job = (struct job){ 0 };
	buf_init(&job.text, 16U << 20);
}

static void on_crash(void *arg)
{
	fail();
}

static int setup(void **state)
{
	rig_init(&rig);
	assert_int_equal(fake_agent_new(rig.loop, on_crash, NULL, &agent), 0);
	clear();
	connect_agent();
	return 0;
}

static int teardown(void **state)
{
	rig_drop_link(&rig);
	fake_agent_free(agent);
	buf_done(&job.text);
	rig_done(&rig);
	return 0;
}

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	job.gap += cursor - job.next;
	job.next = cursor + bytes.n;
	assert_int_equal(buf_append(&job.text, bytes.p, bytes.n), 0);
	if (!keeps_credit)
		link_credit(rig.link, job.follow_id, (uint32_t)bytes.n);
}

static void on_end(void *arg, const struct link_status *status, const struct err *error)
{
	job.ended = true;
	job.status = *status;
	job.err = error ? *error : (struct err){ .code = ERR_OK };
}

static const struct link_follow_hooks hooks = { on_output, on_end };

static void on_started(void *arg, uint32_t process_id, uint32_t pid, const struct err *error)
{
	job.started = true;
	job.process_id = process_id;
	job.err = error ? *error : (struct err){ .code = ERR_OK };
}

static void on_answer(void *arg, const struct err *error)
{
	job.answered = true;
	job.answer = error ? *error : (struct err){ .code = ERR_OK };
}

static void on_listed(void *arg, const struct link_process_info *info, const struct err *error)
{
	if (info) {
		job.listed++;
		job.info = *info;
		assert_int_equal(str_copy(job.name, sizeof(job.name), str_of(info->name)), 0);
		return;
	}
	job.list_ended = true;
}

static void spawn(const char *const *argv, bool tty, uint32_t credit)
{
	struct link_exec exec = { .argv = argv,
				  .name = "it",
				  .stdin_open = true,
				  .tty = tty,
				  .cols = 80,
				  .rows = 24,
				  .ring_bytes = 1000 };
	const struct link_first_reader first = { &hooks, NULL, credit, &job.follow_id };
	struct err err;

	clear();
	assert_int_equal(link_spawn(rig.link, &exec, on_started, NULL, &first, &err), 0);
	assert_true(rig_wait(&rig, &job.started, RIG_PATIENCE_MS));
	assert_int_equal(job.err.code, ERR_OK);
}

static void expect_end(enum link_end end, int exit_code)
{
	assert_true(rig_wait(&rig, &job.ended, RIG_PATIENCE_MS));
	assert_int_equal(job.status.end, end);
	assert_int_equal(job.status.exit_code, exit_code);
}

static void expect_text(const char *text)
{
	for (int i = 0; i < 100 && !str_is(buf_str(&job.text), text); i++)
		loop_turn(rig.loop, 1);
	if (!str_is(buf_str(&job.text), text))
		fail_msg("'%.*s'", (int)buf_len(&job.text), buf_data(&job.text));
}

static void expect_answer(enum err_code code)
{
	assert_true(rig_wait(&rig, &job.answered, RIG_PATIENCE_MS));
	assert_int_equal(job.answer.code, code);
	job.answered = false;
}

static void list(uint32_t process_id)
{
	struct err err;

	job.listed = 0;
	assert_int_equal(link_list(rig.link, process_id, on_listed, NULL, &err), 0);
	assert_true(rig_wait(&rig, &job.list_ended, RIG_PATIENCE_MS));
	job.list_ended = false;
}

static void send_text(const char *text)
{
	struct err err;

	assert_int_equal(
		link_stdin(rig.link, job.process_id, str_of(text), false, on_answer, NULL, &err),
		0);
}

static void test_spawn(void **state)
{
	spawn((const char *[]){ "drip", "3", "1", NULL }, false, 2);
	expect_end(LINK_END_EXIT, 0);
	expect_text("3\n2\n1\n");
	assert_int_equal(job.status.out_total, 6);
	spawn((const char *[]){ "oom", NULL }, false, 2);
	expect_end(LINK_END_OOM, 137);
	assert_true(job.status.memory_limit_bytes > 0);
}

/* Without credit nothing is sent, and bytes that the ring lost meanwhile are a gap. */
static void test_credit(void **state)
{
	keeps_credit = true;
	spawn((const char *[]){ "spew", "5000", NULL }, false, 10);
	loop_turn(rig.loop, 5);
	loop_turn(rig.loop, 5);
	assert_int_equal(buf_len(&job.text), 10);
	assert_false(job.ended);
	keeps_credit = false;
	link_credit(rig.link, job.follow_id, 100);
	expect_end(LINK_END_EXIT, 0);
	assert_int_equal(job.gap, 5000 - 1000 - 10);
	assert_int_equal(job.next, 5000);
}

static void test_follow(void **state)
{
	struct link_follow wish = { .credit = 100, .streams = LINK_OUT };
	uint32_t id;
	struct err err;

	spawn((const char *[]){ "cat", NULL }, false, 100);
	send_text("hello");
	expect_text("hello");
	id = job.process_id;
	clear();
	assert_int_equal(link_follow(rig.link, id, &wish, &hooks, NULL, &job.follow_id, &err), 0);
	expect_end(LINK_END_NONE, 0); /* not live */
	expect_text("hello");
	clear();
	wish.tail = wish.live = true;
	wish.out_cursor = 2;
	assert_int_equal(link_follow(rig.link, id, &wish, &hooks, NULL, &job.follow_id, &err), 0);
	expect_text("lo");
	assert_int_equal(link_close_stdin(rig.link, id, on_answer, NULL, &err), 0);
	expect_end(LINK_END_EXIT, 0);
	clear();
	wish = (struct link_follow){ .credit = 1, .streams = LINK_OUT, .out_cursor = 6 };
	assert_int_equal(link_follow(rig.link, id, &wish, &hooks, NULL, &job.follow_id, &err), 0);
	assert_true(rig_wait(&rig, &job.ended, RIG_PATIENCE_MS));
	assert_int_equal(job.err.code, ERR_INVALID_REQUEST);
}

static void test_requests(void **state)
{
	struct err err;

	spawn((const char *[]){ "stubborn", NULL }, false, 100);
	assert_int_equal(link_signal(rig.link, job.process_id, SIGTERM, on_answer, NULL, &err), 0);
	expect_answer(ERR_OK);
	assert_int_equal(link_resize(rig.link, job.process_id, 1, 1, on_answer, NULL, &err), 0);
	expect_answer(ERR_WRONG_STATE);
	list(0);
	assert_int_equal(job.listed, 1);
	assert_string_equal(job.name, "it");
	assert_int_equal(job.info.status.end, LINK_END_NONE);
	assert_true(job.info.stdin_open);
	assert_int_equal(link_stop(rig.link, job.process_id, 10, on_answer, NULL, &err), 0);
	expect_answer(ERR_OK);
	expect_end(LINK_END_KILLED, 137);
	list(0);
	assert_int_equal(job.listed, 0);
	send_text("x");
	expect_answer(ERR_PROCESS_NOT_FOUND);
	spawn((const char *[]){ "true", NULL }, false, 100);
	expect_end(LINK_END_EXIT, 0);
	send_text("x");
	expect_answer(ERR_WRONG_STATE);
}

static void test_stdin_full(void **state)
{
	static char big[AGENT_STDIN_MAX_BYTES - 100];
	struct err err;

	spawn((const char *[]){ "hang", NULL }, false, 100);
	assert_int_equal(link_stdin(rig.link, job.process_id, (struct str){ big, sizeof(big) },
				    false, on_answer, NULL, &err),
			 0);
	expect_answer(ERR_OK);
	assert_int_equal(link_stdin(rig.link, job.process_id, (struct str){ big, 101 }, false,
				    on_answer, NULL, &err),
			 0);
	expect_answer(ERR_QUOTA_EXCEEDED);
	assert_int_equal(link_stdin(rig.link, job.process_id, (struct str){ big, 100 }, false,
				    on_answer, NULL, &err),
			 0);
	expect_answer(ERR_OK);
}

static void test_terminal(void **state)
{
	struct err err;

	spawn((const char *[]){ "size", NULL }, true, 100);
	expect_text("80x24\n");
	assert_int_equal(link_resize(rig.link, job.process_id, 100, 50, NULL, NULL, &err), 0);
	send_text("typed");
	expect_text("80x24\n100x50\ntyped");
	list(job.process_id);
	assert_int_equal(job.info.cols, 100);
	assert_true(job.info.tty);
}

/* The waiting caller has gone: the program continues, is listed, and survives the connection. */
static void test_survival(void **state)
{
	static const char *const argv[] = { "sleep", "30", NULL };
	struct link_exec exec = { .argv = argv };
	struct rig_result r, second;

	rig_exec(&rig, &exec, &r);
	rig_exec(&rig, &exec, &second);
	link_detach(rig.link, r.process_id);
	list(0);
	assert_int_equal(job.listed, 2);
	assert_true(job.info.collect);
	rig_drop_link(&rig);
	assert_int_equal(r.deliveries, 0);
	assert_int_equal(second.deliveries, 1);
	loop_turn(rig.loop, 10);
	connect_agent();
	list(0);
	assert_int_equal(job.listed, 2);
	assert_false(job.info.collect);
	list(second.process_id);
	assert_int_equal(job.listed, 1);
	rig_result_done(&r);
	rig_result_done(&second);
	spawn((const char *[]){ "true", NULL }, false, 1);
	assert_true(job.process_id > second.process_id);
}

static void on_window(void *arg, const struct link_window *window, const struct err *error)
{
	assert_null(error);
	job.started = true;
	job.window = *window;
	job.process_id = window->process_id;
	job.next = window->cursor;
}

static void run(const char *command)
{
	struct link_window_run wish = { .name = "main", .command = str_of(command) };
	const struct link_first_reader first = { &hooks, NULL, 5, &job.follow_id };
	struct err err;

	clear();
	assert_int_equal(link_window_run(rig.link, &wish, on_window, NULL, &first, &err), 0);
	assert_true(rig_wait(&rig, &job.started, RIG_PATIENCE_MS));
}

static void test_window(void **state)
{
	run("X=some words");
	expect_end(LINK_END_EXIT, 127); /* two words are no variable */
	assert_true(job.window.made);
	run("X=value");
	expect_end(LINK_END_EXIT, 0);
	assert_false(job.window.made);
	assert_int_equal(job.window.run, 2);
	run("echo $X");
	expect_end(LINK_END_EXIT, 0);
	expect_text("value\r\n");
	assert_int_equal(job.gap, 0);
	run("(exit 3)");
	expect_end(LINK_END_EXIT, 3);
	run("read");
	list(job.process_id);
	assert_true(job.info.window && job.info.busy);
	assert_int_equal(job.info.run, 5);
	send_text("y\n");
	expect_end(LINK_END_EXIT, 0);
	expect_text("y\n");
	list(job.process_id);
	assert_false(job.info.busy);
	assert_int_equal(job.info.run_end, LINK_END_EXIT);
	run("exit 4");
	expect_end(LINK_END_EXIT, 4);
	run("true");
	assert_true(job.window.made);
}

/* A second command in a busy window ends the first one. */
static void test_window_cancels(void **state)
{
	struct job first;

	run("sleep 30000");
	first = job;
	assert_false(first.window.cancelled);
	job = (struct job){ 0 };
	run("sleep 1");
	assert_true(job.window.cancelled);
	expect_end(LINK_END_KILLED, 130); /* of the first, reported to the same job */
	job.ended = false;
	expect_end(LINK_END_EXIT, 0);
	buf_done(&first.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_spawn),	  T(test_credit),     T(test_follow),
		T(test_requests), T(test_stdin_full), T(test_terminal),
		T(test_survival), T(test_window),     T(test_window_cancels),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
