/* SPDX-License-Identifier: Apache-2.0 */
/* Every code has an HTTP status and a hint. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "face/kit/error.h"

static void every_code_is_complete(void **state)
{
	(void)state;
	assert_int_equal(error_status(ERR_OK), 200);
	assert_null(error_hint(ERR_OK));
	for (int i = ERR_OK + 1; i < ERR_CODE_COUNT; i++) {
		assert_in_range(error_status((enum err_code)i), 400, 599);
		assert_non_null(error_hint((enum err_code)i));
	}
}

/* Clients and proxies rely on these. */
static void statuses_of_the_usual_codes(void **state)
{
	(void)state;
	assert_int_equal(error_status(ERR_INVALID_REQUEST), 400);
	assert_int_equal(error_status(ERR_UNAUTHENTICATED), 401);
	assert_int_equal(error_status(ERR_FORBIDDEN), 403);
	assert_int_equal(error_status(ERR_SANDBOX_NOT_FOUND), 404);
	assert_int_equal(error_status(ERR_WRONG_STATE), 409);
	assert_int_equal(error_status(ERR_UNAVAILABLE), 503);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_code_is_complete),
		cmocka_unit_test(statuses_of_the_usual_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
