/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers that are slow, many, gone, or disconnected: no byte is lost or duplicated without being
 * counted, and other readers are not affected.
 */
#include <string.h>

#include "inside.h"

/* ---- slow readers ---- */

static void test_slow_reader(void **state)
{
	struct request slow, quick;
	struct answer a;
	char *all;

	(void)state;
	new_sandbox("{}");
	start("c", "cat");
	follow_send(&slow, sandbox, "c", "follow=true");
	follow_send(&quick, sandbox, "c", "follow=true&stream=stdout");
	(void)request_until(&quick, "\r\n\r\n");
	/*
	 * The slow reader does not read: it holds its credit and no more, and the others continue.
	 */
	for (int i = 0; i < 40; i++) {
		char line[60001];

		memset(line, 'a' + i % 26, sizeof(line) - 2);
		line[sizeof(line) - 2] = '\n';
		line[sizeof(line) - 1] = '\0';
		type("c", line);
		(void)request_until(&quick, path_of("\"cursor\":%d}", (i + 1) * 60000));
	}
	close_input("c");
	request_wait(&quick, &a);
	assert_null(strstr(a.body, "event: gap"));
	all = gather(&a, "stdout");
	assert_int_equal(strlen(all), 40 * 60000);
	free(all);
	answer_free(&a);
	/* It is informed how much it missed, and gets the rest. */
	request_wait(&slow, &a);
	assert_true(a.complete);
	assert_int_equal(count(a.body, "event: gap"), 1);
	all = gather(&a, "stdout");
	{
		const char *gap = strstr(strstr(a.body, "event: gap"), "\"bytes\":") + 8;

		assert_int_equal(strlen(all) + strtoul(gap, NULL, 10), 40 * 60000);
	}
	assert_non_null(strstr(a.body, "event: exit"));
	free(all);
	answer_free(&a);
}

/* Raw bytes cannot show a gap: the connection is reset. */
static void test_slow_raw_reader_is_cut(void **state)
{
	struct request slow;
	struct answer a;

	(void)state;
	new_sandbox("{}");
	start("c", "cat");
	type("c", "first");
	follow_send(&slow, sandbox, "c", "follow=true&format=raw");
	(void)request_until(&slow, "first");
	for (int i = 0; i < 80; i++) {
		char line[60001];

		memset(line, 'x', sizeof(line) - 1);
		line[sizeof(line) - 1] = '\0';
		type("c", line);
	}
	request_wait(&slow, &a);
	assert_false(a.complete);
	answer_free(&a);
	expect_status(post("/processes/c/signal", "{\"signal\":9}"), 204);
}

static void test_many_followers(void **state)
{
	static struct request reqs[300];
	struct answer a;

	(void)state;
	new_sandbox("{}");
	start("d", "drip 3 400");
	for (size_t i = 0; i < ARRAY_LEN(reqs); i++)
		follow_send(&reqs[i], sandbox, "d", "follow=true");
	world_turns(300);
	assert_non_null(strstr(call("GET", "/metrics", NULL)->body, "cay_streams_open 300\n"));
	for (size_t i = 0; i < ARRAY_LEN(reqs); i += 3)
		request_drop(&reqs[i]);
	for (size_t i = 0; i < ARRAY_LEN(reqs); i++) {
		if (i % 3 == 0)
			continue;
		request_wait(&reqs[i], &a);
		assert_non_null(strstr(a.body, "\"data\":\"1\\n\""));
		assert_non_null(strstr(a.body, "event: exit"));
		answer_free(&a);
	}
	world_turns(10);
	assert_non_null(strstr(call("GET", "/metrics", NULL)->body, "cay_streams_open 0\n"));
}

/* ---- limits ---- */

static int setup_small(void **state)
{
	(void)state;
	world_prepare();
	world.config.streams_per_key = 3;
	world_start();
	return 0;
}

static void test_stream_limit(void **state)
{
	const char *other = NULL;
	struct request reqs[3];
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	other = make_key("[\"admin\"]");
	start("h", "hang");
	for (int i = 0; i < 2; i++)
		follow_send(&reqs[i], sandbox, "h", "follow=true");
	world_turns(10);
	a = post("/exec/stream", "{\"command\":\"true\"}"); /* the third: at the limit */
	expect_status(a, 200);
	request_send(&reqs[2], world.admin, "POST",
		     path_of("/v1/sandboxes/%s/exec/stream", sandbox), NULL,
		     "{\"command\":\"hang\"}");
	world_turns(10);
	a = get("/processes/h/output?follow=true");
	expect_status(a, 429);
	assert_string_equal(error_code(a), "quota_exceeded");
	assert_non_null(strstr(error_message(a), "streams_per_key"));
	expect_status(post("/exec/stream", "{\"command\":\"true\"}"), 429);
	expect_status(post("/exec", "{\"command\":\"true\"}"), 200); /* no stream */
	expect_status(get("/processes/h/output?format=json"), 200);
	/* Each key has its own. */
	a = call_as(other, "GET", path_of("/v1/sandboxes/%s/processes/h/output", sandbox), NULL);
	expect_status(a, 200);
	request_drop(&reqs[0]);
	world_turns(10);
	expect_status(get("/processes/h/output"), 200);
	request_drop(&reqs[1]);
	request_drop(&reqs[2]);
}

/* ---- failures ---- */

static void test_client_gone(void **state)
{
	struct request req;
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	/* At every moment of a stream's life. */
	for (int turns = 0; turns < 8; turns++) {
		request_send(&req, world.admin, "POST",
			     path_of("/v1/sandboxes/%s/exec/stream", sandbox), NULL,
			     "{\"command\":\"drip 5 5\"}");
		for (int i = 0; i < turns; i++)
			loop_turn(world.loop, 1);
		request_drop(&req);
		world_turns(10);
	}
	world_turns(100);
	a = get("/processes"); /* every process that was started ran to its end */
	assert_null(strstr(a->body, "\"running\""));
	assert_true(count(a->body, "\"stdout_cursor\":10") >= 4);
	assert_int_equal(count(a->body, "\"stdout_cursor\":10"), json_size(member(a->doc, "data")));
}

static void test_sandbox_gone(void **state)
{
	struct request reqs[3];
	struct answer a;

	(void)state;
	new_sandbox("{}");
	start("c", "cat");
	request_send(&reqs[0], world.admin, "POST",
		     path_of("/v1/sandboxes/%s/exec/stream", sandbox), NULL,
		     "{\"command\":\"hang\"}");
	follow_send(&reqs[1], sandbox, "c", "follow=true");
	follow_send(&reqs[2], sandbox, "c", "follow=true&format=raw");
	world_turns(20);
	type("c", "last");
	(void)request_until(&reqs[1], "last");
	fake_die(world.engine, sandbox, true);
	for (size_t i = 0; i < 2; i++) {
		request_wait(&reqs[i], &a);
		expect_status(&a, 200);
		assert_true(a.complete);
		assert_non_null(strstr(a.body, "event: exit\n"));
		assert_non_null(strstr(a.body, "{\"exit_code\":null,\"signal\":null,"
					       "\"reason\":\"sandbox_gone\""));
		assert_non_null(strstr(a.body, "\"message\":\"the sandbox ended: oom\""));
		answer_free(&a);
	}
	request_wait(&reqs[2], &a);
	assert_string_equal(a.body, "last");
	assert_false(a.complete); /* cut: nothing else could tell */
	answer_free(&a);
}

/* A broken link is reestablished; the reader does not notice. */
static void test_link_breaks(void **state)
{
	struct request req, held;
	struct answer a;

	(void)state;
	new_sandbox("{}");
	start("c", "cat");
	follow_send(&req, sandbox, "c", "follow=true");
	(void)request_until(&req, "\r\n\r\n");
	for (int i = 0; i < 5; i++) {
		type("c", path_of("line %d\n", i));
		(void)request_until(&req, path_of("line %d", i));
		fake_cut(world.engine, sandbox);
		world_turns(20);
	}
	/* Half a character, a break, the other half. */
	type("c", "\xe2\x82");
	world_turns(10);
	fake_cut(world.engine, sandbox);
	world_turns(20);
	type("c", "\xac");
	(void)request_until(&req, "{\"data\":\"\xe2\x82\xac\",\"cursor\":38}");
	/* Disconnected while the link is down. */
	follow_send(&held, sandbox, "c", "follow=true");
	(void)request_until(&held, "line 4");
	fake_hold(world.engine, FAKE_DIAL);
	fake_cut(world.engine, sandbox);
	world_turns(20);
	request_drop(&held);
	world_turns(20);
	fake_release(world.engine, FAKE_DIAL);
	world_turns(20);
	close_input("c");
	request_wait(&req, &a);
	assert_null(strstr(a.body, "event: gap"));
	assert_int_equal(count(a.body, "event: stdout"), 6);
	assert_non_null(strstr(a.body, "\"stdout_bytes\":38"));
	answer_free(&a);
}

static void test_restart(void **state)
{
	struct request req;
	struct answer *a, late;

	(void)state;
	new_sandbox("{}");
	start("d", "drip 9 30");
	follow_send(&req, sandbox, "d", "follow=true");
	(void)request_until(&req, "\"cursor\":6}");
	world_stop(); /* with a reader, and with another half way in */
	request_drop(&req);
	world_start();
	/* Cursors continue where they were. */
	follow_send(&req, sandbox, "d", "follow=true&cursor=6");
	request_wait(&req, &late);
	expect_status(&late, 200);
	assert_null(strstr(late.body, "event: gap"));
	{
		char *all = gather(&late, "stdout");

		assert_string_equal(all, "6\n5\n4\n3\n2\n1\n");
		free(all);
	}
	assert_non_null(strstr(late.body, "\"stdout_bytes\":18"));
	answer_free(&late);
	world_restart(); /* also when all is over */
	a = get("/processes/d/output?format=raw&cursor=14");
	assert_string_equal(a->body, "2\n1\n");
	/* The daemon ends in the middle of everything. */
	start("c", "cat");
	for (int turns = 0; turns < 6; turns++) {
		struct request reqs[4];

		follow_send(&reqs[0], sandbox, "c", "follow=true");
		follow_send(&reqs[1], sandbox, "c", "format=json");
		request_send(&reqs[2], world.admin, "POST",
			     path_of("/v1/sandboxes/%s/windows/w/run", sandbox), NULL,
			     "{\"command\":\"sleep 1000\"}");
		request_send(&reqs[3], world.admin, "GET",
			     path_of("/v1/sandboxes/%s/windows/w", sandbox), NULL, NULL);
		for (int i = 0; i < turns; i++)
			loop_turn(world.loop, 1);
		world_stop();
		for (size_t i = 0; i < ARRAY_LEN(reqs); i++)
			request_drop(&reqs[i]);
		world_start();
	}
	type("c", "still there");
	a = get("/processes/c/output?format=raw");
	assert_string_equal(a->body, "still there");
}

static int setup_beat(void **state)
{
	(void)state;
	world_prepare();
	world.heartbeat_ms = 20;
	world_start();
	return 0;
}

/* A quiet stream gets comments; one whose reader is slow gets none in addition. */
static void test_heartbeat(void **state)
{
	struct request quiet, slow, raw;
	struct answer a;

	(void)state;
	new_sandbox("{}");
	start("c", "cat");
	follow_send(&quiet, sandbox, "c", "follow=true");
	follow_send(&raw, sandbox, "c", "follow=true&format=raw");
	for (int i = 0; i < 3; i++)
		(void)request_until(&quiet, ": beat\n\n");
	start("s", "spew 1000000");
	follow_send(&slow, sandbox, "s", "follow=true");
	world_turns(600); /* thirty intervals, nearly all of them while it was held up */
	close_input("c");
	request_wait(&raw, &a);
	assert_int_equal(a.n, 0); /* bytes are bytes */
	answer_free(&a);
	request_wait(&slow, &a);
	assert_true(count(a.body, ": beat") < 15);
	assert_true(a.complete);
	answer_free(&a);
	request_wait(&quiet, &a);
	assert_non_null(strstr(a.body, "event: exit"));
	answer_free(&a);
}

/* Reading does not count as activity of a sandbox; a command with a waiting caller does. */
static void test_idle_clock(void **state)
{
	struct request req, busy;
	const char *other;

	(void)state;
	new_sandbox("{\"idle_timeout_sec\":1}");
	other = make("{\"idle_timeout_sec\":1}");
	start("h", "hang");
	follow_send(&req, sandbox, "h", "follow=true");
	request_send(&busy, world.admin, "POST", path_of("/v1/sandboxes/%s/exec/stream", other),
		     NULL, "{\"command\":\"hang\"}");
	world_turns(1300);
	expect_status(get(""), 404);
	expect_status(call("GET", path_of("/v1/sandboxes/%s", other), NULL), 200);
	request_drop(&busy); /* no caller waits any more */
	world_turns(1300);
	expect_status(call("GET", path_of("/v1/sandboxes/%s", other), NULL), 404);
	request_drop(&req);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_slow_reader),
		TEST(test_slow_raw_reader_is_cut),
		TEST(test_many_followers),
		cmocka_unit_test_setup_teardown(test_stream_limit, setup_small, world_teardown),
		TEST(test_client_gone),
		TEST(test_sandbox_gone),
		TEST(test_link_breaks),
		TEST(test_restart),
		cmocka_unit_test_setup_teardown(test_heartbeat, setup_beat, world_teardown),
		TEST(test_idle_clock),
	};

	return cmocka_run_group_tests_name("readers", tests, NULL, NULL);
}
