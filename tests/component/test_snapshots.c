/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, restoring, forking: results, limits, and restarts in the middle. */
#include <string.h>
#include <time.h>
#include "inside.h"

static char snapshot[64];

static void take(const char *body)
{
	struct answer *a = post("/snapshots", body);

	expect_status(a, 201);
	(void)snprintf(snapshot, sizeof(snapshot), "%s", text_of(a, "id"));
}

static size_t listed(const char *path)
{
	return json_size(member(call("GET", path, NULL)->doc, "data"));
}

static struct answer *look(void)
{
	return call("GET", path_of("/v1/sandboxes/%s", sandbox), NULL);
}

static void destroy(void)
{
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", sandbox), NULL), 204);
	world_turns(20);
}

static struct answer *restore(const char *id)
{
	return post("/restore", path_of("{\"snapshot_id\":\"%s\"}", id));
}

static struct answer *take_away(const char *id)
{
	return call("DELETE", path_of("/v1/snapshots/%s", id), NULL);
}

static void expect_works(void)
{
	expect_status(post("/exec", "{\"command\":\"echo on\"}"), 200);
}

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
	world_turns(20);
	assert_int_equal(fake_snapshots(world.engine), 0);
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
	world_turns(20);
	assert_int_equal(listed("/v1/snapshots"), 3);
	assert_int_equal(fake_snapshots(world.engine), 3);
	take("{\"expires_in_sec\":1}");
	world_turns(2200);
	expect_status(call("GET", path_of("/v1/snapshots/%s", snapshot), NULL), 404);
	assert_int_equal(fake_snapshots(world.engine), 3);
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
	world_turns(20);
	assert_int_equal(fake_snapshots(world.engine), 0);
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
	world_turns(10);
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
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 0);
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
	world_turns(20);
	world_stop();
	request_drop(&req);
	fake_release(world.engine, FAKE_SNAPSHOT); /* created after all, but not reported */
	assert_int_equal(engine_fake.snapshot->take(world.engine, sandbox, "stranger", false,
						    on_snapshot, NULL, &err),
			 0);
	world_turns(10);
	assert_int_equal(fake_snapshots(world.engine), 3);
	world_start();
	world_turns(50);
	assert_int_equal(fake_snapshots(world.engine), 1);
	assert_int_equal(listed("/v1/snapshots"), 1);
	expect_works();
	/* A snapshot that the engine lost is reported as missing and can only be deleted. */
	world_stop();
	fake_forget_snapshots();
	world_start();
	world_turns(20);
	assert_string_equal(
		text_of(call("GET", path_of("/v1/snapshots/%s", snapshot), NULL), "state"),
		"missing");
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
	world_turns(20);
	assert_int_equal(fake_snapshots(world.engine), 1); /* the hibernated files went */
	/* It fails: the snapshot is left, for another attempt. */
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	expect_status(restore(snapshot), 500);
	assert_string_equal(text_of(look(), "pause_kind"), "hibernate");
	expect_status(take_away(snapshot), 204); /* its bytes stay as long as they are needed */
	world_turns(20);
	assert_int_equal(fake_snapshots(world.engine), 1);
	expect_status(post("/resume", "{}"), 200);
	expect_works();
	world_turns(20);
	assert_int_equal(fake_snapshots(world.engine), 0);
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
		world_turns(20);
		assert_int_equal(fake_waiting(world.engine, steps[i / 2]), 1);
		world_stop();
		request_drop(&req);
		if (i % 2)
			fake_fail_next(world.engine, steps[i / 2], ERR_ENGINE_FAILED);
		fake_release(world.engine, steps[i / 2]);
		world_turns(10);
		world_start();
		world_turns(50);
		assert_string_equal(text_of(look(), "state"), "running"); /* it continues */
		assert_string_equal(fake_origin(world.engine, sandbox), snapshot);
		assert_int_equal(fake_live(world.engine), 1);
		expect_works();
	}
}

/* ---- fork ---- */

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
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 21);
	assert_int_equal(fake_snapshots(world.engine), 0);
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
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 4);
	assert_int_equal(fake_snapshots(world.engine), 1); /* the source's own */
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
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 3);
	assert_int_equal(fake_snapshots(world.engine), 0);
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
	world_turns(20);
	assert_int_equal(fake_waiting(world.engine, FAKE_CREATE), 8);
	world_stop();
	request_drop(&req);
	fake_release(world.engine, FAKE_CREATE);
	world_turns(10);
	world_start();
	world_turns(100);
	assert_int_equal(fake_live(world.engine), 1);
	assert_int_equal(fake_snapshots(world.engine), 0);
	expect_works();
}

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

/* ---- everything at once against a model ---- */

#define ACTORS 2
#define STEPS 3000

static void check_model(void)
{
	struct answer *a = look();

	if (a->status == 404)
		return;
	expect_status(a, 200);
	if (strcmp(text_of(a, "state"), "running") == 0)
		assert_string_equal(text_of(a, "pause_kind"), "");
	else if (strcmp(text_of(a, "state"), "paused") == 0)
		assert_true(text_of(a, "pause_kind")[0] != '\0');
	else
		fail_msg("state outside of the table: %s", a->body);
}

/* Two clients, any order of calls, engines that sometimes fail: every reply is a documented one,
 * none is missing, and in the end nothing is left. */
static void test_model(void **state)
{
	static const struct {
		const char *path, *body;
		int weight;
	} acts[] = {
		{ "pause", "{}", 6 },
		{ "pause", "{\"kind\":\"hibernate\"}", 4 },
		{ "resume", "{}", 8 },
		{ "snapshots", "{\"keep_last\":2}", 3 },
		{ "fork", "{\"count\":2,\"timeout_sec\":1}", 1 },
		{ "exec", "{\"command\":\"true\"}", 6 },
	};
	struct request reqs[ACTORS];
	unsigned seed = (unsigned)time(NULL), total = 0;

	(void)state;
	print_message("seed %u\n", seed);
	for (size_t i = 0; i < ARRAY_LEN(acts); i++)
		total += (unsigned)acts[i].weight;
	new_sandbox("{\"auto_resume\":true}");
	for (int step = 0; step < STEPS; step++) {
		for (size_t k = 0; k < ACTORS; k++) {
			int pick = (int)((unsigned)rand_r(&seed) % total);
			size_t act = 0;

			while ((pick -= acts[act].weight) >= 0)
				act++;
			if (rand_r(&seed) % 40 == 0)
				fake_fail_next(world.engine,
					       (enum fake_op)(rand_r(&seed) % FAKE_OP_COUNT),
					       ERR_ENGINE_FAILED);
			request_send(&reqs[k], world.admin, "POST",
				     path_of("/v1/sandboxes/%s/%s", sandbox, acts[act].path), NULL,
				     acts[act].body);
			for (int turns = rand_r(&seed) % 6; turns > 0; turns--)
				loop_turn(world.loop, 0);
		}
		if (rand_r(&seed) % 50 == 0) { /* 503: the engine failed, and ends it later */
			int r = call("DELETE", path_of("/v1/sandboxes/%s", sandbox), NULL)->status;

			assert_true(r == 204 || r == 503);
		}
		for (size_t k = 0; k < ACTORS; k++) {
			struct answer a;

			request_wait(&reqs[k], &a);
			if (!strchr("2", '0' + a.status / 100) && a.status != 409 &&
			    a.status != 404 && a.status != 410 && a.status != 500 &&
			    a.status != 503)
				fail_msg("step %d: %d %s", step, a.status, a.body);
			answer_free(&a);
		}
		if (look()->status == 404 || strcmp(text_of(look(), "state"), "error") == 0) {
			fake_fail_next(world.engine, FAKE_CREATE, ERR_OK);
			new_sandbox("{\"auto_resume\":true}");
		}
		check_model();
	}
	for (int i = 0; i < FAKE_OP_COUNT; i++)
		fake_fail_next(world.engine, (enum fake_op)i, ERR_OK);
	world_turns(1500); /* the timeout of the children expires */
	destroy();
	world_restart();
	world_turns(100);
	assert_int_equal(fake_live(world.engine), 0);
	assert_int_equal(fake_snapshots(world.engine), listed("/v1/snapshots?limit=1000"));
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
		TEST(test_fork),
		TEST(test_fork_of_paused),
		TEST(test_fork_failures),
		TEST(test_restart_while_forking),
		TEST(test_once),
		TEST(test_model),
	};

	return cmocka_run_group_tests_name("snapshots", tests, NULL, NULL);
}
