/* SPDX-License-Identifier: Apache-2.0 */
/* Removing templates: who is asked, who refuses, and what is made of one meanwhile. */
#include <string.h>
#include <unistd.h>

#include "inside.h"

static service_build_done_fn removed;
static void *removed_arg;
static unsigned removals;

/* Stands for the builder: a removal waits until finish(). */
static int build(void *engine, const char *name, bool remove, int log_fd,
		 service_build_done_fn done, void *arg, struct err *err)
{
	static const char said[] = "==> looking\ncay-build: in use: sandbox s1 (/other)\n";

	(void)engine;
	(void)name;
	(void)err;
	assert_true(remove);
	assert_int_equal(write(log_fd, said, sizeof(said) - 1), (ssize_t)sizeof(said) - 1);
	removed = done;
	removed_arg = arg;
	removals++;
	return 0;
}

static void finish(const char *name, bool good)
{
	char path[192];
	struct err err;

	if (good) {
		(void)snprintf(path, sizeof(path), "%s/refs/%s", world.templates, name);
		assert_int_equal(unlink(path), 0);
	}
	(void)err_set(&err, ERR_ENGINE_FAILED, "the builder failed; its log says why");
	removed(removed_arg, good ? NULL : &err);
}

static int start_with(bool pool)
{
	removals = 0;
	world_prepare();
	world.config.build = build;
	world.config.build_engine = "fake";
	world.config.pool_enabled = pool;
	world.config.pool_min = 2;
	world.config.pool_max = 4;
	world_start();
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
	/* Nothing is made of it, or with it, from now on. */
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
	/* Whose they are is nobody else's business. */
	a = call_as(make_key("[\"templates:write\"]"), "DELETE", "/v1/templates/mine", NULL);
	expect_status(a, 409);
	assert_null(strstr(error_message(a), snapshot));
	assert_int_equal(removals, 0);
	expect_status(
		call_as(make_key("[\"templates:read\"]"), "DELETE", "/v1/templates/mine", NULL),
		403);
}

/* The builder sees other daemons; what it says is told. */
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

static void test_pool_gives_way(void **state)
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

/* The daemon ends meanwhile: the builder goes on, and what it did is so afterwards. */
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
		TEST(test_refused_by_the_builder),
		TEST(test_daemon_ends),
		cmocka_unit_test_setup_teardown(test_pool_gives_way, setup_pool, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
