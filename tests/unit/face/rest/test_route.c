/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the REST face: rows that dispatch can reach, each with a scope. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "face/rest/call.h"

static void every_row_is_guarded(void **state)
{
	(void)state;
	for (size_t i = 0; i < rest_route_count; i++) {
		const struct rest_route *route = &rest_routes[i];

		if ((route->row.flags & ROUTE_OPEN) && route->row.scope)
			fail_msg("%s is open and has a scope", route->row.pattern);
		if (route->handle && !route->summary)
			fail_msg("%s has no summary", route->row.pattern);
	}
}

static void rows_are_reachable(void **state)
{
	char path[128];
	struct route_match match;
	struct err err;

	(void)state;
	for (size_t i = 0; i < rest_route_count; i++) {
		const struct route *row = &rest_routes[i].row;
		size_t n = 0;

		for (const char *at = row->pattern; *at; at++)
			if (*at != '{' && *at != '}')
				path[n++] = *at == '_' ? '-' : *at;
		path[n] = '\0';
		assert_ptr_equal(rest_route_find(row->method, str_of(path), &match, &err),
				 &rest_routes[i]);
	}
}

static void misses_are_explained(void **state)
{
	struct route_match match;
	struct err err;

	(void)state;
	assert_null(rest_route_find(HTTP_GET, STR_LIT("/v1/nothing"), &match, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_null(rest_route_find(HTTP_GET, STR_LIT("/v1/sandboxes/a%20b"), &match, &err));
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_null(rest_route_find(HTTP_GET, STR_LIT("/v1/sandboxes/a/windows/.."), &match, &err));
	assert_int_equal(err.code, ERR_INVALID_REQUEST);
	assert_null(rest_route_find(HTTP_PUT, STR_LIT("/v1/sandboxes"), &match, &err));
	assert_string_equal(match.allow, "POST, GET, HEAD");
	assert_non_null(rest_route_find(HTTP_HEAD, STR_LIT("/v1/sandboxes"), &match, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_is_guarded),
		cmocka_unit_test(rows_are_reachable),
		cmocka_unit_test(misses_are_explained),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
