/* SPDX-License-Identifier: Apache-2.0 */
/* The matcher: literals, braces, methods, and what a miss reports to the face. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "face/kit/route.h"

struct row {
	struct route row;
	int number;
};

static const struct row rows[] = {
	{ ROUTE(GET, "/a/{id}", AUTH_EXEC), 1 },
	{ ROUTE(POST, "/a/{id}", AUTH_ADMIN, ROUTE_RAW), 2 },
	{ ROUTE(GET, "/a/{id}/b/{name}", 0, ROUTE_OPEN), 3 },
	{ ROUTE(GET, "/a", AUTH_ANY), 4 },
};

static bool is_short(struct str segment)
{
	return segment.n <= 4;
}

static const struct route_table strict = { "strict", ROUTE_ROWS(rows), true, is_short };
static const struct route_table lax = { "lax", ROUTE_ROWS(rows), false, NULL };

static struct route_match find(const struct route_table *table, enum http_method method,
			       const char *path)
{
	struct route_match match;

	route_find(table, method, str_of(path), &match);
	return match;
}

static void is_row(const struct route_table *table, enum http_method method, const char *path,
		   int number)
{
	struct route_match match = find(table, method, path);

	if (!match.row)
		fail_msg("%s: no row", path);
	assert_int_equal(rows[match.index].number, number);
	assert_ptr_equal(match.row, &rows[match.index].row);
}

static void rows_are_found(void **state)
{
	struct route_match match = find(&lax, HTTP_GET, "/a/x%2Fy/b/zz");

	(void)state;
	is_row(&strict, HTTP_GET, "/a/1", 1);
	is_row(&strict, HTTP_POST, "/a/1", 2);
	is_row(&strict, HTTP_GET, "/a", 4);
	assert_int_equal(match.row->flags, ROUTE_OPEN);
	assert_true(str_is(match.args[0], "x%2Fy")); /* as it was sent */
	assert_true(str_is(match.args[1], "zz"));
	match = find(&lax, HTTP_GET, "/a/1");
	assert_null(match.args[1].p); /* nothing is left of rows that did not fit */
}

static void head_follows_the_table(void **state)
{
	(void)state;
	is_row(&strict, HTTP_HEAD, "/a/1", 1);
	assert_null(find(&lax, HTTP_HEAD, "/a/1").row);
	assert_string_equal(find(&strict, HTTP_DELETE, "/a/1").allow, "GET, HEAD, POST");
	assert_string_equal(find(&lax, HTTP_DELETE, "/a/1").allow, "GET, POST");
}

static void misses(void **state)
{
	static const char *const paths[] = { "",	"/",	      "a",	 "/b",
					     "/a/",	"/a/1/",      "/a//b/x", "/a/1/b",
					     "/a/1/b/", "/a/1/b/x/y", "//a",	 "/a/1/c/x" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct route_match match = find(&lax, HTTP_GET, paths[i]);

		if (match.row || match.allow[0])
			fail_msg("%s was found", paths[i]);
	}
	/* What no id can be is no path; a name is reported before an id. */
	assert_null(find(&strict, HTTP_GET, "/a/12345").row);
	assert_true(str_starts(str_of(find(&strict, HTTP_GET, "/a/12345").odd), "{id}"));
	assert_true(str_starts(str_of(find(&strict, HTTP_GET, "/a/1/b/12345").odd), "{name}"));
	assert_null(find(&strict, HTTP_GET, "/a/1/c/x").odd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_found),
		cmocka_unit_test(head_follows_the_table),
		cmocka_unit_test(misses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
