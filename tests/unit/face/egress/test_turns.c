/* SPDX-License-Identifier: Apache-2.0 */
/* Sandboxes take turns, however many connections each of them has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "face/egress/turns.h"

#define LINK(n) (0x64600002u + (n))

static struct turns turns;
static struct turn many[1000], some[3], one;

static int setup(void **state)
{
	(void)state;
	memset(&turns, 0, sizeof(turns));
	memset(many, 0, sizeof(many));
	memset(some, 0, sizeof(some));
	one = (struct turn){ .from = LINK(700) };
	for (int i = 0; i < 1000; i++)
		many[i].from = LINK(1);
	for (int i = 0; i < 3; i++)
		some[i].from = LINK(2);
	return 0;
}

static void test_sandboxes_take_turns(void **state)
{
	int of_one = 0;

	(void)state;
	for (int i = 0; i < 1000; i++)
		turns_put(&turns, &many[i]);
	for (int i = 0; i < 3; i++)
		turns_put(&turns, &some[i]);
	turns_put(&turns, &one);
	assert_int_equal(turns.waiting, 1004);
	/* Each of three links gets every third turn as long as it waits for one. */
	for (int i = 0; i < 300; i++) {
		struct turn *turn = turns_take(&turns);

		assert_non_null(turn);
		assert_false(turn->queued);
		of_one += turn == &one;
		turns_put(&turns, turn);
		assert_int_equal(of_one, (i + 1) / 3);
	}
	turns_remove(&turns, &one);
	turns_remove(&turns, &one);
	for (int i = 0; i < 1003; i++)
		assert_ptr_not_equal(turns_take(&turns), &one);
	assert_null(turns_take(&turns));
	assert_int_equal(turns.waiting, 0);
}

/* Within a link, the one that waits longest is next. */
static void test_order_within_a_link(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		turns_put(&turns, &some[i]);
	turns_put(&turns, &some[0]); /* nothing happens */
	turns_remove(&turns, &some[1]);
	assert_ptr_equal(turns_take(&turns), &some[0]);
	turns_put(&turns, &some[0]);
	assert_ptr_equal(turns_take(&turns), &some[2]);
	assert_ptr_equal(turns_take(&turns), &some[0]);
	assert_null(turns_take(&turns));
}

/* A lane that became empty while it was listed, and is used again. */
static void test_emptied_lanes(void **state)
{
	(void)state;
	turns_put(&turns, &one);
	turns_put(&turns, &some[0]);
	turns_remove(&turns, &one);
	turns_put(&turns, &one);
	turns_remove(&turns, &some[0]);
	assert_ptr_equal(turns_take(&turns), &one);
	assert_null(turns_take(&turns));
	turns_put(&turns, &some[0]);
	assert_ptr_equal(turns_take(&turns), &some[0]);
	assert_null(turns_take(&turns));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_sandboxes_take_turns, setup),
		cmocka_unit_test_setup(test_order_within_a_link, setup),
		cmocka_unit_test_setup(test_emptied_lanes, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
