/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of envd's process procedures: the specs that they become, and what is rejected. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../../body.h"
#include "face/e2b/envd/process_message.h"

static const struct process_origin origin = { STR_LIT("abc"), STR_LIT("base") };

static int start(struct body *body, const char *text, struct exec_spec *ret)
{
	body_set(body, text);
	return process_start_read(body->doc, &origin, &body->arena, ret, &body->err);
}

static bool has_pair(const struct text_map *map, const char *key, const char *value)
{
	for (size_t i = 0; i < map->count; i++)
		if (str_is(map->list[i].key, key))
			return str_is(map->list[i].value, value);
	return false;
}

static void test_start_becomes_a_spec(void **state)
{
	struct body body = { .doc = NULL };
	struct exec_spec spec;

	(void)state;
	assert_int_equal(start(&body,
			       "{\"process\":{\"cmd\":\"/bin/sh\",\"args\":[\"-c\",\"id\"],"
			       "\"envs\":{\"A\":\"b\",\"E2B_SANDBOX_ID\":\"mine\"},"
			       "\"cwd\":\"~/x\",\"unknown\":1},"
			       "\"pty\":{\"size\":{\"cols\":100,\"rows\":9000}},\"tag\":\"t\","
			       "\"stdin\":false}",
			       &spec),
			 0);
	assert_int_equal(spec.argv.count, 3);
	assert_true(str_is(spec.argv.list[0], "/bin/sh"));
	assert_true(str_is(spec.argv.list[2], "id"));
	assert_int_equal(spec.env.count, 4);
	assert_true(has_pair(&spec.env, "A", "b"));
	assert_true(has_pair(&spec.env, "E2B_SANDBOX_ID", "mine"));
	assert_true(has_pair(&spec.env, "E2B_SANDBOX", "true"));
	assert_true(has_pair(&spec.env, "E2B_TEMPLATE_ID", "base"));
	assert_true(str_is(spec.cwd, "~/x"));
	assert_true(str_is(spec.name, "t"));
	assert_true(spec.tty);
	assert_false(spec.stdin_open);
	assert_int_equal(spec.cols, 100);
	assert_int_equal(spec.rows, PROCESS_TTY_MAX);
	body_done(&body);
}

static void test_start_has_defaults(void **state)
{
	struct body body = { .doc = NULL };
	struct exec_spec spec;

	(void)state;
	assert_int_equal(start(&body,
			       "{\"process\":{\"cmd\":\"id\",\"args\":null,\"envs\":null},"
			       "\"pty\":null,\"stdin\":null}",
			       &spec),
			 0);
	assert_int_equal(spec.argv.count, 1);
	assert_int_equal(spec.env.count, 3);
	assert_true(has_pair(&spec.env, "E2B_SANDBOX_ID", "abc"));
	assert_false(spec.tty);
	assert_true(spec.stdin_open);
	assert_null(spec.name.p);
	assert_int_equal(spec.cols, PROCESS_COLS);
	assert_int_equal(spec.rows, PROCESS_ROWS);
	assert_int_equal(start(&body, "{\"process\":{\"cmd\":\"id\"},\"pty\":{}}", &spec), 0);
	assert_true(spec.tty);
	assert_int_equal(spec.cols, PROCESS_COLS);
	body_done(&body);
}

static void test_start_is_checked(void **state)
{
	static const struct body_refusal rows[] = {
		{ "{}", "process is required" },
		{ "{\"process\":7}", "process must be an object" },
		{ "{\"process\":{}}", "process.cmd is required" },
		{ "{\"process\":{\"cmd\":\"\"}}", "process.cmd must be a string of 1 to 131072" },
		{ "{\"process\":{\"cmd\":\"id\",\"args\":\"x\"}}",
		  "process.args must be an array" },
		{ "{\"process\":{\"cmd\":\"id\",\"args\":[\"a\",1]}}",
		  "process.args[1] must be a string" },
		{ "{\"process\":{\"cmd\":\"id\",\"envs\":{\"A\":1}}}",
		  "process.envs.A must be a string" },
		{ "{\"process\":{\"cmd\":\"id\"},\"stdin\":\"yes\"}", "stdin must be" },
		{ "{\"process\":{\"cmd\":\"id\"},\"pty\":{\"size\":{\"cols\":-1}}}",
		  "pty.size.cols must be an integer" },
		{ NULL, NULL },
	};
	struct body body = { .doc = NULL };
	struct exec_spec spec;

	(void)state;
	for (const struct body_refusal *row = rows; row->text; row++) {
		assert_int_equal(start(&body, row->text, &spec), -1);
		assert_int_equal(body.err.code, ERR_INVALID_REQUEST);
		if (!strstr(body.err.message, row->what))
			fail_msg("%s: %s", row->text, body.err.message);
	}
	body_done(&body);
}

static void test_selectors(void **state)
{
	static const char *const bad[] = { "{}",
					   "{\"process\":{}}",
					   "{\"process\":{\"pid\":0}}",
					   "{\"process\":{\"tag\":\"\"}}",
					   "{\"process\":{\"pid\":4294967296}}",
					   "{\"process\":{\"pid\":\"1\"}}",
					   "{\"process\":[]}" };
	struct process_selector selector;
	struct body body = { .doc = NULL };

	(void)state;
	body_set(&body, "{\"process\":{\"pid\":4294967295}}");
	assert_int_equal(process_selector_read(body.doc, &selector, &body.err), 0);
	assert_int_equal(selector.pid, 4294967295);
	body_set(&body, "{\"process\":{\"tag\":\"web\"}}");
	assert_int_equal(process_selector_read(body.doc, &selector, &body.err), 0);
	assert_int_equal(selector.pid, 0);
	assert_true(str_is(selector.tag, "web"));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		body_set(&body, bad[i]);
		assert_int_equal(process_selector_read(body.doc, &selector, &body.err), -1);
		assert_int_equal(body.err.code, ERR_INVALID_REQUEST);
		assert_non_null(strstr(body.err.message, "process"));
	}
	body_done(&body);
}

static int read_input(struct body *body, const char *text, struct str *ret)
{
	body_set(body, text);
	return process_input_read(body->doc, &body->arena, ret, &body->err);
}

static void test_input(void **state)
{
	struct body body = { .doc = NULL };
	struct str bytes;

	(void)state;
	assert_int_equal(read_input(&body, "{\"input\":{\"stdin\":\"aGk=\"}}", &bytes), 0);
	assert_true(str_is(bytes, "hi"));
	assert_int_equal(read_input(&body, "{\"input\":{\"pty\":\"\"}}", &bytes), 0);
	assert_int_equal(bytes.n, 0);
	assert_int_equal(read_input(&body, "{\"input\":{}}", &bytes), -1);
	assert_non_null(strstr(body.err.message, "stdin or pty"));
	assert_int_equal(read_input(&body, "{\"input\":{\"stdin\":\"!\"}}", &bytes), -1);
	assert_non_null(strstr(body.err.message, "base64"));
	body_done(&body);
}

static void test_signals(void **state)
{
	static const struct {
		const char *text;
		int signum;
	} rows[] = {
		{ "{\"signal\":\"SIGNAL_SIGTERM\"}", SIGTERM },
		{ "{\"signal\":\"SIGNAL_SIGKILL\"}", SIGKILL },
		{ "{\"signal\":9}", SIGKILL },
		{ "{\"signal\":15}", SIGTERM },
		{ "{\"signal\":2}", 0 },
		{ "{\"signal\":\"SIGINT\"}", 0 },
		{ "{\"signal\":[9]}", 0 },
		{ "{}", 0 },
	};
	struct body body = { .doc = NULL };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int signum = 0;

		body_set(&body, rows[i].text);
		assert_int_equal(process_signal_read(body.doc, &signum, &body.err),
				 rows[i].signum ? 0 : -1);
		assert_int_equal(signum, rows[i].signum);
	}
	body_done(&body);
}

static void test_sizes(void **state)
{
	struct body body = { .doc = NULL };
	struct process_size size;

	(void)state;
	body_set(&body, "{\"pty\":{\"size\":{\"cols\":0,\"rows\":5000}}}");
	assert_int_equal(process_size_read(body.doc, &size, &body.err), 0);
	assert_int_equal(size.cols, 1);
	assert_int_equal(size.rows, PROCESS_TTY_MAX);
	body_set(&body, "{\"pty\":{\"size\":{\"cols\":80}}}");
	assert_int_equal(process_size_read(body.doc, &size, &body.err), -1);
	assert_non_null(strstr(body.err.message, "cols and rows"));
	body_set(&body, "{\"pty\":{\"size\":{\"cols\":80,\"rows\":\"24\"}}}");
	assert_int_equal(process_size_read(body.doc, &size, &body.err), -1);
	assert_non_null(strstr(body.err.message, "pty.size.rows"));
	body_done(&body);
}

static void test_messages_of_a_stream(void **state)
{
	struct process_stream_message message;
	struct body body = { .doc = NULL };

	(void)state;
	body_set(&body, "{\"start\":{\"process\":{\"pid\":7}}}");
	assert_int_equal(process_stream_read(body.doc, &body.arena, &message, &body.err), 0);
	assert_true(message.start && !message.data);
	assert_int_equal(message.selector.pid, 7);
	body_set(&body, "{\"data\":{\"input\":{\"pty\":\"aGk=\"}}}");
	assert_int_equal(process_stream_read(body.doc, &body.arena, &message, &body.err), 0);
	assert_true(!message.start && message.data);
	assert_true(str_is(message.bytes, "hi"));
	body_set(&body, "{\"keepalive\":{}}");
	assert_int_equal(process_stream_read(body.doc, &body.arena, &message, &body.err), 0);
	assert_true(!message.start && !message.data);
	body_set(&body, "{\"start\":{}}");
	assert_int_equal(process_stream_read(body.doc, &body.arena, &message, &body.err), -1);
	body_set(&body, "{\"data\":{\"input\":{\"stdin\":7}}}");
	assert_int_equal(process_stream_read(body.doc, &body.arena, &message, &body.err), -1);
	assert_non_null(strstr(body.err.message, "data.input.stdin"));
	body_set(&body, "[]");
	assert_int_equal(process_stream_read(body.doc, &body.arena, &message, &body.err), -1);
	body_done(&body);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_becomes_a_spec),
		cmocka_unit_test(test_start_has_defaults),
		cmocka_unit_test(test_start_is_checked),
		cmocka_unit_test(test_selectors),
		cmocka_unit_test(test_input),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_messages_of_a_stream),
	};

	return cmocka_run_group_tests_name("e2b-envd-process-message", tests, NULL, NULL);
}
