/* SPDX-License-Identifier: Apache-2.0 */
/* Limits and cursors of pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "face/kit/page.h"

static void limits(void **state)
{
	int64_t n = 7;

	(void)state;
	assert_int_equal(page_limit_parse((struct str){ NULL, 0 }, &n), 0);
	assert_int_equal(n, 7); /* not sent: as it was */
	assert_int_equal(page_limit_parse(str_of("1"), &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(page_limit_parse(str_of("1000"), &n), 0);
	assert_int_equal(n, PAGE_LIMIT_MAX);
	assert_true(page_limit_parse(str_of("0"), &n) < 0);
	assert_true(page_limit_parse(str_of("1001"), &n) < 0);
	assert_true(page_limit_parse(str_of("-1"), &n) < 0);
	assert_true(page_limit_parse(str_of("x"), &n) < 0);
	assert_int_equal(n, PAGE_LIMIT_MAX);
}

static void cursors_come_back(void **state)
{
	static const int64_t numbers[] = { 0, 1, 1700000000, INT64_MAX };
	char text[PAGE_NUMBER_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
		int64_t n = -1;

		assert_int_equal(page_cursor_parse(str_of(page_number(text, numbers[i])), &n), 0);
		assert_int_equal(n, numbers[i]);
	}
	assert_true(page_cursor_parse(str_of("9223372036854775808"), &(int64_t){ 0 }) < 0);
	assert_true(page_cursor_parse(str_of("abc"), &(int64_t){ 0 }) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits),
		cmocka_unit_test(cursors_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
