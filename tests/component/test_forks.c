/* SPDX-License-Identifier: Apache-2.0 */
/* Forks: their children, failures, restarts in the middle, and repeated calls. */
#include <string.h>

#include "copies.h"

static void test_fork(void **state)
{
	const struct json *data;
	struct answer *a;

	(void)state;
	new_sandbox("{\"name\":\"source\",\"memory_mb\":256,\"metadata\":{\"a\":\"b\"},"
		    "\"timeout_sec\":100}");
	a = post("/fork", "{\"count\":20,\"name\":\"child\",\"timeout_sec\":50}");
	expect_status(a, 201);
	data = member(a->doc, "data");
	assert_int_equal(json_size(data), 20);
	for (size_t i = 0; i < 20; i++) {
		const struct json *child = json_at(data, i);
		char name[16];

		(void)snprintf(name, sizeof(name), "child-%zu", i + 1);
		assert_string_equal(json_str(member(child, "name")).p, name);
		assert_string_equal(json_str(member(child, "boot_path")).p, "fork");
		assert_string_equal(json_str(member(child, "state")).p, "running");
		assert_int_equal(json_int(member(child, "memory_mb")), 256);
		assert_int_equal(json_int(member(child, "timeout_sec")), 50);
	}
	assert_non_null(strstr(a->body, "\"metadata\":{\"a\":\"b\"}"));
	world_until(fake_live(world.engine) == 21);
	world_until(fake_snapshots(world.engine) == 0);
	expect_works();
	/* A name in use fails one child only; when all children fail, so does the call. */
	expect_status(call("DELETE", "/v1/sandboxes/child-2", NULL), 204);
	a = post("/fork", "{\"count\":3,\"name\":\"child\",\"metadata\":{}}");
	expect_status(a, 201);
	data = member(a->doc, "data");
	assert_string_equal(json_str(member(member(json_at(data, 0), "error"), "code")).p,
			    "conflict");
	assert_non_null(member(json_at(data, 1), "id"));
	a = post("/fork", "{\"count\":3,\"name\":\"child\",\"metadata\":{}}");
	expect_status(a, 409);
	assert_string_equal(error_code(a), "conflict");
	expect_status(post("/fork", "{\"name\":\"only\"}"), 201);
	expect_status(call("GET", "/v1/sandboxes/only", NULL), 200);
}

static void test_fork_of_paused(void **state)
{
	(void)state;
	new_sandbox("{}");
	expect_status(post("/pause", "{}"), 200);
	expect_status(post("/fork", "{\"count\":2}"), 201);
	assert_true(fake_paused(world.engine, sandbox));
	expect_status(post("/pause", "{\"kind\":\"hibernate\"}"), 200);
	expect_status(post("/fork", "{\"count\":2}"), 201);
	world_until(fake_live(world.engine) == 4);
	world_until(fake_snapshots(world.engine) == 1); /* the source's own */
	expect_status(post("/resume", "{}"), 200);
	expect_works();
}

static void test_fork_failures(void **state)
{
	const struct json *data;
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	fake_fail_next(world.engine, FAKE_SNAPSHOT, ERR_DISK_FULL);
	expect_status(post("/fork", "{\"count\":2}"), 507);
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	a = post("/fork", "{\"count\":3}");
	expect_status(a, 201);
	data = member(a->doc, "data");
	assert_int_equal(json_size(data), 3);
	assert_string_equal(json_str(member(member(json_at(data, 0), "error"), "code")).p,
			    "boot_failed");
	assert_non_null(member(json_at(data, 1), "id"));
	world_until(fake_live(world.engine) == 3);
	world_until(fake_snapshots(world.engine) == 0);
}

/* The daemon ends in the middle: no child was reported, so none is left. */
static void test_restart_while_forking(void **state)
{
	struct request req;

	(void)state;
	new_sandbox("{}");
	fake_hold(world.engine, FAKE_CREATE);
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/fork", sandbox), NULL,
		     "{\"count\":30}");
	world_until(fake_waiting(world.engine, FAKE_CREATE) == 8);
	world_stop();
	request_drop(&req);
	fake_release(world.engine, FAKE_CREATE);
	world_turns(10);
	world_start();
	world_until(fake_live(world.engine) == 1);
	world_until(fake_snapshots(world.engine) == 0);
	expect_works();
}

/* Repeated calls with an idempotency key, together and one after the other. */
static void test_once(void **state)
{
	static const char *const paths[] = { "snapshots", "fork" };

	(void)state;
	new_sandbox("{}");
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct request reqs[4];
		struct answer answers[4];

		for (size_t k = 0; k < 4; k++) {
			request_send(&reqs[k], world.admin, "POST",
				     path_of("/v1/sandboxes/%s/%s", sandbox, paths[i]),
				     path_of("Idempotency-Key: k%zu\r\n", i), "{}");
			if (k == 2) /* two together, two behind */
				world_turns(20);
		}
		for (size_t k = 0; k < 4; k++) {
			request_wait(&reqs[k], &answers[k]);
			expect_status(&answers[k], 201);
			assert_string_equal(answers[k].body, answers[0].body);
		}
		for (size_t k = 0; k < 4; k++)
			answer_free(&answers[k]);
	}
	assert_int_equal(listed("/v1/snapshots"), 1);
	assert_int_equal(fake_live(world.engine), 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_fork),	  TEST(test_fork_of_paused),
		TEST(test_fork_failures), TEST(test_restart_while_forking),
		TEST(test_once),
	};

	return cmocka_run_group_tests_name("forks", tests, NULL, NULL);
}
