/* SPDX-License-Identifier: Apache-2.0 */
/* Values against their range, just inside and just outside. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "service/range_internal.h"

static void numbers(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(range_check("n", 1, 1, 3, &err), 0);
	assert_int_equal(range_check("n", 3, 1, 3, &err), 0);
	assert_int_equal(range_check("n", 0, 1, 3, &err), -1);
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	assert_int_equal(range_check("n", 4, 1, 3, &err), -1);
	assert_string_equal(err.message, "n must be an integer from 1 to 3");
}

static void texts(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(range_check_text("t", (struct str){ NULL, 0 }, 1, 3, &err), 0);
	assert_int_equal(range_check_text("t", STR_LIT("abc"), 1, 3, &err), 0);
	assert_int_equal(range_check_text("t", STR_LIT(""), 1, 3, &err), -1);
	assert_int_equal(range_check_text("t", STR_LIT("abcd"), 1, 3, &err), -1);
	assert_string_equal(err.message, "t must be a string of 1 to 3 bytes");
}

static void names(void **state)
{
	struct err err;

	(void)state;
	assert_int_equal(range_check_name("x", (struct str){ NULL, 0 }, 4, &err), 0);
	assert_int_equal(range_check_name("x", STR_LIT("a.b-"), 4, &err), 0);
	assert_int_equal(range_check_name("x", STR_LIT("a.b-c"), 4, &err), -1);
	assert_int_equal(range_check_name("x", STR_LIT("-a"), 4, &err), -1);
	assert_int_equal(range_check_name("x", STR_LIT("A"), 4, &err), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers),
		cmocka_unit_test(texts),
		cmocka_unit_test(names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
