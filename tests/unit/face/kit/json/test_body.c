/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies of requests: errors while they are read, and what counts as an object. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "face/kit/json/body.h"

static void test_errors(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(body_check(0, 10, &err), 0);
	assert_int_equal(body_check(-EFBIG, 1048576, &err), -1);
	assert_int_equal(err.code, ERR_PAYLOAD_TOO_LARGE);
	assert_string_equal(err.message, "the body is larger than 1048576 bytes");
	assert_int_equal(body_check(-ETIMEDOUT, 10, &err), -1);
	assert_int_equal(err.code, ERR_REQUEST_TIMEOUT);
	assert_int_equal(body_check(-EPROTO, 10, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
}

static void test_objects(void **state)
{
	static const char *const bad[] = { "[]", "1", "null", "{", "{}{}", " " };
	struct json *doc;
	struct err err;

	(void)state;
	doc = body_object((struct str){ "", 0 }, &err);
	assert_non_null(doc);
	assert_int_equal(json_size(doc), 0);
	json_free(doc);
	doc = body_object(STR_LIT("{\"a\":1}"), &err);
	assert_non_null(doc);
	assert_int_equal(json_size(doc), 1);
	json_free(doc);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_null(body_object(str_of(bad[i]), &err));
		assert_int_equal(err.code, ERR_INVALID_REQUEST);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_errors),
					    cmocka_unit_test(test_objects) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
