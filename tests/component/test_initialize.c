/* SPDX-License-Identifier: Apache-2.0 */
/* Initializers: in order, before running; what a failure leaves; deaths in the middle. */
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "inside.h"

static struct answer *make_with(const char *fmt, const char *initializers)
{
	static char body[200 * 1024];

	(void)snprintf(body, sizeof(body), "{\"name\":\"n\",\"initializers\":%s%s}", initializers,
		       fmt);
	return call("POST", "/v1/sandboxes", body);
}

static size_t count_list(void)
{
	return json_size(member(call("GET", "/v1/sandboxes", NULL)->doc, "data"));
}

static void remember(const struct answer *a)
{
	(void)snprintf(sandbox, sizeof(sandbox), "%s", text_of(a, "id"));
}

/* Both forms with all options of a command; their processes are kept like others. */
static void test_initializers_run_first(void **state)
{
	struct answer *a = make_with(
		"", "[\"echo one\",{\"argv\":[\"whoami\"],\"user\":\"root\",\"name\":\"who\"},"
		    "{\"cmd\":\"pwd\",\"cwd\":\"/tmp\",\"env\":{\"A\":\"1\"},\"timeout_sec\":5},"
		    "{\"command\":\"true\"}]");
	const struct json *list;

	(void)state;
	expect_status(a, 201);
	assert_string_equal(text_of(a, "state"), "running");
	assert_string_equal(text_of(a, "last_error"), "");
	remember(a);
	list = member(get("/processes")->doc, "data");
	assert_int_equal(json_size(list), 4);
	a = get("/processes/1/output?follow=false");
	expect_status(a, 200);
	assert_non_null(strstr(a->body, "one"));
	assert_non_null(strstr(get("/processes/2/output?follow=false")->body, "root"));
	assert_non_null(strstr(get("/processes/3/output?follow=false")->body, "/tmp"));
}

static void test_provisioning_meanwhile(void **state)
{
	struct request req;
	struct answer a;

	(void)state;
	request_send(&req, world.admin, "POST", "/v1/sandboxes", NULL,
		     "{\"name\":\"n\",\"initializers\":[\"sleep 400\"]}");
	for (int i = 0; i < 1000 && count_list() == 0; i++)
		world_turns(1);
	world_turns(50);
	assert_string_equal(text_of(call("GET", "/v1/sandboxes/n", NULL), "state"), "provisioning");
	expect_status(call("POST", "/v1/sandboxes/n/exec", "{\"command\":\"true\"}"), 409);
	expect_status(call("POST", "/v1/sandboxes/n/pause", "{}"), 409);
	request_wait(&req, &a);
	expect_status(&a, 201);
	assert_string_equal(text_of(&a, "state"), "running");
	answer_free(&a);
	expect_status(call("POST", "/v1/sandboxes/n/exec", "{\"command\":\"true\"}"), 200);
	/* A sandbox can be destroyed while it is being created. */
	request_send(&req, world.admin, "POST", "/v1/sandboxes", NULL,
		     "{\"name\":\"o\",\"initializers\":[\"hang\"],\"retain_on_failure\":true}");
	for (int i = 0; i < 1000 && count_list() == 1; i++)
		world_turns(1);
	world_turns(20);
	expect_status(call("DELETE", "/v1/sandboxes/o", NULL), 204);
	request_wait(&req, &a);
	expect_status(&a, 410);
	answer_free(&a);
	assert_int_equal(count_list(), 1);
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 1);
}

/* From here on (0) no file grows: as on a full disk. */
static void may_write(rlim_t bytes)
{
	struct rlimit limit;

	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	limit.rlim_cur = MIN(bytes, limit.rlim_max);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* A destroy that cannot be recorded changes nothing: the initializers continue, and the sandbox
 * runs. */
static void test_end_that_is_not_recorded(void **state)
{
	struct request req;
	struct answer a;

	(void)state;
	request_send(&req, world.admin, "POST", "/v1/sandboxes", NULL,
		     "{\"name\":\"n\",\"initializers\":[\"sleep 2000\",\"true\"]}");
	for (int i = 0; i < 1000 && count_list() == 0; i++)
		world_turns(1);
	world_turns(20);
	may_write(0);
	assert_true(call("DELETE", "/v1/sandboxes/n", NULL)->status >= 500);
	may_write(RLIM_INFINITY);
	assert_string_equal(text_of(call("GET", "/v1/sandboxes/n", NULL), "state"), "provisioning");
	request_wait(&req, &a);
	expect_status(&a, 201);
	assert_string_equal(text_of(&a, "state"), "running");
	answer_free(&a);
	expect_status(call("DELETE", "/v1/sandboxes/n", NULL), 204);
}

static void expect_failure(struct answer *a, const char *text)
{
	expect_status(a, 422);
	assert_string_equal(error_code(a), "initializer_failed");
	if (!strstr(error_message(a), text))
		fail_msg("'%s' is not in: %s", text, error_message(a));
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 0);
	assert_int_equal(count_list(), 0);
}

static void test_failures(void **state)
{
	(void)state;
	expect_failure(make_with("", "[\"true\",\"exit 3\",\"true\"]"),
		       "initializer 2 of 3 (exit 3) ended with exit code 3");
	expect_failure(make_with("", "[{\"name\":\"setup\",\"cmd\":\"false\"}]"),
		       "initializer 1 of 1 (setup)");
	expect_failure(make_with("", "[{\"cmd\":\"sleep 60000\",\"timeout_sec\":1}]"),
		       "exceeded its timeout of 1 s");
	expect_failure(make_with("", "[\"signal 9\"]"), "ended by signal 9");
	expect_failure(make_with("", "[\"oom\"]"), "ran out of memory");
	expect_failure(make_with("", "[\"nosuchprogram\"]"), "could not be started");
}

/* The death of the sandbox is not a failure of a command. */
static void test_sandbox_dies(void **state)
{
	(void)state;
	expect_status(make_with("", "[\"crash\"]"), 500);
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 0);
	assert_int_equal(count_list(), 0);
	expect_status(make_with(",\"retain_on_failure\":true", "[\"crash\"]"), 500);
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 0);
	assert_string_equal(text_of(call("GET", "/v1/sandboxes/n", NULL), "state"), "error");
	expect_status(call("POST", "/v1/sandboxes/n/exec", "{\"command\":\"true\"}"), 409);
	expect_status(call("DELETE", "/v1/sandboxes/n", NULL), 204);
}

static void test_skipped(void **state)
{
	struct answer *a =
		make_with("", "[{\"cmd\":\"false\",\"continue_on_error\":true},"
			      "{\"cmd\":\"nosuch\",\"continue_on_error\":true},\"true\"]");

	(void)state;
	expect_status(a, 201);
	assert_string_equal(text_of(a, "state"), "running");
	assert_non_null(strstr(text_of(a, "last_error"), "initializer 2 of 3 (nosuch)"));
}

static void test_limits(void **state)
{
	static char big[180 * 1024];
	size_t at;

	(void)state;
	/* Number of initializers. */
	for (int n = 15; n <= 17; n++) {
		at = (size_t)snprintf(big, sizeof(big), "[");
		for (int i = 0; i < n; i++)
			at += (size_t)snprintf(big + at, sizeof(big) - at, "%s\"true\"",
					       i ? "," : "");
		(void)snprintf(big + at, sizeof(big) - at, "]");
		expect_status(make_with("", big), n <= 16 ? 201 : 400);
		if (n <= 16)
			expect_status(call("DELETE", "/v1/sandboxes/n", NULL), 204);
	}
	/* Length of one, and of all. */
	for (int n = 32 * 1024 - 1; n <= 32 * 1024 + 1; n++) {
		(void)snprintf(big, sizeof(big), "[\"%-*s\"]", n, "true");
		expect_status(make_with("", big), n <= 32 * 1024 ? 201 : 400);
		if (n <= 32 * 1024)
			expect_status(call("DELETE", "/v1/sandboxes/n", NULL), 204);
	}
	for (int over = 0; over <= 1; over++) { /* in their quotes, with commas and brackets */
		(void)snprintf(big, sizeof(big),
			       "[\"%-32700s\",\"%-32700s\",\"%-32700s\",\"%-32700s\",\"%-*s\"]",
			       "true", "true", "true", "true", 131072 - 4 * 32703 - 4 + over,
			       "true");
		assert_int_equal(strlen(big), 131072 + over);
		expect_status(make_with("", big), over ? 400 : 201);
	}
	expect_status(call("DELETE", "/v1/sandboxes/n", NULL), 204);
	/* Invalid commands. */
	expect_status(make_with("", "\"true\""), 400);
	expect_status(make_with("", "[\"\"]"), 400);
	expect_status(make_with("", "[7]"), 400);
	expect_status(make_with("", "[{}]"), 400);
	expect_status(make_with("", "[{\"cmd\":\"true\",\"command\":\"true\"}]"), 400);
	expect_status(make_with("", "[{\"cmd\":\"true\",\"argv\":[\"true\"]}]"), 400);
	expect_status(make_with("", "[{\"cmd\":\"true\",\"nope\":1}]"), 400);
	expect_status(make_with("", "[{\"cmd\":\"true\",\"env\":{\"A=B\":\"1\"}}]"), 400);
	expect_status(make_with("", "[{\"cmd\":\"true\",\"timeout_sec\":0}]"), 400);
	expect_status(make_with("", "[{\"cmd\":\"true\",\"timeout_sec\":3601}]"), 400);
	expect_status(make_with("", "[{\"cmd\":\"true\",\"timeout_sec\":3600}]"), 201);
	expect_status(call("DELETE", "/v1/sandboxes/n", NULL), 204);
	/* A relative directory starts from the template's. */
	expect_status(make_with("", "[{\"cmd\":\"true\",\"cwd\":\"relative\"}]"), 201);
	expect_status(call("DELETE", "/v1/sandboxes/n", NULL), 204);
	expect_status(make_with("", "[]"), 201);
}

/* The end of its output is the most useful part. */
static void test_output_is_reported(void **state)
{
	struct answer *a;
	const char *told;

	(void)state;
	a = make_with(",\"retain_on_failure\":true,\"timeout_sec\":60",
		      "[{\"cmd\":\"spew 300000\",\"continue_on_error\":true},"
		      "{\"cmd\":\"drip 3 1\"},\"false\"]");
	expect_status(a, 422);
	assert_non_null(strstr(error_message(a), "initializer 3 of 3 (false)"));
	assert_non_null(strstr(error_message(a), "kept as sandbox"));
	a = make_with("", "[]");
	expect_status(a, 409); /* the name is the kept one's */
	expect_status(call("DELETE", "/v1/sandboxes/n", NULL), 204);
	a = make_with(",\"retain_on_failure\":true", "[{\"cmd\":\"fail 5000 the last line\"}]");
	expect_status(a, 422);
	assert_non_null(strstr(error_message(a), "the last line"));
	told = text_of(call("GET", "/v1/sandboxes/n", NULL), "last_error");
	assert_non_null(strstr(told, "the last line"));
	assert_in_range(strlen(told), 2000, 2400);
}

/* A retained one can be used, also after a restart, until its time ends. */
static void test_kept(void **state)
{
	(void)state;
	expect_status(make_with(",\"retain_on_failure\":true,\"timeout_sec\":60", "[\"false\"]"),
		      422);
	remember(call("GET", "/v1/sandboxes/n", NULL));
	assert_string_equal(text_of(call("GET", "/v1/sandboxes/n", NULL), "state"), "error");
	assert_string_equal(text_of(call("GET", "/v1/sandboxes/n", NULL), "state_reason"),
			    "boot_failed");
	assert_int_equal(fake_live(world.engine), 1);
	expect_status(post("/exec", "{\"command\":\"echo on\"}"), 200);
	expect_status(post("/extend", "{\"timeout_sec\":2}"), 200);
	expect_status(get("/metrics"), 200);
	expect_status(post("/pause", "{}"), 409);
	expect_status(post("/snapshots", "{}"), 409);
	expect_status(post("/fork", "{}"), 409);
	fake_cut(world.engine, sandbox);
	world_turns(20);
	expect_status(post("/exec", "{\"command\":\"echo on\"}"), 200);
	world_restart();
	world_turns(50);
	assert_int_equal(fake_live(world.engine), 1);
	assert_string_equal(text_of(call("GET", "/v1/sandboxes/n", NULL), "state"), "error");
	expect_status(post("/exec", "{\"command\":\"echo on\"}"), 200);
	for (int i = 0; i < 500 && call("GET", "/v1/sandboxes/n", NULL)->status == 200; i++)
		world_turns(10);
	expect_status(call("GET", "/v1/sandboxes/n", NULL), 404);
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 0);
}

static void test_kept_one_dies(void **state)
{
	(void)state;
	expect_status(make_with(",\"retain_on_failure\":true", "[\"false\"]"), 422);
	remember(call("GET", "/v1/sandboxes/n", NULL));
	fake_die(world.engine, sandbox, false);
	world_turns(50);
	assert_string_equal(text_of(call("GET", "/v1/sandboxes/n", NULL), "state"), "error");
	expect_status(post("/exec", "{\"command\":\"true\"}"), 409);
	/* While the daemon is not running. */
	expect_status(call("DELETE", "/v1/sandboxes/n", NULL), 204);
	expect_status(make_with(",\"retain_on_failure\":true", "[\"false\"]"), 422);
	remember(call("GET", "/v1/sandboxes/n", NULL));
	world_stop();
	fake_die(world.engine, sandbox, false);
	world_start();
	world_turns(50);
	assert_string_equal(text_of(call("GET", "/v1/sandboxes/n", NULL), "state"), "error");
	expect_status(post("/exec", "{\"command\":\"true\"}"), 409);
	expect_status(call("DELETE", "/v1/sandboxes/n", NULL), 204);
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 0);
}

/*
 * The daemon dies in the middle: the client received no reply, so the sandbox is removed; the same
 * key creates one again.
 */
static void test_daemon_dies(void **state)
{
	static const char key[] = "Idempotency-Key: k1\r\n";
	static const char body[] = "{\"name\":\"n\",\"retain_on_failure\":true,"
				   "\"initializers\":[\"sleep 300\"]}";
	struct request req;
	struct answer a;
	char id[64];

	(void)state;
	for (int round = 0; round < 2; round++) {
		request_send(&req, world.admin, "POST", "/v1/sandboxes", key, body);
		for (int i = 0; i < 1000 && count_list() == 0; i++)
			world_turns(1);
		world_turns(30);
		world_stop();
		request_drop(&req);
		world_start();
		world_turns(50);
		assert_int_equal(count_list(), 0);
		assert_int_equal(fake_live(world.engine), 0);
	}
	request_send(&req, world.admin, "POST", "/v1/sandboxes", key, body);
	request_wait(&req, &a);
	expect_status(&a, 201);
	(void)snprintf(id, sizeof(id), "%s", text_of(&a, "id"));
	answer_free(&a);
	request_send(&req, world.admin, "POST", "/v1/sandboxes", key, body);
	request_wait(&req, &a);
	assert_string_equal(text_of(&a, "id"), id);
	answer_free(&a);
	assert_int_equal(count_list(), 1);
}

/* Its own run after the template's; a copy has already run the latter. */
static void test_of_a_template(void **state)
{
	char path[64], body[128];
	struct answer *a;

	(void)state;
	world_template("ready", "{\"initializers\":[\"echo template\",{\"cmd\":\"true\"}]}");
	a = call("GET", "/v1/templates/ready", NULL);
	assert_int_equal(json_size(member(a->doc, "initializers")), 2);
	a = call("POST", "/v1/sandboxes",
		 "{\"template\":\"ready\",\"initializers\":[\"echo own\"]}");
	expect_status(a, 201);
	remember(a);
	assert_int_equal(json_size(member(get("/processes")->doc, "data")), 3);
	assert_non_null(strstr(get("/processes/1/output?follow=false")->body, "template"));
	assert_non_null(strstr(get("/processes/3/output?follow=false")->body, "own"));
	a = post("/snapshots", "{}");
	expect_status(a, 201);
	(void)snprintf(body, sizeof(body), "{\"snapshot_id\":\"%s\",\"initializers\":[\"true\"]}",
		       text_of(a, "id"));
	a = call("POST", "/v1/sandboxes", body);
	expect_status(a, 201);
	(void)snprintf(path, sizeof(path), "/v1/sandboxes/%s/processes", text_of(a, "id"));
	assert_int_equal(json_size(member(call("GET", path, NULL)->doc, "data")), 1);
	a = post("/fork", "{}");
	expect_status(a, 201);
	/* One that fails. */
	world_template("broken", "{\"initializers\":[\"exit 7\"]}");
	a = call("POST", "/v1/sandboxes", "{\"template\":\"broken\"}");
	expect_status(a, 422);
	assert_non_null(strstr(error_message(a), "the template's initializer 1 of 1 (exit 7)"));
	/* A malformed list is reported in the log, and not run. */
	world_template("odd", "{\"initializers\":[7]}");
	expect_status(call("POST", "/v1/sandboxes", "{\"template\":\"odd\"}"), 201);
}

static void test_many(void **state)
{
	struct answer *a = call("POST", "/v1/sandboxes",
				"{\"count\":3,\"name\":\"m\",\"initializers\":[\"true\"]}");
	const struct json *list;

	(void)state;
	expect_status(a, 201);
	list = member(a->doc, "data");
	assert_int_equal(json_size(list), 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(str_is(json_str(member(json_at(list, i), "state")), "running"));
	assert_int_equal(
		json_size(member(call("GET", "/v1/sandboxes/m-3/processes", NULL)->doc, "data")),
		1);
	expect_status(call("POST", "/v1/sandboxes", "{\"count\":2,\"initializers\":[\"false\"]}"),
		      422);
	assert_int_equal(count_list(), 3);
	world_restart();
	assert_int_equal(count_list(), 3);
}

static void test_of_a_pool(void **state)
{
	struct request req;
	struct answer *a;

	(void)state;
	a = make_with(",\"memory_mb\":64", "[\"true\"]");
	expect_status(a, 201);
	assert_string_equal(text_of(a, "boot_path"), "pool");
	assert_string_equal(text_of(a, "state"), "running");
	remember(a);
	assert_int_equal(json_size(member(get("/processes")->doc, "data")), 1);
	expect_status(call("DELETE", "/v1/sandboxes/n", NULL), 204);
	world_turns(100);
	expect_status(make_with("", "[\"false\"]"), 422);
	assert_int_equal(count_list(), 0);
	world_turns(100);
	request_send(&req, world.admin, "POST", "/v1/sandboxes", NULL,
		     "{\"initializers\":[\"hang\"]}");
	world_turns(50);
	assert_int_equal(count_list(), 1);
	world_stop();
	request_drop(&req);
	world_start();
	world_turns(100);
	assert_int_equal(count_list(), 0);
}

/* It counts for its owner from the first initializer on. */
static void test_usage(void **state)
{
	struct answer *a = make_with("", "[\"sleep 300\"]");
	double seconds;

	(void)state;
	remember(a);
	seconds = json_number(member(get("/usage")->doc, "running_seconds"));
	assert_true(seconds >= 0.25);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_initializers_run_first),
		TEST(test_provisioning_meanwhile),
		TEST(test_end_that_is_not_recorded),
		TEST(test_failures),
		TEST(test_sandbox_dies),
		TEST(test_skipped),
		TEST(test_limits),
		TEST(test_output_is_reported),
		TEST(test_kept),
		TEST(test_kept_one_dies),
		TEST(test_daemon_dies),
		TEST(test_of_a_template),
		TEST(test_many),
		TEST(test_usage),
		cmocka_unit_test_setup_teardown(test_of_a_pool, world_setup_pool, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
