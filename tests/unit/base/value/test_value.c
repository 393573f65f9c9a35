/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds of what requests carry, histograms and classes of addresses, at their edges. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/value/bounds.h"
#include "base/value/histogram.h"
#include "base/value/ipv4.h"

#define V4(a, b, c, d) ((uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d))

static void names_and_ids_have_few_characters_and_a_length(void **state)
{
	static const char *const good[] = { "a", "0", "a-b", "a--", "9z" };
	static const char *const bad[] = { "",	  "-a",	      "A",   "a_b", "a b",
					   "a/b", "\xc3\xa9", "a\n", "a." };
	char text[BOUNDS_NAME_MAX + 1];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(bounds_id(str_of(good[i])));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(bounds_id(str_of(bad[i])));
	memset(text, 'x', sizeof(text));
	assert_true(bounds_id((struct str){ text, BOUNDS_NAME_MAX }));
	assert_false(bounds_id((struct str){ text, BOUNDS_NAME_MAX + 1 }));
	assert_true(bounds_template_name((struct str){ text, BOUNDS_NAME_MAX }));
	assert_false(bounds_template_name((struct str){ text, BOUNDS_NAME_MAX + 1 }));
	assert_true(bounds_template_name(str_of("a.b_c-1")));
	assert_false(bounds_template_name(str_of(".a")));
	assert_false(bounds_template_name(str_of("")));
}

static void sizes_are_checked_one_by_one(void **state)
{
	static const uint32_t min[] = { BOUNDS_CPU_MILLI_MIN, BOUNDS_MEMORY_MB_MIN,
					BOUNDS_DISK_MB_MIN, BOUNDS_PIDS_MIN };
	static const uint32_t max[] = { BOUNDS_CPU_MILLI_MAX, BOUNDS_MEMORY_MB_MAX,
					BOUNDS_DISK_MB_MAX, BOUNDS_PIDS_MAX };

	(void)state;
	assert_true(bounds_sizes(min[0], min[1], min[2], min[3]));
	assert_true(bounds_sizes(max[0], max[1], max[2], max[3]));
	for (size_t i = 0; i < ARRAY_LEN(min); i++) {
		uint32_t v[4];

		memcpy(v, min, sizeof(v));
		v[i] = min[i] - 1;
		assert_false(bounds_sizes(v[0], v[1], v[2], v[3]));
		v[i] = max[i] + 1;
		assert_false(bounds_sizes(v[0], v[1], v[2], v[3]));
		v[i] = UINT32_MAX;
		assert_false(bounds_sizes(v[0], v[1], v[2], v[3]));
	}
}

static void a_value_counts_in_the_first_bucket_that_holds_it(void **state)
{
	struct histogram h = { 0 };
	uint64_t sum = 0;

	(void)state;
	for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
		histogram_add(&h, histogram_bounds_us[i]); /* a bound belongs to its bucket */
		assert_int_equal(h.buckets[i], 1);
		sum += histogram_bounds_us[i];
		assert_true(i == 0 || histogram_bounds_us[i] > histogram_bounds_us[i - 1]);
	}
	histogram_add(&h, (int64_t)histogram_bounds_us[0] + 1);
	assert_int_equal(h.buckets[1], 2);
	histogram_add(&h, -5);
	histogram_add(&h, INT64_MIN);
	assert_int_equal(h.buckets[0], 3);
	assert_int_equal(h.us_sum, sum + 101);
	histogram_add(&h,
		      (int64_t)histogram_bounds_us[HISTOGRAM_BOUNDS - 1] + 1); /* beyond the last */
	assert_int_equal(h.buckets[HISTOGRAM_BOUNDS - 1], 1);
	assert_int_equal(h.count, HISTOGRAM_BOUNDS + 4);
}

static void ranges_end_where_they_end(void **state)
{
	(void)state;
	for (size_t i = 0; i < ipv4_range_count; i++) {
		const struct ipv4_range *r = &ipv4_ranges[i];
		uint32_t last = r->first + (uint32_t)((1ULL << (32 - r->bits)) - 1);

		assert_int_equal(r->first & (last ^ r->first), 0); /* the first of its range */
		assert_true(ipv4_in_range(r->first, r) && ipv4_in_range(last, r));
		assert_false(r->first && ipv4_in_range(r->first - 1, r));
		assert_false(last != UINT32_MAX && ipv4_in_range(last + 1, r));
	}
}

static void services_of_a_cloud_are_never_reached(void **state)
{
	(void)state;
	assert_int_equal(ipv4_class(V4(169, 254, 169, 254)), IPV4_NEVER);
	assert_int_equal(ipv4_class(V4(169, 254, 169, 253)), IPV4_SPECIAL);
	assert_int_equal(ipv4_class(V4(169, 254, 169, 255)), IPV4_SPECIAL);
	assert_int_equal(ipv4_class(V4(100, 100, 100, 200)), IPV4_NEVER);
	assert_int_equal(ipv4_class(V4(127, 0, 0, 1)), IPV4_NEVER);
	assert_int_equal(ipv4_class(0), IPV4_NEVER);
	assert_int_equal(ipv4_class(UINT32_MAX), IPV4_NEVER);
	assert_int_equal(ipv4_class(UINT32_MAX - 1), IPV4_SPECIAL);
	assert_int_equal(ipv4_class(V4(224, 0, 0, 1)), IPV4_NEVER);
	assert_int_equal(ipv4_class(V4(10, 255, 255, 255)), IPV4_SPECIAL);
	assert_int_equal(ipv4_class(V4(11, 0, 0, 0)), IPV4_PUBLIC);
	assert_int_equal(ipv4_class(V4(172, 15, 255, 255)), IPV4_PUBLIC);
	assert_int_equal(ipv4_class(V4(172, 16, 0, 0)), IPV4_SPECIAL);
	assert_int_equal(ipv4_class(V4(172, 31, 255, 255)), IPV4_SPECIAL);
	assert_int_equal(ipv4_class(V4(172, 32, 0, 0)), IPV4_PUBLIC);
	assert_int_equal(ipv4_class(V4(8, 8, 8, 8)), IPV4_PUBLIC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_ids_have_few_characters_and_a_length),
		cmocka_unit_test(sizes_are_checked_one_by_one),
		cmocka_unit_test(a_value_counts_in_the_first_bucket_that_holds_it),
		cmocka_unit_test(ranges_end_where_they_end),
		cmocka_unit_test(services_of_a_cloud_are_never_reached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
