/* SPDX-License-Identifier: Apache-2.0 */
/* Ready sandboxes: hits, misses, growth, waiting, failure, restart. */
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "base/time.h"
#include "world.h"

static int64_t pool_figure(const char *name)
{
	return json_int(member(member(call("GET", "/v1/options", NULL)->doc, "pool"), name));
}

static void test_hit(void **state)
{
	struct answer *a;
	unsigned made;

	(void)state;
	assert_int_equal(pool_figure("ready"), 2);
	made = fake_calls(world.engine, FAKE_CREATE);
	a = call("POST", "/v1/sandboxes", "{\"env\":{\"A\":\"1\"},\"name\":\"p\"}");
	expect_status(a, 201);
	assert_string_equal(text_of(a, "boot_path"), "pool");
	assert_string_equal(text_of(a, "state"), "running");
	assert_true(json_bool(member(member(a->doc, "pool_checkout"), "hit")));
	assert_int_equal(fake_calls(world.engine, FAKE_CREATE), made);
	assert_int_equal(fake_calls(world.engine, FAKE_RESIZE), 0);
	a = call("POST", "/v1/sandboxes/p/exec", "{\"command\":\"echo hi\"}");
	assert_string_equal(text_of(a, "stdout"), "hi\n");
	world_turns(100); /* refilled behind */
	assert_int_equal(pool_figure("ready"), 2);
	a = call("GET", "/v1/sandboxes", NULL); /* members have no owner */
	assert_int_equal(json_size(member(a->doc, "data")), 1);
	expect_status(call("DELETE", "/v1/sandboxes/p", NULL), 204);
}

/* From here on (0) no file can grow: as on a full disk. */
static void may_write(rlim_t bytes)
{
	struct rlimit limit;

	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = MIN(bytes, limit.rlim_max);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A sandbox that could not be recorded has no owner: it must not continue to exist. */
static void test_what_cannot_be_recorded_is_not_made(void **state)
{
	const char *id = make("{}");
	struct answer *a;

	(void)state;
	may_write(0);
	a = call("POST", "/v1/sandboxes", "{\"name\":\"x\"}");
	assert_true(a->status >= 500);
	world_turns(10);
	a = call("GET", "/v1/sandboxes", NULL);
	expect_status(a, 200);
	assert_int_equal(json_size(member(a->doc, "data")), 1);
	/* And a sandbox whose end cannot be recorded has not ended. */
	assert_true(call("DELETE", path_of("/v1/sandboxes/%s", id), NULL)->status >= 500);
	expect_status(call("GET", path_of("/v1/sandboxes/%s", id), NULL), 200);
	may_write(RLIM_INFINITY);
	(void)make("{\"name\":\"x\"}");
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", id), NULL), 204);
}

static void test_limits_are_set_at_hand_out(void **state)
{
	struct answer *a = call("POST", "/v1/sandboxes", "{\"memory_mb\":64,\"cpu_count\":2}");

	(void)state;
	expect_status(a, 201);
	assert_string_equal(text_of(a, "boot_path"), "pool");
	assert_int_equal(fake_calls(world.engine, FAKE_RESIZE), 1);
	assert_int_equal(fake_limits(world.engine, text_of(a, "id"))->memory_mb, 64);
	/* A member that cannot be resized is not handed out. */
	fake_fail_next(world.engine, FAKE_RESIZE, ERR_ENGINE_FAILED);
	expect_status(call("POST", "/v1/sandboxes", "{\"memory_mb\":65}"), 500);
	a = call("GET", "/v1/sandboxes", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 1);
}

static void test_bypass(void **state)
{
	struct answer *a = call("POST", "/v1/sandboxes", "{\"pool\":{\"mode\":\"bypass\"}}");

	(void)state;
	assert_string_equal(text_of(a, "boot_path"), "cold");
	assert_false(json_bool(member(member(a->doc, "pool_checkout"), "hit")));
	assert_int_equal(pool_figure("ready"), 2);
}

static void test_require_and_wait(void **state)
{
	struct answer *a, later;
	struct request req;
	int64_t start_us;

	(void)state;
	fake_hold(world.engine, FAKE_CREATE);
	expect_status(call("POST", "/v1/sandboxes", "{\"pool\":{\"mode\":\"require\"}}"), 201);
	expect_status(call("POST", "/v1/sandboxes", "{\"pool\":{\"mode\":\"require\"}}"), 201);
	a = call("POST", "/v1/sandboxes", "{\"pool\":{\"mode\":\"require\"},\"name\":\"w\"}");
	expect_status(a, 503);
	assert_string_equal(error_code(a), "capacity_exceeded");
	start_us = time_mono_us();
	a = call("POST", "/v1/sandboxes",
		 "{\"pool\":{\"mode\":\"require\",\"wait_ms\":100},\"name\":\"w\"}");
	expect_status(a, 503);
	assert_true(time_mono_us() - start_us >= 95000);
	request_send(&req, world.admin, "POST", "/v1/sandboxes", NULL,
		     "{\"pool\":{\"mode\":\"require\",\"wait_ms\":3000},\"name\":\"w\"}");
	world_turns(50);
	fake_release(world.engine, FAKE_CREATE);
	request_wait(&req, &later);
	expect_status(&later, 201);
	assert_string_equal(text_of(&later, "boot_path"), "pool");
	answer_free(&later);
	expect_status(call("GET", "/v1/sandboxes/w", NULL), 200);
}

static void test_prefer_falls_back_and_grows(void **state)
{
	int cold = 0;

	(void)state;
	assert_int_equal(pool_figure("target"), 2);
	for (int i = 0; i < 6; i++) {
		struct answer *a = call("POST", "/v1/sandboxes", "{}");

		expect_status(a, 201);
		cold += strcmp(text_of(a, "boot_path"), "cold") == 0;
	}
	assert_true(cold >= 1);
	assert_int_equal(pool_figure("target"), 4); /* as much as is allowed */
	world_turns(300);
	assert_int_equal(pool_figure("ready"), 4);
}

static void test_dead_members_are_replaced(void **state)
{
	struct answer *a;

	(void)state;
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED); /* the next fill fails */
	expect_status(call("POST", "/v1/sandboxes", "{}"), 201);
	world_turns(800); /* and is tried again after a while */
	assert_int_equal(pool_figure("ready"), 2);
	a = call("GET", "/metrics", NULL);
	assert_non_null(strstr(a->body, "cay_pool_fill_failures_total 1\n"));
}

static void test_new_template_version(void **state)
{
	struct answer *a;

	(void)state;
	world_template("other", "{}");
	a = call("POST", "/v1/sandboxes", "{\"template\":\"other\"}");
	assert_string_equal(text_of(a, "boot_path"), "cold");
	world_turns(200); /* asked for once: kept ready from now on */
	a = call("POST", "/v1/sandboxes", "{\"template\":\"other\"}");
	assert_string_equal(text_of(a, "boot_path"), "pool");
	assert_string_equal(text_of(a, "template_id"), "other");
}

static void test_restart_adopts(void **state)
{
	unsigned made = fake_calls(world.engine, FAKE_CREATE);
	struct answer *a;

	(void)state;
	world_restart();
	world_turns(100);
	assert_int_equal(pool_figure("ready"), 2);
	assert_int_equal(fake_calls(world.engine, FAKE_CREATE), made);
	a = call("POST", "/v1/sandboxes", "{}");
	assert_string_equal(text_of(a, "boot_path"), "pool");
	a = call("POST", "/v1/admin/shutdown", "{\"destroy\":true}");
	expect_status(a, 200);
	assert_int_equal(fake_live(world.engine), 0);
}

/* The daemon's own cost of a create from the pool and of an exec, without socket waits. */
static void test_cost(void **state)
{
	enum { ROUNDS = 300 };
	char id[32];
	int64_t start_us, create_us = 0, exec_us = 0;

	(void)state;
	(void)snprintf(id, sizeof(id), "%s", make("{}"));
	for (int i = 0; i < ROUNDS; i++) {
		start_us = time_mono_us();
		expect_status(call("POST", path_of("/v1/sandboxes/%s/exec", id),
				   "{\"command\":\"echo hi\"}"),
			      200);
		exec_us += time_mono_us() - start_us;
	}
	for (int i = 0; i < 20; i++) {
		struct answer *a;

		world_turns(60);
		start_us = time_mono_us();
		a = call("POST", "/v1/sandboxes", "{}");
		create_us += time_mono_us() - start_us;
		assert_string_equal(text_of(a, "boot_path"), "pool");
	}
	print_message("with a connection each, client and fake agent included: exec %lld us, "
		      "create from the pool %lld us\n",
		      (long long)exec_us / ROUNDS, (long long)create_us / 20);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup_pool, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_hit),
		TEST(test_what_cannot_be_recorded_is_not_made),
		TEST(test_limits_are_set_at_hand_out),
		TEST(test_bypass),
		TEST(test_require_and_wait),
		TEST(test_prefer_falls_back_and_grows),
		TEST(test_dead_members_are_replaced),
		TEST(test_new_template_version),
		TEST(test_restart_adopts),
		TEST(test_cost),
	};

	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
