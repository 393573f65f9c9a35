/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes without a waiting caller: created, listed, found, fed, signalled, ended; every error
 * names its field; limits at, below and above.
 */
#include <string.h>

#include "inside.h"

/* Its process_id as text. */
static const char *begin(const char *body)
{
	struct answer *a = post("/processes", body);

	expect_status(a, 201);
	return path_of("%lld", (long long)int_of(a, "process_id"));
}

static size_t listed(void)
{
	return json_size(member(get("/processes")->doc, "data"));
}

static bool is_null(const struct answer *a, const char *key)
{
	return member(a->doc, key) && json_type(member(a->doc, key)) == JSON_NULL;
}

static void test_life(void **state)
{
	const char *id, *path;
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	a = post("/processes", "{\"command\":\"cat\",\"name\":\"c.1\"}");
	expect_status(a, 201);
	id = path_of("%lld", (long long)int_of(a, "process_id"));
	assert_string_equal(text_of(a, "name"), "c.1");
	assert_string_equal(text_of(a, "state"), "running");
	assert_string_equal(text_of(a, "user"), "sandbox");
	assert_true(json_bool(member(a->doc, "stdin_open")));
	assert_true(is_null(a, "exit_code") && is_null(a, "reason") && is_null(a, "window") &&
		    is_null(a, "cols") && is_null(a, "memory_limit_bytes"));
	expect_status(post("/processes/c.1/stdin", "{\"data\":\"hello\"}"), 204);
	expect_status(post(path_of("/processes/%s/stdin", id), "{\"data_b64\":\"AP8K\"}"), 204);
	a = get("/processes/c.1");
	expect_status(a, 200);
	assert_int_equal(int_of(a, "stdout_cursor"), 8);
	assert_int_equal(int_of(a, "stdout_begin"), 0);
	expect_status(post("/processes/c.1/close-stdin", "{}"), 204);
	world_turns(20);
	a = get(path_of("/processes/%s", id));
	assert_string_equal(text_of(a, "state"), "exited");
	assert_string_equal(text_of(a, "reason"), "exited");
	assert_int_equal(int_of(a, "exit_code"), 0);
	/* An ended process can be read, but not changed. */
	path = path_of("/processes/%s/", id);
	a = post(path_of("%sstdin", path), "{\"data\":\"x\"}");
	expect_status(a, 409);
	assert_string_equal(error_code(a), "wrong_state");
	expect_status(post(path_of("%ssignal", path), "{\"signal\":\"TERM\"}"), 409);
	expect_status(del(path_of("/processes/%s", id)), 204);
	a = get(path_of("/processes/%s", id));
	expect_status(a, 404);
	assert_string_equal(error_code(a), "process_not_found");
	expect_status(get("/processes/c.1"), 404);
	assert_int_equal(listed(), 0);
}

static void test_ends(void **state)
{
	static const struct {
		const char *command, *reason;
		int exit_code, signal;
	} rows[] = {
		{ "exit 3", "exited", 3, -1 },
		{ "signal 11", "signaled", 139, 11 },
		{ "oom", "oom", 137, 9 },
	};
	const char *id;
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		id = begin(path_of("{\"command\":\"%s\"}", rows[i].command));
		a = get(path_of("/processes/%s", id));
		assert_string_equal(text_of(a, "reason"), rows[i].reason);
		assert_int_equal(int_of(a, "exit_code"), rows[i].exit_code);
		assert_int_equal(int_of(a, "signal"), rows[i].signal);
		a = post("/exec", path_of("{\"command\":\"%s\"}", rows[i].command));
		expect_status(a, 200);
		assert_string_equal(text_of(a, "reason"), rows[i].reason);
		assert_int_equal(int_of(a, "exit_code"), rows[i].exit_code);
		assert_true((int_of(a, "memory_limit_bytes") > 0) ==
			    (strcmp(rows[i].reason, "oom") == 0));
	}
	id = begin("{\"command\":\"sleep 60000\",\"timeout_sec\":1}");
	world_turns(1100);
	a = get(path_of("/processes/%s", id));
	assert_string_equal(text_of(a, "reason"), "timeout");
	assert_int_equal(int_of(a, "exit_code"), 124);
	id = begin("{\"command\":\"sleep 60000\"}");
	expect_status(post(path_of("/processes/%s/signal", id), "{\"signal\":\"SIGINT\"}"), 204);
	a = get(path_of("/processes/%s", id));
	assert_string_equal(text_of(a, "reason"), "killed_by_request");
	assert_int_equal(int_of(a, "signal"), 2);
}

static void test_signals(void **state)
{
	static const char *const good[] = {
		"\"TERM\"", "\"SIGTERM\"", "\"term\"", "15", "64", "1"
	};
	static const char *const bad[] = { "\"\"", "\"SIG\"", "\"SIGNOPE\"", "0",      "65",  "-1",
					   "1.5",  "true",    "[15]",	     "\"15\"", "null" };
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		const char *id = begin("{\"command\":\"sleep 60000\"}");

		expect_status(post(path_of("/processes/%s/signal", id),
				   path_of("{\"signal\":%s}", good[i])),
			      204);
	}
	(void)begin("{\"command\":\"hang\",\"name\":\"h\"}");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		a = post("/processes/h/signal", path_of("{\"signal\":%s}", bad[i]));
		expect_status(a, 400);
		assert_non_null(strstr(error_message(a), "signal"));
	}
	expect_status(post("/processes/h/signal", "{}"), 400);
	expect_status(post("/processes/999/signal", "{\"signal\":9}"), 404);
	expect_status(post("/processes/nobody/signal", "{\"signal\":9}"), 404);
}

static void test_stop(void **state)
{
	struct request req;
	struct answer a;

	(void)state;
	new_sandbox("{}");
	(void)begin("{\"command\":\"sleep 60000\",\"name\":\"s\"}");
	expect_status(del("/processes/s"), 204);
	assert_int_equal(listed(), 0);
	expect_status(del("/processes/s"), 404);
	expect_status(del("/processes/77"), 404);
	/* A process that ignores TERM: the reply comes only when it is dead. */
	(void)begin("{\"command\":\"stubborn\",\"name\":\"s\"}");
	request_send(&req, world.admin, "DELETE", path_of("/v1/sandboxes/%s/processes/s", sandbox),
		     NULL, NULL);
	world_turns(100);
	assert_false(request_ended(&req));
	expect_status(post("/processes/s/signal", "{\"signal\":\"KILL\"}"), 204);
	request_wait(&req, &a);
	expect_status(&a, 204);
	answer_free(&a);
	assert_int_equal(listed(), 0);
}

static void test_bad_bodies(void **state)
{
	static const struct {
		const char *body, *field;
	} rows[] = {
		{ "{}", "command" },
		{ "{\"command\":\"\"}", "command" },
		{ "{\"command\":\"a\",\"argv\":[\"b\"]}", "command" },
		{ "{\"command\":\"a\\u0000b\"}", "command" },
		{ "{\"argv\":[]}", "argv" },
		{ "{\"argv\":[\"\"]}", "argv[0]" },
		{ "{\"argv\":[\"a\",\"b\\u0000c\"]}", "argv" },
		{ "{\"argv\":[1]}", "argv[0]" },
		{ "{\"command\":\"a\",\"env\":{\"A=B\":\"x\"}}", "env" },
		{ "{\"command\":\"a\",\"env\":{\"A\":1}}", "env.A" },
		{ "{\"command\":\"a\",\"cwd\":\"\"}", "cwd" },
		{ "{\"command\":\"a\",\"user\":\"\"}", "user" },
		{ "{\"command\":\"a\",\"timeout_sec\":-1}", "timeout_sec" },
		{ "{\"command\":\"a\",\"timeout_sec\":86401}", "timeout_sec" },
		{ "{\"command\":\"a\",\"stdin\":\"x\",\"stdin_b64\":\"eA==\"}", "stdin" },
		{ "{\"command\":\"a\",\"stdin_b64\":\"!\"}", "stdin_b64" },
		{ "{\"command\":\"a\",\"tty\":{\"cols\":0}}", "tty.cols" },
		{ "{\"command\":\"a\",\"tty\":{\"rows\":4097}}", "tty.rows" },
		{ "{\"command\":\"a\",\"tty\":true}", "tty" },
		{ "{\"command\":\"a\",\"name\":\"\"}", "name" },
		{ "{\"command\":\"a\",\"name\":\"a b\"}", "name" },
		{ "{\"command\":\"a\",\"name\":\"12\"}", "name" },
		{ "{\"command\":\"a\",\"max_output_bytes\":1}", "max_output_bytes" },
		{ "{\"command\":\"a\",\"stdin_open\":1}", "stdin_open" },
	};
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		for (int stream = 0; stream < 2; stream++) {
			a = post(stream ? "/exec/stream" : "/processes", rows[i].body);
			expect_status(a, 400);
			if (!strstr(error_message(a), rows[i].field))
				fail_msg("%s: %s", rows[i].body, error_message(a));
		}
	}
	a = post("/processes", "{\"command\":\"no-such-program\"}");
	expect_status(a, 400);
	assert_non_null(strstr(error_message(a), "no-such-program"));
	a = post("/exec/stream", "{\"command\":\"no-such-program\"}");
	expect_status(a, 400); /* before the stream begins */
	assert_int_equal(listed(), 0);
}

static void test_too_much(void **state)
{
	size_t size = 4 * 1024 * 1024;
	char *body = malloc(size);
	struct answer *a;
	size_t n;

	(void)state;
	new_sandbox("{}");
	n = (size_t)snprintf(body, size, "{\"command\":\"true\",\"env\":{");
	for (int i = 0; i < 100000; i++)
		n += (size_t)snprintf(body + n, size - n, "%s\"A%d\":\"\"", i ? "," : "", i);
	(void)snprintf(body + n, size - n, "}}");
	a = post("/processes", body);
	expect_status(a, 400);
	assert_non_null(strstr(error_message(a), "env"));
	n = (size_t)snprintf(body, size, "{\"argv\":[\"true\",\"");
	memset(body + n, 'x', 1 << 20);
	(void)snprintf(body + n + (1 << 20), size - n - (1 << 20), "\"]}");
	a = post("/processes", body);
	expect_status(a, 400);
	assert_non_null(strstr(error_message(a), "argv"));
	free(body);
}

static void test_names(void **state)
{
	struct answer *a;
	struct request req;
	struct answer late;

	(void)state;
	new_sandbox("{}");
	(void)begin("{\"command\":\"sleep 60000\",\"name\":\"web\"}");
	a = post("/processes", "{\"command\":\"true\",\"name\":\"web\"}");
	expect_status(a, 409);
	assert_string_equal(error_code(a), "conflict");
	assert_non_null(strstr(error_message(a), "web"));
	expect_status(post("/processes/web/signal", "{\"signal\":9}"), 204);
	/* The name is free again; a running process has precedence over an ended one. */
	(void)begin("{\"command\":\"hang\",\"name\":\"web\"}");
	assert_int_equal(listed(), 2);
	a = get("/processes/web");
	assert_string_equal(text_of(a, "state"), "running");
	/* Two at the same time: one of them gets it. */
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/processes", sandbox),
		     NULL, "{\"command\":\"hang\",\"name\":\"x\"}");
	a = post("/processes", "{\"command\":\"hang\",\"name\":\"x\"}");
	request_wait(&req, &late);
	assert_int_equal(a->status + late.status, 201 + 409);
	answer_free(&late);
}

static void test_stdin(void **state)
{
	struct request req;
	struct answer *a, raw;
	char *big = malloc(1400000);

	(void)state;
	new_sandbox("{}");
	(void)begin("{\"command\":\"cat\",\"name\":\"c\"}");
	request_send(&req, world.admin, "POST",
		     path_of("/v1/sandboxes/%s/processes/c/stdin", sandbox),
		     "Content-Type: application/octet-stream\r\n", "raw \xff bytes");
	request_wait(&req, &raw);
	expect_status(&raw, 204);
	answer_free(&raw);
	a = get("/processes/c/output?format=raw");
	expect_status(a, 200);
	assert_string_equal(a->body, "raw \xff bytes");
	request_send(&req, world.admin, "POST",
		     path_of("/v1/sandboxes/%s/processes/c/stdin", sandbox),
		     "Content-Type: text/plain\r\n", "no");
	request_wait(&req, &raw);
	expect_status(&raw, 415);
	answer_free(&raw);
	expect_status(post("/processes/c/stdin", "{}"), 400);
	expect_status(post("/processes/c/stdin", "{\"data\":\"\"}"), 204);
	expect_status(post("/processes/99/stdin", "{\"data\":\"\"}"), 404);
	expect_status(post("/processes/c/stdin", "{\"data\":\"x\",\"data_b64\":\"eA==\"}"), 400);
	a = post("/processes/c/stdin", "{\"data_b64\":\"?\"}");
	expect_status(a, 400);
	assert_non_null(strstr(error_message(a), "data_b64"));
	/* At most a million bytes at a time: at the limit and above. */
	memset(big, 'x', 1400000);
	memcpy(big, "{\"data\":\"", 9);
	(void)strcpy(big + 9 + 1000000, "\"}");
	expect_status(post("/processes/c/stdin", big), 204);
	big[9 + 1000000] = 'x';
	(void)strcpy(big + 9 + 1000001, "\"}");
	a = post("/processes/c/stdin", big);
	expect_status(a, 413);
	free(big);
	expect_status(post("/processes/c/close-stdin", "{\"x\":1}"), 400);
	expect_status(post("/processes/c/close-stdin", "{}"), 204);
	(void)begin("{\"command\":\"hang\",\"name\":\"closed\",\"stdin_open\":false}");
	expect_status(post("/processes/closed/stdin", "{\"data\":\"\"}"), 409);
	a = post("/processes/closed/stdin", "{\"data\":\"x\"}");
	expect_status(a, 409);
	assert_string_equal(error_code(a), "wrong_state");
}

static void test_tty(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	a = post("/processes", "{\"command\":\"size\",\"tty\":{\"cols\":100},\"name\":\"t\"}");
	expect_status(a, 201);
	assert_true(json_bool(member(a->doc, "tty")));
	assert_int_equal(int_of(a, "cols"), 100);
	assert_int_equal(int_of(a, "rows"), 24);
	expect_status(post("/processes/t/resize", "{\"cols\":10,\"rows\":5}"), 204);
	a = get("/processes/t/output?format=raw");
	assert_string_equal(a->body, "100x24\n10x5\n");
	a = post("/processes/t/resize", "{\"cols\":0,\"rows\":5}");
	expect_status(a, 400);
	assert_non_null(strstr(error_message(a), "cols"));
	expect_status(post("/processes/t/resize", "{\"cols\":5}"), 400);
	(void)begin("{\"command\":\"hang\",\"name\":\"plain\",\"tty\":null}");
	expect_status(post("/processes/plain/resize", "{\"cols\":9,\"rows\":9}"), 409);
}

static void test_idempotency(void **state)
{
	struct answer first, again;
	struct request req;
	const char *path, *other = NULL;

	(void)state;
	new_sandbox("{}");
	other = make("{}");
	path = path_of("/v1/sandboxes/%s/processes", sandbox);
	request_send(&req, world.admin, "POST", path, "Idempotency-Key: k\r\n",
		     "{\"command\":\"hang\"}");
	request_wait(&req, &first);
	expect_status(&first, 201);
	request_send(&req, world.admin, "POST", path, "Idempotency-Key: k\r\n",
		     "{\"command\":\"hang\"}");
	request_wait(&req, &again);
	expect_status(&again, 201);
	assert_string_equal(first.body, again.body);
	answer_free(&again);
	answer_free(&first);
	assert_int_equal(listed(), 1);
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/processes", other),
		     "Idempotency-Key: k\r\n", "{\"command\":\"hang\"}");
	request_wait(&req, &again);
	expect_status(&again, 409);
	answer_free(&again);
}

/* ---- limits ---- */

static int setup_small(void **state)
{
	(void)state;
	world_prepare();
	world.config.processes_per_sandbox = 3;
	world.config.output_ring_bytes = 4096;
	world.config.output_keep_sec = 1;
	world_start();
	return 0;
}

static void test_process_limit(void **state)
{
	struct request waiting;
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	(void)begin("{\"command\":\"sleep 60000\",\"name\":\"a\"}");
	(void)begin("{\"command\":\"sleep 60000\",\"name\":\"b\"}");
	request_send(&waiting, world.admin, "POST", path_of("/v1/sandboxes/%s/exec", sandbox), NULL,
		     "{\"command\":\"sleep 60000\"}");
	world_turns(20); /* three run: at the limit */
	a = post("/processes", "{\"command\":\"true\"}");
	expect_status(a, 429);
	assert_string_equal(error_code(a), "quota_exceeded");
	assert_non_null(strstr(error_message(a), "processes_per_sandbox"));
	expect_status(post("/exec", "{\"command\":\"true\"}"), 429);
	expect_status(post("/exec/stream", "{\"command\":\"true\"}"), 429);
	/* One ends unnoticed: the next start detects it. */
	expect_status(post("/processes/a/signal", "{\"signal\":9}"), 204);
	expect_status(post("/exec", "{\"command\":\"true\"}"), 200);
	expect_status(post("/exec", "{\"command\":\"true\"}"), 200);
	(void)begin("{\"command\":\"sleep 60000\"}");
	expect_status(post("/exec", "{\"command\":\"true\"}"), 429);
	/* Windows do not count, and the count is repeated after a restart. */
	expect_status(post("/windows/w/run", "{\"command\":\"true\"}"), 200);
	world_stop();
	request_drop(&waiting);
	world_turns(5);
	world_start();
	expect_status(post("/exec", "{\"command\":\"true\"}"), 429);
	expect_status(del("/processes/b"), 204);
	expect_status(post("/exec", "{\"command\":\"true\"}"), 200);
}

static void test_ring_and_keep(void **state)
{
	const char *id;
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	id = begin("{\"command\":\"spew 5000\"}");
	a = get(path_of("/processes/%s", id));
	assert_int_equal(int_of(a, "stdout_cursor"), 5000);
	assert_int_equal(int_of(a, "stdout_begin"), 5000 - 4096);
	a = get(path_of("/processes/%s/output?format=json", id));
	expect_status(a, 200);
	assert_int_equal(int_of(a, "stdout_gap_bytes"), 5000 - 4096);
	assert_int_equal(strlen(text_of(a, "stdout")), 4096);
	world_turns(1100);
	expect_status(get(path_of("/processes/%s", id)), 404);
}

/* ---- failures ---- */

static void test_client_gone(void **state)
{
	struct request req;
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/exec", sandbox), NULL,
		     "{\"command\":\"drip 20 10\"}");
	world_turns(50);
	request_drop(&req);
	world_turns(20);
	a = get("/processes"); /* it runs on, and is kept like any other */
	assert_int_equal(json_size(member(a->doc, "data")), 1);
	assert_non_null(strstr(a->body, "\"state\":\"running\""));
	world_turns(300);
	a = get("/processes");
	assert_non_null(strstr(a->body, "\"reason\":\"exited\""));
	/* Disconnected before it was even admitted or started. */
	for (int turns = 0; turns < 4; turns++) {
		request_send(&req, world.admin, "POST",
			     path_of("/v1/sandboxes/%s/processes", sandbox), NULL,
			     "{\"command\":\"true\",\"name\":\"n\"}");
		for (int i = 0; i < turns; i++)
			loop_turn(world.loop, 1);
		request_drop(&req);
		world_turns(20);
	}
	expect_status(post("/exec", "{\"command\":\"true\"}"), 200);
}

static void test_sandbox_gone(void **state)
{
	struct request reqs[3];
	struct answer a;

	(void)state;
	new_sandbox("{}");
	(void)begin("{\"command\":\"stubborn\",\"name\":\"s\"}");
	request_send(&reqs[0], world.admin, "DELETE",
		     path_of("/v1/sandboxes/%s/processes/s", sandbox), NULL, NULL);
	request_send(&reqs[1], world.admin, "POST", path_of("/v1/sandboxes/%s/exec", sandbox), NULL,
		     "{\"command\":\"hang\"}");
	request_send(&reqs[2], world.admin, "POST",
		     path_of("/v1/sandboxes/%s/windows/w/run", sandbox), NULL,
		     "{\"command\":\"read\"}");
	world_turns(20);
	fake_die(world.engine, sandbox, true);
	for (size_t i = 0; i < ARRAY_LEN(reqs); i++) {
		request_wait(&reqs[i], &a);
		expect_status(&a, 410);
		assert_string_equal(error_code(&a), "sandbox_gone");
		answer_free(&a);
	}
	expect_status(post("/processes", "{\"command\":\"true\"}"), 409);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
#define SMALL(name) cmocka_unit_test_setup_teardown(name, setup_small, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_life),	TEST(test_ends),	   TEST(test_signals),
		TEST(test_stop),	TEST(test_bad_bodies),	   TEST(test_too_much),
		TEST(test_names),	TEST(test_stdin),	   TEST(test_tty),
		TEST(test_idempotency), SMALL(test_process_limit), SMALL(test_ring_and_keep),
		TEST(test_client_gone), TEST(test_sandbox_gone),
	};

	return cmocka_run_group_tests_name("processes", tests, NULL, NULL);
}
