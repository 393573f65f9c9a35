/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of what one key can make grow: docs/internals/bounds.md. */
#include <string.h>

#include "base/time.h"
#include "face/kit/attempts.h"
#include "face/kit/route.h"
#include "face/rest/rest.h"
#include "service/account/auth.h"
#include "service/account/idempotency.h"
#include "service/event/event_internal.h"
#include "service/run/process.h"
#include "store/store.h"
#include "world.h"

#define SCOPES "[\"keys\",\"sandboxes:read\",\"sandboxes:write\",\"exec\"]"

static const struct key *new_key(char text[64])
{
	const struct answer *a = call("POST", "/v1/keys", "{\"name\":\"k\",\"scopes\":" SCOPES "}");

	expect_status(a, 201);
	(void)snprintf(text, 64, "%s", text_of(a, "key"));
	return auth_by_id(world.service, text_of(a, "id"));
}

static void never(void *arg, int status, struct str body)
{
	(void)arg;
	(void)status;
	(void)body;
	fail_msg("no call waits");
}

/* One keyed call; returns the result of idempotency_begin(). A new call is answered with body. */
static int once(const struct key *owner, int number, struct str body)
{
	char name[32];
	struct idempotency_ask ask = { .owner = owner, .body = STR_LIT("{}"), .wait = never };
	struct idempotency_reply reply = { .status = 0 };
	struct idempotency *idem = NULL;
	struct err err;
	int r;

	(void)snprintf(name, sizeof(name), "call-%d", number);
	ask.key = str_of(name);
	r = idempotency_begin(world.service, &ask, &idem, &reply, &err);
	if (r == IDEMPOTENCY_NEW) {
		assert_int_equal(idempotency_keep(world.service, idem, 201, body), 0);
		idempotency_finish(world.service, idem, 201, body);
	} else {
		free((void *)(uintptr_t)reply.body.p);
	}
	return r;
}

static void count(const struct key *owner, int64_t *ret_rows, int64_t *ret_bytes)
{
	char path[128];
	struct store *store;

	(void)snprintf(path, sizeof(path), "%s/cay.db", world.dir);
	assert_int_equal(store_open(path, &store), 0);
	assert_int_equal(store_idempotency_count(store, owner->id, ret_rows, ret_bytes), 0);
	store_close(store);
}

static void test_idempotency_records(void **state)
{
	char text[64], other_text[64];
	const struct key *key = new_key(text), *other = new_key(other_text);
	int64_t rows = 0, bytes = 0;

	(void)state;
	assert_int_equal(once(other, 0, STR_LIT("{}")), IDEMPOTENCY_NEW);
	for (int i = 0; i < IDEMPOTENCY_PER_KEY; i++)
		assert_int_equal(once(key, i, STR_LIT("{}")), IDEMPOTENCY_NEW);
	count(key, &rows, &bytes);
	assert_int_equal(rows, IDEMPOTENCY_PER_KEY);
	for (int i = 0; i < 10; i++)
		assert_int_equal(once(key, IDEMPOTENCY_PER_KEY + i, STR_LIT("{}")),
				 IDEMPOTENCY_NEW);
	count(key, &rows, &bytes);
	assert_in_range(rows, IDEMPOTENCY_PER_KEY / 2, IDEMPOTENCY_PER_KEY);
	/* The newest are kept, the oldest were deleted; those of another key are not affected. */
	assert_int_equal(once(key, IDEMPOTENCY_PER_KEY - 1, STR_LIT("{}")), IDEMPOTENCY_REPLAY);
	assert_int_equal(once(key, 0, STR_LIT("{}")), IDEMPOTENCY_NEW);
	assert_int_equal(once(other, 0, STR_LIT("{}")), IDEMPOTENCY_REPLAY);
}

static void test_idempotency_bytes(void **state)
{
	static char body[256 * 1024];
	char text[64];
	const struct key *key = new_key(text);
	int64_t rows = 0, bytes = 0;

	(void)state;
	memset(body, ' ', sizeof(body));
	for (int i = 0; i < 100; i++) {
		assert_int_equal(once(key, i, (struct str){ body, sizeof(body) }), IDEMPOTENCY_NEW);
		world_turns(1); /* for another time stamp */
	}
	count(key, &rows, &bytes);
	assert_in_range(bytes, IDEMPOTENCY_BYTES_PER_KEY / 2,
			IDEMPOTENCY_BYTES_PER_KEY + (int)sizeof(body));
}

static int setup_rate(void **state)
{
	(void)state;
	world_prepare();
	world.config.request_rate_per_key = 5;
	world_start();
	return 0;
}

static void test_requests(void **state)
{
	char text[64], other[64], below[64];
	struct answer *a;
	int refused = 0;

	(void)state;
	(void)new_key(text);
	(void)new_key(other);
	a = call_as(text, "POST", "/v1/keys", "{\"name\":\"b\",\"scopes\":[\"exec\"]}");
	(void)snprintf(below, sizeof(below), "%s", text_of(a, "key"));
	for (int i = 0; i < 4; i++)
		expect_status(call_as(i % 2 ? text : below, "GET", "/v1/options", NULL), 200);
	for (int i = 0; i < 20; i++) {
		a = call_as(i % 2 ? text : below, "GET", i % 3 ? "/v1/options" : "/v2/sandboxes",
			    NULL);
		if (a->status != 429)
			continue;
		refused++;
		assert_non_null(strstr(a->head, "Retry-After"));
		if (i % 3)
			assert_string_equal(error_code(a), "rate_limited");
	}
	assert_true(refused > 10);
	/* Neither another key nor an admin key is affected. */
	for (int i = 0; i < 5; i++)
		expect_status(call_as(other, "GET", "/v1/options", NULL), 200);
	for (int i = 0; i < 20; i++)
		expect_status(call("GET", "/v1/options", NULL), 200);
}

static void test_terminal_input(void **state)
{
	char text[64], other_text[64];
	const char *key = path_of("%s", new_key(text)->id);
	const char *other = path_of("%s", new_key(other_text)->id);
	struct err err;

	(void)state;
	assert_int_equal(stream_hold_input(world.service, key, STREAM_INPUT_PER_KEY, &err), 0);
	assert_int_equal(stream_hold_input(world.service, key, 1, &err), -1);
	assert_int_equal(err.code, ERR_QUOTA_EXCEEDED);
	assert_int_equal(stream_hold_input(world.service, other, 1, &err), 0);
	stream_release_input(world.service, key, 1);
	assert_int_equal(stream_hold_input(world.service, key, 1, &err), 0);
}

/* ---- calls without a key ---- */

static int setup_open(void **state)
{
	(void)state;
	world_prepare();
	world.open_per_min = 40;
	world_start();
	return 0;
}

/* Calls open routes in turn until one is refused; how many were answered. */
static int call_open_routes(void)
{
	const struct route_table *table = &rest_route_table;
	int answered = 0;

	for (size_t i = 0; answered < 100; i++) {
		const struct route *row = route_at(table, i % table->count);
		const struct answer *a;

		if (!(row->flags & ROUTE_OPEN))
			continue;
		a = call_as(NULL, "GET", row->pattern, NULL);
		if (a->status == 429)
			break;
		expect_status(a, 200);
		answered++;
	}
	return answered;
}

/* All routes that need no key have one limit per client. It refuses no call with a key. */
static void test_open_routes(void **state)
{
	int64_t minute = 0;
	int answered = 0;

	(void)state;
	for (int i = 0; i < 5 && minute != time_mono_us() / 60000000; i++) {
		minute = time_mono_us() / 60000000;
		answered = call_open_routes();
		expect_status(call_as(NULL, "OPTIONS", "/v1/sandboxes", NULL), 429);
	}
	assert_int_equal(answered, 40);
	expect_status(call("GET", "/v1/sandboxes", NULL), 200);
}

/* ---- kept events ---- */

#define KEPT 100

static int setup_events(void **state)
{
	(void)state;
	world_prepare();
	world.config.events_keep = KEPT;
	world_start();
	return 0;
}

static void sandbox_of(const char *key, char ret[96])
{
	const struct answer *a = call_as(key, "POST", "/v1/sandboxes", "{}");

	expect_status(a, 201);
	(void)snprintf(ret, 96, "/v1/sandboxes/%s", text_of(a, "id"));
}

/* Two events each. */
static void run(const char *key, const char *box, int times)
{
	for (int i = 0; i < times; i++)
		expect_status(
			call_as(key, "POST", path_of("%s/exec", box), "{\"command\":\"true\"}"),
			200);
	world_turns(50);
}

static size_t kept(const char *key, int64_t *ret_first)
{
	const struct answer *a = call_as(key, "GET", "/v1/events?limit=1000", NULL);
	const struct json *data = member(a->doc, "data");

	expect_status(a, 200);
	if (ret_first)
		*ret_first = json_int(member(json_at(data, 0), "id"));
	return json_size(data);
}

static void follow(struct request *req, const char *key, int64_t after)
{
	request_send(req, key, "GET", path_of("/v1/events?after=%lld", (long long)after),
		     "Accept: text/event-stream\r\n", NULL);
	(void)request_until(req, ": events");
}

/* A tenant with less than its share loses nothing to one that makes events without end, also not
 * through keys that this one creates. Each learns of its own gaps only. */
static void test_events(void **state)
{
	char loud[64], quiet[64], below[64];
	char quiet_box[96], loud_box[96], below_box[96];
	int64_t first = 0, first_loud = 0;
	size_t had, others;
	struct request req;

	(void)state;
	(void)new_key(loud);
	(void)new_key(quiet);
	(void)snprintf(
		below, sizeof(below), "%s",
		text_of(call_as(loud, "POST", "/v1/keys", "{\"name\":\"b\",\"scopes\":" SCOPES "}"),
			"key"));
	sandbox_of(quiet, quiet_box);
	sandbox_of(loud, loud_box);
	sandbox_of(below, below_box);
	run(quiet, quiet_box, 10);
	had = kept(quiet, &first);
	(void)kept(loud, &first_loud);
	for (int i = 0; i < 6; i++) {
		run(loud, loud_box, 50);
		run(below, below_box, 50);
	}
	assert_int_equal(kept(quiet, NULL), had);
	others = kept(loud, NULL) + kept(below, NULL);
	assert_in_range(others + had, KEPT - 1, KEPT + KEPT / 16);
	world_restart();
	assert_int_equal(kept(quiet, NULL), had);
	follow(&req, quiet, first);
	run(quiet, quiet_box, 1);
	(void)request_until(&req, "process.ended");
	assert_null(strstr(req.bytes, "event: gap"));
	request_drop(&req);
	follow(&req, loud, first_loud);
	(void)request_until(&req, "event: gap");
	request_drop(&req);
}

/* More tenants than events: some are kept, and never more than the bound. */
static void test_more_tenants_than_events(void **state)
{
	char key[64];
	size_t left;

	(void)state;
	for (int i = 0; i < KEPT + 40; i++) {
		const struct key *one = new_key(key);
		struct event event = { .type = event_names[EVENT_SANDBOX_RUNNING],
				       .sandbox_id = "sandbox",
				       .owner = one->id,
				       .data = STR_LIT("{}") };

		bus_emit(world.service, &event);
	}
	world_turns(50);
	left = json_size(member(call("GET", "/v1/events?limit=1000", NULL)->doc, "data"));
	assert_in_range(left, KEPT, KEPT + KEPT / 16);
}

int main(void)
{
#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_idempotency_records, world_setup),
		TEST(test_idempotency_bytes, world_setup),
		TEST(test_requests, setup_rate),
		TEST(test_terminal_input, world_setup),
		TEST(test_open_routes, setup_open),
		TEST(test_events, setup_events),
		TEST(test_more_tenants_than_events, setup_events),
	};

	return cmocka_run_group_tests_name("bounds", tests, NULL, NULL);
}
