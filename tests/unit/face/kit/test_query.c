/* SPDX-License-Identifier: Apache-2.0 */
/* Query parameters by a field table. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "face/kit/query.h"

static const char *const colours[] = { "red", "green", NULL };

struct asked {
	int64_t number;
	struct str text;
	int colour;
	bool flag;
};
#define AT(member) offsetof(struct asked, member)
static const struct field table[] = {
	{ .name = "number",
	  .type = FIELD_INT,
	  .offset = AT(number),
	  .min = -2,
	  .max = 9,
	  .fallback = 4 },
	{ .name = "text", .type = FIELD_STR, .offset = AT(text), .min = 1, .max = 3 },
	{ .name = "colour", .type = FIELD_ENUM, .offset = AT(colour), .names = colours },
	{ .name = "flag", .type = FIELD_BOOL, .offset = AT(flag) },
	{ .name = "meta.", .type = FIELD_STR, .offset = AT(text), .max = 64 },
	{ .type = FIELD_END }
};

static struct arena arena;

static struct http_req request(const char *query)
{
	return (struct http_req){ .arena = &arena, .query = str_of(query) };
}

static int decode(const char *query, struct asked *ret, struct err *err)
{
	struct http_req req = request(query);

	*ret = (struct asked){ 0 };
	return query_decode(&req, table, ret, err);
}

static void values(void **state)
{
	struct asked v;
	struct err err;

	(void)state;
	assert_int_equal(decode("", &v, &err), 0);
	assert_int_equal(v.number, 4);
	assert_int_equal(decode("number=-2&text=%61b&colour=green&flag=1", &v, &err), 0);
	assert_int_equal(v.number, -2);
	assert_true(str_is(v.text, "ab"));
	assert_int_equal(v.colour, 1);
	assert_true(v.flag);
}

static void refusals(void **state)
{
	static const char *const bad[] = { "number=10", "number=-3",   "number=x", "text=",
					   "text=abcd", "colour=blue", "flag=yes", "text=%zz" };
	struct asked v;
	struct err err;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (decode(bad[i], &v, &err) == 0)
			fail_msg("%s was taken", bad[i]);
}

static void unknown_names(void **state)
{
	struct http_req known = request("number=1&meta.a=b"), other = request("numbers=1"),
			ticket = request("ticket=x");
	struct err err;

	(void)state;
	assert_int_equal(query_check(&known, table, NULL, &err), 0);
	assert_int_equal(query_check(&other, table, NULL, &err), -1);
	assert_non_null(strstr(err.message, "numbers"));
	assert_int_equal(query_check(&ticket, table, NULL, &err), -1);
	assert_int_equal(query_check(&ticket, table, "ticket", &err), 0);
}

static int set_up(void **state)
{
	(void)state;
	arena_init(&arena, 65536);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	arena_done(&arena);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values),
		cmocka_unit_test(refusals),
		cmocka_unit_test(unknown_names),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
