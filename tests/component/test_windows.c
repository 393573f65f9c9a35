/* SPDX-License-Identifier: Apache-2.0 */
/* Named windows: created on first use, one command at a time, read by cursor, limited, closed. */
#include <string.h>

#include "inside.h"

static struct answer *run(const char *window, const char *command)
{
	return post(path_of("/windows/%s/run", window), path_of("{\"command\":\"%s\"}", command));
}

static bool flag(const struct answer *a, const char *key)
{
	return json_bool(member(a->doc, key));
}

static void test_run(void **state)
{
	int64_t first;
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	a = run("w.1", "echo hello");
	expect_status(a, 200);
	assert_string_equal(text_of(a, "window"), "w.1");
	assert_string_equal(text_of(a, "state"), "exited");
	assert_string_equal(text_of(a, "reason"), "exited");
	assert_string_equal(text_of(a, "output"), "hello\r\n");
	assert_int_equal(int_of(a, "exit_code"), 0);
	assert_int_equal(int_of(a, "run"), 1);
	assert_int_equal(int_of(a, "cursor"), 7);
	assert_int_equal(int_of(a, "gap_bytes"), 0);
	assert_true(flag(a, "made") && !flag(a, "cancelled") && !flag(a, "truncated"));
	first = int_of(a, "process_id");
	a = run("w.1", "V=kept"); /* the shell is the same: it remembers */
	assert_false(flag(a, "made"));
	a = run("w.1", "echo $V");
	assert_string_equal(text_of(a, "output"), "kept\r\n");
	assert_int_equal(int_of(a, "run"), 3);
	assert_int_equal(int_of(a, "process_id"), first);
	a = run("w.1", "(exit 7)");
	assert_int_equal(int_of(a, "exit_code"), 7);
	a = run("other", "echo $V");
	assert_string_equal(text_of(a, "output"), "$V\r\n");
	/* In the list of processes it is the window's shell, without a name. */
	a = call("GET", path_of("/v1/sandboxes/%s/processes/%lld", sandbox, (long long)first),
		 NULL);
	assert_string_equal(text_of(a, "window"), "w.1");
	assert_int_equal(json_type(member(a->doc, "name")), JSON_NULL);
	expect_status(call("GET", path_of("/v1/sandboxes/%s/processes/w.1", sandbox), NULL), 404);
	/* exit ends the shell; the next run creates a new one. */
	a = run("w.1", "exit 4");
	assert_int_equal(int_of(a, "exit_code"), 4);
	a = run("w.1", "true");
	assert_true(flag(a, "made"));
	assert_int_equal(int_of(a, "run"), 1);
}

static void test_wait_and_cancel(void **state)
{
	struct request req;
	struct answer *a, first;

	(void)state;
	new_sandbox("{}");
	a = post("/windows/w/run", "{\"command\":\"sleep 300\",\"wait_ms\":20}");
	expect_status(a, 200);
	assert_string_equal(text_of(a, "state"), "running");
	assert_int_equal(json_type(member(a->doc, "exit_code")), JSON_NULL);
	assert_int_equal(json_type(member(a->doc, "reason")), JSON_NULL);
	a = get("/windows");
	assert_non_null(strstr(a->body, "\"state\":\"busy\""));
	a = post("/windows/w/run", "{\"command\":\"sleep 300\",\"wait_ms\":0}");
	assert_string_equal(text_of(a, "state"), "running");
	assert_true(flag(a, "cancelled"));
	world_turns(350);
	a = get("/windows/w");
	assert_string_equal(text_of(a, "state"), "idle");
	assert_int_equal(int_of(a, "exit_code"), 0);
	assert_string_equal(text_of(a, "reason"), "exited");
	/* The waiting caller of a cancelled command is informed. */
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/windows/w/run", sandbox),
		     NULL, "{\"command\":\"sleep 60000\"}");
	world_turns(30);
	a = run("w", "echo next");
	assert_string_equal(text_of(a, "output"), "next\r\n");
	request_wait(&req, &first);
	expect_status(&first, 200);
	assert_string_equal(text_of(&first, "reason"), "killed_by_request");
	answer_free(&first);
	/* A client that disconnects does not affect the command. */
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/windows/w/run", sandbox),
		     NULL, "{\"command\":\"sleep 200\"}");
	world_turns(30);
	request_drop(&req);
	world_turns(30);
	assert_string_equal(text_of(get("/windows/w"), "state"), "busy");
	world_turns(250);
	assert_string_equal(text_of(get("/windows/w"), "reason"), "exited");
	for (int turns = 0; turns < 5; turns++) {
		request_send(&req, world.admin, "POST",
			     path_of("/v1/sandboxes/%s/windows/x%d/run", sandbox, turns), NULL,
			     "{\"command\":\"sleep 50\"}");
		for (int i = 0; i < turns; i++)
			loop_turn(world.loop, 1);
		request_drop(&req);
		world_turns(10);
	}
}

static void test_read(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	(void)run("w", "echo one");
	(void)run("w", "echo two");
	a = get("/windows/w"); /* from the last command's start */
	expect_status(a, 200);
	assert_string_equal(text_of(a, "name"), "w");
	assert_string_equal(text_of(a, "output"), "two\r\n");
	assert_int_equal(int_of(a, "run"), 2);
	assert_int_equal(int_of(a, "cursor"), 10);
	a = get("/windows/w?cursor=0");
	assert_string_equal(text_of(a, "output"), "one\r\ntwo\r\n");
	a = get("/windows/w?cursor=0&max_bytes=4");
	assert_string_equal(text_of(a, "output"), "one\r");
	assert_true(flag(a, "truncated"));
	a = get(path_of("/windows/w?cursor=%lld", (long long)int_of(a, "cursor")));
	assert_string_equal(text_of(a, "output"), "\ntwo\r\n");
	assert_false(flag(a, "truncated"));
	a = get("/windows/w?cursor=10");
	assert_string_equal(text_of(a, "output"), "");
	a = get("/windows/w?cursor=11");
	expect_status(a, 400);
	assert_non_null(strstr(error_message(a), "cursor"));
	expect_status(get("/windows/w?cursor=x"), 400);
	expect_status(get("/windows/w?max_bytes=0"), 400);
	a = get("/windows/none");
	expect_status(a, 404);
	assert_string_equal(error_code(a), "window_not_found");
	a = post("/windows/w/run", "{\"command\":\"echo 123456789\",\"max_output_bytes\":4}");
	assert_string_equal(text_of(a, "output"), "1234");
	assert_true(flag(a, "truncated"));
	assert_int_equal(int_of(a, "exit_code"), 0);
	a = get(path_of("/windows/w?cursor=%lld", (long long)int_of(a, "cursor")));
	assert_string_equal(text_of(a, "output"), "56789\r\n");
}

static void test_input_and_close(void **state)
{
	struct request req;
	struct answer *a, done;

	(void)state;
	new_sandbox("{}");
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/windows/w/run", sandbox),
		     NULL, "{\"command\":\"read\"}");
	world_turns(30);
	expect_status(post("/windows/w/input", "{\"data\":\"typed\\n\"}"), 204);
	request_wait(&req, &done);
	assert_string_equal(text_of(&done, "state"), "exited");
	assert_non_null(strstr(text_of(&done, "output"), "typed"));
	answer_free(&done);
	a = post("/windows/w/input", "{\"data\":\"x\"}");
	expect_status(a, 409);
	assert_string_equal(error_code(a), "wrong_state");
	assert_non_null(strstr(error_message(a), "use run"));
	expect_status(post("/windows/none/input", "{\"data\":\"x\"}"), 404);
	expect_status(post("/windows/w/input", "{}"), 400);
	expect_status(del("/windows/w"), 204);
	expect_status(get("/windows/w"), 404);
	expect_status(del("/windows/w"), 404);
	a = get("/windows");
	assert_int_equal(json_size(member(a->doc, "data")), 0);
}

static void test_bad_bodies(void **state)
{
	static const struct {
		const char *body, *field;
	} rows[] = {
		{ "{}", "command" },
		{ "{\"command\":\"\"}", "command" },
		{ "{\"command\":\"a\\u0000b\"}", "command" },
		{ "{\"command\":\"a\",\"wait_ms\":-1}", "wait_ms" },
		{ "{\"command\":\"a\",\"wait_ms\":600001}", "wait_ms" },
		{ "{\"command\":\"a\",\"max_output_bytes\":1048577}", "max_output_bytes" },
		{ "{\"command\":\"a\",\"env\":{\"1\":\"x\"}}", "env" },
		{ "{\"command\":\"a\",\"cwd\":\"\"}", "cwd" },
		{ "{\"command\":\"a\",\"user\":7}", "user" },
		{ "{\"command\":\"a\",\"timeout_sec\":1}", "timeout_sec" },
	};

	(void)state;
	new_sandbox("{}");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct answer *a = post("/windows/w/run", rows[i].body);

		expect_status(a, 400);
		if (!strstr(error_message(a), rows[i].field))
			fail_msg("%s: %s", rows[i].body, error_message(a));
	}
	expect_status(run(path_of("%065d", 1), "true"), 400);
	expect_status(run("12", "true"), 400);
}

static int setup_small(void **state)
{
	(void)state;
	world_prepare();
	world.config.windows_per_sandbox = 2;
	world_start();
	return 0;
}

static void test_limit(void **state)
{
	struct request reqs[4];
	struct answer *a, done;
	int made = 0, refused = 0;

	(void)state;
	new_sandbox("{}");
	expect_status(run("a", "true"), 200);
	expect_status(run("b", "true"), 200);
	a = run("c", "true");
	expect_status(a, 429);
	assert_string_equal(error_code(a), "quota_exceeded");
	assert_non_null(strstr(error_message(a), "windows_per_sandbox"));
	expect_status(run("a", "true"), 200); /* existing ones continue */
	expect_status(del("/windows/a"), 204);
	/* All at the same time: one fits. */
	for (int i = 0; i < 4; i++)
		request_send(&reqs[i], world.admin, "POST",
			     path_of("/v1/sandboxes/%s/windows/n%d/run", sandbox, i), NULL,
			     "{\"command\":\"true\"}");
	for (int i = 0; i < 4; i++) {
		request_wait(&reqs[i], &done);
		made += done.status == 200;
		refused += done.status == 429;
		answer_free(&done);
	}
	assert_int_equal(made, 1);
	assert_int_equal(refused, 3);
}

/* The window is in the sandbox: neither a broken link nor a restart affects it. */
static void test_survival(void **state)
{
	struct request req;
	struct answer *a, done;

	(void)state;
	new_sandbox("{}");
	(void)run("w", "V=1");
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/windows/w/run", sandbox),
		     NULL, "{\"command\":\"sleep 300\"}");
	world_turns(30);
	fake_cut(world.engine, sandbox);
	request_wait(&req, &done); /* it is followed again, and its end reported */
	expect_status(&done, 200);
	assert_string_equal(text_of(&done, "reason"), "exited");
	answer_free(&done);
	world_restart();
	a = run("w", "echo $V");
	assert_string_equal(text_of(a, "output"), "1\r\n");
	assert_false(flag(a, "made"));
	assert_int_equal(int_of(a, "run"), 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_run),
		TEST(test_wait_and_cancel),
		TEST(test_read),
		TEST(test_input_and_close),
		TEST(test_bad_bodies),
		cmocka_unit_test_setup_teardown(test_limit, setup_small, world_teardown),
		TEST(test_survival),
	};

	return cmocka_run_group_tests_name("windows", tests, NULL, NULL);
}
