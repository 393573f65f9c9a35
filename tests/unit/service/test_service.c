/* SPDX-License-Identifier: Apache-2.0 */
/* The service as a whole: its engines, whether it is ready, what it lists, and its end. */
#include "home.h"

#include "service/pairs.h"
#include "service/sandbox/sandbox_internal.h"

static void it_is_ready_while_its_engine_answers(void **state)
{
	struct err err = { .code = ERR_OK };

	(void)state;
	assert_true(service_ready(home.service, &err));
	fake_lose(fake_opened(), true);
	assert_false(service_ready(home.service, &err));
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	fake_lose(fake_opened(), false);
	HOME_UNTIL(service_ready(home.service, &err));
}

static void engines_are_found_by_name(void **state)
{
	struct err err = { .code = ERR_OK };
	struct engine_view view;

	(void)state;
	assert_ptr_equal(service_engine_find(home.service, STR_LIT(""), &err),
			 &home.service->engines[0]);
	assert_ptr_equal(service_engine_find(home.service, STR_LIT("fake"), &err),
			 &home.service->engines[0]);
	assert_null(service_engine_find(home.service, STR_LIT("native"), &err));
	assert_int_not_equal(err.code, ERR_OK);
	assert_null(service_engine_by_name(home.service, "native"));
	assert_true(service_engine_view(home.service, 0, &view));
	assert_string_equal(view.name, "fake");
	assert_true(view.is_default && view.is_available);
	assert_null(view.why);
	assert_false(service_engine_view(home.service, 1, &view));
}

static void numbers_of_lists_only_grow(void **state)
{
	int64_t first = service_next_seq(home.service), second = service_next_seq(home.service);

	(void)state;
	assert_true(second > first);
	service_saw_seq(home.service, second + 100); /* of a row that was loaded */
	assert_true(service_next_seq(home.service) > second + 100);
	service_saw_seq(home.service, first);
	assert_true(service_next_seq(home.service) > second + 100);
}

static void a_full_disk_is_told_apart_from_faults(void **state)
{
	struct err full = { .code = ERR_OK }, other = { .code = ERR_OK };

	(void)state;
	assert_int_equal(service_unrecorded(&full, -ENOSPC, "it"), -1);
	assert_int_equal(service_unrecorded(&other, -EIO, "it"), -1);
	assert_int_not_equal(full.code, other.code);
	assert_int_equal(other.code, ERR_INTERNAL);
}

static int ends;
static enum err_code end_code;

static void on_destroyed(void *arg, const struct err *err)
{
	(void)arg;
	ends++;
	end_code = err ? err->code : ERR_OK;
}

static void everything_is_destroyed_on_request(void **state)
{
	struct service_gauges gauges;
	struct err err;

	(void)state;
	ends = 0;
	(void)home_sandbox(home.admin, "one");
	(void)home_sandbox(home.admin, "two");
	service_gauges(home.service, &gauges);
	assert_int_equal(gauges.by_state[SANDBOX_RUNNING], 2);
	assert_int_equal(service_destroy_all(home.service, 60000, on_destroyed, NULL, &err), 0);
	assert_int_equal(ends, 0);
	HOME_UNTIL(ends);
	assert_int_equal(end_code, ERR_OK);
	assert_int_equal(fake_live(fake_opened()), 0);
	service_gauges(home.service, &gauges);
	assert_int_equal(gauges.by_state[SANDBOX_RUNNING], 0);
}

static void what_is_under_way_ends_without_the_service(void **state)
{
	struct err err;
	struct op *op = op_new(home.service, 0, &err);

	(void)state;
	assert_non_null(op);
	assert_ptr_equal(op->service, home.service);
	home_close();
	assert_null(op_end(op)); /* it only frees */
}

static void pairs_keep_what_they_were_made_of(void **state)
{
	static const struct text_pair list[] = { { STR_LIT("A"), STR_LIT("1") },
						 { STR_LIT("B"), STR_LIT("") } };
	const struct text_map map = { list, ARRAY_LEN(list) };
	struct pairs pairs, again;
	struct err err;

	(void)state;
	assert_int_equal(pairs_make(&pairs, &map, &pairs_env, &err), 0);
	assert_int_equal(pairs.count, 2);
	assert_int_equal(pairs_from_block(&again, pairs_block(&pairs)), 0);
	assert_int_equal(again.count, 2);
	pairs_done(&pairs);
	pairs_done(&again);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, home_setup, home_teardown)
	const struct CMUnitTest tests[] = {
		T(it_is_ready_while_its_engine_answers),
		T(engines_are_found_by_name),
		T(numbers_of_lists_only_grow),
		T(a_full_disk_is_told_apart_from_faults),
		T(everything_is_destroyed_on_request),
		T(what_is_under_way_ends_without_the_service),
		cmocka_unit_test(pairs_keep_what_they_were_made_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
