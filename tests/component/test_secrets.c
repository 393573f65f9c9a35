/* SPDX-License-Identifier: Apache-2.0 */
/* Which secrets are stored, which are given, and how long they last. */
#include <string.h>

#include "world.h"

static int create_status(const char *name, const char *value, const char *more)
{
	return call("POST", "/v1/secrets",
		    path_of("{\"name\":\"%s\",\"value\":\"%s\"%s}", name, value, more))
		->status;
}

static size_t count(void)
{
	return json_size(member(call("GET", "/v1/secrets", NULL)->doc, "data"));
}

/* A value that contains one of the daemon's own keys at any position. */
static void test_own_keys_are_refused(void **state)
{
	static const char *const around[][2] = {
		{ "", "" }, { "Bearer ", "" }, { "", "\\n" }, { "key=", ";" }, { "xcay_", "" }
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(around); i++)
		for (int e2b = 0; e2b < 2; e2b++)
			assert_int_equal(create_status("A",
						       path_of("%s%s%s%s", around[i][0],
							       e2b ? "e2b_" : "cay_",
							       world.admin + 4, around[i][1]),
						       ""),
					 400);
	assert_int_equal(create_status("A", "cay_0000000000000000000000000000000000000000", ""),
			 201);
	assert_int_equal(call("POST", "/v1/secrets/A/rotate",
			      path_of("{\"value\":\"Bearer %s\"}", world.admin))
				 ->status,
			 400);
	assert_int_equal(count(), 1);
}

/* Keys of the operator reach a sandbox as placeholders only, under any spelling. */
static void test_system_keys_are_not_given(void **state)
{
	(void)state;
	assert_int_equal(create_status("ANTHROPIC_API_KEY", "sk-ant-0123456789", ""), 201);
	assert_int_equal(create_status("OTHER", "sk-ant-0123456789", ""), 201);
	expect_status(call("POST", "/v1/sandboxes", "{\"secrets\":[\"ANTHROPIC_API_KEY\"]}"), 400);
	expect_status(call("POST", "/v1/sandboxes",
			   "{\"secrets\":[{\"name\":\"OTHER\",\"env\":\"anthropic_api_key\"}]}"),
		      400);
	expect_status(call("POST", "/v1/sandboxes", "{\"secrets\":[\"OTHER\"]}"), 201);
}

/* A secret of one sandbox ends with it, also when the daemon dies in between. */
static void test_scope_sandbox(void **state)
{
	char id[64];

	(void)state;
	assert_int_equal(create_status("GLOBAL", "0123456789", ""), 201);
	for (int i = 0; i < 2; i++) {
		(void)snprintf(id, sizeof(id), "%s", make("{}"));
		assert_int_equal(
			create_status("OWN", "0123456789",
				      path_of(",\"scope\":\"sandbox\",\"sandbox_id\":\"%s\"", id)),
			201);
		expect_status(
			call("PATCH", path_of("/v1/sandboxes/%s", id), "{\"secrets\":[\"OWN\"]}"),
			200);
		assert_int_equal(count(), 2);
		expect_status(call("DELETE", path_of("/v1/sandboxes/%s", id), NULL), 204);
		if (i == 1)
			world_restart();
		world_turns(50);
		assert_int_equal(count(), 1);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_own_keys_are_refused),
		TEST(test_system_keys_are_not_given),
		TEST(test_scope_sandbox),
	};

	return cmocka_run_group_tests_name("secrets", tests, NULL, NULL);
}
