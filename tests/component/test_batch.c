/* SPDX-License-Identifier: Apache-2.0 */
/* Several sandboxes created by one call: order, failures, idempotency, and crashes in the middle.
 */
#include <string.h>

#include "world.h"

static const struct json *item(const struct answer *a, size_t index)
{
	return json_at(member(a->doc, "data"), index);
}

static const char *item_text(const struct answer *a, size_t index, const char *name)
{
	const struct json *value = member(item(a, index), name);

	return value ? json_str(value).p : "";
}

static size_t listed(void)
{
	return json_size(member(call("GET", "/v1/sandboxes?limit=1000", NULL)->doc, "data"));
}

static struct answer *create(const char *body)
{
	return call("POST", "/v1/sandboxes", body);
}

static void wait_for_pool(void)
{
	for (int i = 0; i < 500; i++) {
		const struct answer *a = call("GET", "/v1/options", NULL);

		if (json_int(member(member(a->doc, "pool"), "ready")) >= 2)
			return;
		world_turns(10);
	}
	fail_msg("the pool does not fill");
}

static void test_many(void **state)
{
	struct answer *a = create("{\"count\":30,\"name\":\"b\",\"memory_mb\":64,"
				  "\"metadata\":{\"a\":\"b\"},\"external_workspace_id\":\"w\"}");

	(void)state;
	expect_status(a, 201);
	assert_int_equal(json_size(member(a->doc, "data")), 30);
	for (size_t i = 0; i < 30; i++) {
		assert_string_equal(item_text(a, i, "name"), path_of("b-%zu", i + 1));
		assert_string_equal(item_text(a, i, "state"), "running");
		assert_string_equal(item_text(a, i, "external_workspace_id"), "w");
		assert_int_equal(json_int(member(item(a, i), "memory_mb")), 64);
	}
	assert_int_equal(listed(), 30);
	assert_int_equal(fake_live(world.engine), 30);
	/* They are permanent. */
	world_restart();
	assert_int_equal(listed(), 30);
	expect_status(call("GET", "/v1/sandboxes/b-30", NULL), 200);
	/* A count of one also returns a list, and keeps its name. */
	a = create("{\"count\":1,\"name\":\"one\"}");
	expect_status(a, 201);
	assert_string_equal(item_text(a, 0, "name"), "one");
}

static void test_bounds(void **state)
{
	(void)state;
	expect_status(create("{\"count\":0}"), 400);
	expect_status(create("{\"count\":101}"), 400);
	expect_status(create("{\"count\":\"2\"}"), 400);
	expect_status(create("{\"count\":2,\"template\":\"none\"}"), 404);
	expect_status(create("{\"count\":100}"), 201);
	assert_int_equal(listed(), 100);
}

static void test_failures(void **state)
{
	struct answer *a;

	(void)state;
	(void)make("{\"name\":\"b-2\"}");
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	a = create("{\"count\":3,\"name\":\"b\"}");
	expect_status(a, 201);
	assert_string_equal(json_str(member(member(item(a, 0), "error"), "code")).p, "boot_failed");
	assert_string_equal(json_str(member(member(item(a, 1), "error"), "code")).p, "conflict");
	assert_string_equal(item_text(a, 2, "name"), "b-3");
	assert_int_equal(listed(), 2);
	/* If all fail, the call fails. */
	(void)make("{\"name\":\"b-1\"}");
	a = create("{\"count\":3,\"name\":\"b\"}");
	expect_status(a, 409);
	assert_int_equal(listed(), 3);
}

static void test_from_pool(void **state)
{
	struct answer *a;

	(void)state;
	wait_for_pool();
	a = create("{\"count\":4}");
	expect_status(a, 201);
	assert_string_equal(item_text(a, 0, "boot_path"), "pool");
	assert_string_equal(item_text(a, 3, "boot_path"), "cold");
	world_restart();
	assert_int_equal(listed(), 4);
}

static void test_from_snapshot(void **state)
{
	const char *id = make("{\"memory_mb\":77}");
	struct answer *a = call("POST", path_of("/v1/sandboxes/%s/snapshots", id), "{}");
	char snapshot[64];

	(void)state;
	(void)snprintf(snapshot, sizeof(snapshot), "%s", text_of(a, "id"));
	a = create(path_of("{\"count\":12,\"snapshot_id\":\"%s\"}", snapshot));
	expect_status(a, 201);
	assert_int_equal(json_int(member(item(a, 11), "memory_mb")), 77);
	assert_string_equal(item_text(a, 11, "boot_path"), "snapshot");
}

static void test_once(void **state)
{
	struct request reqs[4];
	struct answer answers[4];

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		request_send(&reqs[i], world.admin, "POST", "/v1/sandboxes",
			     "Idempotency-Key: k\r\n", "{\"count\":5}");
		if (i == 2)
			world_turns(20);
	}
	for (size_t i = 0; i < 4; i++) {
		request_wait(&reqs[i], &answers[i]);
		expect_status(&answers[i], 201);
		assert_string_equal(answers[i].body, answers[0].body);
	}
	assert_int_equal(listed(), 5);
	world_restart();
	request_send(&reqs[0], world.admin, "POST", "/v1/sandboxes", "Idempotency-Key: k\r\n",
		     "{\"count\":5}");
	answer_free(&answers[1]);
	request_wait(&reqs[0], &answers[1]);
	assert_string_equal(answers[1].body, answers[0].body);
	request_send(&reqs[0], world.admin, "POST", "/v1/sandboxes", "Idempotency-Key: k\r\n",
		     "{\"count\":6}");
	answer_free(&answers[1]);
	request_wait(&reqs[0], &answers[1]);
	expect_status(&answers[1], 409);
	assert_int_equal(listed(), 5);
	for (size_t i = 0; i < 4; i++)
		answer_free(&answers[i]);
}

/* The client received no reply: none is left, and the same call creates them again. */
static void end_in_the_middle(void)
{
	struct request req;
	struct answer answer;

	fake_hold(world.engine, FAKE_CREATE);
	request_send(&req, world.admin, "POST", "/v1/sandboxes", "Idempotency-Key: k\r\n",
		     "{\"count\":20}");
	for (int i = 0; i < 500 && !fake_waiting(world.engine, FAKE_CREATE); i++)
		world_turns(2);
	assert_true(fake_waiting(world.engine, FAKE_CREATE) > 0);
	world_stop();
	request_drop(&req);
	fake_release(world.engine, FAKE_CREATE);
	world_turns(10);
	world_start();
	for (int i = 0; i < 500 && listed(); i++)
		world_turns(10);
	assert_int_equal(listed(), 0);
	request_send(&req, world.admin, "POST", "/v1/sandboxes", "Idempotency-Key: k\r\n",
		     "{\"count\":20}");
	request_wait(&req, &answer);
	expect_status(&answer, 201);
	answer_free(&answer);
	assert_int_equal(listed(), 20);
}

static void test_restart(void **state)
{
	(void)state;
	end_in_the_middle();
}

/* Some of them come from the pool and were handed out before the end. */
static void test_restart_with_pool(void **state)
{
	(void)state;
	wait_for_pool();
	end_in_the_middle();
}

/* If no child was created, the call fails and may be repeated. */
static void test_fork_of_none(void **state)
{
	const char *source = make("{}");
	struct request req;
	struct answer a;

	(void)state;
	for (int i = 0; i < 2; i++) {
		if (i == 0)
			fake_fail_next(world.engine, FAKE_CREATE, ERR_UNAVAILABLE);
		request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/fork", source),
			     "Idempotency-Key: fork-none\r\n", "{\"count\":1}");
		request_wait(&req, &a);
		expect_status(&a, i == 0 ? 503 : 201);
		answer_free(&a);
	}
}

int main(void)
{
#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_many, world_setup),
		TEST(test_bounds, world_setup),
		TEST(test_failures, world_setup),
		TEST(test_fork_of_none, world_setup),
		TEST(test_from_pool, world_setup_pool),
		TEST(test_from_snapshot, world_setup),
		TEST(test_once, world_setup),
		TEST(test_restart, world_setup),
		TEST(test_restart_with_pool, world_setup_pool),
	};

	return cmocka_run_group_tests_name("batch", tests, NULL, NULL);
}
