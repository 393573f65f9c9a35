/* SPDX-License-Identifier: Apache-2.0 */
/* Exit statuses are part of the public contract, so this table repeats them by hand. */
#include "check.h"

#include "cli/api/exit.h"
#include "cli/daemon/supervise.h"

static void test_codes(void **state)
{
	static const struct {
		const char *name;
		int status;
	} contract[] = {
		{ "invalid_request", 2 },   { "unauthenticated", 4 },
		{ "forbidden", 5 },	    { "route_not_found", 3 },
		{ "sandbox_not_found", 3 }, { "template_not_found", 3 },
		{ "key_not_found", 3 },	    { "conflict", 7 },
		{ "wrong_state", 7 },	    { "idempotency_mismatch", 7 },
		{ "quota_exceeded", 6 },    { "rate_limited", 6 },
		{ "boot_failed", 8 },	    { "engine_failed", 8 },
		{ "unavailable", 8 },	    { "capacity_exceeded", 8 },
		{ "timeout", 8 },	    { "disk_full", 6 },
		{ "unsupported", 1 },	    { "internal", 1 },
		{ "sandbox_gone", 8 },	    { "unsupported_by_engine", 8 },
	};

	for (size_t i = 0; i < ARRAY_LEN(contract); i++)
		assert_int_equal(exit_of_answer(contract[i].name, 418), contract[i].status);
	assert_int_equal(exit_of_code(ERR_OK), 0);
	for (int code = ERR_OK + 1; code < ERR_CODE_COUNT; code++)
		assert_int_not_equal(exit_of_code((enum err_code)code), 0);
}

/* A code of a later version is mapped by its HTTP status. */
static void test_unknown_codes(void **state)
{
	assert_int_equal(exit_of_answer("volume_not_found", 404), 3);
	assert_int_equal(exit_of_answer("new_thing", 401), 4);
	assert_int_equal(exit_of_answer("new_thing", 403), 5);
	assert_int_equal(exit_of_answer("new_thing", 429), 6);
	assert_int_equal(exit_of_answer("new_thing", 409), 7);
	assert_int_equal(exit_of_answer("new_thing", 503), 8);
	assert_int_equal(exit_of_answer("new_thing", 418), 1);
	assert_int_equal(exit_of_http(204), 0);
}

static void test_backoff(void **state)
{
	assert_int_equal(supervise_backoff_ms(0), 50);
	assert_int_equal(supervise_backoff_ms(1), 50);
	assert_int_equal(supervise_backoff_ms(2), 100);
	assert_int_equal(supervise_backoff_ms(7), 3200);
	assert_int_equal(supervise_backoff_ms(8), 5000);
	assert_int_equal(supervise_backoff_ms(4000000000u), 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_codes),
		cmocka_unit_test(test_unknown_codes),
		cmocka_unit_test(test_backoff),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
