/* SPDX-License-Identifier: Apache-2.0 */
/* Collected output: in order, with gaps counted, up to its limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "service/run/output_buffer.h"

static void add(struct output_buffer *g, uint64_t cursor, const char *text)
{
	output_buffer_add(g, cursor, str_of(text));
}

static void pieces_and_gaps(void **state)
{
	struct output_buffer g;

	(void)state;
	output_buffer_init(&g, 100, 10);
	add(&g, 10, "abc");
	add(&g, 13, "de");
	assert_int_equal(g.gap_bytes, 0);
	add(&g, 20, "f"); /* five are missing */
	assert_int_equal(g.gap_bytes, 5);
	assert_int_equal(g.next, 21);
	assert_true(str_is(buf_str(&g.bytes), "abcdef"));
	assert_false(g.cut);
	output_buffer_done(&g);
	output_buffer_init(&g, 100, 0);
	add(&g, 1000, "late"); /* missing at the front */
	assert_int_equal(g.gap_bytes, 1000);
	assert_int_equal(g.next, 1004);
	output_buffer_done(&g);
}

static void at_the_limit(void **state)
{
	struct output_buffer g;

	(void)state;
	output_buffer_init(&g, 4, 0);
	add(&g, 0, "abcd"); /* exactly: nothing is missing */
	assert_false(g.cut);
	add(&g, 4, "e");
	assert_true(g.cut);
	assert_int_equal(g.next, 4); /* where the next reader continues */
	add(&g, 5, "f");
	assert_int_equal(g.next, 4);
	assert_int_equal(g.gap_bytes, 0); /* left out by us is not lost */
	assert_true(str_is(buf_str(&g.bytes), "abcd"));
	output_buffer_done(&g);
	output_buffer_init(&g, 4, 0);
	add(&g, 0, "abcdef");
	assert_true(g.cut);
	assert_int_equal(g.next, 4);
	output_buffer_done(&g);
	output_buffer_init(&g, 0, 0); /* nothing at all is wanted */
	add(&g, 0, "x");
	assert_true(g.cut);
	assert_int_equal(g.next, 0);
	output_buffer_done(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(pieces_and_gaps),
					    cmocka_unit_test(at_the_limit) };

	return cmocka_run_group_tests_name("service-run-output_buffer", tests, NULL, NULL);
}
