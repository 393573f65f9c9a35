/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel features: which names are accepted, and that a disabled feature stays disabled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "sys/probe.h"

static void test_unknown_names(void **state)
{
	static const char *const lists[] = { "nonsense", "overlay-fd,x", ",",
					     "overlay",	 "all ",	 "ALL" };
	char unknown[80];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		assert_int_equal(probe_disable(lists[i], unknown, sizeof(unknown)), -EINVAL);
	for (int i = 0; i < PROBE_COUNT; i++)
		assert_int_not_equal(probe_state((enum probe_feature)i), PROBE_DISABLED);
}

static void test_long_unknown_name(void **state)
{
	char list[1024], unknown[80];

	(void)state;
	memset(list, 'a', sizeof(list) - 1);
	list[sizeof(list) - 1] = '\0';
	assert_int_equal(probe_disable(list, unknown, sizeof(unknown)), -EINVAL);
	assert_true(strlen(unknown) < sizeof(unknown));
}

static void test_disable(void **state)
{
	char unknown[80], names[256];

	(void)state;
	assert_int_equal(probe_disable(NULL, unknown, sizeof(unknown)), 0);
	assert_int_equal(probe_disable("", unknown, sizeof(unknown)), 0);
	assert_int_equal(probe_disable("exact-times,overlay-fd", unknown, sizeof(unknown)), 0);
	assert_int_equal(probe_state(PROBE_EXACT_TIMES), PROBE_DISABLED);
	assert_false(probe_has(PROBE_OVERLAY_FD));
	assert_int_not_equal(probe_state(PROBE_SIMPLE_QUOTA), PROBE_DISABLED);
	assert_int_equal(probe_disable("all", unknown, sizeof(unknown)), 0);
	probe_all();
	for (int i = 0; i < PROBE_COUNT; i++)
		assert_false(probe_has((enum probe_feature)i));
	probe_names(names, sizeof(names));
	for (int i = 0; i < PROBE_COUNT; i++)
		assert_non_null(strstr(names, probe_rows[i].name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown_names),
		cmocka_unit_test(test_long_unknown_name),
		cmocka_unit_test(test_disable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
