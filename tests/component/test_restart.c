/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon ends and restarts; the engine is lost and returns; calls that are sent twice. */
#include <string.h>

#include "world.h"

static struct answer *run(const char *id, const char *command)
{
	return call("POST", path_of("/v1/sandboxes/%s/exec", id),
		    path_of("{\"command\":\"%s\"}", command));
}

static const char *state_of(const char *id)
{
	return text_of(call("GET", path_of("/v1/sandboxes/%s", id), NULL), "state");
}

static size_t count_listed(void)
{
	return json_size(member(call("GET", "/v1/sandboxes", NULL)->doc, "data"));
}

/* ---- the daemon ---- */

static void test_running_ones_survive(void **state)
{
	const char *id = make("{\"name\":\"kept\",\"metadata\":{\"k\":\"v\"},\"env\":{\"A\":\"1\"},"
			      "\"timeout_sec\":100}");
	char expires[64];
	struct answer *a = call("GET", "/v1/sandboxes/kept", NULL);

	(void)state;
	(void)snprintf(expires, sizeof(expires), "%s", text_of(a, "expires_at"));
	world_restart();
	a = call("GET", "/v1/sandboxes/kept", NULL);
	expect_status(a, 200);
	assert_string_equal(text_of(a, "id"), id);
	assert_string_equal(text_of(a, "state"), "running");
	assert_string_equal(text_of(a, "expires_at"), expires);
	assert_non_null(strstr(a->body, "\"metadata\":{\"k\":\"v\"}"));
	expect_status(run(id, "echo still here"), 200);
	a = call("GET", path_of("/v1/sandboxes/%s/env", id), NULL);
	assert_non_null(strstr(a->body, "\"A\":\"1\""));
	expect_status(call("POST", "/v1/sandboxes", "{\"name\":\"kept\"}"), 409);
	expect_status(call("DELETE", "/v1/sandboxes/kept", NULL), 204);
	world_until(fake_live(world.engine) == 0);
}

static void send_exec(struct request *req, const char *id)
{
	request_send(req, world.admin, "POST", path_of("/v1/sandboxes/%s/exec", id), NULL,
		     "{\"command\":\"echo waited\"}");
}

/* A call on a running sandbox without a link waits for it. */
static void test_calls_wait_for_the_link(void **state)
{
	const char *id = make("{}"), *ended = make("{}");
	struct request reqs[5];
	struct answer a;

	(void)state;
	world_stop();
	fake_hold(world.engine, FAKE_ATTACH);
	world_start();
	for (size_t i = 0; i < 4; i++)
		send_exec(&reqs[i], id);
	send_exec(&reqs[4], ended);
	world_turns(50);
	request_drop(&reqs[2]); /* one goes away meanwhile */
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", ended), NULL), 204);
	request_wait(&reqs[4], &a);
	expect_status(&a, 410);
	answer_free(&a);
	world_until(fake_waiting(world.engine, FAKE_ATTACH) == 2);
	fake_release(world.engine, FAKE_ATTACH);
	for (size_t i = 0; i < 4; i++) {
		if (i == 2)
			continue;
		request_wait(&reqs[i], &a);
		expect_status(&a, 200);
		assert_string_equal(text_of(&a, "stdout"), "waited\n");
		answer_free(&a);
	}
	/* The same while a broken link is reestablished. */
	fake_hold(world.engine, FAKE_DIAL);
	fake_cut(world.engine, id);
	world_until(fake_waiting(world.engine, FAKE_DIAL) > 0);
	send_exec(&reqs[0], id);
	world_turns(20);
	fake_release(world.engine, FAKE_DIAL);
	request_wait(&reqs[0], &a);
	expect_status(&a, 200);
	answer_free(&a);
}

static void test_calls_do_not_wait_forever(void **state)
{
	const char *id = make("{}");
	struct request waiting;
	struct answer *a;

	(void)state;
	world_stop();
	world.config.ready_wait_ms = 50;
	fake_hold(world.engine, FAKE_ATTACH);
	world_start();
	a = run(id, "echo never");
	expect_status(a, 503);
	assert_string_equal(error_code(a), "unavailable");
	assert_non_null(strstr(a->head, "Retry-After: "));
	send_exec(&waiting, id);
	world_turns(10);
	world_stop(); /* with one waiting */
	request_drop(&waiting);
	fake_release(world.engine, FAKE_ATTACH);
	world_turns(10);
	world_start();
	expect_status(run(id, "echo now"), 200);
}

static void test_half_made_is_removed(void **state)
{
	struct request req;

	(void)state;
	fake_hold(world.engine, FAKE_CREATE);
	request_send(&req, world.admin, "POST", "/v1/sandboxes", NULL, "{\"name\":\"half\"}");
	world_until(fake_waiting(world.engine, FAKE_CREATE) == 1);
	world_stop();
	request_drop(&req);
	fake_release(world.engine, FAKE_CREATE); /* the engine makes it after all */
	world_until(fake_live(world.engine) == 1);
	world_start();
	world_until(fake_live(world.engine) == 0);
	world_until(count_listed() == 0);
	(void)make("{\"name\":\"half\"}");
}

static void test_destroy_continues(void **state)
{
	const char *id = make("{}");
	struct request end;

	(void)state;
	fake_hold(world.engine, FAKE_DESTROY);
	request_send(&end, world.admin, "DELETE", path_of("/v1/sandboxes/%s", id), NULL, NULL);
	world_until(fake_waiting(world.engine, FAKE_DESTROY) == 1);
	request_drop(&end); /* no reply before the engine has confirmed it */
	assert_int_equal(fake_live(world.engine), 1);
	world_stop();
	fake_fail_next(world.engine, FAKE_DESTROY, ERR_ENGINE_FAILED);
	fake_release(world.engine, FAKE_DESTROY);
	world_turns(10);
	assert_int_equal(fake_live(world.engine), 1);
	world_start();
	world_until(fake_live(world.engine) == 0);
	world_until(call("GET", path_of("/v1/sandboxes/%s", id), NULL)->status == 404);
}

static void on_made(void *arg, const struct engine_made *made, const struct err *err)
{
	(void)arg;
	assert_null(err);
	channel_close(&made->channel);
	(void)close(made->watch_fd);
}

static void on_done(void *arg, const struct err *err)
{
	(void)arg;
	assert_null(err);
}

static void test_lost_and_unknown(void **state)
{
	const char *lost = make("{}"), *dead = make("{}");
	struct engine_spec spec = { .id = "stranger" };
	struct answer *a;
	struct err err;

	(void)state;
	world_stop();
	fake_die(world.engine, dead, true);
	assert_int_equal(engine_fake.destroy(world.engine, lost, on_done, NULL, &err), 0);
	assert_int_equal(engine_fake.create(world.engine, &spec, on_made, NULL, &err), 0);
	world_turns(10);
	world_start();
	world_until(strcmp(state_of(lost), "error") == 0 && strcmp(state_of(dead), "error") == 0);
	a = call("GET", path_of("/v1/sandboxes/%s", lost), NULL);
	expect_status(a, 200);
	assert_string_equal(text_of(a, "state_reason"), "engine_lost");
	a = call("GET", path_of("/v1/sandboxes/%s", dead), NULL);
	assert_string_equal(text_of(a, "state_reason"), "oom");
	world_until(fake_live(world.engine) == 0); /* the stranger and the dead are removed */
	world_restart();			   /* an error is remembered */
	a = call("GET", path_of("/v1/sandboxes/%s", lost), NULL);
	assert_string_equal(text_of(a, "state_reason"), "engine_lost");
}

static void test_timeout_while_stopped(void **state)
{
	const char *id = make("{\"timeout_sec\":1}");

	(void)state;
	world_stop();
	world_turns(1100);
	world_start();
	world_until(call("GET", path_of("/v1/sandboxes/%s", id), NULL)->status == 404);
	world_until(fake_live(world.engine) == 0);
}

/* ---- the engine ---- */

static void test_engine_lost_and_back(void **state)
{
	const char *id = make("{}"), *dead = make("{}");
	struct answer *a;

	(void)state;
	world_engine_lost(true);
	a = call_as(NULL, "GET", "/readyz", NULL);
	expect_status(a, 503);
	expect_status(run(id, "echo on"), 200); /* commands need no engine */
	a = call("POST", "/v1/sandboxes", "{}");
	expect_status(a, 503);
	assert_string_equal(error_code(a), "unavailable");
	fake_die(world.engine, dead, false);
	fake_fail_next(world.engine, FAKE_STAT, ERR_UNAVAILABLE);
	world_turns(20);
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", id), NULL), 204);
	world_engine_lost(false);
	world_until(call_as(NULL, "GET", "/readyz", NULL)->status == 200);
	world_until(strcmp(state_of(dead), "error") == 0);
	world_until(fake_live(world.engine) == 0);
	(void)make("{}");
}

/* ---- idempotency ---- */

static struct answer *create_twice(const char *key, const char *body)
{
	static struct answer a;
	struct request req;

	answer_free(&a);
	request_send(&req, world.admin, "POST", "/v1/sandboxes",
		     path_of("Idempotency-Key: %s\r\n", key), body);
	request_wait(&req, &a);
	return &a;
}

static void test_idempotency(void **state)
{
	char first[2048];
	struct answer *a = create_twice("k1", "{\"name\":\"i\"}");

	(void)state;
	expect_status(a, 201);
	(void)snprintf(first, sizeof(first), "%s", a->body);
	a = create_twice("k1", "{\"name\":\"i\"}");
	expect_status(a, 201);
	assert_string_equal(a->body, first);
	assert_int_equal(count_listed(), 1);
	a = create_twice("k1", "{\"name\":\"other\"}");
	expect_status(a, 409);
	assert_string_equal(error_code(a), "idempotency_mismatch");
	world_restart();
	a = create_twice("k1", "{\"name\":\"i\"}");
	assert_string_equal(a->body, first);
	/* Failures are not recorded: retrying is the purpose of the key. */
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	expect_status(create_twice("k2", "{}"), 500);
	expect_status(create_twice("k2", "{}"), 201);
	expect_status(create_twice("has space", "{}"), 400);
	assert_int_equal(count_listed(), 2);
	answer_free(create_twice("k2", "{}"));
}

static void test_concurrent_duplicates(void **state)
{
	struct request reqs[5];
	struct answer answers[5], *late;

	(void)state;
	fake_hold(world.engine, FAKE_CREATE);
	for (size_t i = 0; i < ARRAY_LEN(reqs); i++)
		request_send(&reqs[i], world.admin, "POST", "/v1/sandboxes",
			     "Idempotency-Key: same\r\n", "{}");
	world_until(fake_waiting(world.engine, FAKE_CREATE) == 1);
	late = create_twice("same", "{\"cpu_count\":2}"); /* does not wait to be refused */
	expect_status(late, 409);
	answer_free(late);
	request_drop(&reqs[1]); /* one goes away meanwhile */
	assert_int_equal(fake_waiting(world.engine, FAKE_CREATE), 1);
	fake_release(world.engine, FAKE_CREATE);
	for (size_t i = 0; i < ARRAY_LEN(reqs); i++) {
		if (i == 1)
			continue;
		request_wait(&reqs[i], &answers[i]);
		expect_status(&answers[i], 201);
		assert_string_equal(answers[i].body, answers[0].body);
	}
	assert_int_equal(count_listed(), 1);
	for (size_t i = 0; i < ARRAY_LEN(reqs); i++)
		if (i != 1)
			answer_free(&answers[i]);
}

/* The daemon dies after creating the sandbox and before replying: the retry gets that sandbox. */
static void test_retry_after_a_crash(void **state)
{
	struct request req;
	struct answer *a;

	(void)state;
	fake_hold(world.engine, FAKE_CREATE);
	request_send(&req, world.admin, "POST", "/v1/sandboxes", "Idempotency-Key: x\r\n", "{}");
	world_until(fake_waiting(world.engine, FAKE_CREATE) == 1);
	world_stop();
	request_drop(&req);
	fake_release(world.engine, FAKE_CREATE);
	world_turns(10);
	world_start();
	world_turns(50);
	a = create_twice("x", "{}");
	expect_status(a, 201);
	assert_int_equal(count_listed(), 1);
	assert_int_equal(fake_live(world.engine), 1);
	answer_free(a);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_running_ones_survive),
		TEST(test_calls_wait_for_the_link),
		TEST(test_calls_do_not_wait_forever),
		TEST(test_half_made_is_removed),
		TEST(test_destroy_continues),
		TEST(test_lost_and_unknown),
		TEST(test_timeout_while_stopped),
		TEST(test_engine_lost_and_back),
		TEST(test_idempotency),
		TEST(test_concurrent_duplicates),
		TEST(test_retry_after_a_crash),
	};

	return cmocka_run_group_tests_name("restart", tests, NULL, NULL);
}
