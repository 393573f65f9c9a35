/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and restoring: results, limits, failures, and restarts in the middle. */
#include <string.h>

#include "copies.h"

/* ---- snapshots ---- */

static void test_life(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{\"memory_mb\":512,\"env\":{\"K\":\"v\"}}");
	a = post("/snapshots", "{\"comment\":\"before\"}");
	expect_status(a, 201);
	assert_string_equal(text_of(a, "sandbox_id"), sandbox);
	assert_string_equal(text_of(a, "kind"), "filesystem");
	assert_string_equal(text_of(a, "comment"), "before");
	assert_non_null(strstr(a->body, "\"memory_preserved\":false"));
	assert_int_equal(int_of(a, "size_bytes"), 1 << 20);
	(void)snprintf(snapshot, sizeof(snapshot), "%s", text_of(a, "id"));
	expect_works();
	destroy();
	/* It outlives its sandbox and the daemon. */
	world_restart();
	a = call("GET", path_of("/v1/snapshots/%s", snapshot), NULL);
	expect_status(a, 200);
	assert_string_equal(text_of(a, "comment"), "before");
	assert_string_equal(text_of(a, "state"), "ready");
	assert_int_equal(listed(path_of("/v1/snapshots?sandbox_id=%s", sandbox)), 1);
	a = call("POST", "/v1/sandboxes", path_of("{\"snapshot_id\":\"%s\"}", snapshot));
	expect_status(a, 201);
	(void)snprintf(sandbox, sizeof(sandbox), "%s", text_of(a, "id"));
	assert_string_equal(text_of(a, "boot_path"), "snapshot");
	assert_int_equal(int_of(a, "memory_mb"), 512);
	assert_string_equal(fake_origin(world.engine, sandbox), snapshot);
	assert_non_null(strstr(get("/env")->body, "\"K\":\"v\""));
	expect_works();
	expect_status(take_away(snapshot), 204);
	expect_status(take_away(snapshot), 404);
	expect_status(call("POST", "/v1/sandboxes", path_of("{\"snapshot_id\":\"%s\"}", snapshot)),
		      404);
	world_until(fake_snapshots(world.engine) == 0);
	expect_works();
}

static void test_bodies(void **state)
{
	(void)state;
	new_sandbox("{}");
	expect_status(post("/snapshots", NULL), 201);
	expect_status(post("/snapshots", "{\"comment\":7}"), 400);
	expect_status(post("/snapshots", "{\"keep_last\":-1}"), 400);
	expect_status(post("/snapshots", "{\"keep_last\":1001}"), 400);
	expect_status(post("/snapshots", "{\"kind\":\"x\"}"), 400);
	expect_status(restore("none"), 404);
	expect_status(post("/restore", "{}"), 400);
	expect_status(post("/fork", "{\"count\":0}"), 400);
	expect_status(post("/fork", "{\"count\":101}"), 400);
	expect_status(post("/fork", "{\"name\":\"Not this\"}"), 400);
	expect_status(call("GET", "/v1/snapshots?limit=0", NULL), 400);
	expect_status(call("GET", "/v1/snapshots/none", NULL), 404);
	take("{}");
	expect_status(call("POST", "/v1/sandboxes",
			   path_of("{\"snapshot_id\":\"%s\",\"template\":\"other\"}", snapshot)),
		      400);
	expect_status(call("POST", "/v1/sandboxes",
			   path_of("{\"snapshot_id\":\"%s\",\"engine\":\"native\"}", snapshot)),
		      400);
}

static void test_pages_and_owners(void **state)
{
	const char *key = make_key("[\"sandboxes:read\",\"sandboxes:write\"]");
	const struct answer *a;

	(void)state;
	new_sandbox("{}");
	for (int i = 0; i < 5; i++)
		take("{}");
	a = call("GET", "/v1/snapshots?limit=2", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 2);
	a = call("GET", path_of("/v1/snapshots?limit=3&cursor=%s", text_of(a, "next_cursor")),
		 NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 3);
	assert_non_null(strstr(a->body, "\"next_cursor\":null"));
	assert_int_equal(listed(path_of("/v1/sandboxes/%s/snapshots", sandbox)), 5);
	/* Those of other owners are as absent. */
	a = call_as(key, "GET", "/v1/snapshots", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 0);
	expect_status(call_as(key, "GET", path_of("/v1/snapshots/%s", snapshot), NULL), 404);
	expect_status(call_as(key, "DELETE", path_of("/v1/snapshots/%s", snapshot), NULL), 404);
	expect_status(call_as(key, "POST", "/v1/sandboxes",
			      path_of("{\"snapshot_id\":\"%s\"}", snapshot)),
		      404);
}

static void test_retention(void **state)
{
	(void)state;
	new_sandbox("{}");
	for (int i = 0; i < 6; i++)
		take("{\"keep_last\":3}");
	world_until(listed("/v1/snapshots") == 3);
	world_until(fake_snapshots(world.engine) == 3);
	take("{\"expires_in_sec\":1}");
	world_until(call("GET", path_of("/v1/snapshots/%s", snapshot), NULL)->status == 404);
	world_until(fake_snapshots(world.engine) == 3);
}

static void test_quota(void **state)
{
	const char *key;
	const struct answer *a;

	(void)state;
	world_stop();
	world.config.max_snapshots_per_key = 2;
	world_start();
	key = make_key("[\"sandboxes:read\",\"sandboxes:write\"]");
	a = call_as(key, "POST", "/v1/sandboxes", "{}");
	expect_status(a, 201);
	(void)snprintf(sandbox, sizeof(sandbox), "%s", text_of(a, "id"));
	for (int i = 0; i < 3; i++) {
		a = call_as(key, "POST", path_of("/v1/sandboxes/%s/snapshots", sandbox), "{}");
		expect_status(a, i < 2 ? 201 : 429);
		if (i < 2)
			(void)snprintf(snapshot, sizeof(snapshot), "%s", text_of(a, "id"));
	}
	world_restart();
	a = call_as(key, "POST", path_of("/v1/sandboxes/%s/snapshots", sandbox), "{}");
	expect_status(a, 429);
	expect_status(call_as(key, "DELETE", path_of("/v1/snapshots/%s", snapshot), NULL), 204);
	a = call_as(key, "POST", path_of("/v1/sandboxes/%s/snapshots", sandbox), "{}");
	expect_status(a, 201);
}

static void test_failures(void **state)
{
	(void)state;
	new_sandbox("{}");
	fake_fail_next(world.engine, FAKE_SNAPSHOT, ERR_DISK_FULL);
	expect_status(post("/snapshots", "{}"), 507);
	assert_int_equal(listed("/v1/snapshots"), 0);
	expect_works();
	take("{}");
	fake_fail_next(world.engine, FAKE_SNAPSHOT_DELETE, ERR_ENGINE_FAILED);
	expect_status(take_away(snapshot), 204); /* the engine is asked again */
	assert_int_equal(listed("/v1/snapshots"), 0);
	world_restart();
	world_until(fake_snapshots(world.engine) == 0);
	/* Also of a paused sandbox; not of a hibernated one. */
	expect_status(post("/pause", "{}"), 200);
	take("{}");
	assert_true(fake_paused(world.engine, sandbox));
	assert_string_equal(text_of(look(), "state"), "paused");
	expect_status(post("/pause", "{\"kind\":\"hibernate\"}"), 200);
	expect_status(post("/snapshots", "{}"), 409);
}

/* Destroyed in the middle: the snapshot exists, the sandbox does not. */
static void test_destroyed_meanwhile(void **state)
{
	struct request req, end;
	struct answer a;

	(void)state;
	new_sandbox("{}");
	fake_hold(world.engine, FAKE_SNAPSHOT);
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/snapshots", sandbox),
		     NULL, "{}");
	world_until(fake_waiting(world.engine, FAKE_SNAPSHOT) == 1);
	expect_works(); /* commands continue */
	expect_status(post("/snapshots", "{}"), 409);
	expect_status(post("/pause", "{}"), 409);
	/* It ends when the engine is done with it. */
	request_send(&end, world.admin, "DELETE", path_of("/v1/sandboxes/%s", sandbox), NULL, NULL);
	world_turns(10);
	fake_release(world.engine, FAKE_SNAPSHOT);
	request_wait(&req, &a);
	expect_status(&a, 201);
	answer_free(&a);
	request_wait(&end, &a);
	expect_status(&a, 204);
	answer_free(&a);
	world_until(fake_live(world.engine) == 0);
	assert_int_equal(listed("/v1/snapshots"), 1);
}

static void on_snapshot(void *arg, const struct engine_snapshot_info *made, const struct err *err)
{
	(void)arg;
	(void)made;
	assert_null(err);
}

static void test_restarts(void **state)
{
	struct request req;
	struct err err;

	(void)state;
	new_sandbox("{}");
	take("{}");
	fake_hold(world.engine, FAKE_SNAPSHOT);
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/snapshots", sandbox),
		     NULL, "{}");
	world_until(fake_waiting(world.engine, FAKE_SNAPSHOT) == 1);
	world_stop();
	request_drop(&req);
	fake_release(world.engine, FAKE_SNAPSHOT); /* created after all, but not reported */
	assert_int_equal(engine_fake.snapshot->take(world.engine, sandbox, "stranger", false,
						    on_snapshot, NULL, &err),
			 0);
	world_until(fake_snapshots(world.engine) == 3);
	world_start();
	world_until(fake_snapshots(world.engine) == 1);
	assert_int_equal(listed("/v1/snapshots"), 1);
	expect_works();
	/* A snapshot that the engine lost is reported as missing and can only be deleted. */
	world_stop();
	fake_forget_snapshots();
	world_start();
	world_until(
		strcmp(text_of(call("GET", path_of("/v1/snapshots/%s", snapshot), NULL), "state"),
		       "missing") == 0);
	expect_status(restore(snapshot), 409);
	expect_works();
	expect_status(call("POST", "/v1/sandboxes", path_of("{\"snapshot_id\":\"%s\"}", snapshot)),
		      409);
	expect_status(take_away(snapshot), 204);
}

/* ---- restore ---- */

static void test_restore(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{\"name\":\"r\"}");
	take("{}");
	a = restore(snapshot);
	expect_status(a, 200);
	assert_string_equal(text_of(a, "id"), sandbox);
	assert_string_equal(text_of(a, "state"), "running");
	assert_string_equal(fake_origin(world.engine, sandbox), snapshot);
	expect_works();
	expect_status(post("/pause", "{}"), 200);
	expect_status(restore(snapshot), 200);
	expect_works();
	expect_status(post("/pause", "{\"kind\":\"hibernate\"}"), 200);
	expect_status(restore(snapshot), 200);
	expect_works();
	world_until(fake_snapshots(world.engine) == 1); /* the hibernated files went */
	/* It fails: the snapshot is left, for another attempt. */
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	expect_status(restore(snapshot), 500);
	assert_string_equal(text_of(look(), "pause_kind"), "hibernate");
	expect_status(take_away(snapshot), 204); /* its bytes stay as long as they are needed */
	world_until(fake_snapshots(world.engine) == 1);
	expect_status(post("/resume", "{}"), 200);
	expect_works();
	world_until(fake_snapshots(world.engine) == 0);
}

static void test_restart_while_restoring(void **state)
{
	static const enum fake_op steps[] = { FAKE_DESTROY, FAKE_CREATE };

	(void)state;
	new_sandbox("{}");
	take("{}");
	for (size_t i = 0; i < 2 * ARRAY_LEN(steps); i++) {
		struct request req;

		fake_hold(world.engine, steps[i / 2]);
		request_send(&req, world.admin, "POST",
			     path_of("/v1/sandboxes/%s/restore", sandbox), NULL,
			     path_of("{\"snapshot_id\":\"%s\"}", snapshot));
		world_until(fake_waiting(world.engine, steps[i / 2]) == 1);
		world_stop();
		request_drop(&req);
		if (i % 2)
			fake_fail_next(world.engine, steps[i / 2], ERR_ENGINE_FAILED);
		fake_release(world.engine, steps[i / 2]);
		world_turns(10);
		world_start();
		world_until(strcmp(text_of(look(), "state"), "running") == 0); /* it continues */
		assert_string_equal(fake_origin(world.engine, sandbox), snapshot);
		assert_int_equal(fake_live(world.engine), 1);
		expect_works();
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_life),
		TEST(test_bodies),
		TEST(test_pages_and_owners),
		TEST(test_retention),
		TEST(test_quota),
		TEST(test_failures),
		TEST(test_destroyed_meanwhile),
		TEST(test_restarts),
		TEST(test_restore),
		TEST(test_restart_while_restoring),
	};

	return cmocka_run_group_tests_name("snapshots", tests, NULL, NULL);
}
