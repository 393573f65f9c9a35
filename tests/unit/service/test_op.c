/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "service/op_internal.h"
#include "service/service_internal.h"

struct sum {
	struct op op;
	int (*done)(int value);
	int value;
};

static int twice(int value)
{
	return 2 * value;
}

static void test_a_typed_operation_completes_once(void **state)
{
	struct service service = { 0 };
	struct err err;
	struct sum *sum = OP_NEW(struct sum, &service, 7, &err);
	struct op *plain = op_new(&service, 0, &err);

	(void)state;
	assert_non_null(sum);
	assert_non_null(plain);
	assert_int_equal(service.upkeep.ops.count, 2);
	assert_int_equal(sum->op.sandbox, 7);
	assert_int_equal(sum->value, 0);
	sum->done = twice;
	assert_int_equal(sum->done(21), 42);
	assert_ptr_equal(op_end(&sum->op), &service);
	assert_int_equal(service.upkeep.ops.count, 1);
	assert_ptr_equal(service.upkeep.ops.first, plain);
	assert_ptr_equal(op_end(plain), &service);
	assert_null(service.upkeep.ops.first);
	assert_null(op_end(NULL));
}

static void test_any_place_in_the_list_is_left(void **state)
{
	struct service service = { 0 };
	struct op_list list = { 0 };
	struct op ops[3] = { 0 };

	(void)state;
	for (size_t left = 0; left < 3; left++) {
		for (size_t i = 0; i < 3; i++)
			op_begin(&ops[i], &list, &service, 0);
		assert_int_equal(list.count, 3);
		assert_ptr_equal(op_unlink(&ops[left]), &service);
		assert_null(op_unlink(&ops[left])); /* a second time it belongs to nothing */
		assert_int_equal(list.count, 2);
		for (const struct op *op = list.first; op; op = op->next)
			assert_ptr_not_equal(op, &ops[left]);
		while (list.first)
			assert_ptr_equal(op_unlink(list.first), &service);
		assert_int_equal(list.count, 0);
	}
}

/* The service ends first: the completion finds neither it nor a sandbox, and only frees. */
static void test_an_abandoned_operation_only_frees(void **state)
{
	struct service *service = calloc(1, sizeof(*service));
	struct err err;
	struct op *first, *second;

	(void)state;
	assert_non_null(service);
	first = op_new(service, 5, &err);
	second = op_new(service, 5, &err);
	assert_non_null(first);
	assert_non_null(second);
	op_list_abandon(&service->upkeep.ops);
	assert_int_equal(service->upkeep.ops.count, 0);
	free(service);
	assert_null(op_sandbox(first));
	assert_null(op_end_sandbox(first));
	assert_null(op_end(second));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_typed_operation_completes_once),
		cmocka_unit_test(test_any_place_in_the_list_is_left),
		cmocka_unit_test(test_an_abandoned_operation_only_frees),
	};

	return cmocka_run_group_tests_name("service-op", tests, NULL, NULL);
}
