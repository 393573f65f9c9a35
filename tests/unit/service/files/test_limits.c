/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of file operations: 0 is the default, and the ranges are those that faces show. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "service/files/files_private.h"

static int check(enum files_op op, struct files_spec spec)
{
	struct err err;

	return files_check_limits(op, &spec, &err);
}

static void ranges(void **state)
{
	(void)state;
	assert_int_equal(check(FILES_LIST, (struct files_spec){ 0 }), 0);
	assert_int_equal(check(FILES_LIST, (struct files_spec){ .depth = FILES_DEPTH_MAX }), 0);
	assert_int_equal(check(FILES_LIST, (struct files_spec){ .depth = FILES_DEPTH_MAX + 1 }),
			 -1);
	assert_int_equal(check(FILES_LIST, (struct files_spec){ .limit = FILES_LIST_MAX }), 0);
	assert_int_equal(check(FILES_LIST, (struct files_spec){ .limit = FILES_LIST_MAX + 1 }), -1);
	assert_int_equal(check(FILES_VIEW, (struct files_spec){ .limit = FILES_LINES_MAX + 1 }),
			 -1);
	assert_int_equal(check(FILES_GREP, (struct files_spec){ .context = -1 }), -1);
	assert_int_equal(
		check(FILES_GREP, (struct files_spec){ .max_bytes = FILES_GREP_BYTES_MAX + 1 }),
		-1);
	assert_int_equal(check(FILES_ARCHIVE_IN, (struct files_spec){ .max_bytes = INT64_MAX }), 0);
	assert_int_equal(
		check(FILES_READ, (struct files_spec){ .timeout_sec = FILES_TIMEOUT_MAX_SEC + 1 }),
		-1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
