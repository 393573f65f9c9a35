/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include "base/time.h"

static void times_are_written_as_rfc3339(void **state)
{
	static const struct {
		int64_t ms;
		const char *text;
	} cases[] = {
		{ 0, "1970-01-01T00:00:00.000Z" },
		{ 1, "1970-01-01T00:00:00.001Z" },
		{ -1, "1969-12-31T23:59:59.999Z" },
		{ -1000, "1969-12-31T23:59:59.000Z" },
		{ 951782400123, "2000-02-29T00:00:00.123Z" },
		{ 253402300799999, "9999-12-31T23:59:59.999Z" },
		{ INT64_MAX, "9999-12-31T23:59:59.999Z" },
		{ INT64_MIN, "1000-01-01T00:00:00.000Z" },
	};
	char text[TIME_RFC3339_SIZE];

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		time_rfc3339(text, cases[i].ms);
		assert_string_equal(text, cases[i].text);
	}
}

static void clocks_advance(void **state)
{
	int64_t mono = time_mono_us(), boot = time_boot_ms();

	assert_true(time_real_ms() > INT64_C(1500000000000));
	usleep(2000);
	assert_true(time_mono_us() >= mono + 2000);
	assert_true(time_boot_ms() >= boot + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_are_written_as_rfc3339),
		cmocka_unit_test(clocks_advance),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
