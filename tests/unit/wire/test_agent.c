/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wire/agent.h"

static struct buf out;

static int setup(void **state)
{
	buf_init(&out, 8U << 20);
	return 0;
}

static int teardown(void **state)
{
	buf_done(&out);
	return 0;
}

static struct frame only_frame(size_t max)
{
	struct frame frame;

	assert_int_equal(frame_next(buf_str(&out), max, &frame), 1);
	assert_int_equal(frame_size(&frame), buf_len(&out));
	return frame;
}

static void test_header(void **state)
{
	static const char bad_zero[FRAME_HEADER_SIZE] = { 0, 0, 0, 0, 1, 0, 1, 0 };
	struct frame frame;

	assert_int_equal(agent_put_kill(&out, 7, 0, 9), 0);
	for (size_t n = 0; n < buf_len(&out); n++) {
		struct str part = { buf_data(&out), n };

		assert_int_equal(frame_next(part, AGENT_TO_MAX_BYTES, &frame), 0);
		assert_int_equal(frame_missing(part), (n < 12 ? 12 : 20) - n);
	}
	assert_int_equal(frame_next(buf_str(&out), 8, &frame), 1);
	assert_int_equal(frame_next(buf_str(&out), 7, &frame), -EPROTO);
	assert_int_equal(frame_next((struct str){ bad_zero, 12 }, 100, &frame), -EPROTO);
}

static void test_exec(void **state)
{
	const char *const argv[] = { "sh", "-c", "", NULL }, *const env[] = { "A=1", "B=", NULL };
	struct agent_exec_args args = { .argv = argv,
					.env = env,
					.cwd = "/w",
					.user = "root",
					.name = "web-1",
					.stdin_bytes = { "x\0y", 3 },
					.timeout_ms = 5,
					.output_max_bytes = 6,
					.ring_bytes = 7,
					.keep_ms = 8,
					.follow_id = 9,
					.credit = 10,
					.cols = 80,
					.rows = 24,
					.flags = AGENT_EXEC_TTY | AGENT_EXEC_FOLLOW };
	const char *got_argv[4], *got_env[3];
	struct agent_exec exec;
	struct frame frame;

	assert_int_equal(agent_put_exec(&out, 3, &args), 0);
	assert_int_equal(agent_exec_size(&args) + 3 + FRAME_HEADER_SIZE, buf_len(&out));
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_exec(&frame, &exec), 0);
	agent_exec_pointers(&exec, got_argv, got_env);
	assert_int_equal(exec.process_id, 3);
	assert_string_equal(exec.user, "root");
	assert_string_equal(exec.cwd, "/w");
	assert_string_equal(exec.name, "web-1");
	assert_string_equal(got_argv[2], "");
	assert_null(got_argv[3]);
	assert_string_equal(got_env[1], "B=");
	assert_null(got_env[2]);
	assert_int_equal(exec.stdin_bytes.n, 3);
	assert_int_equal(exec.timeout_ms, 5);
	assert_int_equal(exec.output_max_bytes, 6);
	assert_int_equal(exec.ring_bytes, 7);
	assert_int_equal(exec.keep_ms, 8);
	assert_int_equal(exec.follow_id, 9);
	assert_int_equal(exec.credit, 10);
	assert_int_equal(exec.cols, 80);
	assert_int_equal(exec.rows, 24);
	assert_int_equal(exec.flags, AGENT_EXEC_TTY | AGENT_EXEC_FOLLOW);
}

/* Flags and the fields that belong to them are valid only together. */
static void test_exec_combinations(void **state)
{
	const char *const argv[] = { "x", NULL };
	const struct {
		int expected;
		struct agent_exec_args args;
	} cases[] = {
		{ 0, { .flags = AGENT_EXEC_COLLECT | AGENT_EXEC_SAVE } },
		{ 0, { .flags = AGENT_EXEC_TOOL | AGENT_EXEC_FOLLOW, .follow_id = 1 } },
		{ 0, { .flags = AGENT_EXEC_TTY, .cols = 1, .rows = AGENT_TTY_MAX } },
		{ 0, { .flags = AGENT_EXEC_FOLLOW, .follow_id = 1, .credit = AGENT_CREDIT_MAX } },
		{ 0, { .flags = AGENT_EXEC_HOLD } },
		{ 0, { .flags = AGENT_EXEC_HOLD | AGENT_EXEC_FOLLOW, .follow_id = 1 } },
		{ -EINVAL, { .flags = 128 } },
		{ -EINVAL, { .flags = AGENT_EXEC_HOLD | AGENT_EXEC_COLLECT } },
		{ -EINVAL,
		  { .flags = AGENT_EXEC_HOLD | AGENT_EXEC_TOOL | AGENT_EXEC_FOLLOW,
		    .follow_id = 1 } },
		{ -EINVAL, { .flags = AGENT_EXEC_SAVE } },
		{ -EINVAL, { .flags = AGENT_EXEC_COLLECT | AGENT_EXEC_TOOL } },
		{ -EINVAL, { .flags = AGENT_EXEC_COLLECT | AGENT_EXEC_FOLLOW, .follow_id = 1 } },
		{ -EINVAL, { .flags = AGENT_EXEC_TOOL | AGENT_EXEC_TTY, .cols = 1, .rows = 1 } },
		{ -EINVAL, { .flags = AGENT_EXEC_FOLLOW } },
		{ -EINVAL, { .follow_id = 1 } },
		{ -EINVAL, { .credit = 1 } },
		{ -EINVAL,
		  { .flags = AGENT_EXEC_FOLLOW, .follow_id = 1, .credit = AGENT_CREDIT_MAX + 1 } },
		{ -EINVAL, { .flags = AGENT_EXEC_TTY, .cols = 0, .rows = 1 } },
		{ -EINVAL, { .flags = AGENT_EXEC_TTY, .cols = 1, .rows = AGENT_TTY_MAX + 1 } },
		{ -EINVAL, { .cols = 1, .rows = 1 } },
		{ -EINVAL, { .keep_ms = AGENT_KEEP_MAX_MS + 1 } },
		{ -EINVAL, { .name = "a b" } },
		{ -EINVAL, { .timeout_ms = AGENT_TIMEOUT_MAX_MS + 1 } },
		{ -EINVAL, { .ring_bytes = AGENT_OUTPUT_MAX_BYTES + 1 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct agent_exec_args args = cases[i].args;

		args.argv = argv;
		assert_int_equal(agent_put_exec(&out, 1, &args), cases[i].expected);
	}
}

static void test_names(void **state)
{
	char name[AGENT_NAME_MAX + 1];

	memset(name, 'x', sizeof(name));
	assert_true(agent_name_ok((struct str){ name, AGENT_NAME_MAX }));
	assert_false(agent_name_ok((struct str){ name, AGENT_NAME_MAX + 1 }));
	assert_false(agent_name_ok(STR_LIT("")));
	assert_false(agent_name_ok(STR_LIT("a/b")));
	assert_false(agent_name_ok(STR_LIT("a\0b")));
	assert_true(agent_name_ok(STR_LIT("A-z_0.9")));
}

/*
 * Every truncated and every one-byte-changed EXEC either decodes within its bounds or is rejected.
 */
static void test_exec_mutations(void **state)
{
	const char *const argv[] = { "a", "b", NULL };
	struct agent_exec_args args = { .argv = argv };
	const char *ptr_argv[AGENT_ARGS_MAX + 1], *ptr_env[AGENT_ARGS_MAX + 1];
	struct agent_exec exec;
	struct frame frame;
	char *copy;

	assert_int_equal(agent_put_exec(&out, 1, &args), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	for (size_t n = 0; n < frame.payload.n; n++) {
		struct frame cut = frame;

		copy = malloc(n + 1); /* its own block: a read beyond it is seen by the sanitizer */
		memcpy(copy, frame.payload.p, n);
		cut.payload = (struct str){ copy, n };
		assert_int_equal(agent_get_exec(&cut, &exec), -EPROTO);
		free(copy);
	}
	for (size_t i = 0; i < frame.payload.n * 256; i++) {
		struct frame changed = frame;

		copy = malloc(frame.payload.n);
		memcpy(copy, frame.payload.p, frame.payload.n);
		copy[i / 256] = (char)(i % 256);
		changed.payload.p = copy;
		if (agent_get_exec(&changed, &exec) == 0)
			agent_exec_pointers(&exec, ptr_argv, ptr_env);
		free(copy);
	}
}

static void test_exec_limits(void **state)
{
	static char big[AGENT_TO_MAX_BYTES];
	static const char *many[AGENT_ARGS_MAX + 2];
	const char *const none[] = { NULL }, *const large[] = { big, NULL };
	const char *const one[] = { "a", NULL };
	struct agent_exec_args args = { .argv = none };

	memset(big, 'x', sizeof(big) - 1);
	assert_int_equal(agent_put_exec(&out, 1, &args), -EINVAL);
	args.argv = large;
	assert_int_equal(agent_put_exec(&out, 1, &args), -EMSGSIZE);
	assert_true(agent_exec_size(&args) == SIZE_MAX);
	args.argv = one;
	assert_int_equal(agent_put_exec(&out, 0, &args), -EINVAL);
	args.output_max_bytes = AGENT_OUTPUT_MAX_BYTES + 1;
	assert_int_equal(agent_put_exec(&out, 1, &args), -EINVAL);
	args.output_max_bytes = 0;
	for (size_t i = 0; i <= AGENT_ARGS_MAX; i++)
		many[i] = "x";
	args.env = many;
	assert_int_equal(agent_put_exec(&out, 1, &args), -EMSGSIZE);
	many[AGENT_ARGS_MAX] = NULL;
	assert_int_equal(agent_put_exec(&out, 1, &args), 0);
	args.env = NULL;
	args.stdin_bytes = (struct str){ big, sizeof(big) };
	assert_int_equal(agent_put_exec(&out, 1, &args), -EMSGSIZE);
}

static void test_requests(void **state)
{
	static char big[AGENT_STDIN_BYTES_MAX + 1];
	struct frame frame;
	struct str bytes;
	uint32_t tag;
	int signum;

	assert_int_equal(agent_put_stdin(&out, 1, 7, AGENT_STDIN_WAIT, STR_LIT("abc")), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_stdin(&frame, &tag, &bytes), 0);
	assert_true(str_is(bytes, "abc"));
	assert_int_equal(tag, 7);
	assert_int_equal(frame.flags, AGENT_STDIN_WAIT);
	assert_int_equal(agent_get_kill(&frame, &tag, &signum), -EPROTO);
	frame.flags = 4;
	assert_int_equal(agent_get_stdin(&frame, &tag, &bytes), -EPROTO);
	frame.flags = 0;
	frame.payload.n = 4;
	assert_int_equal(agent_get_stdin(&frame, &tag, &bytes), -EPROTO);
	buf_clear(&out);
	assert_int_equal(agent_put_stdin(&out, 1, 0, 0, STR_LIT("")), -EINVAL);
	assert_int_equal(agent_put_stdin(&out, 1, 0, 4, STR_LIT("x")), -EINVAL);
	assert_int_equal(agent_put_stdin(&out, 1, 0, 0, (struct str){ big, sizeof(big) }),
			 -EMSGSIZE);
	assert_int_equal(agent_put_stdin(&out, 1, 0, 0, (struct str){ big, sizeof(big) - 1 }), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_stdin(&frame, &tag, &bytes), 0);
	buf_clear(&out);
	assert_int_equal(agent_put_kill(&out, 2, 3, 0), -EINVAL);
	assert_int_equal(agent_put_kill(&out, 2, 3, 65), -EINVAL);
	assert_int_equal(agent_put_kill(&out, 2, 3, 64), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_kill(&frame, &tag, &signum), 0);
	assert_int_equal(signum, 64);
	assert_int_equal(tag, 3);
}

static void test_tags(void **state)
{
	struct frame frame;
	uint32_t tag;

	assert_int_equal(agent_put_close_stdin(&out, 2, 5), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_tag(&frame, &tag), 0);
	assert_int_equal(tag, 5);
	frame.process_id = 0;
	assert_int_equal(agent_get_tag(&frame, &tag), -EPROTO);
	frame.type = AGENT_LIST; /* of all of them */
	assert_int_equal(agent_get_tag(&frame, &tag), 0);
	frame.type = AGENT_KILL;
	assert_int_equal(agent_get_tag(&frame, &tag), -EPROTO);
	buf_clear(&out);
	assert_int_equal(agent_put_list(&out, 0, 0), -EINVAL);
	assert_int_equal(agent_put_forget(&out, 0, 1), -EINVAL);
	assert_int_equal(agent_put_forget(&out, 1, 0), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_tag(&frame, &tag), 0);
	frame.type = AGENT_LIST; /* without a tag there is no answer */
	assert_int_equal(agent_get_tag(&frame, &tag), -EPROTO);
}

static void test_follow(void **state)
{
	struct agent_follow good = { .process_id = 1,
				     .follow_id = 2,
				     .credit = AGENT_CREDIT_MAX,
				     .run = 3,
				     .flags = AGENT_FOLLOW_LIVE | AGENT_FOLLOW_OUT |
					      AGENT_FOLLOW_RUN,
				     .out_cursor = 1ULL << 40,
				     .err_cursor = 5 };
	struct agent_follow f, got;
	struct frame frame;
	uint32_t id, bytes;

	assert_int_equal(agent_put_follow(&out, &good), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_follow(&frame, &got), 0);
	assert_int_equal(got.process_id, 1);
	assert_int_equal(got.follow_id, 2);
	assert_int_equal(got.credit, AGENT_CREDIT_MAX);
	assert_int_equal(got.run, 3);
	assert_int_equal(got.flags, good.flags);
	assert_true(got.out_cursor == 1ULL << 40);
	assert_int_equal(got.err_cursor, 5);
	buf_clear(&out);
	f = good, f.credit++;
	assert_int_equal(agent_put_follow(&out, &f), -EINVAL);
	f = good, f.run = 0;
	assert_int_equal(agent_put_follow(&out, &f), -EINVAL);
	f = good, f.flags = AGENT_FOLLOW_LIVE | AGENT_FOLLOW_RUN;
	assert_int_equal(agent_put_follow(&out, &f), -EINVAL);
	f = good, f.flags = AGENT_FOLLOW_TAIL, f.run = 0;
	assert_int_equal(agent_put_follow(&out, &f), -EINVAL);
	f = good, f.flags = AGENT_FOLLOW_LIVE, f.run = 0; /* only its end */
	assert_int_equal(agent_put_follow(&out, &f), 0);
	buf_clear(&out);
	f = good, f.flags = 32;
	assert_int_equal(agent_put_follow(&out, &f), -EINVAL);
	f = good, f.follow_id = 0;
	assert_int_equal(agent_put_follow(&out, &f), -EINVAL);

	assert_int_equal(agent_put_credit(&out, 2, 0), -EINVAL);
	assert_int_equal(agent_put_credit(&out, 2, AGENT_CREDIT_MAX + 1), -EINVAL);
	assert_int_equal(agent_put_credit(&out, 2, 77), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_credit(&frame, &id, &bytes), 0);
	assert_int_equal(id, 2);
	assert_int_equal(bytes, 77);
	buf_clear(&out);
	assert_int_equal(agent_put_unfollow(&out, 0), -EINVAL);
	assert_int_equal(agent_put_unfollow(&out, 4), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_unfollow(&frame, &id), 0);
	assert_int_equal(id, 4);
}

static void test_control(void **state)
{
	struct frame frame;
	uint16_t cols, rows;
	uint32_t tag, grace;

	assert_int_equal(agent_put_resize(&out, 1, 2, 0, 24), -EINVAL);
	assert_int_equal(agent_put_resize(&out, 1, 2, 80, AGENT_TTY_MAX + 1), -EINVAL);
	assert_int_equal(agent_put_resize(&out, 1, 2, 80, 24), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_resize(&frame, &tag, &cols, &rows), 0);
	assert_int_equal(cols, 80);
	assert_int_equal(rows, 24);
	buf_clear(&out);
	assert_int_equal(agent_put_stop(&out, 1, 2, 2, 0), -EINVAL);
	assert_int_equal(agent_put_stop(&out, 1, 2, 0, AGENT_GRACE_MAX_MS + 1), -EINVAL);
	assert_int_equal(agent_put_stop(&out, 1, 2, AGENT_STOP_FORGET, 500), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_stop(&frame, &tag, &grace), 0);
	assert_int_equal(grace, 500);
	assert_int_equal(frame.flags, AGENT_STOP_FORGET);
	buf_clear(&out);
	assert_int_equal(agent_put_detach(&out, 0), -EINVAL);
	assert_int_equal(agent_put_detach(&out, 6), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_detach(&frame), 0);
	frame.flags = 1;
	assert_int_equal(agent_get_detach(&frame), -EPROTO);
}

static void test_empty(void **state)
{
	char bytes[FRAME_HEADER_SIZE];
	struct frame frame;

	agent_pack_empty(bytes, AGENT_TAKE_BACK);
	assert_int_equal(frame_next((struct str){ bytes, sizeof(bytes) }, 0, &frame), 1);
	assert_int_equal(agent_get_empty(&frame), 0);
	assert_int_equal(frame.type, AGENT_TAKE_BACK);
	frame.process_id = 1;
	assert_int_equal(agent_get_empty(&frame), -EPROTO);
	agent_pack_empty(bytes, AGENT_LET_GO);
	assert_int_equal(frame_next((struct str){ bytes, sizeof(bytes) }, 0, &frame), 1);
	assert_int_equal(agent_get_empty(&frame), 0);
	agent_pack_empty(bytes, AGENT_DETACH);
	assert_int_equal(frame_next((struct str){ bytes, sizeof(bytes) }, 0, &frame), 1);
	assert_int_equal(agent_get_empty(&frame), -EPROTO);
}

static void test_window(void **state)
{
	const char *const env[] = { "A=1", NULL };
	struct agent_window_args good = { .name = "main",
					  .env = env,
					  .cwd = "/w",
					  .command = STR_LIT("ls"),
					  .tag = 1,
					  .follow_id = 2,
					  .credit = 3,
					  .ring_bytes = 4 };
	struct agent_window window = {
		.process_id = 5, .tag = 1, .run = 2, .cursor = 1ULL << 33, .cancelled = true
	};
	struct agent_window got_window;
	struct agent_window_args args;
	struct agent_window_run run;
	const char *got_env[2];
	struct frame frame;

	assert_int_equal(agent_put_window_run(&out, 9, &good), 0);
	frame = only_frame(AGENT_TO_MAX_BYTES);
	assert_int_equal(agent_get_window_run(&frame, &run), 0);
	agent_window_pointers(&run, got_env);
	assert_string_equal(run.name, "main");
	assert_string_equal(run.user, "");
	assert_string_equal(run.cwd, "/w");
	assert_string_equal(got_env[0], "A=1");
	assert_null(got_env[1]);
	assert_true(str_is(run.command, "ls"));
	assert_int_equal(run.ring_bytes, 4);
	frame.payload.n -= 2; /* no command left */
	assert_int_equal(agent_get_window_run(&frame, &run), -EPROTO);
	buf_clear(&out);
	args = good, args.name = "";
	assert_int_equal(agent_put_window_run(&out, 9, &args), -EINVAL);
	args = good, args.command = (struct str){ "a\0b", 3 };
	assert_int_equal(agent_put_window_run(&out, 9, &args), -EINVAL);
	args = good, args.tag = 0;
	assert_int_equal(agent_put_window_run(&out, 9, &args), -EINVAL);
	args = good, args.follow_id = 0;
	assert_int_equal(agent_put_window_run(&out, 9, &args), -EINVAL);

	assert_int_equal(agent_put_window(&out, &window), 0);
	frame = only_frame(AGENT_FROM_MAX_BYTES);
	assert_int_equal(agent_get_window(&frame, &got_window), 0);
	assert_true(got_window.cancelled);
	assert_false(got_window.made);
	assert_true(got_window.cursor == 1ULL << 33);
	frame.flags = 4;
	assert_int_equal(agent_get_window(&frame, &got_window), -EPROTO);
	window.run = 0;
	assert_int_equal(agent_put_window(&out, &window), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_header),	  T(test_exec),		  T(test_exec_combinations),
		T(test_names),	  T(test_exec_mutations), T(test_exec_limits),
		T(test_requests), T(test_tags),		  T(test_follow),
		T(test_control),  T(test_window),	  T(test_empty),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
