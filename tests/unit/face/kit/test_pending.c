/* SPDX-License-Identifier: Apache-2.0 */
/* The list of calls that are answered later: each is released once, with or without a server. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "face/kit/pending.h"

struct call {
	struct pending base;
	int number;
};

static int released, sum;

static void on_release(struct pending *pending)
{
	released++;
	sum += ((struct call *)(void *)pending)->number;
}

static struct http_server *no_server;

static struct call *add(struct pending_list *list, int number)
{
	struct http_req req = { .handle = 7 };
	struct call *call = pending_alloc(list, &req, sizeof(*call));

	assert_non_null(call);
	assert_int_equal(call->base.req, 7);
	assert_int_equal(call->number, 0);
	call->number = number;
	return call;
}

static void any_can_end_first(void **state)
{
	struct pending_list list = { .server = &no_server, .done = on_release };
	struct call *one = add(&list, 1), *two = add(&list, 2), *three = add(&list, 4);

	(void)state;
	released = sum = 0;
	assert_null(pending_free(&two->base)); /* without a server there is no request */
	assert_null(pending_free(&three->base));
	assert_ptr_equal(list.first, &one->base);
	assert_null(pending_free(&one->base));
	assert_null(list.first);
	assert_int_equal(released, 3);
	assert_int_equal(sum, 7);
}

static void the_end_releases_all(void **state)
{
	struct pending_list list = { .server = &no_server, .done = on_release };

	(void)state;
	released = sum = 0;
	for (int i = 0; i < 5; i++)
		(void)add(&list, i);
	pendings_done(&list);
	assert_null(list.first);
	assert_int_equal(released, 5);
	assert_int_equal(sum, 10);
	pendings_done(&list);
	assert_int_equal(released, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_can_end_first),
		cmocka_unit_test(the_end_releases_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
