/* SPDX-License-Identifier: Apache-2.0 */
/* Events: which are published, to whom, in which order, and replays. */
#include <string.h>

#include "inside.h"
#include "store/store.h"

static void listen_to(struct request *req, const char *key, const char *path, const char *headers)
{
	char all[256];

	(void)snprintf(all, sizeof(all), "Accept: text/event-stream\r\n%s", headers ? headers : "");
	request_send(req, key, "GET", path, all, NULL);
	(void)request_until(req, ": events");
}

/* The types of a page, each followed by a space; in a static buffer. */
static const char *types_of(const struct answer *a)
{
	static char text[8192];
	const struct json *data = member(a->doc, "data");
	int64_t last = 0;

	text[0] = '\0';
	for (size_t i = 0; i < json_size(data); i++) {
		const struct json *event = json_at(data, i);
		struct str type = json_str(member(event, "type"));
		size_t n = strlen(text);

		assert_true(json_int(member(event, "id")) > last);
		last = json_int(member(event, "id"));
		(void)snprintf(text + n, sizeof(text) - n, "%.*s ", (int)type.n, type.p);
	}
	return text;
}

static struct answer *page(const char *query)
{
	struct answer *a = call("GET", path_of("/v1/events?%s", query), NULL);

	expect_status(a, 200);
	return a;
}

static int64_t last_id(void)
{
	const struct json *data = member(page("limit=1000")->doc, "data");

	return json_size(data) ? json_int(member(json_at(data, json_size(data) - 1), "id")) : 0;
}

/* ---- published events ---- */

static void test_life_of_a_sandbox(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{\"external_workspace_id\":\"w1\"}");
	expect_status(post("/exec", "{\"command\":\"exit 3\"}"), 200);
	expect_status(post("/exec", "{\"argv\":[\"nothing-of-this-name\"]}"), 400);
	expect_status(del(""), 204);
	a = page(path_of("sandbox=%s", sandbox));
	assert_string_equal(types_of(a), "sandbox.provisioning sandbox.running process.started "
					 "process.ended process.started process.ended "
					 "sandbox.destroyed ");
	assert_non_null(strstr(a->body, "\"exit_code\":3"));
	assert_non_null(strstr(a->body, "\"reason\":\"refused\""));
	assert_non_null(strstr(a->body, "\"external_workspace_id\":\"w1\""));
	assert_non_null(strstr(a->body, "\"state\":\"destroyed\",\"previous_state\":\"running\","
					"\"reason\":\"requested\""));
	assert_null(strstr(a->body, "nothing-of-this-name\",\"kind"));
	/* The ended sandbox is also found by the path. */
	a = get("/events?format=json");
	expect_status(a, 200);
	assert_int_equal(count(types_of(a), "sandbox."), 3);
	expect_status(call("GET", "/v1/sandboxes/neverwas/events?format=json", NULL), 404);
}

static void test_deaths_and_windows(void **state)
{
	(void)state;
	new_sandbox("{}");
	expect_status(post("/windows/w/run", "{\"command\":\"echo hi\"}"), 200);
	expect_status(post("/exec/stream", "{\"command\":\"exit 4\"}"), 200);
	fake_die(world.engine, sandbox, true);
	world_turns(50);
	assert_string_equal(types_of(page(path_of("sandbox=%s", sandbox))),
			    "sandbox.provisioning sandbox.running process.started process.ended "
			    "process.started process.ended sandbox.error ");
	assert_non_null(strstr(page("type=sandbox.error")->body, "\"reason\":\"oom\""));
}

static void test_warning(void **state)
{
	struct request req;

	(void)state;
	listen_to(&req, world.admin, "/v1/events?type=sandbox.deadline,sandbox.destroyed", NULL);
	new_sandbox("{\"timeout_sec\":2}");
	(void)request_until(&req, "event: sandbox.deadline");
	(void)request_until(&req, "\"reason\":\"timeout\",\"remaining_ms\":");
	expect_status(get(""), 200);
	(void)request_until(&req, "event: sandbox.destroyed");
	assert_int_equal(count(req.bytes, "event: sandbox.deadline"), 1);
	request_drop(&req);
}

static void test_snapshot_warning(void **state)
{
	struct request req;

	(void)state;
	listen_to(&req, world.admin, "/v1/events?type=snapshot.deadline,snapshot.deleted", NULL);
	new_sandbox("{}");
	expect_status(post("/snapshots", "{}"), 201);
	expect_status(post("/snapshots", "{\"expires_in_sec\":1}"), 201);
	(void)request_until(&req, "event: snapshot.deadline");
	(void)request_until(&req, "\"remaining_ms\":");
	(void)request_until(&req, "event: snapshot.deleted");
	assert_int_equal(count(req.bytes, "event: snapshot.deadline"), 1);
	request_drop(&req);
}

static void test_pause_and_snapshots(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	expect_status(post("/pause", "{}"), 200);
	expect_status(post("/resume", "{}"), 200);
	a = post("/snapshots", "{}");
	expect_status(a, 201);
	expect_status(call("DELETE", path_of("/v1/snapshots/%s", text_of(a, "id")), NULL), 204);
	a = page(path_of("sandbox=%s", sandbox));
	assert_string_equal(types_of(a), "sandbox.provisioning sandbox.running sandbox.paused "
					 "sandbox.running snapshot.created snapshot.deleted ");
	assert_non_null(strstr(a->body, "\"pause_kind\":\"freeze\""));
}

/* Sandboxes in a pool cause no events. */
static void test_pool(void **state)
{
	(void)state;
	assert_string_equal(types_of(page("limit=10")), "");
	new_sandbox("{\"pool\":{\"mode\":\"require\",\"wait_ms\":5000}}");
	assert_string_equal(types_of(page("limit=10")), "sandbox.running ");
	expect_status(del(""), 204);
	assert_string_equal(types_of(page("type=sandbox")), "sandbox.running sandbox.destroyed ");
}

/* ---- recipients ---- */

static void test_owners(void **state)
{
	char one[64], two[64], mine[32];
	struct request req, all;
	struct answer *a;

	(void)state;
	(void)snprintf(one, sizeof(one), "%s",
		       make_key("[\"sandboxes:read\",\"sandboxes:write\"]"));
	(void)snprintf(two, sizeof(two), "%s",
		       make_key("[\"sandboxes:read\",\"sandboxes:write\"]"));
	listen_to(&req, two, "/v1/events", NULL);
	listen_to(&all, world.admin, "/v1/events", NULL);
	a = call_as(one, "POST", "/v1/sandboxes", "{\"name\":\"n\"}");
	expect_status(a, 201);
	(void)snprintf(mine, sizeof(mine), "%s", text_of(a, "id"));
	expect_status(call_as(one, "DELETE", path_of("/v1/sandboxes/%s", mine), NULL), 204);
	expect_status(call_as(two, "POST", "/v1/sandboxes", "{\"name\":\"other\"}"), 201);
	(void)request_until(&req, "event: sandbox.running");
	assert_null(strstr(req.bytes, mine));
	(void)request_until(&all, mine);
	(void)request_until(&all, "\"name\":\"other\"");
	request_drop(&req);
	request_drop(&all);
	a = call_as(two, "GET", "/v1/events?format=json", NULL);
	assert_null(strstr(a->body, mine));
	expect_status(
		call_as(two, "GET", path_of("/v1/sandboxes/%s/events?format=json", mine), NULL),
		404);
	expect_status(call_as(two, "GET", path_of("/v1/events?format=json&sandbox=%s", mine), NULL),
		      404);
	expect_status(
		call_as(one, "GET", path_of("/v1/sandboxes/%s/events?format=json", mine), NULL),
		200);
	expect_status(call_as(make_key("[\"exec\"]"), "GET", "/v1/events?format=json", NULL), 403);
}

/* A stream does not outlive its key for long. */
static void test_deleted_key(void **state)
{
	struct answer *a =
		call("POST", "/v1/keys", "{\"name\":\"k\",\"scopes\":[\"sandboxes:read\"]}");
	char key[64], id[64];
	struct request req;

	(void)state;
	(void)snprintf(key, sizeof(key), "%s", text_of(a, "key"));
	(void)snprintf(id, sizeof(id), "%s", text_of(a, "id"));
	listen_to(&req, key, "/v1/events", NULL);
	(void)request_until(&req, ": beat");
	expect_status(call("DELETE", path_of("/v1/keys/%s", id), NULL), 204);
	for (int i = 0; i < 100 && !request_ended(&req); i++)
		world_turns(10);
	assert_true(request_ended(&req));
	request_drop(&req);
}

static void test_filters(void **state)
{
	char first[64];

	(void)state;
	new_sandbox("{\"external_workspace_id\":\"a\",\"name\":\"fa\"}");
	memcpy(first, sandbox, sizeof(first));
	new_sandbox("{\"external_workspace_id\":\"b\"}");
	expect_status(post("/exec", "{\"command\":\"true\"}"), 200);
	assert_string_equal(types_of(page("external_workspace_id=a")),
			    "sandbox.provisioning sandbox.running ");
	assert_string_equal(types_of(page("sandbox=fa&type=sandbox.running")), "sandbox.running ");
	assert_string_equal(types_of(page("type=process")), "process.started process.ended ");
	assert_string_equal(types_of(page("type=process.ended,sandbox.paused")), "process.ended ");
	expect_status(call("GET", "/v1/events?format=json&type=proc", NULL), 400);
	expect_status(call("GET", "/v1/events?format=json&type=", NULL), 400);
	expect_status(call("GET", "/v1/events?format=json&type=process,", NULL), 400);
	expect_status(call("GET", "/v1/events?format=xml", NULL), 400);
	expect_status(call("GET", "/v1/events?format=json&follow=true", NULL), 400);
	expect_status(call("GET", "/v1/events?follow=maybe", NULL), 400);
	expect_status(call("GET", "/v1/events?format=json&limit=1001", NULL), 400);
	expect_status(call("GET", "/v1/events?format=json&limit=0", NULL), 400);
	expect_status(call("GET", "/v1/events?format=json&after=-1", NULL), 400);
	expect_status(call("GET", "/v1/events?format=json&bogus=1", NULL), 400);
	expect_status(call("GET", path_of("/v1/events?after=%lld", (long long)last_id() + 1), NULL),
		      400);
}

/* ---- replays ---- */

static void test_replay(void **state)
{
	struct request live, again;
	int64_t before, middle;
	struct answer a;
	const char *at;

	(void)state;
	new_sandbox("{}");
	before = last_id();
	listen_to(&live, world.admin, path_of("/v1/sandboxes/%s/events", sandbox), NULL);
	for (int i = 0; i < 300; i++)
		expect_status(post("/exec", "{\"command\":\"true\"}"), 200);
	at = request_until(&live, "event: process.ended");
	middle = strtoll(strstr(at, "id: ") + 4, NULL, 10);
	assert_int_equal(middle, before + 2);
	/* After a known one, by header and by query; later events follow. */
	listen_to(&again, world.admin, path_of("/v1/sandboxes/%s/events", sandbox),
		  path_of("Last-Event-ID: %lld\r\n", (long long)middle));
	expect_status(del(""), 204);
	request_wait(&live, &a); /* the end of the sandbox is the stream's */
	assert_true(a.complete);
	assert_int_equal(count(a.body, "event: process."), 600);
	assert_int_equal(count(a.body, "event: sandbox.destroyed"), 1);
	answer_free(&a);
	request_wait(&again, &a);
	assert_true(a.complete);
	assert_int_equal(count(a.body, "event: process."), 598);
	assert_int_equal(count(a.body, "event: gap"), 0);
	answer_free(&a);
	/* One that has ended is replayed and ended. */
	request_send(&again, world.admin, "GET",
		     path_of("/v1/sandboxes/%s/events?after=0&format=sse", sandbox), NULL, NULL);
	request_wait(&again, &a);
	assert_int_equal(count(a.body, "event: process."), 600);
	answer_free(&a);
	expect_status(call("GET", path_of("/v1/sandboxes/%s/events", sandbox), NULL), 200);
	expect_status(call("HEAD", "/v1/events", NULL), 200);
}

static void test_pages(void **state)
{
	int64_t cursor = 0;
	size_t seen = 0;

	(void)state;
	new_sandbox("{}");
	for (int i = 0; i < 20; i++)
		expect_status(post("/exec", "{\"command\":\"true\"}"), 200);
	for (;;) {
		struct answer *a = page(path_of("limit=7&after=%lld", (long long)cursor));
		const struct json *data = member(a->doc, "data");

		seen += json_size(data);
		if (!text_of(a, "next_cursor")[0])
			break;
		assert_int_equal(json_size(data), 7);
		cursor = strtoll(text_of(a, "next_cursor"), NULL, 10);
	}
	assert_int_equal(seen, 42);
}

static void test_restart(void **state)
{
	int64_t before, after;
	struct request req;

	(void)state;
	new_sandbox("{}");
	expect_status(post("/exec", "{\"command\":\"true\"}"), 200);
	before = last_id();
	world_restart();
	assert_int_equal(last_id(), before);
	listen_to(&req, world.admin, path_of("/v1/events?after=%lld", (long long)before - 1), NULL);
	(void)request_until(&req, path_of("id: %lld\n", (long long)before));
	expect_status(post("/exec", "{\"command\":\"true\"}"), 200);
	(void)request_until(&req, path_of("id: %lld\n", (long long)before + 1));
	(void)request_until(&req, path_of("id: %lld\n", (long long)before + 2));
	request_drop(&req);
	after = last_id();
	assert_int_equal(after, before + 2);
	expect_status(del(""), 204);
}

/* ---- gaps ---- */

static int setup_small(void **state)
{
	(void)state;
	world_prepare();
	world.config.events_keep = 100;
	world_start();
	return 0;
}

static void test_retention(void **state)
{
	struct request req;
	int64_t first;

	(void)state;
	new_sandbox("{}");
	first = last_id();
	for (int i = 0; i < 200; i++)
		expect_status(post("/exec", "{\"command\":\"true\"}"), 200);
	world_turns(50);
	assert_in_range(json_size(member(page("limit=1000")->doc, "data")), 100, 106);
	/* A client that was connected before is informed about missing events. */
	listen_to(&req, world.admin, path_of("/v1/events?after=%lld", (long long)first), NULL);
	(void)request_until(&req, "event: gap");
	(void)request_until(&req, "\"exact\":false");
	(void)request_until(&req, path_of("id: %lld\n", (long long)first + 400));
	request_drop(&req);
	/* All stored events without more: no gap. */
	listen_to(&req, world.admin, "/v1/events?after=0", NULL);
	(void)request_until(&req, path_of("id: %lld\n", (long long)first + 400));
	assert_null(strstr(req.bytes, "event: gap"));
	request_drop(&req);
}

/* A client that does not read delays no other, and is informed how many it missed. */
static void test_slow_reader(void **state)
{
	struct request slow, quick;
	int64_t missed;
	struct answer a;

	(void)state;
	new_sandbox("{}");
	listen_to(&slow, world.admin, path_of("/v1/sandboxes/%s/events", sandbox), NULL);
	listen_to(&quick, world.admin, path_of("/v1/sandboxes/%s/events", sandbox), NULL);
	for (int i = 0; i < 2500; i++) {
		expect_status(post("/exec", "{\"command\":\"true\"}"), 200);
		if (i % 100 == 0)
			(void)request_ended(&quick);
	}
	expect_status(del(""), 204);
	request_wait(&quick, &a);
	assert_int_equal(count(a.body, "event: process."), 5000);
	answer_free(&a);
	request_wait(&slow, &a);
	assert_int_equal(count(a.body, "event: gap"), 1);
	assert_non_null(strstr(a.body, "\"exact\":true"));
	missed = strtoll(strstr(strstr(a.body, "event: gap"), "\"events\":") + 9, NULL, 10);
	assert_int_equal(count(a.body, "event: process.") + (size_t)missed, 5000);
	assert_int_equal(count(a.body, "event: sandbox.destroyed"), 1);
	answer_free(&a);
}

static int setup_beat(void **state)
{
	(void)state;
	world_prepare();
	world.heartbeat_ms = 30;
	world_start();
	return 0;
}

/* ---- ends without a waiting caller ---- */

static size_t ends_told(void)
{
	const struct answer *a = page(path_of("type=process.ended&sandbox=%s", sandbox));

	return json_size(member(a->doc, "data"));
}

static void wait_ends(size_t count)
{
	for (int i = 0; i < 500 && ends_told() < count; i++)
		world_turns(10);
	assert_int_equal(ends_told(), count);
}

static void test_end_of_a_detached_process(void **state)
{
	struct request req;
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	expect_status(post("/processes", "{\"argv\":[\"sleep\",\"20\"]}"), 201);
	wait_ends(1);
	a = page("type=process.ended");
	assert_non_null(strstr(a->body, "\"kind\":\"process\""));
	assert_non_null(strstr(a->body, "\"exit_code\":0"));
	expect_status(post("/processes", "{\"argv\":[\"signal\",\"9\"]}"), 201);
	wait_ends(2);
	/* A stream whose reader disconnects. */
	request_send(&req, world.admin, "POST", path_of("/v1/sandboxes/%s/exec/stream", sandbox),
		     NULL, "{\"argv\":[\"sleep\",\"100\"]}");
	(void)request_until(&req, "event: started");
	request_drop(&req);
	wait_ends(3);
	world_turns(50);
	assert_int_equal(ends_told(), 3);
}

/* It ends while the daemon is not running, or after the restart: published once in both cases. */
static void test_ends_across_restarts(void **state)
{
	(void)state;
	new_sandbox("{}");
	expect_status(post("/processes", "{\"argv\":[\"sleep\",\"30\"]}"), 201);
	expect_status(post("/processes", "{\"argv\":[\"sleep\",\"1500\"]}"), 201);
	expect_status(post("/exec", "{\"argv\":[\"true\"]}"), 200);
	world_stop();
	world_turns(100);
	world_start();
	wait_ends(2);
	world_restart();
	wait_ends(3);
	world_restart();
	world_turns(100);
	assert_int_equal(ends_told(), 3);
	/* The same when only the link breaks. */
	fake_cut(world.engine, sandbox);
	world_turns(100);
	assert_int_equal(ends_told(), 3);
}

static int on_stored(void *arg, const struct store_event *event)
{
	char *types = arg;
	size_t n = strlen(types);

	(void)snprintf(types + n, 1024 - n, "%s:%s ", event->sandbox_id, event->type);
	return 0;
}

/* What another process finds in the database at this moment, as the next daemon would. */
static bool is_stored(const char *id, const char *type)
{
	char path[128], types[1024] = "";
	struct store *store;

	(void)snprintf(path, sizeof(path), "%s/cay.db", world.dir);
	assert_int_equal(store_open(path, &store), 0);
	assert_int_equal(store_event_each(store, 0, 100, on_stored, types), 0);
	store_close(store);
	return strstr(types, path_of("%s:%s ", id, type)) != NULL;
}

/* The event of a change is in the database when the change is acknowledged, however the daemon ends
 * afterwards. */
static void test_in_the_transaction_of_the_change(void **state)
{
	struct answer *a;
	char id[64];

	(void)state;
	world_turns(50); /* no timer is due that would write it anyway */
	a = call("POST", "/v1/sandboxes", "{}");
	expect_status(a, 201);
	(void)snprintf(id, sizeof(id), "%s", text_of(a, "id"));
	assert_true(is_stored(id, "sandbox.running"));
	world_turns(50);
	a = call("POST", path_of("/v1/sandboxes/%s/snapshots", id), "{}");
	expect_status(a, 201);
	assert_true(is_stored(id, "snapshot.created"));
	expect_status(
		call("DELETE", path_of("/v1/snapshots/%s", path_of("%s", text_of(a, "id"))), NULL),
		204);
	assert_true(is_stored(id, "snapshot.deleted"));
	expect_status(call("POST", path_of("/v1/sandboxes/%s/pause", id), "{}"), 200);
	assert_true(is_stored(id, "sandbox.paused"));
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", id), NULL), 204);
	assert_true(is_stored(id, "sandbox.destroyed"));
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_life_of_a_sandbox),
		TEST(test_in_the_transaction_of_the_change),
		cmocka_unit_test_setup_teardown(test_in_the_transaction_of_the_change,
						world_setup_pool, world_teardown),
		TEST(test_end_of_a_detached_process),
		TEST(test_ends_across_restarts),
		TEST(test_deaths_and_windows),
		TEST(test_warning),
		TEST(test_snapshot_warning),
		TEST(test_pause_and_snapshots),
		cmocka_unit_test_setup_teardown(test_pool, world_setup_pool, world_teardown),
		TEST(test_owners),
		cmocka_unit_test_setup_teardown(test_deleted_key, setup_beat, world_teardown),
		TEST(test_filters),
		TEST(test_replay),
		TEST(test_pages),
		TEST(test_restart),
		cmocka_unit_test_setup_teardown(test_retention, setup_small, world_teardown),
		cmocka_unit_test_setup_teardown(test_slow_reader, setup_small, world_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
