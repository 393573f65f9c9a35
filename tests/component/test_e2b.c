/* SPDX-License-Identifier: Apache-2.0 */
/* The E2B face through the whole daemon: its control plane, tokens and envelopes. */
#include <string.h>

#include "base/time.h"
#include "face/e2b/envd/connect.h"
#include "service/account/access_token.h"
#include "world.h"

static char id[32], token[80];

/* One call on the control plane, with the key as E2B spells it. */
static struct answer *control(const char *method, const char *path, const char *body)
{
	static struct answer last;
	struct request req;
	char headers[128];

	answer_free(&last);
	(void)snprintf(headers, sizeof(headers), "X-API-KEY: e2b_%s\r\n", world.admin + 4);
	request_send(&req, NULL, method, path, headers, body);
	request_wait(&req, &last);
	return &last;
}

static void new_one(const char *body)
{
	struct answer *a = control("POST", "/v2/sandboxes", body);

	expect_status(a, 201);
	(void)snprintf(id, sizeof(id), "%s", text_of(a, "sandboxID"));
	(void)snprintf(token, sizeof(token), "%s", text_of(a, "envdAccessToken"));
	assert_int_equal(strlen(token), 64);
}

static const char *envd_headers(const char *more)
{
	return path_of("E2b-Sandbox-Id: %s\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: %s\r\n%s",
		       id, token, more);
}

static struct answer *unary(const char *name, const char *body)
{
	static struct answer last;
	struct request req;

	answer_free(&last);
	request_send(&req, NULL, "POST", name, envd_headers(""), body);
	request_wait(&req, &last);
	return &last;
}

static void stream_send(struct request *req, const char *name, const char *message,
			const char *more)
{
	struct buf body;

	buf_init(&body, 65536);
	assert_int_equal(envelope_begin(&body), 0);
	assert_int_equal(buf_puts(&body, message), 0);
	envelope_close(&body, 0);
	request_send_bytes(
		req, NULL, "POST", name,
		envd_headers(path_of("Content-Type: application/connect+json\r\n%s", more)),
		buf_str(&body));
	buf_done(&body);
}

/* The messages of a stream, one per line, the last with a '!' in front. */
static char *messages(const struct answer *a)
{
	struct str rest = { a->body, a->n }, message;
	char *text = calloc(1, a->n + 2);
	size_t used;
	bool end;

	assert_non_null(text);
	while (envelope_next(rest, 1 << 20, &message, &used, &end) == 1) {
		(void)sprintf(text + strlen(text), "%s%.*s\n", end ? "!" : "", (int)message.n,
			      message.p);
		rest = (struct str){ rest.p + used, rest.n - used };
	}
	assert_int_equal(rest.n, 0);
	return text;
}

static void expect_stream(const char *name, const char *message, const char *const *wanted)
{
	struct request req;
	struct answer a;
	char *text;

	stream_send(&req, name, message, "");
	request_wait(&req, &a);
	expect_status(&a, 200);
	text = messages(&a);
	for (; *wanted; wanted++)
		if (!strstr(text, *wanted))
			fail_msg("no %s in %s", *wanted, text);
	free(text);
	answer_free(&a);
}

/* ---- tests ---- */

static void test_control(void **state)
{
	struct answer *a;

	(void)state;
	new_one("{\"templateID\":\"base\",\"timeout\":60,\"metadata\":{\"a\":\"b "
		"c\"},\"envVars\":{\"X\":\"1\"}}");
	a = control("GET", path_of("/sandboxes/%s", id), NULL);
	expect_status(a, 200);
	assert_string_equal(text_of(a, "state"), "running");
	assert_string_equal(text_of(a, "templateID"), "base");
	assert_string_equal(text_of(a, "envdAccessToken"), token);
	a = control("GET", "/v2/sandboxes?metadata=a%3Db%252520c&state=running,paused&limit=1",
		    NULL);
	expect_status(a, 200);
	assert_non_null(strstr(a->body, id));
	assert_non_null(strstr(a->head, "X-Total-Running: 1"));
	a = control("GET", "/v2/sandboxes?metadata=a%3Dother", NULL);
	assert_string_equal(a->body, "[]");
	expect_status(control("POST", path_of("/sandboxes/%s/timeout", id), "{\"timeout\":5}"),
		      204);
	expect_status(control("POST", path_of("/v2/sandboxes/%s/connect", id), "{}"), 200);
	expect_status(control("DELETE", path_of("/sandboxes/%s", id), NULL), 204);
	a = control("DELETE", path_of("/sandboxes/%s", id), NULL);
	expect_status(a, 404);
	assert_int_equal(int_of(a, "code"), 404);
}

/* A link that names no sandbox makes the daemon try all of them: not more often than this. */
static void test_signed_links_are_limited(void **state)
{
	int refused = 0;

	(void)state;
	new_one("{\"templateID\":\"base\"}");
	for (int i = 0; i < 40; i++) {
		const struct answer *a =
			call_as(NULL, "GET", "/files?path=/x&username=user&signature=v1_x", NULL);

		assert_true(a->status == 401 || a->status == 429);
		assert_true(a->status == (i < 30 ? 401 : 429));
		refused += a->status == 429;
	}
	assert_int_equal(refused, 10);
	/* The token itself is still good, a wrong one is not looked at any longer. */
	expect_status(unary("/process.Process/List", "{}"), 200);
	token[0] = token[0] == '0' ? '1' : '0';
	expect_status(unary("/process.Process/List", "{}"), 429);
}

/* Strangers together cannot use up what the daemon hashes for such links in a second. */
static void test_signed_links_of_strangers(void **state)
{
	struct access_claim claim = { STR_LIT("/x"), STR_LIT("user"), "read", { NULL, 0 } };
	int64_t second;
	int tried;

	(void)state;
	new_one("{\"templateID\":\"base\"}");
	do { /* within one second of the clock */
		struct err err = { .code = ERR_OK };

		second = time_mono_us() / 1000000;
		for (tried = 0; err.code != ERR_RATE_LIMITED && tried < 100000; tried++)
			assert_null(access_find_signed(world.service, &claim, STR_LIT("v1_x"),
						       false, &err));
		(void)access_find_signed(world.service, &claim, STR_LIT("v1_x"), true, &err);
		if (second == time_mono_us() / 1000000)
			assert_int_equal(err.code, ERR_UNAUTHENTICATED); /* not rate_limited */
	} while (second != time_mono_us() / 1000000);
	assert_int_equal(tried, ACCESS_SEARCH_STRANGERS + 1); /* one sandbox each */
}

static void test_refusals(void **state)
{
	static const struct {
		const char *method, *path, *body;
		int status;
	} rows[] = {
		{ "POST", "/v2/sandboxes", "{}", 400 },
		{ "POST", "/v2/sandboxes", "[]", 400 },
		{ "POST", "/v2/sandboxes", "{\"templateID\":1}", 400 },
		{ "POST", "/v2/sandboxes", "{\"templateID\":\"nope\"}", 404 },
		{ "POST", "/v2/sandboxes", "{\"templateID\":\"base\",\"timeout\":90000}", 400 },
		{ "POST", "/v2/sandboxes", "{\"templateID\":\"base\",\"mcp\":[1]}", 400 },
		{ "POST", "/v2/sandboxes", "{\"templateID\":\"mcp-gateway\",\"mcp\":{\"a\":{}}}",
		  404 },
		{ "POST", "/v2/sandboxes",
		  "{\"templateID\":\"base\",\"network\":{\"maskRequestHost\":\"example.com\"}}",
		  501 },
		{ "POST", "/v2/sandboxes",
		  "{\"templateID\":\"base\",\"autoPause\":true,\"autoPauseMemory\":false,"
		  "\"autoResume\":{\"enabled\":true}}",
		  400 },
		{ "GET", "/v2/sandboxes?limit=0", NULL, 400 },
		{ "GET", "/v2/sandboxes?state=gone", NULL, 400 },
		{ "GET", "/v2/sandboxes?nextToken=x", NULL, 400 },
		{ "GET", "/v2/sandboxes?metadata=%25zz", NULL, 400 },
		{ "GET", "/sandboxes/nothere", NULL, 404 },
		{ "PATCH", "/sandboxes", "{}", 405 },
		{ "GET", "/sandboxes/a/b/c", NULL, 404 },
		{ "GET", "/volumes", NULL, 501 },
		{ "GET", "/secrets/nothere", NULL, 404 },
		{ "POST", "/secrets", "{\"name\":\"A\"}", 400 },
		{ "POST", "/v3/templates", "{}", 501 },
		{ "GET", "/templates/aliases/nope", NULL, 404 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct answer *a = control(rows[i].method, rows[i].path, rows[i].body);

		if (a->status != rows[i].status || int_of(a, "code") != rows[i].status)
			fail_msg("%s %s: %d %s", rows[i].method, rows[i].path, a->status, a->body);
	}
	/* Without a key nothing is revealed, not even what exists. */
	struct answer *a = call_as(NULL, "GET", "/v2/sandboxes", NULL);

	expect_status(a, 401);
	assert_int_equal(int_of(a, "code"), 401);
	/* A key without the scope to run commands gets no token either. */
	expect_status(call_as(make_key("[\"sandboxes:read\",\"sandboxes:write\"]"), "POST",
			      "/v2/sandboxes", "{\"templateID\":\"base\"}"),
		      403);
}

static void test_access(void **state)
{
	struct request req;
	struct answer a;
	char good[80], other[32];

	(void)state;
	new_one("{\"templateID\":\"base\"}");
	(void)snprintf(other, sizeof(other), "%s", id);
	memcpy(good, token, sizeof(good));
	new_one("{\"templateID\":\"base\"}");
	assert_string_not_equal(good, token);
	expect_status(unary("/process.Process/List", "{}"), 200);
	memcpy(token, good, sizeof(token)); /* of another sandbox */
	expect_status(unary("/process.Process/List", "{}"), 401);
	(void)snprintf(id, sizeof(id), "%s", other);
	expect_status(unary("/process.Process/List", "{}"), 200);
	/* The same after a restart. */
	world_restart();
	expect_status(unary("/process.Process/List", "{}"), 200);
	request_send(&req, NULL, "GET", "/health", path_of("E2b-Sandbox-Id: %s\r\n", id), NULL);
	request_wait(&req, &a);
	expect_status(&a, 400);
	answer_free(&a);
	request_send(&req, NULL, "GET", "/health",
		     "E2b-Sandbox-Id: nothere\r\nE2b-Sandbox-Port: 49983\r\n", NULL);
	request_wait(&req, &a);
	expect_status(&a, 502);
	answer_free(&a);
	request_send(&req, NULL, "GET", "/health", path_of("Host: 49983-%s.cay.localhost\r\n", id),
		     NULL);
	request_wait(&req, &a);
	expect_status(&a, 204);
	answer_free(&a);
	request_send(&req, NULL, "GET", "/files?path=/x&signature=v1_nope", NULL, NULL);
	request_wait(&req, &a);
	expect_status(&a, 401);
	answer_free(&a);
}

static void test_start(void **state)
{
	(void)state;
	new_one("{\"templateID\":\"base\"}");
	expect_stream("/process.Process/Start",
		      "{\"process\":{\"cmd\":\"echo\",\"args\":[\"hello\"]}}",
		      (const char *const[]){ "{\"event\":{\"start\":{\"pid\":",
					     "{\"event\":{\"data\":{\"stdout\":\"aGVsbG8K\"}}}",
					     "\"exitCode\":0,\"exited\":true", "\n!{}\n", NULL });
	expect_stream("/process.Process/Start", "{\"process\":{\"cmd\":\"exit\",\"args\":[\"3\"]}}",
		      (const char *const[]){ "\"exitCode\":3,\"exited\":true,\"status\":\"exit "
					     "status 3\",\"error\":\"exit status 3\"",
					     NULL });
	expect_stream(
		"/process.Process/Start", "{\"process\":{\"cmd\":\"signal\",\"args\":[\"9\"]}}",
		(const char *const[]){ "\"exitCode\":-1,\"exited\":false,\"status\":\"signal: "
				       "killed\"",
				       NULL });
	expect_stream("/process.Process/Start", "{}",
		      (const char *const[]){ "!{\"error\":{\"code\":\"invalid_argument\"", NULL });
	expect_stream("/process.Process/Connect", "{\"process\":{\"pid\":4242}}",
		      (const char *const[]){ "!{\"error\":{\"code\":\"not_found\",\"message\":"
					     "\"process with pid 4242 not found\"}}",
					     NULL });
	expect_stream("/filesystem.Filesystem/WatchDir", "{\"path\":5}",
		      (const char *const[]){ "!{\"error\":{\"code\":\"invalid_argument\"", NULL });
}

static void test_broken_bodies(void **state)
{
	static const struct str bodies[] = { STR_LIT(""),
					     STR_LIT("{}"),
					     STR_LIT("\1\0\0\0\2{}"),
					     STR_LIT("\0\0\0\0\2{"),
					     STR_LIT("\0\0\0\0\2{}\0"),
					     STR_LIT("\0\xff\xff\xff\xff{}"),
					     STR_LIT("\0\0\0\0\2[]"),
					     STR_LIT("\2\0\0\0\2{}") };

	(void)state;
	new_one("{\"templateID\":\"base\"}");
	for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
		struct request req;
		struct answer a;
		char *text;

		request_send_bytes(&req, NULL, "POST", "/process.Process/Start",
				   envd_headers("Content-Type: application/connect+json\r\n"),
				   bodies[i]);
		request_wait(&req, &a);
		expect_status(&a, 200);
		text = messages(&a);
		assert_non_null(strstr(text, "!{\"error\":{\"code\":\"invalid_argument\""));
		free(text);
		answer_free(&a);
	}
	expect_status(unary("/process.Process/Start", "{}"), 415);
	expect_status(unary("/process.Process/Nope", "{}"), 404);
	expect_status(unary("/process.Process/SendSignal", "{\"process\":{\"pid\":-1}}"), 400);
	expect_status(unary("/process.Process/SendInput",
			    "{\"process\":{\"pid\":1},\"input\":{\"stdin\":\"!\"}}"),
		      400);
	expect_status(unary("/filesystem.Filesystem/Stat", "{\"path\":\"a\\u0000b\"}"), 400);
}

/*
 * The client disconnects, the process stays; another client finds it by its pid, feeds it and sees
 * its end.
 */
static void test_follow(void **state)
{
	struct request first, second;
	struct answer a;
	const char *at;
	unsigned pid;
	char *text;

	(void)state;
	new_one("{\"templateID\":\"base\"}");
	stream_send(&first, "/process.Process/Start",
		    "{\"process\":{\"cmd\":\"cat\"},\"tag\":\"t\"}", "");
	at = request_until(&first, "\"pid\":");
	(void)request_until(&first, "}}}");
	pid = (unsigned)strtoul(at + 6, NULL, 10);
	request_drop(&first);
	world_turns(20);
	stream_send(&second, "/process.Process/Connect", path_of("{\"process\":{\"pid\":%u}}", pid),
		    "");
	(void)request_until(&second, "\"pid\":");
	expect_status(unary("/process.Process/SendInput",
			    "{\"process\":{\"tag\":\"t\"},\"input\":{\"stdin\":\"aGkK\"}}"),
		      200);
	(void)request_until(&second, "\"stdout\":\"aGkK\"");
	expect_status(
		unary("/process.Process/CloseStdin", path_of("{\"process\":{\"pid\":%u}}", pid)),
		200);
	request_wait(&second, &a);
	text = messages(&a);
	assert_non_null(strstr(text, "\n!{}\n"));
	free(text);
	answer_free(&a);
	assert_string_equal(unary("/process.Process/List", "{}")->body, "{\"processes\":[]}");
	expect_status(
		unary("/process.Process/SendSignal",
		      path_of("{\"process\":{\"pid\":%u},\"signal\":\"SIGNAL_SIGKILL\"}", pid)),
		404);
}

/*
 * Killed while a client follows: the stream is reset, not ended, so that the client checks itself.
 */
static void test_kill_cuts(void **state)
{
	struct request req;
	struct answer a;

	(void)state;
	new_one("{\"templateID\":\"base\"}");
	stream_send(&req, "/process.Process/Start",
		    "{\"process\":{\"cmd\":\"sleep\",\"args\":[\"60000\"]}}", "");
	(void)request_until(&req, "\"pid\":");
	expect_status(control("DELETE", path_of("/sandboxes/%s", id), NULL), 204);
	request_wait(&req, &a);
	assert_false(a.complete);
	answer_free(&a);
}

static void test_keepalive(void **state)
{
	struct request req;

	(void)state;
	new_one("{\"templateID\":\"base\"}");
	stream_send(&req, "/process.Process/Start",
		    "{\"process\":{\"cmd\":\"sleep\",\"args\":[\"60000\"]}}",
		    "Keepalive-Ping-Interval: 1\r\n");
	(void)request_until(&req, "\"pid\":");
	(void)request_until(&req, "{\"event\":{\"keepalive\":{}}}");
	request_drop(&req);
}

/* The service ends during streams and waiting calls; nothing of them is left or called. */
static void test_stop_in_progress(void **state)
{
	struct request one, two;

	(void)state;
	new_one("{\"templateID\":\"base\"}");
	stream_send(&one, "/process.Process/Start",
		    "{\"process\":{\"cmd\":\"sleep\",\"args\":[\"60000\"]}}", "");
	(void)request_until(&one, "\"pid\":");
	stream_send(&two, "/filesystem.Filesystem/WatchDir",
		    "{\"path\":\"/tmp\",\"includeEntry\":true}", "");
	world_turns(20);
	world_restart();
	request_drop(&one);
	request_drop(&two);
	expect_status(control("GET", path_of("/sandboxes/%s", id), NULL), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
		TEST(test_control),
		TEST(test_signed_links_are_limited),
		TEST(test_signed_links_of_strangers),
		TEST(test_refusals),
		TEST(test_access),
		TEST(test_start),
		TEST(test_broken_bodies),
		TEST(test_follow),
		TEST(test_kill_cuts),
		TEST(test_keepalive),
		TEST(test_stop_in_progress),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
