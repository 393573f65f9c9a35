/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a sandbox and its commands, through the API. */
#include <string.h>

#include "world.h"

static void test_create_get_list_delete(void **state)
{
	const char *id =
		make("{\"name\":\"one\",\"metadata\":{\"team\":\"red\"},\"env\":{\"A\":\"1\"},"
		     "\"external_workspace_id\":\"w1\",\"memory_mb\":2048}");
	struct answer *a = call("GET", path_of("/v1/sandboxes/%s", id), NULL);

	(void)state;
	expect_status(a, 200);
	assert_string_equal(text_of(a, "state"), "running");
	assert_string_equal(text_of(a, "name"), "one");
	assert_string_equal(text_of(a, "boot_path"), "cold");
	assert_string_equal(text_of(a, "external_workspace_id"), "w1");
	assert_int_equal(int_of(a, "memory_mb"), 2048);
	assert_int_equal(fake_limits(world.engine, id)->memory_mb, 2048);
	assert_int_equal(fake_live(world.engine), 1);
	a = call("GET", "/v1/sandboxes/one", NULL); /* the name is as good */
	expect_status(a, 200);
	assert_string_equal(text_of(a, "id"), id);
	a = call("GET",
		 "/v1/sandboxes?metadata.team=red&state=running&template=base&engine=fake&"
		 "external_workspace_id=w1",
		 NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 1);
	a = call("GET", "/v1/sandboxes?metadata.team=blue", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 0);
	a = call("GET", path_of("/v1/sandboxes/%s/env", id), NULL);
	assert_non_null(strstr(a->body, "\"A\":\"1\""));
	assert_non_null(strstr(a->body, "\"LANG\":\"C.UTF-8\""));
	a = call("HEAD", "/v1/sandboxes/one", NULL);
	expect_status(a, 200);
	assert_string_equal(a->body, "");
	expect_status(call("DELETE", "/v1/sandboxes/one", NULL), 204);
	a = call("GET", path_of("/v1/sandboxes/%s", id), NULL);
	expect_status(a, 404);
	assert_string_equal(error_code(a), "sandbox_not_found");
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", id), NULL), 404);
	world_turns(10);
	assert_int_equal(fake_live(world.engine), 0);
	(void)make("{\"name\":\"one\"}"); /* the name is free again */
}

static void test_names_are_unique(void **state)
{
	struct answer *a;

	(void)state;
	(void)make("{\"name\":\"x\"}");
	a = call("POST", "/v1/sandboxes", "{\"name\":\"x\"}");
	expect_status(a, 409);
	assert_string_equal(error_code(a), "conflict");
	assert_int_equal(fake_live(world.engine), 1);
}

static void test_patch_and_extend(void **state)
{
	const char *id = make("{\"name\":\"a\",\"timeout_sec\":10}");
	struct answer *a;

	(void)state;
	(void)make("{\"name\":\"b\"}");
	a = call("PATCH", path_of("/v1/sandboxes/%s", id),
		 "{\"name\":\"c\",\"metadata\":{\"k\":\"v\"},\"timeout_sec\":77}");
	expect_status(a, 200);
	assert_string_equal(text_of(a, "name"), "c");
	assert_int_equal(int_of(a, "timeout_sec"), 77);
	expect_status(call("GET", "/v1/sandboxes/a", NULL), 404);
	expect_status(call("PATCH", "/v1/sandboxes/c", "{\"name\":\"b\"}"), 409);
	expect_status(call("GET", "/v1/sandboxes/c", NULL), 200);
	a = call("PATCH", "/v1/sandboxes/c", "{\"name\":null,\"always_on\":true}");
	expect_status(a, 200);
	assert_int_equal(json_type(member(a->doc, "name")), JSON_NULL);
	assert_int_equal(json_type(member(a->doc, "expires_at")), JSON_NULL);
	a = call("PATCH", path_of("/v1/sandboxes/%s", id), "{\"cpu_count\":2}");
	expect_status(a, 400);
	assert_non_null(strstr(error_message(a), "cpu_count"));
	a = call("POST", path_of("/v1/sandboxes/%s/extend", id), "{\"timeout_sec\":500}");
	expect_status(a, 200);
	assert_int_equal(int_of(a, "timeout_sec"), 500);
	a = call("GET", path_of("/v1/sandboxes/%s/metrics", id), NULL);
	expect_status(a, 200);
	assert_int_equal(int_of(a, "memory_bytes"), 1 << 20);
}

static struct answer *run(const char *id, const char *body)
{
	return call("POST", path_of("/v1/sandboxes/%s/exec", id), body);
}

static void test_exec(void **state)
{
	const char *id = make("{}");
	struct answer *a = run(id, "{\"command\":\"echo hello\"}");

	(void)state;
	expect_status(a, 200);
	assert_string_equal(text_of(a, "stdout"), "hello\n");
	assert_string_equal(text_of(a, "reason"), "exited");
	assert_int_equal(int_of(a, "exit_code"), 0);
	a = run(id, "{\"argv\":[\"exit\",\"3\"]}");
	assert_int_equal(int_of(a, "exit_code"), 3);
	a = run(id, "{\"argv\":[\"error\",\"bad\"]}");
	assert_string_equal(text_of(a, "stderr"), "bad\n");
	a = run(id, "{\"argv\":[\"cat\"],\"stdin\":\"in\"}");
	assert_string_equal(text_of(a, "stdout"), "in");
	a = run(id, "{\"argv\":[\"cat\"],\"stdin_b64\":\"/w==\"}");
	assert_string_equal(text_of(a, "stdout_b64"), "/w==");
	assert_null(member(a->doc, "stdout"));
	a = run(id, "{\"argv\":[\"pwd\"]}");
	assert_string_equal(text_of(a, "stdout"), "/workspace\n");
	a = run(id, "{\"argv\":[\"whoami\"],\"user\":\"root\"}");
	assert_string_equal(text_of(a, "stdout"), "root\n");
	a = run(id, "{\"argv\":[\"spew\",\"5000\"],\"max_output_bytes\":100}");
	expect_status(a, 200);
	assert_int_equal(strlen(text_of(a, "stdout")), 100);
	assert_true(json_bool(member(a->doc, "stdout_truncated")));
	assert_int_equal(int_of(a, "stdout_bytes"), 5000);
	a = run(id, "{\"argv\":[\"sleep\",\"60000\"],\"timeout_sec\":1}");
	assert_int_equal(int_of(a, "exit_code"), 124);
	assert_true(json_bool(member(a->doc, "timed_out")));
	a = run(id, "{\"argv\":[\"no-such-program\"]}");
	assert_true(a->status == 400 || a->status == 404);
	a = run(id, "{\"argv\":[\"spew\",\"3000000\"],\"max_output_bytes\":4000000}");
	assert_int_equal(strlen(text_of(a, "stdout")), 3000000);
}

static void test_deaths(void **state)
{
	const char *id = make("{}"), *oom = make("{}"), *cut = make("{}"), *spoiled = make("{}");
	struct answer *a = run(id, "{\"command\":\"crash\"}");

	(void)state;
	expect_status(a, 410);
	assert_string_equal(error_code(a), "sandbox_gone");
	world_turns(20);
	a = call("GET", path_of("/v1/sandboxes/%s", id), NULL);
	expect_status(a, 200);
	assert_string_equal(text_of(a, "state"), "error");
	assert_string_equal(text_of(a, "state_reason"), "crash");
	expect_status(run(id, "{\"command\":\"true\"}"), 409);
	fake_die(world.engine, oom, true);
	world_turns(20);
	a = call("GET", path_of("/v1/sandboxes/%s", oom), NULL);
	assert_string_equal(text_of(a, "state_reason"), "oom");
	/* A broken connection is not a death: the link is reestablished. */
	fake_cut(world.engine, cut);
	world_turns(20);
	expect_status(run(cut, "{\"command\":\"true\"}"), 200);
	/* An agent that violates the protocol is disconnected; its frames are never trusted. */
	expect_status(run(spoiled, "{\"command\":\"garbage\"}"), 410);
	world_turns(20);
	expect_status(run(spoiled, "{\"command\":\"true\"}"), 200);
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", id), NULL), 204);
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", oom), NULL), 204);
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 2);
}

static void test_delete_while_running(void **state)
{
	const char *id = make("{}");
	struct request req;
	struct answer a;

	(void)state;
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/exec", id), NULL,
		     "{\"command\":\"sleep 60000\"}");
	world_turns(10);
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", id), NULL), 204);
	request_wait(&req, &a);
	expect_status(&a, 410);
	answer_free(&a);
}

static void test_client_goes_away(void **state)
{
	const char *id = make("{}");
	struct request req;

	(void)state;
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/exec", id), NULL,
		     "{\"command\":\"sleep 60000\"}");
	world_turns(10);
	request_drop(&req);
	world_turns(20);
	expect_status(run(id, "{\"command\":\"echo still\"}"), 200);
	/*
	 * Disconnected while the sandbox is being created: it stays, and the caller finds it in the
	 * list.
	 */
	fake_hold(world.engine, FAKE_CREATE);
	request_send(&req, world.admin, "POST", "/v1/sandboxes", NULL, "{\"name\":\"left\"}");
	world_turns(10);
	request_drop(&req);
	world_turns(10);
	fake_release(world.engine, FAKE_CREATE);
	world_turns(20);
	expect_status(call("GET", "/v1/sandboxes/left", NULL), 200);
}

static void test_engine_failures(void **state)
{
	struct answer *a;

	(void)state;
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	a = call("POST", "/v1/sandboxes", "{\"name\":\"n\"}");
	expect_status(a, 500);
	assert_string_equal(error_code(a), "boot_failed");
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 0);
	a = call("GET", "/v1/sandboxes", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 0);
	(void)make("{\"name\":\"n\"}"); /* name and quota were given back */
	/* An end that the engine does not confirm is no 204; it is tried again. */
	fake_fail_next(world.engine, FAKE_DESTROY, ERR_ENGINE_FAILED);
	expect_status(call("DELETE", "/v1/sandboxes/n", NULL), 503);
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 1);
	world_turns(500);
	assert_int_equal(fake_live(world.engine), 0);
}

static void test_timeouts(void **state)
{
	const char *wall = make("{\"timeout_sec\":1}");
	const char *idle = make("{\"idle_timeout_sec\":1}");
	const char *busy = make("{\"idle_timeout_sec\":1}");
	const char *always = make("{\"timeout_sec\":1,\"always_on\":true}");
	const char *always_idle =
		make("{\"timeout_sec\":1,\"idle_timeout_sec\":1,\"always_on\":true}");
	struct request req;
	struct answer *a, done;

	(void)state;
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/exec", busy), NULL,
		     "{\"command\":\"sleep 1300\"}");
	world_turns(1150);
	a = call("GET", path_of("/v1/sandboxes/%s", wall), NULL);
	expect_status(a, 404);
	assert_non_null(strstr(error_message(a), "timeout"));
	a = call("GET", path_of("/v1/sandboxes/%s", idle), NULL);
	expect_status(a, 404);
	assert_non_null(strstr(error_message(a), "idle_timeout"));
	expect_status(call("GET", path_of("/v1/sandboxes/%s", busy), NULL), 200);
	expect_status(call("GET", path_of("/v1/sandboxes/%s", always), NULL), 200);
	a = call("GET", path_of("/v1/sandboxes/%s", always_idle), NULL);
	expect_status(a, 404); /* of the hard limit alone it is free */
	assert_non_null(strstr(error_message(a), "idle_timeout"));
	request_wait(&req, &done);
	expect_status(&done, 200);
	answer_free(&done);
	world_turns(1200);
	expect_status(call("GET", path_of("/v1/sandboxes/%s", busy), NULL), 404);
}

static void test_pages_under_churn(void **state)
{
	char ids[10][32], seen[4096] = "", cursor[64] = "";
	int pages = 0, total = 0;

	(void)state;
	for (int i = 0; i < 10; i++)
		(void)snprintf(ids[i], sizeof(ids[i]), "%s", make("{}"));
	for (;;) {
		struct answer *a = call(
			"GET",
			path_of("/v1/sandboxes?limit=3%s%s", cursor[0] ? "&cursor=" : "", cursor),
			NULL);
		const struct json *data = member(a->doc, "data");

		expect_status(a, 200);
		for (size_t i = 0; i < json_size(data); i++, total++) {
			const char *id = json_str(member(json_at(data, i), "id")).p;

			assert_null(strstr(seen, id)); /* nothing twice */
			(void)strcat(strcat(seen, id), " ");
		}
		(void)snprintf(cursor, sizeof(cursor), "%s", text_of(a, "next_cursor"));
		if (++pages == 1) {
			(void)make("{}"); /* newer: not in later pages */
			expect_status(call("DELETE", path_of("/v1/sandboxes/%s", ids[0]), NULL),
				      204);
		}
		if (!cursor[0])
			break;
	}
	assert_int_equal(pages, 3);
	assert_int_equal(total, 9);
	for (int i = 1; i < 10; i++)
		assert_non_null(strstr(seen, ids[i]));
}

static void test_retained(void **state)
{
	struct answer *a;
	char id[64] = "", key[64];

	(void)state;
	(void)snprintf(key, sizeof(key), "%s",
		       make_key("[\"sandboxes:write\",\"sandboxes:read\"]"));
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	a = call_as(key, "POST", "/v1/sandboxes",
		    "{\"name\":\"n\",\"retain_on_failure\":true,\"timeout_sec\":2}");
	expect_status(a, 500);
	assert_string_equal(error_code(a), "boot_failed");
	a = call_as(key, "GET", "/v1/sandboxes/n", NULL);
	expect_status(a, 200);
	(void)snprintf(id, sizeof(id), "%s", text_of(a, "id"));
	assert_string_equal(text_of(a, "state"), "error");
	assert_string_equal(text_of(a, "state_reason"), "boot_failed");
	assert_true(text_of(a, "last_error")[0] != '\0');
	world_turns(20);
	assert_int_equal(fake_live(world.engine), 0);
	/* It counts, and stays across a restart. */
	world_restart();
	expect_status(call_as(key, "GET", path_of("/v1/sandboxes/%s", id), NULL), 200);
	assert_int_equal(int_of(call_as(key, "GET", "/v1/keys/self", NULL), "sandboxes"), 1);
	expect_status(call_as(key, "POST", path_of("/v1/sandboxes/%s/exec", id),
			      "{\"command\":\"true\"}"),
		      403);
	expect_status(call("POST", path_of("/v1/sandboxes/%s/exec", id), "{\"command\":\"true\"}"),
		      409);
	/* It is removed by its timeout, or by a request. */
	for (int i = 0;
	     i < 500 && call("GET", path_of("/v1/sandboxes/%s", id), NULL)->status == 200; i++)
		world_turns(10);
	expect_status(call("GET", path_of("/v1/sandboxes/%s", id), NULL), 404);
	assert_int_equal(int_of(call_as(key, "GET", "/v1/keys/self", NULL), "sandboxes"), 0);
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	expect_status(call("POST", "/v1/sandboxes", "{\"name\":\"m\",\"retain_on_failure\":true}"),
		      500);
	expect_status(call("DELETE", "/v1/sandboxes/m", NULL), 204);
	expect_status(call("GET", "/v1/sandboxes/m", NULL), 404);
	/* Without it nothing is left. */
	fake_fail_next(world.engine, FAKE_CREATE, ERR_BOOT_FAILED);
	expect_status(call("POST", "/v1/sandboxes", "{\"name\":\"o\"}"), 500);
	expect_status(call("GET", "/v1/sandboxes/o", NULL), 404);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_create_get_list_delete),
		TEST(test_retained),
		TEST(test_names_are_unique),
		TEST(test_patch_and_extend),
		TEST(test_exec),
		TEST(test_deaths),
		TEST(test_delete_while_running),
		TEST(test_client_goes_away),
		TEST(test_engine_failures),
		TEST(test_timeouts),
		TEST(test_pages_under_churn),
	};

	return cmocka_run_group_tests_name("sandboxes", tests, NULL, NULL);
}
