/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in snapshots, restores and forks: requests, replies, refusals. */
#include <string.h>

#include "inside.h"

static char snapshot[64];

static struct answer *take(const char *body)
{
	struct answer *a = post("/snapshots", body);

	expect_status(a, 201);
	(void)snprintf(snapshot, sizeof(snapshot), "%s", text_of(a, "id"));
	return a;
}

static struct answer *restore(const char *more)
{
	return post("/restore", path_of("{\"snapshot_id\":\"%s\"%s}", snapshot, more));
}

static struct answer *create(const char *more)
{
	return call("POST", "/v1/sandboxes", path_of("{\"snapshot_id\":\"%s\"%s}", snapshot, more));
}

static void expect_kept(const struct answer *a, bool kept, const char *why)
{
	assert_string_equal(text_of(a, "kind"), kept ? "full" : "filesystem");
	assert_non_null(
		strstr(a->body, kept ? "\"memory_preserved\":true" : "\"memory_preserved\":false"));
	if (why)
		assert_non_null(strstr(text_of(a, "memory_error"), why));
	else
		assert_non_null(strstr(a->body, "\"memory_error\":null"));
}

static void expect_works(void)
{
	expect_status(post("/exec", "{\"command\":\"echo on\"}"), 200);
}

static int setup(void **state)
{
	int r = world_setup(state);

	fake_set_memory(world.engine, true, NULL);
	return r;
}

static void test_taken(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	expect_kept(take("{}"), false, NULL);
	expect_kept(take("{\"memory\":false}"), false, NULL);
	a = take("{\"memory\":true}");
	expect_kept(a, true, NULL);
	assert_int_equal(int_of(a, "size_bytes"), 2 << 20);
	expect_works(); /* its link was closed, and is restored */
	expect_status(post("/snapshots", "{\"memory\":1}"), 400);
	expect_status(post("/snapshots", "{\"memory\":\"yes\"}"), 400);
	expect_status(restore(",\"memory\":7"), 400);
	expect_status(post("/fork", "{\"memory\":\"yes\"}"), 400);
	world_restart();
	a = call("GET", path_of("/v1/snapshots/%s", snapshot), NULL);
	expect_kept(a, true, NULL);
	assert_int_equal(int_of(a, "size_bytes"), 2 << 20);
}

/* Its link is interrupted meanwhile, which the waiting caller does not notice. */
static void test_exec_continues(void **state)
{
	struct request reqs[2], snap;
	struct answer answers[2], taken;

	(void)state;
	new_sandbox("{}");
	fake_hold(world.engine, FAKE_SNAPSHOT);
	for (size_t i = 0; i < 2; i++)
		request_send(&reqs[i], world.admin, "POST",
			     path_of("/v1/sandboxes/%s/exec", sandbox), NULL,
			     i ? "{\"argv\":[\"drip\",\"3\",\"100\"]}"
			       : "{\"argv\":[\"drip\",\"3\",\"100\"],\"max_output_bytes\":3}");
	world_turns(20);
	request_send(&snap, world.admin, "POST", path_of("/v1/sandboxes/%s/snapshots", sandbox),
		     NULL, "{\"memory\":true}");
	world_turns(20);
	fake_release(world.engine, FAKE_SNAPSHOT);
	request_wait(&snap, &taken);
	expect_status(&taken, 201);
	for (size_t i = 0; i < 2; i++) {
		request_wait(&reqs[i], &answers[i]);
		expect_status(&answers[i], 200);
		assert_int_equal(int_of(&answers[i], "exit_code"), 0);
	}
	assert_non_null(strstr(answers[0].body, "\"stdout_truncated\":true"));
	assert_non_null(strstr(answers[1].body, "\"stdout\":\"3\\n2\\n1\\n\""));
	answer_free(&taken);
	answer_free(&answers[0]);
	answer_free(&answers[1]);
	/* A client that disconnects meanwhile, and a daemon that ends. */
	for (int turn = 0; turn < 3; turn++) {
		fake_hold(world.engine, FAKE_SNAPSHOT);
		request_send(&reqs[0], world.admin, "POST",
			     path_of("/v1/sandboxes/%s/exec", sandbox), NULL,
			     "{\"argv\":[\"sleep\",\"300\"]}");
		world_turns(10);
		request_send(&snap, world.admin, "POST",
			     path_of("/v1/sandboxes/%s/snapshots", sandbox), NULL,
			     "{\"memory\":true}");
		world_turns(10);
		if (turn == 0)
			request_drop(&reqs[0]);
		fake_release(world.engine, FAKE_SNAPSHOT);
		if (turn == 1)
			world_turns(30);
		if (turn < 2) {
			request_drop(&snap);
			world_turns(20);
		}
		if (turn == 1)
			request_drop(&reqs[0]);
	}
	world_stop();
	request_drop(&snap);
	request_drop(&reqs[0]);
	world_start();
	world_turns(50);
	expect_works();
}

static void test_reasons_for_missing_memory(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	fake_set_memory(world.engine, true, "it has io_uring");
	expect_kept(take("{\"memory\":true}"), false, "it has io_uring");
	expect_works();
	a = call("GET", path_of("/v1/sandboxes/%s", sandbox), NULL);
	assert_non_null(strstr(a->body, "\"last_error\":null"));
	/* Kept with it. */
	world_restart();
	a = call("GET", path_of("/v1/snapshots/%s", snapshot), NULL);
	expect_kept(a, false, "it has io_uring");
	fake_set_memory(world.engine, false, NULL);
	expect_kept(take("{\"memory\":true}"), false, "cannot keep memory");
	expect_status(create(""), 201);
	expect_status(restore(""), 200);
	assert_false(fake_woken(world.engine, sandbox));
}

/* The engine does not know yet whether it can save memory: it is asked, and not assumed to be
 * unable. */
static void test_undecided(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	fake_add_flags(world.engine, ENGINE_CHECKS_MEMORY);
	fake_set_memory(world.engine, false, NULL);
	expect_kept(take("{\"memory\":true}"), true, NULL);
	expect_status(post("/fork", "{\"memory\":true}"), 201);
	a = post("/pause", "{\"kind\":\"hibernate\"}");
	expect_status(a, 200);
	assert_non_null(strstr(a->body, "\"memory_preserved\":true"));
	expect_status(post("/resume", "{}"), 200);
	assert_true(fake_woken(world.engine, sandbox));
	/* Decided: it cannot. */
	fake_set_memory(world.engine, false, "CRIU does not work on this host");
	expect_kept(take("{\"memory\":true}"), false, "CRIU does not work");
}

static void test_made_from(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	(void)take("{\"memory\":true}");
	a = create("");
	expect_status(a, 201);
	assert_string_equal(text_of(a, "boot_path"), "snapshot");
	assert_true(fake_woken(world.engine, text_of(a, "id")));
	a = create(",\"memory\":false");
	expect_status(a, 201);
	assert_false(fake_woken(world.engine, text_of(a, "id")));
	a = create(",\"count\":2");
	expect_status(a, 201);
	expect_status(restore(""), 200);
	assert_true(fake_woken(world.engine, sandbox));
	expect_works();
	expect_status(restore(",\"memory\":false"), 200);
	assert_false(fake_woken(world.engine, sandbox));
	expect_works();
}

/* At the limit of its processes, above and below. */
static void test_memory_limit_of_copies(void **state)
{
	(void)state;
	new_sandbox("{\"memory_mb\":512}");
	(void)take("{\"memory\":true}");
	expect_status(create(",\"memory_mb\":512"), 201);
	expect_status(create(",\"memory_mb\":513"), 201);
	expect_status(create(",\"memory_mb\":511"), 400);
	expect_status(create(",\"memory_mb\":511,\"memory\":false"), 201);
	new_sandbox("{\"memory_mb\":511}");
	expect_status(restore(""), 400);
	expect_works();
	expect_status(restore(",\"memory\":false"), 200);
	expect_works();
}

/* Left paused with the content of the snapshot; without its memory it starts. */
static void test_restore_fails(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	(void)take("{\"memory\":true}");
	fake_fail_next(world.engine, FAKE_CREATE, ERR_SNAPSHOT_REFUSED);
	expect_status(restore(""), 409);
	a = call("GET", path_of("/v1/sandboxes/%s", sandbox), NULL);
	assert_string_equal(text_of(a, "state"), "paused");
	assert_non_null(strstr(a->body, "\"memory_preserved\":true"));
	expect_status(post("/resume", "{\"memory\":false}"), 200);
	assert_false(fake_woken(world.engine, sandbox));
	expect_works();
}

static unsigned woken_of(const struct answer *a, size_t count)
{
	const struct json *data = member(a->doc, "data");
	unsigned woken = 0;

	assert_int_equal(json_size(data), count);
	for (size_t i = 0; i < count; i++)
		woken += fake_woken(world.engine, json_str(member(json_at(data, i), "id")).p);
	return woken;
}

static void test_forked(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	a = post("/fork", "{\"count\":3}");
	expect_status(a, 201);
	assert_int_equal(woken_of(a, 3), 0);
	for (size_t count = 1; count <= 3; count += 2) {
		a = post("/fork", path_of("{\"count\":%d,\"memory\":true}", (int)count));
		expect_status(a, 201);
		assert_int_equal(woken_of(a, count), count);
	}
	expect_works();
	expect_status(post("/pause", "{}"), 200);
	a = post("/fork", "{\"count\":2,\"memory\":true}");
	expect_status(a, 201);
	assert_int_equal(woken_of(a, 2), 2);
	assert_true(fake_paused(world.engine, sandbox));
	expect_status(post("/resume", "{}"), 200);
	expect_works();
	/* They are created from the files with which it was hibernated. */
	expect_status(post("/pause", "{\"kind\":\"hibernate\"}"), 200);
	a = post("/fork", "{\"count\":2,\"memory\":true}");
	expect_status(a, 201);
	assert_int_equal(woken_of(a, 2), 2);
	a = post("/fork", "{\"count\":2}");
	expect_status(a, 201);
	assert_int_equal(woken_of(a, 2), 0);
	expect_status(post("/resume", "{}"), 200);
	world_turns(20);
	assert_int_equal(fake_snapshots(world.engine), 0); /* they are gone with their last use */
}

static void test_fork_refused(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	fake_set_memory(world.engine, false, NULL);
	a = post("/fork", "{\"memory\":true}");
	expect_status(a, 422);
	assert_non_null(strstr(a->body, "unsupported_by_engine"));
	expect_status(post("/fork", "{}"), 201);
	fake_set_memory(world.engine, true, "it has io_uring");
	a = post("/fork", "{\"memory\":true}");
	expect_status(a, 422);
	assert_non_null(strstr(a->body, "it has io_uring"));
	world_turns(20);
	assert_int_equal(fake_snapshots(world.engine), 0);
	assert_int_equal(fake_live(world.engine), 2);
	expect_works();
	/* Hibernated without it. */
	expect_status(post("/pause", "{\"kind\":\"hibernate\"}"), 200);
	expect_status(post("/fork", "{\"memory\":true}"), 422);
	expect_status(post("/fork", "{}"), 201);
}

/* Their values would be in the copy. */
static void test_secrets(void **state)
{
	(void)state;
	expect_status(
		call("POST", "/v1/secrets",
		     "{\"name\":\"TOKEN\",\"value\":\"value-of-it\",\"hosts\":[\"a.example\"]}"),
		201);
	new_sandbox("{\"secrets\":[\"TOKEN\"]}");
	expect_kept(take("{\"memory\":true}"), false, "TOKEN");
	expect_status(post("/fork", "{\"memory\":true}"), 409);
	expect_status(post("/fork", "{}"), 201);
}

static void test_quota(void **state)
{
	const char *key = make_key("[\"sandboxes:read\",\"sandboxes:write\"],\"max_snapshots\":2");
	struct answer *a;

	(void)state;
	a = call_as(key, "POST", "/v1/sandboxes", "{}");
	expect_status(a, 201);
	(void)snprintf(sandbox, sizeof(sandbox), "%s", text_of(a, "id"));
	for (int i = 0; i < 3; i++)
		expect_status(call_as(key, "POST", path_of("/v1/sandboxes/%s/snapshots", sandbox),
				      "{\"memory\":true}"),
			      i < 2 ? 201 : 429);
	/* A fork's snapshot is not visible. */
	expect_status(call_as(key, "POST", path_of("/v1/sandboxes/%s/fork", sandbox),
			      "{\"memory\":true}"),
		      201);
}

static void test_retention(void **state)
{
	(void)state;
	new_sandbox("{}");
	for (int i = 0; i < 3; i++) {
		(void)take("{\"memory\":true,\"keep_last\":2}");
		expect_works(); /* connected again */
	}
	world_turns(20);
	assert_int_equal(fake_snapshots(world.engine), 2);
}

/* The source continues and nothing is left behind, whatever fails. */
static void test_failures(void **state)
{
	static const char *const calls[] = { "/snapshots", "/fork" };

	(void)state;
	new_sandbox("{}");
	for (size_t i = 0; i < 2; i++) {
		fake_fail_next(world.engine, FAKE_SNAPSHOT, ERR_DISK_FULL);
		expect_status(post(calls[i], "{\"memory\":true}"), 507);
		expect_works();
		world_turns(20);
		assert_int_equal(fake_snapshots(world.engine), 0);
	}
	fake_fail_next(world.engine, FAKE_CREATE, ERR_SNAPSHOT_REFUSED);
	assert_non_null(
		strstr(post("/fork", "{\"memory\":true,\"count\":2}")->body, "snapshot_refused"));
	expect_works();
}

static void test_restarts(void **state)
{
	static const char *const calls[] = { "snapshots", "fork" };
	struct request req;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		new_sandbox("{}");
		fake_hold(world.engine, FAKE_SNAPSHOT);
		request_send(&req, world.admin, "POST",
			     path_of("/v1/sandboxes/%s/%s", sandbox, calls[i]), NULL,
			     "{\"memory\":true}");
		for (int n = 0; n < 500 && !fake_waiting(world.engine, FAKE_SNAPSHOT); n++)
			world_turns(1);
		assert_int_equal(fake_waiting(world.engine, FAKE_SNAPSHOT), 1);
		world_stop();
		request_drop(&req);
		fake_release(world.engine, FAKE_SNAPSHOT);
		world_turns(10);
		world_start();
		world_turns(100);
		assert_int_equal(fake_snapshots(world.engine), 0);
		expect_works();
		(void)take("{\"memory\":true}");
		expect_status(call("DELETE", path_of("/v1/sandboxes/%s", sandbox), NULL), 204);
		expect_status(call("DELETE", path_of("/v1/snapshots/%s", snapshot), NULL), 204);
		world_turns(20);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_taken),
		TEST(test_exec_continues),
		TEST(test_reasons_for_missing_memory),
		TEST(test_made_from),
		TEST(test_memory_limit_of_copies),
		TEST(test_restore_fails),
		TEST(test_forked),
		TEST(test_fork_refused),
		TEST(test_secrets),
		TEST(test_quota),
		TEST(test_retention),
		TEST(test_failures),
		TEST(test_restarts),
		TEST(test_undecided),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
