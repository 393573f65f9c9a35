/* SPDX-License-Identifier: Apache-2.0 */
/* The bounds of what one key can make grow: docs/internals/bounds.md. */
#include <string.h>

#include "service/account/auth.h"
#include "service/account/idempotency.h"
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

int main(void)
{
#define TEST(name, setup) cmocka_unit_test_setup_teardown(name, setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_idempotency_records, world_setup),
		TEST(test_idempotency_bytes, world_setup),
		TEST(test_requests, setup_rate),
		TEST(test_terminal_input, world_setup),
	};

	return cmocka_run_group_tests_name("bounds", tests, NULL, NULL);
}
