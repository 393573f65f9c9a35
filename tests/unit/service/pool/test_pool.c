/* SPDX-License-Identifier: Apache-2.0 */
/* Ready sandboxes: filled, handed out once, refilled, and dropped when they are of no use any more.
 */
#include "../home.h"

#include "service/pool/pool_internal.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/template/template_internal.h"

static int setup(void **state)
{
	(void)state;
	home_prepare();
	home.config.pool_enabled = true;
	home_open();
	return 0;
}

static uint32_t ready(void)
{
	struct service_gauges gauges = { 0 };

	pool_gauges(home.service, &gauges);
	return gauges.pool_ready;
}

static void the_pool_fills_to_its_least_by_itself(void **state)
{
	struct engine_limits limits;

	(void)state;
	assert_true(pool_usable(home.service, &home.service->engines[0]));
	HOME_UNTIL(ready() == 2);
	assert_int_equal(fake_live(fake_opened()), 2);
	pool_limits(home.service, &limits);
	assert_true(bounds_sizes(limits.cpu_milli, limits.memory_mb, limits.disk_size_mb,
				 limits.pids_max));
	for (int i = 0; i < 20; i++)
		loop_turn(home.loop, 2);
	assert_int_equal(ready(), 2); /* and not beyond it */
}

static void a_member_is_handed_out_once_and_replaced(void **state)
{
	const struct service_counters *counters = service_counters(home.service);
	struct sandbox *one, *two;
	int64_t cursor = INT64_MAX;
	const struct sandbox_filter any = { .state = -1 };

	(void)state;
	HOME_UNTIL(ready() == 2);
	assert_null(sandbox_list_next(home.service, home.admin, &any,
				      &cursor)); /* members have no owner */
	one = home_sandbox(home.admin, "one");
	two = home_sandbox(home.admin, "two");
	assert_string_not_equal(sandbox_id(one), sandbox_id(two));
	assert_int_equal(counters->creates_pool, 2);
	HOME_UNTIL(ready() >= 2);
	assert_int_equal(fake_live(fake_opened()), ready() + 2);
}

static void a_member_that_dies_is_not_handed_out(void **state)
{
	const struct service_counters *counters = service_counters(home.service);
	struct sandbox *sandbox;
	uint64_t fills;

	(void)state;
	HOME_UNTIL(ready() == 2);
	sandbox = pool_take(home.service, &home.service->engines[0],
			    template_find(home.service, STR_LIT("base"), NULL), ENGINE_LINK_NONE);
	assert_non_null(sandbox);
	assert_int_equal(ready(), 1);
	pool_put(sandbox); /* back, as before the request */
	assert_int_equal(ready(), 2);
	fills = counters->pool_fills;
	fake_die(fake_opened(), sandbox_id(sandbox), false);
	HOME_UNTIL(counters->pool_fills > fills && ready() == 2);
	assert_int_equal(fake_live(fake_opened()), 2);
}

static void an_engine_that_fails_is_tried_again(void **state)
{
	(void)state;
	HOME_UNTIL(ready() == 2);
	fake_fail_next(fake_opened(), FAKE_CREATE, ERR_ENGINE_FAILED);
	(void)home_sandbox(home.admin, "one");
	HOME_UNTIL(service_counters(home.service)->pool_fill_failures);
	HOME_UNTIL(ready() == 2);
}

static void members_of_a_removed_template_go(void **state)
{
	(void)state;
	HOME_UNTIL(ready() == 2);
	pool_drop_template(home.service, "other");
	assert_int_equal(ready(), 2);
	pool_drop_template(home.service, "base");
	assert_int_equal(ready(), 0);
}

static void without_a_pool_there_is_none(void **state)
{
	(void)state;
	assert_false(pool_usable(home.service, &home.service->engines[0]));
	assert_null(pool_take(home.service, &home.service->engines[0],
			      template_find(home.service, STR_LIT("base"), NULL),
			      ENGINE_LINK_NONE));
	(void)home_sandbox(home.admin, "one");
	assert_int_equal(service_counters(home.service)->creates_cold, 1);
	assert_int_equal(fake_live(fake_opened()), 1);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, home_teardown)
	const struct CMUnitTest tests[] = {
		T(the_pool_fills_to_its_least_by_itself),
		T(a_member_is_handed_out_once_and_replaced),
		T(a_member_that_dies_is_not_handed_out),
		T(an_engine_that_fails_is_tried_again),
		T(members_of_a_removed_template_go),
		cmocka_unit_test_setup_teardown(without_a_pool_there_is_none, home_setup,
						home_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
