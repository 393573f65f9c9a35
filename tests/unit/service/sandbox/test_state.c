/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "service/pairs.h"
#include "service/sandbox/sandbox_internal.h"

static void test_names_are_parsed_back(void **state)
{
	(void)state;
	for (int i = 0; i < SANDBOX_STATE_COUNT; i++)
		assert_int_equal(sandbox_state_parse(sandbox_state_names[i]), i);
	for (int i = 1; i < REASON_COUNT; i++)
		assert_int_equal(sandbox_reason_parse(sandbox_reason_name((enum sandbox_reason)i)),
				 i);
	assert_null(sandbox_reason_name(REASON_NONE));
	assert_int_equal(sandbox_state_parse("nonsense"), SANDBOX_ERROR);
}

static void test_pairs(void **state)
{
	struct err err;
	static const struct text_pair list[] = { { STR_LIT("A"), STR_LIT("1") },
						 { STR_LIT("B"), STR_LIT("") },
						 { STR_LIT("C"), STR_LIT("x=y") } };
	struct text_map map = { list, ARRAY_LEN(list) };
	struct pairs pairs, copy;
	const char *record;
	uint32_t at = 0;

	(void)state;
	assert_int_equal(pairs_make(&pairs, &map, &pairs_env, &err), 0);
	assert_int_equal(pairs.count, 3);
	assert_true(pairs_next(&pairs, &at, &record));
	assert_string_equal(record, "A=1");
	assert_string_equal(pairs_get(&pairs, STR_LIT("C")), "x=y");
	assert_true(pairs_has(&pairs, STR_LIT("B"), STR_LIT("")));
	assert_false(pairs_has(&pairs, STR_LIT("B"), STR_LIT("1")));
	assert_null(pairs_get(&pairs, STR_LIT("D")));
	assert_int_equal(pairs_from_block(&copy, pairs_block(&pairs)), 0);
	assert_int_equal(copy.count, 3);
	assert_memory_equal(copy.p, pairs.p, pairs.n);
	pairs_done(&copy);
	pairs_done(&pairs);
	assert_int_equal(pairs_from_block(&copy, STR_LIT("A=1")), -EINVAL); /* no end */
	assert_int_equal(pairs_from_block(&copy, (struct str){ "A\0", 2 }), -EINVAL);
	assert_int_equal(pairs_from_block(&copy, (struct str){ NULL, 0 }), 0);
	assert_int_equal(copy.count, 0);
}

static void test_pair_limits(void **state)
{
	static const struct text_pair bad[] = { { STR_LIT(""), STR_LIT("x") },
						{ STR_LIT("A-B"), STR_LIT("x") },
						{ STR_LIT("1A"), STR_LIT("x") },
						{ STR_LIT("A"), { "a\0b", 3 } } };
	char large[65537];
	struct text_pair pair = { STR_LIT("A"), { large, 65536 } };
	struct pairs pairs;
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_true(pairs_make(&pairs, &(struct text_map){ &bad[i], 1 }, &pairs_env, &err) <
			    0);
		assert_int_equal(err.code, ERR_INVALID_REQUEST);
	}
	memset(large, 'x', sizeof(large));
	assert_int_equal(pairs_make(&pairs, &(struct text_map){ &pair, 1 }, &pairs_env, &err), 0);
	pairs_done(&pairs);
	pair.value.n++;
	assert_true(pairs_make(&pairs, &(struct text_map){ &pair, 1 }, &pairs_env, &err) < 0);
	assert_int_equal(pairs_make(&pairs, &(struct text_map){ NULL, 0 }, &pairs_env, &err), 0);
	assert_int_equal(pairs.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_names_are_parsed_back),
					    cmocka_unit_test(test_pairs),
					    cmocka_unit_test(test_pair_limits) };

	return cmocka_run_group_tests_name("service-sandbox-state", tests, NULL, NULL);
}
