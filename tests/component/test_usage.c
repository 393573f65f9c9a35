/* SPDX-License-Identifier: Apache-2.0 */
/* Usage: intervals are counted once, across restarts and unobserved ends. */
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "inside.h"
#include "store/store.h"

static double real_of(const char *text, const char *name)
{
	const char *at = strstr(text, path_of("\"%s\":", name));

	assert_non_null(at);
	return strtod(at + strlen(name) + 3, NULL);
}

/* Intervals are the difference of two clocks, each truncated to milliseconds. */
#define CUT 0.002

static double near(double got, double from, double to)
{
	if (got < from - CUT || got > to + CUT)
		fail_msg("%f is not within %f and %f", got, from, to);
	return got;
}

static void test_one(void **state)
{
	int64_t start_us = time_mono_us();
	double seconds, most;
	struct answer *a;

	(void)state;
	new_sandbox("{\"cpu_count\":2,\"memory_mb\":512}");
	world_turns(300);
	a = get("/usage");
	expect_status(a, 200);
	most = (double)(time_mono_us() - start_us) / 1e6 + 0.01;
	seconds = near(real_of(a->body, "running_seconds"), 0.29, most);
	near(real_of(a->body, "vcpu_seconds"), seconds * 1.99, seconds * 2.01);
	near(real_of(a->body, "memory_gib_seconds"), seconds * 0.49, seconds * 0.51);
	near(real_of(a->body, "paused_seconds"), 0, 0);
	expect_status(del(""), 204);
	most = (double)(time_mono_us() - start_us) / 1e6 + 0.01;
	world_turns(200);
	/* It has ended, and so has the counting; usage can still be queried. */
	near(real_of(get("/usage")->body, "running_seconds"), seconds, most);
	assert_int_equal(real_of(call("GET", "/v1/usage", NULL)->body, "sandboxes"), 1);
}

static void test_windows_of_time(void **state)
{
	char before[TIME_RFC3339_SIZE], between[TIME_RFC3339_SIZE];
	struct answer *a;

	(void)state;
	time_rfc3339(before, time_real_ms());
	world_turns(5);
	new_sandbox("{}");
	world_turns(200);
	time_rfc3339(between, time_real_ms());
	world_turns(100);
	expect_status(del(""), 204);
	a = call("GET", path_of("/v1/usage?from=%s&to=%s", before, between), NULL);
	expect_status(a, 200);
	near(real_of(a->body, "running_seconds"), 0.19, 3);
	a = call("GET", path_of("/v1/usage?to=%s", before), NULL);
	assert_non_null(strstr(a->body, "\"data\":[]"));
	a = call("GET", path_of("/v1/usage?from=%s", between), NULL);
	near(real_of(a->body, "running_seconds"), 0.09, 3);
	expect_status(call("GET", "/v1/usage?from=2026-11-16", NULL), 200);
	expect_status(call("GET", "/v1/usage?from=yesterday", NULL), 400);
	expect_status(call("GET", "/v1/usage?from=2026-11-16T00:00:00", NULL), 400);
	expect_status(call("GET", "/v1/usage?from=2026-11-16T00:00:00Zz", NULL), 400);
	expect_status(call("GET", path_of("/v1/usage?from=%s&to=%s", between, before), NULL), 400);
}

static void test_owners(void **state)
{
	char one[64], two[64];
	struct answer *a;

	(void)state;
	(void)snprintf(one, sizeof(one), "%s",
		       make_key("[\"sandboxes:read\",\"sandboxes:write\"]"));
	(void)snprintf(two, sizeof(two), "%s",
		       make_key("[\"sandboxes:read\",\"sandboxes:write\"]"));
	expect_status(call_as(one, "POST", "/v1/sandboxes", "{\"external_workspace_id\":\"w\"}"),
		      201);
	expect_status(call_as(one, "POST", "/v1/sandboxes", "{}"), 201);
	expect_status(call_as(two, "POST", "/v1/sandboxes", "{\"external_workspace_id\":\"w\"}"),
		      201);
	world_turns(50);
	a = call("GET", "/v1/usage", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 3);
	assert_non_null(strstr(a->body, "\"total\":{\"sandboxes\":3"));
	a = call("GET", "/v1/usage?external_workspace_id=w", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 2);
	a = call_as(one, "GET", "/v1/usage", NULL);
	assert_non_null(strstr(a->body, "\"total\":{\"sandboxes\":2"));
	a = call_as(two, "GET", "/v1/usage", NULL);
	assert_non_null(strstr(a->body, "\"total\":{\"sandboxes\":1"));
	expect_status(call_as(two, "GET", "/v1/usage?key=somebody", NULL), 403);
	a = call("GET", "/v1/usage?key=nobody", NULL);
	assert_non_null(strstr(a->body, "\"data\":[]"));
	expect_status(call_as(make_key("[\"exec\"]"), "GET", "/v1/usage", NULL), 403);
}

static void test_restarts(void **state)
{
	int64_t start_us = time_mono_us();
	double all;

	(void)state;
	new_sandbox("{}");
	for (int i = 0; i < 4; i++) {
		world_turns(50);
		world_stop();
		world_turns(50); /* it runs on, and is counted */
		world_start();
	}
	all = real_of(get("/usage")->body, "running_seconds");
	near(all, 0.39, (double)(time_mono_us() - start_us) / 1e6 + 0.01);
	assert_int_equal(real_of(call("GET", "/v1/usage", NULL)->body, "sandboxes"), 1);
	expect_status(del(""), 204);
	world_restart();
	near(real_of(get("/usage")->body, "running_seconds"), all,
	     (double)(time_mono_us() - start_us) / 1e6 + 0.01);
}

/*
 * A sandbox that was lost while the daemon was not running counts until it was last known to run.
 */
static void test_lost_while_stopped(void **state)
{
	double known;

	(void)state;
	new_sandbox("{}");
	world_turns(1100);
	known = real_of(get("/usage")->body, "running_seconds");
	world_stop();
	fake_die(world.engine, sandbox, false);
	world_turns(2500);
	world_start();
	world_turns(100);
	assert_string_equal(text_of(get(""), "state"), "error");
	near(real_of(get("/usage")->body, "running_seconds"), 0, known + 2);
}

static void test_pool_is_not_counted(void **state)
{
	(void)state;
	assert_non_null(strstr(call("GET", "/v1/usage", NULL)->body, "\"data\":[]"));
	new_sandbox("{\"pool\":{\"mode\":\"require\",\"wait_ms\":5000}}");
	world_turns(100);
	near(real_of(get("/usage")->body, "running_seconds"), 0.09, 3);
	assert_int_equal(real_of(call("GET", "/v1/usage", NULL)->body, "sandboxes"), 1);
}

static void test_pause(void **state)
{
	double running, paused;
	struct answer *a;

	(void)state;
	new_sandbox("{\"cpu_count\":2}");
	world_turns(100);
	expect_status(post("/pause", "{\"kind\":\"hibernate\"}"), 200);
	running = real_of(get("/usage")->body, "running_seconds");
	near(running, 0.09, 3);
	world_turns(100);
	world_restart();
	world_turns(100);
	a = get("/usage");
	near(real_of(a->body, "running_seconds"), running, running);
	paused = near(real_of(a->body, "paused_seconds"), 0.19, 5);
	assert_true(real_of(a->body, "paused_storage_gib_seconds") > 0);
	expect_status(post("/resume", "{}"), 200);
	world_turns(100);
	a = get("/usage");
	near(real_of(a->body, "running_seconds"), running + 0.09, running + 3);
	near(real_of(a->body, "paused_seconds"), paused, paused + 3);
	expect_status(del(""), 204);
}

static void test_history(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	a = get("/metrics");
	expect_status(a, 200);
	assert_int_equal(json_size(member(a->doc, "history")), 1);
	a = get("/metrics");
	assert_int_equal(json_size(member(a->doc, "history")), 1);
	world_turns(10500);
	a = get("/metrics");
	assert_in_range(json_size(member(a->doc, "history")), 2, 3);
}

/* Any sequence of pauses, resumes and restarts: each moment is counted once, in the right state. */
static void test_model(void **state)
{
	double least[2] = { 0, 0 }, most[2] = { 0, 0 }; /* running, paused */
	int64_t before_us, after_us = 0;
	unsigned seed = (unsigned)getpid(), moves = 0;
	int now = 0;

	(void)state;
	print_message("seed %u\n", seed);
	srandom(seed);
	before_us = time_mono_us();
	new_sandbox("{}");
	after_us = time_mono_us();
	most[0] += (double)(after_us - before_us) / 1e6;
	for (int i = 0; i < 40; i++, moves++) {
		int was = now, op = (int)(random() % 4);
		double sure, unsure;

		world_turns((int)(random() % 20));
		before_us = time_mono_us();
		sure = (double)(before_us - after_us) / 1e6;
		if (op == 0 && !was)
			expect_status(post("/pause", "{}"), 200);
		else if (op == 1)
			expect_status(post("/pause", "{\"kind\":\"hibernate\"}"), 200);
		else if (op == 2 && was)
			expect_status(post("/resume", "{}"), 200);
		else if (op == 3)
			world_restart();
		now = op < 2 ? 1 : op == 2 ? 0 : was;
		after_us = time_mono_us();
		unsure = (double)(after_us - before_us) / 1e6;
		least[was] += sure + (now == was ? unsure : 0);
		most[was] += sure + unsure;
		most[now] += now == was ? 0 : unsure;
	}
	before_us = time_mono_us();
	expect_status(del(""), 204);
	most[now] += (double)(time_mono_us() - after_us) / 1e6;
	least[now] += (double)(before_us - after_us) / 1e6;
	world_turns(50);
	near(real_of(get("/usage")->body, "running_seconds"), least[0] - CUT * moves,
	     most[0] + CUT * moves);
	near(real_of(get("/usage")->body, "paused_seconds"), least[1] - CUT * moves,
	     most[1] + CUT * moves);
}

/* Old intervals are summed up per day, and a window that starts inside a day says so. */
static void test_days(void **state)
{
	int64_t day = time_real_ms() / STORE_DAY_MS - 30;
	char path[128], from[TIME_RFC3339_SIZE], start[TIME_RFC3339_SIZE];
	struct store *store;
	struct answer *a;

	(void)state;
	world_prepare();
	(void)snprintf(path, sizeof(path), "%s/cay.db", world.dir);
	assert_int_equal(store_open(path, &store), 0);
	for (int i = 0; i < 50; i++) { /* short ones, and one beyond midnight */
		struct store_usage row = { .sandbox_id = "old",
					   .owner = "k",
					   .kind = STORE_USAGE_RUNNING,
					   .from_ms = day * STORE_DAY_MS + i * 1000,
					   .to_ms = day * STORE_DAY_MS + i * 1000 + 720,
					   .cpu_milli = 2000,
					   .memory_mb = 1024 };

		if (i == 49)
			row.to_ms = (day + 1) * STORE_DAY_MS + 5000;
		assert_int_equal(store_usage_put(store, &row), 0);
	}
	store_close(store);
	world_start();
	world_turns(1300); /* a tick */
	time_rfc3339(start, day * STORE_DAY_MS);
	time_rfc3339(from, day * STORE_DAY_MS + 20000);
	a = call("GET", path_of("/v1/usage?from=%s", from), NULL);
	assert_string_equal(text_of(a, "from"), start);
	near(real_of(a->body, "running_seconds"), 49 * 0.72 + 86400 - 49 + 5,
	     49 * 0.72 + 86400 - 49 + 5);
	near(real_of(a->body, "sandboxes"), 1, 1);
	time_rfc3339(from, (day + 1) * STORE_DAY_MS);
	a = call("GET", path_of("/v1/usage?from=%s", from), NULL);
	near(real_of(a->body, "running_seconds"), 5, 5);
	near(real_of(a->body, "vcpu_seconds"), 10, 10);
	world_restart();
	a = call("GET", path_of("/v1/usage?from=%s", from), NULL);
	near(real_of(a->body, "running_seconds"), 5, 5);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_one),
		TEST(test_windows_of_time),
		TEST(test_owners),
		TEST(test_restarts),
		TEST(test_lost_while_stopped),
		TEST(test_pause),
		TEST(test_history),
		TEST(test_model),
		cmocka_unit_test_teardown(test_days, world_teardown),
		cmocka_unit_test_setup_teardown(test_pool_is_not_counted, world_setup_pool,
						world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
