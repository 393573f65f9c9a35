/* SPDX-License-Identifier: Apache-2.0 */
/* Removing templates: checks, refusals, and sandboxes created meanwhile. */
#include <string.h>
#include <unistd.h>

#include "inside.h"

/* Removals wait until finish(). */
static void finish(const char *name, bool good)
{
	char path[192];

	if (good) {
		(void)snprintf(path, sizeof(path), "%s/refs/%s", world.templates, name);
		assert_int_equal(unlink(path), 0);
	} else {
		fake_fail_message(world.engine, "in use: sandbox s1 (/other)");
		fake_fail_next(world.engine, FAKE_IMAGE_REMOVE, ERR_CONFLICT);
	}
	fake_release(world.engine, FAKE_IMAGE_REMOVE);
	world_turns(5);
	fake_hold(world.engine, FAKE_IMAGE_REMOVE);
}

static int start_with(bool pool)
{
	world_prepare();
	world.config.pool_enabled = pool;
	world.config.pool_min = 2;
	world.config.pool_max = 4;
	world_start();
	fake_hold(world.engine, FAKE_IMAGE_REMOVE);
	world_turns(pool ? 200 : 1);
	world_template("mine", "{\"from\":\"base\"}");
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return start_with(false);
}

static int setup_pool(void **state)
{
	(void)state;
	return start_with(true);
}

static void ask(struct request *req, const char *name)
{
	request_send(req, world.admin, "DELETE", path_of("/v1/templates/%s", name), NULL, NULL);
	world_turns(20);
}

static void expect_answer(struct request *req, int status)
{
	struct answer a;

	request_wait(req, &a);
	expect_status(&a, status);
	answer_free(&a);
}

static void test_removed(void **state)
{
	struct request req;

	(void)state;
	assert_string_equal(text_of(call("GET", "/v1/templates/mine", NULL), "from"), "base");
	ask(&req, "mine");
	/* No sandbox can be created from it from now on. */
	expect_status(call("POST", "/v1/sandboxes", "{\"template\":\"mine\"}"), 409);
	expect_status(call("POST", "/v1/templates/mine/builds", NULL), 409);
	expect_status(call("DELETE", "/v1/templates/mine", NULL), 409);
	finish("mine", true);
	expect_answer(&req, 204);
	expect_status(call("GET", "/v1/templates/mine", NULL), 404);
	expect_status(call("DELETE", "/v1/templates/mine", NULL), 404);
	expect_status(call("POST", "/v1/sandboxes", "{\"template\":\"mine\"}"), 404);
	world_template("mine", "{}");
	expect_status(call("POST", "/v1/sandboxes", "{\"template\":\"mine\"}"), 201);
}

static void test_users(void **state)
{
	struct answer *a;
	char snapshot[64];

	(void)state;
	new_sandbox("{\"template\":\"mine\"}");
	a = call("DELETE", "/v1/templates/mine", NULL);
	expect_status(a, 409);
	assert_non_null(strstr(error_message(a), sandbox));
	a = post("/snapshots", "{}");
	expect_status(a, 201);
	(void)snprintf(snapshot, sizeof(snapshot), "%s", text_of(a, "id"));
	expect_status(del(""), 204);
	a = call("DELETE", "/v1/templates/mine", NULL);
	expect_status(a, 409);
	assert_non_null(strstr(error_message(a), snapshot));
	/* Other users must not learn their owners. */
	a = call_as(make_key("[\"templates:write\"]"), "DELETE", "/v1/templates/mine", NULL);
	expect_status(a, 409);
	assert_null(strstr(error_message(a), snapshot));
	assert_int_equal(fake_calls(world.engine, FAKE_IMAGE_REMOVE), 0);
	expect_status(
		call_as(make_key("[\"templates:read\"]"), "DELETE", "/v1/templates/mine", NULL),
		403);
}

/* A build reports its steps and ends with an error code, which is not derived from its log. */
static void test_build(void **state)
{
	struct answer *a;

	(void)state;
	fake_hold(world.engine, FAKE_IMAGE_PREPARE);
	expect_status(call("POST", "/v1/templates/mine/builds", NULL), 202);
	a = call("GET", "/v1/templates/mine/builds", NULL);
	assert_non_null(strstr(a->body, "\"state\":\"running\""));
	assert_non_null(strstr(a->body, "\"step\":null"));
	expect_status(call("POST", "/v1/templates/mine/builds", NULL), 409);
	fake_release(world.engine, FAKE_IMAGE_PREPARE);
	world_turns(10);
	a = call("GET", "/v1/templates/mine/builds", NULL);
	assert_non_null(strstr(a->body, "\"state\":\"ready\""));
	assert_non_null(strstr(a->body, "\"step\":\"second step\""));
	fake_fail_message(world.engine, "the [setup] script ended with status 1");
	fake_fail_next(world.engine, FAKE_IMAGE_PREPARE, ERR_ENGINE_FAILED);
	expect_status(call("POST", "/v1/templates/mine/builds", NULL), 202);
	world_turns(10);
	a = call("GET", "/v1/templates/mine/builds", NULL);
	assert_non_null(strstr(a->body, "\"state\":\"failed\""));
	assert_non_null(strstr(a->body, "the [setup] script ended with status 1"));
	expect_status(call("POST", "/v1/templates/unknown1/builds", NULL), 404);
}

/* An engine that lacks the image of a template prepares it before the first sandbox, once. */
static void test_prepared(void **state)
{
	struct request req;

	(void)state;
	fake_set_images(world.engine, false);
	expect_status(call("POST", "/v1/sandboxes", "{\"template\":\"mine\"}"), 201);
	assert_int_equal(fake_calls(world.engine, FAKE_IMAGE_PREPARE), 1);
	fake_set_images(world.engine, false);
	expect_status(call("POST", "/v1/sandboxes", "{\"template\":\"mine\"}"), 201);
	assert_int_equal(fake_calls(world.engine, FAKE_IMAGE_HAVE), 1);
	/* It was removed without the daemon: one failure, then it is queried again. */
	fake_fail_next(world.engine, FAKE_CREATE, ERR_TEMPLATE_NOT_FOUND);
	expect_status(call("POST", "/v1/sandboxes", "{\"template\":\"mine\"}"), 404);
	expect_status(call("POST", "/v1/sandboxes", "{\"template\":\"mine\"}"), 201);
	assert_int_equal(fake_calls(world.engine, FAKE_IMAGE_PREPARE), 2);
	/* It cannot be prepared. */
	fake_set_images(world.engine, false);
	fake_fail_message(world.engine, NULL);
	fake_fail_next(world.engine, FAKE_IMAGE_PREPARE, ERR_TEMPLATE_NOT_FOUND);
	expect_status(call("POST", "/v1/sandboxes", "{\"template\":\"base\"}"), 404);
	/* The daemon ends while it is being prepared. */
	fake_hold(world.engine, FAKE_IMAGE_PREPARE);
	request_send(&req, world.admin, "POST", "/v1/sandboxes", NULL, "{\"template\":\"base\"}");
	world_turns(20);
	assert_int_equal(fake_waiting(world.engine, FAKE_IMAGE_PREPARE), 1);
	world_stop();
	request_drop(&req);
	fake_release(world.engine, FAKE_IMAGE_PREPARE);
	world_turns(5);
	world_start();
}

/* An engine without images is refused with one code, for every request. */
static void test_no_images(void **state)
{
	(void)state;
	world_driver()->image = NULL;
	expect_status(call("POST", "/v1/templates/mine/builds", NULL), 422);
	expect_status(call("DELETE", "/v1/templates/mine", NULL), 422);
	expect_status(call("POST", "/v1/sandboxes", "{\"template\":\"mine\"}"), 201);
}

/* The builder checks other daemons; its refusal is the reply. */
static void test_refused_by_the_builder(void **state)
{
	struct request req;
	struct answer a;

	(void)state;
	ask(&req, "mine");
	finish("mine", false);
	request_wait(&req, &a);
	expect_status(&a, 409);
	assert_non_null(strstr(error_message(&a), "in use: sandbox s1 (/other)"));
	answer_free(&a);
	expect_status(call("POST", "/v1/sandboxes", "{\"template\":\"mine\"}"), 201);
}

static void test_pool_frees_capacity(void **state)
{
	struct request req;

	(void)state;
	world_turns(100);
	assert_true(fake_live(world.engine) >= 2);
	ask(&req, "base");
	world_turns(50);
	assert_int_equal(fake_live(world.engine), 0);
	finish("base", true);
	expect_answer(&req, 204);
	world_turns(100);
	assert_int_equal(fake_live(world.engine), 0);
}

/* The daemon ends meanwhile: the builder continues, and its result is visible afterwards. */
static void test_daemon_ends(void **state)
{
	struct request req;

	(void)state;
	ask(&req, "mine");
	world_stop();
	request_drop(&req);
	finish("mine", true);
	world_start();
	expect_status(call("GET", "/v1/templates/mine", NULL), 404);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_removed),
		TEST(test_users),
		TEST(test_build),
		TEST(test_no_images),
		TEST(test_prepared),
		TEST(test_refused_by_the_builder),
		TEST(test_daemon_ends),
		cmocka_unit_test_setup_teardown(test_pool_frees_capacity, setup_pool,
						world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
