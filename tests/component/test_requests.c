/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rejected requests, whose errors name the field: ranges, types, unknown and future fields, hosts,
 * origins, media types, routes.
 */
#include <stdio.h>
#include <string.h>

#include "service/run/exec.h"
#include "engine/driver.h"
#include "world.h"

struct range {
	const char *field;
	long long min, max;
};

static void try_value(const char *path, const char *prefix, const char *field, long long value,
		      bool ok, int good)
{
	struct answer *a = call("POST", path, path_of("{%s\"%s\":%lld}", prefix, field, value));

	if (ok) {
		expect_status(a, good);
		return;
	}
	expect_status(a, 400);
	assert_string_equal(error_code(a), "invalid_request");
	assert_non_null(strstr(error_message(a), field));
}

static void test_ranges_of_create(void **state)
{
	static const struct range ranges[] = {
		{ "memory_mb", 1, 8192 },
		{ "disk_size_mb", 1, 10240 },
		{ "timeout_sec", 1, 86400 },
		{ "idle_timeout_sec", 0, 86400 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
		const struct range *r = &ranges[i];

		try_value("/v1/sandboxes", "", r->field, r->min, true, 201);
		try_value("/v1/sandboxes", "", r->field, r->max, true, 201);
		try_value("/v1/sandboxes", "", r->field, r->min - 1, false, 201);
		try_value("/v1/sandboxes", "", r->field, r->max + 1, false, 201);
		/* The message contains the range. */
		call("POST", "/v1/sandboxes", path_of("{\"%s\":%lld}", r->field, r->max + 1));
	}
}

static void test_ranges_of_exec(void **state)
{
	const char *path = path_of("/v1/sandboxes/%s/exec", make("{}"));
	const char *prefix = "\"command\":\"true\",";

	(void)state;
	try_value(path, prefix, "timeout_sec", 1, true, 200);
	try_value(path, prefix, "timeout_sec", 86400, true, 200);
	try_value(path, prefix, "timeout_sec", 0, false, 200);
	try_value(path, prefix, "timeout_sec", 86401, false, 200);
	try_value(path, prefix, "max_output_bytes", EXEC_OUTPUT_MAX, true, 200);
	try_value(path, prefix, "max_output_bytes", EXEC_OUTPUT_MAX + 1, false, 200);
}

static void test_wrong_bodies_of_create(void **state)
{
	static const struct {
		const char *body, *named;
		int status;
	} bad[] = {
		{ "{\"cpu_count\":\"2\"}", "cpu_count", 400 },
		{ "{\"cpu_count\":0.049}", "cpu_count", 400 },
		{ "{\"always_on\":1}", "always_on", 400 },
		{ "{\"name\":\"Has Space\"}", "name", 400 },
		{ "{\"name\":\"\"}", "name", 400 },
		{ "{\"template\":\"../etc\"}", "template", 400 },
		{ "{\"template\":\"absent\"}", "absent", 404 },
		{ "{\"engine\":\"docker\"}", "docker", 400 },
		{ "{\"env\":[]}", "env", 400 },
		{ "{\"env\":{\"A\":1}}", "env.A", 400 },
		{ "{\"env\":{\"1A\":\"x\"}}", "1A", 400 },
		{ "{\"env\":{\"A\":\"x\\u0000y\"}}", "", 400 },
		{ "{\"metadata\":{\"a=b\":\"x\"}}", "a=b", 400 },
		{ "{\"nonsense\":1}", "nonsense", 400 },
		{ "{\"pool\":{\"mode\":\"maybe\"}}", "pool.mode", 400 },
		{ "{\"pool\":{\"wait_ms\":30001}}", "pool.wait_ms", 400 },
		{ "{\"pool\":{\"colour\":1}}", "colour", 400 },
		{ "{\"pool\":{\"name\":\"p\"}}", "pool.name", 422 },
		{ "{\"network\":{\"mode\":\"full\"}}", "network.mode", 422 },
		{ "{\"network\":{\"mode\":\"warp\"}}", "network.mode", 400 },
		{ "{\"network\":{\"allow\":[\"ok.test\",\"no host\"]}}", "network.allow[1]", 400 },
		{ "{\"volumes\":[{}]}", "volumes", 422 },
		{ "{\"secrets\":[\"s\"]}", "secrets[0]", 404 },
		{ "{\"snapshot_id\":\"s\"}", "snapshot", 404 },
		{ "{\"snapshot_id\":7}", "snapshot_id", 400 },
		{ "{\"initializers\":[{}]}", "initializers", 400 },
		{ "{\"on_timeout\":\"nap\"}", "on_timeout", 400 },
		{ "{\"auto_resume\":1}", "auto_resume", 400 },
		{ "{\"cpu_count\":1,\"cpu_count\":2}", "cpu_count", 400 },
		{ "{\"engine\":\"warp\"}", "enabled: fake", 400 },
		{ "{\"engine\":\"local\"}", "cay up --engine-local", 400 },
		{ "[]", "object", 400 },
		{ "{", "", 400 },
		{ "{} {}", "", 400 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct answer *a = call("POST", "/v1/sandboxes", bad[i].body);

		if (a->status != bad[i].status || !strstr(error_message(a), bad[i].named))
			fail_msg("%s: %d %s", bad[i].body, a->status, a->body);
	}
	world_turns(10);
	assert_int_equal(fake_live(world.engine), 0);
	/* A field with its default value is accepted. */
	(void)make("{\"network\":{\"mode\":\"none\",\"allow\":[]},\"volumes\":[],\"secrets\":null,"
		   "\"on_timeout\":\"destroy\",\"auto_resume\":false,\"provider\":\"fake\"}");
}

static void test_wrong_bodies_of_exec(void **state)
{
	static const struct {
		const char *body, *named;
	} bad[] = {
		{ "{}", "command" },
		{ "{\"command\":\"\"}", "command" },
		{ "{\"command\":\"a\",\"argv\":[\"a\"]}", "argv" },
		{ "{\"argv\":[]}", "argv" },
		{ "{\"argv\":[1]}", "argv" },
		{ "{\"argv\":[\"\"]}", "argv" },
		{ "{\"argv\":\"x\"}", "argv" },
		{ "{\"command\":\"a\",\"stdin\":\"x\",\"stdin_b64\":\"eA==\"}", "stdin" },
		{ "{\"command\":\"a\",\"stdin_b64\":\"***\"}", "stdin_b64" },
		{ "{\"command\":\"a\",\"env\":{\"A B\":\"x\"}}", "A B" },
		{ "{\"command\":\"a\",\"shell\":\"x\"}", "shell" },
		{ "{\"command\":\"a\",\"cwd\":\"\"}", "cwd" },
	};
	const char *path = path_of("/v1/sandboxes/%s/exec", make("{}"));
	char *large = malloc(700000), *at = large;
	struct answer *a;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		a = call("POST", path, bad[i].body);
		if (a->status != 400 || !strstr(error_message(a), bad[i].named))
			fail_msg("%s: %d %s", bad[i].body, a->status, a->body);
	}
	/*
	 * Near the limit of arguments and environment, and over it; one string has its own limit.
	 */
	at += sprintf(at, "{\"argv\":[\"true\"");
	for (int i = 0; i < 5; i++, at += 100000) {
		at += sprintf(at, ",\"");
		memset(at, 'x', 100000);
		at[100000] = '"';
		at++;
	}
	(void)strcpy(at, "]}");
	expect_status(call("POST", path, large), 200);
	at += sprintf(at, ",\"");
	memset(at, 'x', 100000);
	(void)strcpy(at + 100000, "\"]}");
	a = call("POST", path, large);
	expect_status(a, 400);
	assert_non_null(strstr(error_message(a), "argv"));
	at = large + sprintf(large, "{\"command\":\"");
	memset(at, 'x', EXEC_STRING_MAX);
	(void)strcpy(at + EXEC_STRING_MAX, "\"}");
	a = call("POST", path, large);
	expect_status(a, 400);
	assert_non_null(strstr(error_message(a), "command"));
	at = large + sprintf(large, "{\"argv\":[\"true\",\"");
	memset(at, 'x', EXEC_STRING_MAX - 1);
	(void)strcpy(at + EXEC_STRING_MAX - 1, "\"]}");
	expect_status(call("POST", path, large), 200);
	free(large);
}

static struct answer *with_headers(const char *method, const char *path, const char *headers,
				   const char *body)
{
	static struct answer a;
	struct request req;

	answer_free(&a);
	request_send(&req, world.admin, method, path, headers, body);
	request_wait(&req, &a);
	return &a;
}

static void test_guards(void **state)
{
	struct answer *a;

	(void)state;
	a = with_headers("GET", "/v1/options", "Host: evil.example\r\n", NULL);
	expect_status(a, 421);
	assert_string_equal(error_code(a), "host_not_allowed");
	expect_status(with_headers("GET", "/v1/options", "Host: cay.example\r\n", NULL), 200);
	expect_status(with_headers("GET", "/v1/options", "Host: other:81\r\n", NULL), 200);
	expect_status(with_headers("GET", "/healthz", "Host: evil.example\r\n", NULL), 421);
	expect_status(with_headers("POST", "/v1/sandboxes", "Content-Type: text/plain\r\n", "{}"),
		      415);
	expect_status(with_headers("POST", "/v1/sandboxes",
				   "Content-Type: application/json; charset=utf-8\r\n", "{}"),
		      201);
	a = with_headers("POST", "/v1/sandboxes", "Content-Encoding: gzip\r\n", "{}");
	expect_status(a, 415);
	assert_non_null(strstr(error_message(a), "Content-Encoding"));
	expect_status(with_headers("POST", "/v1/sandboxes", "Content-Encoding: identity\r\n", "{}"),
		      201);
	/* The helper already sends a valid key: a second one, valid or not, is an error. */
	expect_status(with_headers("GET", "/v1/options", "Authorization: Bearer x\r\n", NULL), 401);
	expect_status(
		with_headers("POST", "/v1/sandboxes", "Origin: http://evil.example\r\n", "{}"),
		403);
	expect_status(with_headers("POST", "/v1/sandboxes", "Origin: null\r\n", "{}"), 403);
	expect_status(with_headers("POST", "/v1/sandboxes", "Origin: http://localhost\r\n", "{}"),
		      201);
	expect_status(with_headers("GET", "/v1/sandboxes", "Origin: http://evil.example\r\n", NULL),
		      200);
	answer_free(a);
}

static void test_routes(void **state)
{
	struct answer *a;

	(void)state;
	a = call("GET", "/v1/nothing", NULL);
	expect_status(a, 404);
	assert_string_equal(error_code(a), "route_not_found");
	expect_status(call("GET", "/v1/sandboxes/", NULL), 404);
	expect_status(call("GET", "//v1/sandboxes", NULL), 404);
	expect_status(call("GET", "/v1/sandboxes/a%2Fb", NULL), 404);
	expect_status(call("GET", "/v1/sandboxes/..", NULL), 404);
	a = call("PUT", "/v1/sandboxes", NULL);
	expect_status(a, 405);
	assert_non_null(strstr(a->head, "Allow: POST, GET, HEAD"));
	a = call("POST", "/v1/volumes", NULL);
	expect_status(a, 422);
	assert_string_equal(error_code(a), "unsupported");
	expect_status(call("GET", "/v1/sandboxes/x/files/raw", NULL), 404);
	expect_status(call("GET", "/v1/sandboxes?limit=0", NULL), 400);
	expect_status(call("GET", "/v1/sandboxes?limit=1000", NULL), 200);
	expect_status(call("GET", "/v1/sandboxes?limit=1001", NULL), 400);
	expect_status(call("GET", "/v1/sandboxes?cursor=x", NULL), 400);
	expect_status(call("GET", "/v1/sandboxes?state=sideways", NULL), 400);
	a = call("GET", "/v1/sandboxes?colour=red", NULL);
	expect_status(a, 400);
	assert_non_null(strstr(error_message(a), "colour"));
	a = call("GET", "/v1/templates/base", NULL);
	expect_status(a, 200);
	assert_string_equal(text_of(a, "shell"), "/bin/bash");
	expect_status(call("GET", "/v1/templates/none", NULL), 404);
	a = call("GET", "/v1/templates", NULL);
	assert_int_equal(json_size(member(a->doc, "data")), 1);
	world_driver()->image = NULL; /* this engine builds nothing */
	expect_status(call("POST", "/v1/templates/base/builds", NULL), 422);
	expect_status(call("GET", "/v1/templates/base/builds", NULL), 200);
}

static void test_error_shape(void **state)
{
	struct answer *a = call("GET", "/v1/sandboxes/none", NULL);
	const struct json *error = member(a->doc, "error");
	char header[64];

	(void)state;
	assert_int_equal(json_size(a->doc), 1);
	assert_int_equal(json_size(error), 5);
	assert_int_equal(json_type(member(error, "retryable")), JSON_BOOL);
	assert_int_equal(json_type(member(error, "hint")), JSON_STRING);
	(void)snprintf(header, sizeof(header), "X-Request-Id: %s",
		       json_str(member(error, "request_id")).p);
	assert_non_null(strstr(a->head, header));
}

static void test_openapi_and_metrics(void **state)
{
	static const char *const paths[] = { "/v1/sandboxes",
					     "/v1/sandboxes/{id}/exec",
					     "/v1/sandboxes/{id}/exec/stream",
					     "/v1/sandboxes/{id}/processes",
					     "/v1/sandboxes/{id}/processes/{pid}",
					     "/v1/sandboxes/{id}/processes/{pid}/output",
					     "/v1/sandboxes/{id}/processes/{pid}/stdin",
					     "/v1/sandboxes/{id}/processes/{pid}/close-stdin",
					     "/v1/sandboxes/{id}/processes/{pid}/signal",
					     "/v1/sandboxes/{id}/processes/{pid}/resize",
					     "/v1/sandboxes/{id}/processes/{pid}/attach",
					     "/v1/sandboxes/{id}/pty",
					     "/v1/sandboxes/{id}/windows",
					     "/v1/sandboxes/{id}/windows/{name}",
					     "/v1/sandboxes/{id}/windows/{name}/run",
					     "/v1/sandboxes/{id}/windows/{name}/input",
					     "/v1/keys/{id}",
					     "/v1/options",
					     "/healthz",
					     "/v1/templates/{id}/builds/{build_id}" };
	struct answer *a = call_as(NULL, "GET", "/openapi.json", NULL);
	const struct json *fields;

	(void)state;
	expect_status(a, 200);
	assert_non_null(a->doc);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		assert_non_null(member(member(a->doc, "paths"), paths[i]));
	fields = member(member(member(a->doc, "paths"), "/v1/sandboxes"), "post");
	assert_non_null(strstr(a->body, "\"maximum\":10240"));
	assert_string_equal(json_str(member(fields, "x-scope")).p, "sandboxes:write");
	(void)make("{}");
	a = call("GET", "/metrics", NULL);
	expect_status(a, 200);
	assert_non_null(strstr(a->body, "cay_sandboxes{state=\"running\"} 1\n"));
	assert_non_null(strstr(a->body, "cay_creates_cold_total 1\n"));
	a = call("GET", "/v1/options", NULL);
	expect_status(a, 200);
	assert_int_equal(json_size(member(a->doc, "engines")), 1);
}

/* In both faces. */
static void test_slow_bodies(void **state)
{
	static const char *const paths[] = { "/v1/sandboxes", "/v2/sandboxes" };

	(void)state;
	world.body_timeout_ms = 50;
	world_restart();
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct request req;
		struct answer answer;

		request_open(&req);
		request_write(&req, str_of(path_of("POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
						   "X-API-Key: %s\r\nContent-Length: 10\r\n"
						   "Content-Type: application/json\r\n\r\n{",
						   paths[i], world.admin)));
		request_wait(&req, &answer);
		expect_status(&answer, 408);
		answer_free(&answer);
	}
	world.body_timeout_ms = 0;
}

static void test_shutdown(void **state)
{
	struct answer *a;

	(void)state;
	(void)make("{}");
	(void)make("{}");
	a = call("POST", "/v1/admin/shutdown", "{\"destroy\":true}");
	expect_status(a, 200);
	assert_true(world.shutdown);
	assert_int_equal(fake_live(world.engine), 0);
	expect_status(call("POST", "/v1/sandboxes", "{}"), 503);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_ranges_of_create),
		TEST(test_ranges_of_exec),
		TEST(test_wrong_bodies_of_create),
		TEST(test_wrong_bodies_of_exec),
		TEST(test_guards),
		TEST(test_routes),
		TEST(test_error_shape),
		TEST(test_openapi_and_metrics),
		TEST(test_slow_bodies),
		TEST(test_shutdown),
	};

	return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
