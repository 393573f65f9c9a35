/* SPDX-License-Identifier: Apache-2.0 */
/* Pause, resume, snapshot, fork and commands in random order against a model of the states. */
#include <string.h>
#include <time.h>

#include "copies.h"

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

static void expect_documented(struct request *req, int step)
{
	struct answer a;

	request_wait(req, &a);
	if (a.status / 100 != 2 && a.status != 404 && a.status != 409 && a.status != 410 &&
	    a.status != 500 && a.status != 503)
		fail_msg("step %d: %d %s", step, a.status, a.body);
	answer_free(&a);
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
		for (size_t k = 0; k < ACTORS; k++)
			expect_documented(&reqs[k], step);
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
	world_until(fake_live(world.engine) == 0);
	world_until(fake_snapshots(world.engine) == listed("/v1/snapshots?limit=1000"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_model),
	};

	return cmocka_run_group_tests_name("copies_model", tests, NULL, NULL);
}
