/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Freezing, hibernating, resuming: what is kept, what is refused meanwhile, clocks, automatic
 * resume.
 */
#include <string.h>

#include "inside.h"

static struct answer *pause_it(const char *kind)
{
	return post("/pause", path_of("{\"kind\":\"%s\"}", kind));
}

static struct answer *run(const char *command)
{
	return post("/exec", path_of("{\"command\":\"%s\"}", command));
}

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

static void send(struct request *req, const char *path, const char *body)
{
	request_send(req, world.admin, "POST", path_of("/v1/sandboxes/%s/%s", sandbox, path), NULL,
		     body);
}

static void expect_answer(struct request *req, int status)
{
	struct answer a;

	request_wait(req, &a);
	expect_status(&a, status);
	answer_free(&a);
}

/* ---- transitions ---- */

static void test_freeze(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{\"timeout_sec\":100}");
	assert_null(strstr(look()->body, "\"memory_preserved\":true"));
	a = post("/pause", NULL); /* freeze is the default */
	expect_status(a, 200);
	assert_string_equal(text_of(a, "state"), "paused");
	assert_string_equal(text_of(a, "pause_kind"), "freeze");
	assert_non_null(strstr(a->body, "\"memory_preserved\":true"));
	assert_non_null(strstr(a->body, "\"expires_at\":null"));
	assert_true(fake_paused(world.engine, sandbox));
	expect_status(pause_it("freeze"), 200); /* again */
	a = run("echo no");
	expect_status(a, 409);
	assert_string_equal(error_code(a), "wrong_state");
	assert_non_null(strstr(error_message(a), "resume"));
	expect_status(get("/processes"), 409);
	assert_int_equal(
		json_size(member(call("GET", "/v1/sandboxes?state=paused", NULL)->doc, "data")), 1);
	expect_status(post("/resume", "{}"), 200);
	expect_status(post("/resume", "{}"), 200);
	assert_false(fake_paused(world.engine, sandbox));
	expect_state("running", "");
	expect_status(run("echo yes"), 200);
	expect_status(pause_it("nap"), 400);
	expect_status(post("/pause", "{\"sort\":1}"), 400);
	expect_status(call("POST", "/v1/sandboxes/nobody/pause", "{}"), 404);
	expect_status(call("POST", "/v1/sandboxes/nobody/resume", "{}"), 404);
}

static void test_execs_continue(void **state)
{
	struct request req;
	struct answer a;

	(void)state;
	new_sandbox("{}");
	send(&req, "exec", "{\"command\":\"sleep 200\"}");
	world_turns(20);
	expect_status(pause_it("freeze"), 200);
	world_turns(50);
	expect_status(post("/resume", "{}"), 200);
	request_wait(&req, &a);
	expect_status(&a, 200);
	assert_int_equal(int_of(&a, "exit_code"), 0);
	answer_free(&a);
}

static void test_hibernate(void **state)
{
	struct request req;
	struct answer *a;

	(void)state;
	new_sandbox("{\"name\":\"bear\"}");
	send(&req, "exec", "{\"command\":\"sleep 100000\"}");
	world_turns(20);
	a = pause_it("hibernate");
	expect_status(a, 200);
	assert_string_equal(text_of(a, "pause_kind"), "hibernate");
	assert_non_null(strstr(a->body, "\"memory_preserved\":false"));
	expect_answer(&req, 410); /* its processes are gone */
	assert_int_equal(fake_live(world.engine), 0);
	assert_int_equal(fake_snapshots(world.engine), 1);
	expect_status(call("GET", "/v1/sandboxes/bear", NULL), 200);
	expect_status(pause_it("freeze"), 200); /* paused it is */
	expect_status(run("echo no"), 409);
	a = post("/resume", "{}");
	expect_status(a, 200);
	assert_string_equal(text_of(a, "id"), sandbox);
	assert_string_equal(text_of(a, "state"), "running");
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 1);
	assert_int_equal(fake_snapshots(world.engine), 0);
	assert_true(fake_origin(world.engine, sandbox)[0] != '\0');
	expect_status(run("echo yes"), 200);
	/* A frozen one can be hibernated, and a hibernated one destroyed. */
	expect_status(pause_it("freeze"), 200);
	expect_status(pause_it("hibernate"), 200);
	expect_state("paused", "hibernate");
	expect_status(call("DELETE", "/v1/sandboxes/bear", NULL), 204);
	world_turns(50);
	assert_int_equal(fake_live(world.engine), 0);
	assert_int_equal(fake_snapshots(world.engine), 0);
}

/* During one transition no other starts; a destroy is always possible. */
static void test_one_at_a_time(void **state)
{
	static const struct {
		enum fake_op op;
		const char *kind;
	} steps[] = { { FAKE_PAUSE, "freeze" },
		      { FAKE_PAUSE, "hibernate" },
		      { FAKE_SNAPSHOT, "hibernate" },
		      { FAKE_DESTROY, "hibernate" } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		struct request req, end;
		struct answer *a;

		new_sandbox("{}");
		fake_hold(world.engine, steps[i].op);
		send(&req, "pause", path_of("{\"kind\":\"%s\"}", steps[i].kind));
		world_turns(10);
		a = pause_it("freeze");
		expect_status(a, 409);
		assert_string_equal(error_code(a), "wrong_state");
		expect_status(post("/resume", "{}"), 409);
		expect_status(run("echo no"), 409);
		request_send(&end, world.admin, "DELETE", path_of("/v1/sandboxes/%s", sandbox),
			     NULL, NULL);
		expect_answer(&req, 410);
		fake_release(world.engine, steps[i].op);
		expect_answer(&end, 204);
		world_turns(50);
		assert_int_equal(fake_live(world.engine), 0);
		assert_int_equal(fake_snapshots(world.engine), 0);
	}
}

static void test_destroy_while_resuming(void **state)
{
	struct request req, end;

	(void)state;
	new_sandbox("{}");
	expect_status(pause_it("hibernate"), 200);
	fake_hold(world.engine, FAKE_CREATE);
	send(&req, "resume", "{}");
	world_turns(10);
	request_send(&end, world.admin, "DELETE", path_of("/v1/sandboxes/%s", sandbox), NULL, NULL);
	expect_answer(&req, 410);
	fake_release(world.engine, FAKE_CREATE);
	expect_answer(&end, 204);
	world_turns(50);
	assert_int_equal(fake_live(world.engine), 0);
	assert_int_equal(fake_snapshots(world.engine), 0);
}

static void test_end_while_frozen(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	expect_status(pause_it("freeze"), 200);
	fake_die(world.engine, sandbox, true);
	world_turns(50);
	a = look();
	assert_string_equal(text_of(a, "state"), "error");
	assert_string_equal(text_of(a, "state_reason"), "oom");
	expect_status(post("/resume", "{}"), 409);
	expect_status(pause_it("freeze"), 409);
}

/* ---- failures ---- */

static void test_failures_change_nothing(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	fake_fail_next(world.engine, FAKE_PAUSE, ERR_ENGINE_FAILED);
	a = pause_it("freeze");
	expect_status(a, 500);
	assert_string_equal(error_code(a), "engine_failed");
	expect_state("running", "");
	fake_fail_next(world.engine, FAKE_SNAPSHOT, ERR_DISK_FULL);
	a = pause_it("hibernate");
	expect_status(a, 507);
	expect_state("running", "");
	assert_false(fake_paused(world.engine, sandbox));
	expect_status(run("echo on"), 200);
	fake_fail_next(world.engine, FAKE_DESTROY, ERR_ENGINE_FAILED);
	expect_status(pause_it("hibernate"), 200); /* its running part is removed later */
	expect_state("paused", "hibernate");
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	a = post("/resume", "{}");
	expect_status(a, 500);
	expect_state("paused", "hibernate");
	assert_non_null(strstr(look()->body, "\"last_error\":\"failed on demand\""));
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 0);
	assert_int_equal(fake_snapshots(world.engine), 1);
	expect_status(post("/resume", "{}"), 200);
	expect_status(run("echo on"), 200);
	assert_non_null(strstr(look()->body, "\"last_error\":null"));
	expect_status(pause_it("freeze"), 200);
	fake_fail_next(world.engine, FAKE_PAUSE, ERR_UNAVAILABLE);
	expect_status(post("/resume", "{}"), 503);
	expect_state("paused", "freeze");
	expect_status(post("/resume", "{}"), 200);
}

/* ---- automatic resume ---- */

static void test_auto_resume(void **state)
{
	static const char *const kinds[] = { "freeze", "hibernate" };
	struct answer *a;

	(void)state;
	new_sandbox("{\"auto_resume\":true}");
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		expect_status(pause_it(kinds[i]), 200);
		expect_status(look(), 200);
		expect_state("paused", kinds[i]);
		a = get("/processes"); /* whatever needs the inside wakes it */
		expect_status(a, 200);
		expect_state("running", "");
		expect_status(pause_it(kinds[i]), 200);
		a = run("echo woken");
		expect_status(a, 200);
		assert_string_equal(text_of(a, "stdout"), "woken\n");
		expect_state("running", "");
	}
	expect_status(
		call("PATCH", path_of("/v1/sandboxes/%s", sandbox), "{\"auto_resume\":false}"),
		200);
	expect_status(pause_it("freeze"), 200);
	expect_status(run("echo no"), 409);
	expect_status(get("/processes"), 409);
	expect_status(call("PATCH", path_of("/v1/sandboxes/%s", sandbox), "{\"auto_resume\":true}"),
		      200);
	expect_status(run("echo yes"), 200);
}

static void test_several_calls_resume_it_once(void **state)
{
	struct request reqs[8];

	(void)state;
	new_sandbox("{\"auto_resume\":true}");
	expect_status(pause_it("hibernate"), 200);
	fake_hold(world.engine, FAKE_CREATE);
	for (size_t i = 0; i < ARRAY_LEN(reqs); i++)
		send(&reqs[i], "exec", "{\"command\":\"echo on\"}");
	world_turns(20);
	request_drop(&reqs[3]);
	assert_int_equal(fake_waiting(world.engine, FAKE_CREATE), 1);
	fake_release(world.engine, FAKE_CREATE);
	for (size_t i = 0; i < ARRAY_LEN(reqs); i++)
		if (i != 3)
			expect_answer(&reqs[i], 200);
}

/* A call that arrives during a pause waits for it and resumes the sandbox. */
static void test_resume_after_a_pause(void **state)
{
	struct request paused, woken;

	(void)state;
	new_sandbox("{\"auto_resume\":true}");
	fake_hold(world.engine, FAKE_PAUSE);
	send(&paused, "pause", "{}");
	world_turns(10);
	send(&woken, "exec", "{\"command\":\"echo on\"}");
	world_turns(10);
	fake_release(world.engine, FAKE_PAUSE);
	expect_answer(&paused, 200);
	expect_answer(&woken, 200);
	expect_state("running", "");
}

static void test_resume_fails(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{\"auto_resume\":true}");
	expect_status(pause_it("hibernate"), 200);
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	a = run("echo no");
	expect_status(a, 503);
	assert_string_equal(error_code(a), "unavailable");
	assert_non_null(strstr(a->head, "Retry-After: 5\r\n"));
	assert_non_null(strstr(a->body, "\"retryable\":true"));
	expect_state("paused", "hibernate");
	expect_status(run("echo yes"), 200);
}

/* ---- clocks ---- */

static void test_clocks_stop_while_paused(void **state)
{
	(void)state;
	new_sandbox("{\"timeout_sec\":1}");
	world_turns(300);
	expect_status(pause_it("freeze"), 200);
	world_turns(1200);
	expect_state("paused", "freeze");
	expect_status(post("/resume", "{}"), 200);
	world_turns(300);
	expect_state("running", "");
	world_turns(700);
	expect_status(look(), 404);
}

static void test_on_timeout(void **state)
{
	static const char *const ends[] = { "pause", "hibernate" };
	static const char *const kinds[] = { "freeze", "hibernate" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		new_sandbox(path_of("{\"timeout_sec\":1,\"on_timeout\":\"%s\"}", ends[i]));
		world_turns(1200);
		expect_state("paused", kinds[i]);
		/* The timeout that had expired starts again. */
		expect_status(post("/resume", "{}"), 200);
		world_turns(300);
		expect_state("running", "");
		expect_status(call("PATCH", path_of("/v1/sandboxes/%s", sandbox),
				   "{\"on_timeout\":\"destroy\"}"),
			      200);
		world_turns(900);
		expect_status(look(), 404);
	}
	new_sandbox("{\"idle_timeout_sec\":1,\"on_timeout\":\"pause\",\"auto_resume\":true}");
	world_turns(1200);
	expect_state("paused", "freeze");
	expect_status(run("echo hello"), 200);
	world_turns(300);
	expect_state("running", "");
	expect_status(call("POST", "/v1/sandboxes", "{\"on_timeout\":\"sleep\"}"), 400);
}

static void test_resume_with_timeout(void **state)
{
	(void)state;
	new_sandbox("{\"timeout_sec\":1000}");
	expect_status(pause_it("freeze"), 200);
	expect_status(post("/resume", "{\"timeout_sec\":1}"), 200);
	assert_int_equal(int_of(look(), "timeout_sec"), 1);
	world_turns(1200);
	expect_status(look(), 404);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_freeze),
		TEST(test_execs_continue),
		TEST(test_hibernate),
		TEST(test_one_at_a_time),
		TEST(test_destroy_while_resuming),
		TEST(test_end_while_frozen),
		TEST(test_failures_change_nothing),
		TEST(test_auto_resume),
		TEST(test_several_calls_resume_it_once),
		TEST(test_resume_after_a_pause),
		TEST(test_resume_fails),
		TEST(test_clocks_stop_while_paused),
		TEST(test_on_timeout),
		TEST(test_resume_with_timeout),
	};

	return cmocka_run_group_tests_name("pause", tests, NULL, NULL);
}
