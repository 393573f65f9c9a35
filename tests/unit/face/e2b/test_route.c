/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the E2B face: every row has a scope or says what opens it instead. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "face/e2b/e2b.h"
#include "face/kit/route.h"

static void every_row_is_guarded(void **state)
{
	size_t tables = 0;

	(void)state;
	for (; e2b_route_tables[tables]; tables++) {
		const struct route_table *table = e2b_route_tables[tables];

		for (size_t i = 0; i < table->count; i++) {
			const struct route *row = route_at(table, i);
			bool by_token = row->flags & (ROUTE_TOKEN | ROUTE_OPEN);

			if (row->pattern[0] != '/')
				fail_msg("%s is no path", row->pattern);
			/* AUTH_ANY is 0: any key. Only the control plane takes keys. */
			if (by_token != (table != &e2b_control_table))
				fail_msg("%s: a key or a token?", row->pattern);
			if (by_token)
				assert_int_equal(row->scope, 0);
		}
	}
	assert_int_equal(tables, 4);
}

static void rows_are_reachable(void **state)
{
	(void)state;
	for (size_t t = 0; e2b_route_tables[t]; t++)
		for (size_t i = 0; i < e2b_route_tables[t]->count; i++) {
			const struct route *row = route_at(e2b_route_tables[t], i);
			struct route_match match;

			route_find(e2b_route_tables[t], row->method, str_of(row->pattern), &match);
			if (match.row != row)
				fail_msg("%s is behind another row", row->pattern);
		}
}

static void ids_are_taken_as_sent(void **state)
{
	struct route_match match;

	(void)state;
	route_find(&e2b_control_table, HTTP_GET, STR_LIT("/templates/team%2Fx:tag"), &match);
	assert_non_null(match.row);
	assert_true(str_is(match.args[0], "team%2Fx:tag"));
	route_find(&e2b_code_table, HTTP_DELETE, STR_LIT("/contexts/a/restart"), &match);
	assert_null(match.row);
	route_find(&e2b_plain_table, HTTP_HEAD, STR_LIT("/files"), &match);
	assert_null(match.row);
	assert_string_equal(match.allow, "GET, POST");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_is_guarded),
		cmocka_unit_test(rows_are_reachable),
		cmocka_unit_test(ids_are_taken_as_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
