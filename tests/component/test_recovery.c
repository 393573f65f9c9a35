/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon ends in the middle of every state transition and restarts: see
 * src/service/sandbox/reconcile.c.
 */
#include <string.h>

#include "inside.h"

static struct answer *look(void)
{
	return call("GET", path_of("/v1/sandboxes/%s", sandbox), NULL);
}

static void expect_state(const char *state, const char *kind)
{
	struct answer *a = look();

	expect_status(a, 200);
	assert_string_equal(text_of(a, "state"), state);
	assert_string_equal(text_of(a, "pause_kind"), kind);
}

static void expect_works(void)
{
	expect_status(post("/exec", "{\"command\":\"echo on\"}"), 200);
}

/* Starts a call, ends the daemon while the engine performs op, and starts it again. */
static void die_during(enum fake_op op, const char *path, const char *body, bool engine_does_it)
{
	struct request req;

	fake_hold(world.engine, op);
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/%s", sandbox, path), NULL,
		     body);
	for (int i = 0; i < 30000 && fake_waiting(world.engine, op) == 0; i++)
		world_turns(1);
	assert_int_equal(fake_waiting(world.engine, op), 1);
	world_stop();
	request_drop(&req);
	if (!engine_does_it)
		fake_fail_next(world.engine, op, ERR_ENGINE_FAILED);
	fake_release(world.engine, op);
	world_turns(10);
	world_start();
	world_turns(50);
}

static void test_paused_ones_survive(void **state)
{
	(void)state;
	new_sandbox("{\"timeout_sec\":100,\"auto_resume\":true,\"on_timeout\":\"pause\"}");
	expect_status(post("/pause", "{}"), 200);
	world_restart();
	expect_state("paused", "freeze");
	assert_string_equal(text_of(look(), "on_timeout"), "pause");
	assert_true(fake_paused(world.engine, sandbox));
	expect_works(); /* auto_resume; and the link is made only now */
	expect_state("running", "");
	expect_status(post("/pause", "{\"kind\":\"hibernate\"}"), 200);
	world_restart();
	expect_state("paused", "hibernate");
	assert_int_equal(fake_live(world.engine), 0);
	assert_int_equal(fake_snapshots(world.engine), 1);
	expect_status(post("/resume", "{}"), 200);
	world_turns(20);
	assert_int_equal(fake_snapshots(world.engine), 0);
	expect_works();
}

static void test_pause(void **state)
{
	(void)state;
	new_sandbox("{}");
	die_during(FAKE_PAUSE, "pause", "{}", true);
	expect_state("paused", "freeze");
	die_during(FAKE_PAUSE, "resume", "{}", false);
	expect_state("paused", "freeze");
	die_during(FAKE_PAUSE, "resume", "{}", true);
	expect_state("running", "");
	expect_works();
	die_during(FAKE_PAUSE, "pause", "{}", false);
	expect_state("running", "");
	expect_works();
}

static void test_hibernate(void **state)
{
	static const char body[] = "{\"kind\":\"hibernate\"}";

	(void)state;
	new_sandbox("{}");
	for (int done = 0; done < 2; done++) {
		die_during(FAKE_PAUSE, "pause", body, done);
		expect_state("running", "");
		assert_false(fake_paused(world.engine, sandbox));
		expect_works();
		die_during(FAKE_SNAPSHOT, "pause", body, done);
		expect_state("running", "");
		assert_false(fake_paused(world.engine, sandbox));
		assert_int_equal(fake_snapshots(world.engine), 0);
		expect_works();
	}
	for (int done = 0; done < 2; done++) {
		die_during(FAKE_DESTROY, "pause", body, done);
		expect_state("paused", "hibernate");
		assert_int_equal(fake_live(world.engine), 0);
		assert_int_equal(fake_snapshots(world.engine), 1);
		die_during(FAKE_CREATE, "resume", "{}", done);
		expect_state("paused", "hibernate");
		assert_int_equal(fake_live(world.engine), 0);
		assert_int_equal(fake_snapshots(world.engine), 1);
		expect_status(post("/resume", "{}"), 200);
		expect_works();
		assert_int_equal(fake_snapshots(world.engine), 0);
	}
}

static void on_done(void *arg, const struct err *err)
{
	(void)arg;
	assert_null(err);
}

/* The host was rebooted: running processes are gone, but the copy was complete. */
static void test_only_the_copy_is_left(void **state)
{
	struct request req;
	struct err err;

	(void)state;
	new_sandbox("{}");
	fake_hold(world.engine, FAKE_SNAPSHOT);
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/pause", sandbox), NULL,
		     "{\"kind\":\"hibernate\"}");
	world_turns(20);
	world_stop();
	request_drop(&req);
	fake_release(world.engine, FAKE_SNAPSHOT);
	world_turns(10);
	assert_int_equal(engine_fake.destroy(world.engine, sandbox, on_done, NULL, &err), 0);
	world_turns(10);
	world_start();
	world_turns(50);
	expect_state("paused", "hibernate");
	expect_status(post("/resume", "{}"), 200);
	expect_works();
}

static void test_lost_while_paused(void **state)
{
	struct err err;

	(void)state;
	new_sandbox("{}");
	expect_status(post("/pause", "{}"), 200);
	world_stop();
	assert_int_equal(engine_fake.destroy(world.engine, sandbox, on_done, NULL, &err), 0);
	world_turns(10);
	world_start();
	world_turns(50);
	assert_string_equal(text_of(look(), "state_reason"), "engine_lost");
	new_sandbox("{}");
	expect_status(post("/pause", "{\"kind\":\"hibernate\"}"), 200);
	world_stop();
	fake_forget_snapshots();
	world_start();
	world_turns(50);
	expect_state("paused", "hibernate");
	expect_status(post("/resume", "{}"), 404); /* snapshot_not_found */
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", sandbox), NULL), 204);
}

/* The engine is lost in the middle of a transition and returns. */
static void test_engine_lost(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	world_engine_lost(true);
	a = post("/pause", "{}");
	expect_status(a, 503);
	expect_state("running", "");
	world_engine_lost(false);
	world_turns(20);
	expect_status(post("/pause", "{}"), 200);
	fake_fail_next(world.engine, FAKE_PAUSE, ERR_UNAVAILABLE);
	expect_status(post("/resume", "{}"), 503);
	world_engine_lost(true);
	world_engine_lost(false); /* unknown states are queried */
	world_turns(20);
	expect_state("paused", "freeze");
	assert_true(fake_paused(world.engine, sandbox));
	expect_status(post("/resume", "{}"), 200);
	expect_works();
}

/* An engine that fails during reconciliation is called again; no sandbox is lost because of it. */
static void test_settled_later(void **state)
{
	(void)state;
	new_sandbox("{}");
	fake_fail_next(world.engine, FAKE_STAT, ERR_ENGINE_FAILED);
	die_during(FAKE_PAUSE, "pause", "{}", true);
	expect_state("running", "");
	expect_status(post("/pause", "{}"), 503);
	world_turns(6000);
	expect_state("paused", "freeze");
	expect_status(post("/resume", "{}"), 200);
	expect_works();
}

static void test_time_left_is_kept(void **state)
{
	(void)state;
	new_sandbox("{\"timeout_sec\":1}");
	world_turns(300);
	expect_status(post("/pause", "{\"kind\":\"hibernate\"}"), 200);
	world_stop();
	world_turns(1200);
	world_start();
	world_turns(20);
	expect_status(post("/resume", "{}"), 200);
	world_turns(300);
	expect_state("running", "");
	world_turns(700);
	expect_status(look(), 404);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_paused_ones_survive), TEST(test_pause),
		TEST(test_hibernate),		TEST(test_only_the_copy_is_left),
		TEST(test_lost_while_paused),	TEST(test_engine_lost),
		TEST(test_settled_later),	TEST(test_time_left_is_kept),
	};

	return cmocka_run_group_tests_name("recovery", tests, NULL, NULL);
}
