/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "http/message/sse.h"
#include "http/message/url.h"

static struct arena arena;

static int setup(void **state)
{
	(void)state;
	arena_init(&arena, 65536);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	arena_done(&arena);
	return 0;
}

static void decoding_happens_once(void **state)
{
	struct str s;

	(void)state;
	assert_int_equal(http_decode(&arena, STR_LIT("a%2Fb%2525+c"), false, &s), 0);
	assert_true(str_is(s, "a/b%25+c"));
	assert_int_equal(http_decode(&arena, STR_LIT("a+b%2b"), true, &s), 0);
	assert_true(str_is(s, "a b+"));
	assert_int_equal(http_decode(&arena, STR_LIT(""), true, &s), 0);
	assert_int_equal(s.n, 0);
}

static void bad_escapes_are_refused(void **state)
{
	static const char *const bad[] = { "%", "%2", "%g0", "%0g", "a%", "%00", "a%00b", "%%41" };
	struct str s;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(http_decode(&arena, str_of(bad[i]), false, &s), -EINVAL);
	assert_int_equal(http_decode(&arena, (struct str){ "a\0b", 3 }, false, &s), -EINVAL);
}

static void query_lookup(void **state)
{
	struct str query = STR_LIT("a=1&&b=x%20y+z&flag&%63=3&a=2&e="), s;

	(void)state;
	assert_int_equal(http_query_get(&arena, query, "a", &s), 1);
	assert_true(str_is(s, "1"));
	assert_int_equal(http_query_get(&arena, query, "b", &s), 1);
	assert_true(str_is(s, "x y z"));
	assert_int_equal(http_query_get(&arena, query, "flag", &s), 1);
	assert_int_equal(s.n, 0);
	assert_int_equal(http_query_get(&arena, query, "c", &s), 1);
	assert_true(str_is(s, "3"));
	assert_int_equal(http_query_get(&arena, query, "e", &s), 1);
	assert_int_equal(s.n, 0);
	assert_int_equal(http_query_get(&arena, query, "fla", &s), 0);
	assert_int_equal(http_query_get(&arena, query, "flags", &s), 0);
	assert_int_equal(http_query_get(&arena, STR_LIT(""), "a", &s), 0);
	assert_int_equal(http_query_get(&arena, STR_LIT("%zz=1&a=2"), "a", &s), -EINVAL);
	assert_int_equal(http_query_get(&arena, STR_LIT("a=%zz"), "a", &s), -EINVAL);
	assert_int_equal(http_query_get(&arena, STR_LIT("a=%00"), "a", &s), -EINVAL);
}

static void expect_event(const char *event, const char *id, struct str data, const char *want)
{
	struct buf out;

	buf_init(&out, 4096);
	assert_int_equal(sse_event(&out, str_of(event), str_of(id), data), 0);
	assert_int_equal(buf_len(&out), strlen(want));
	assert_memory_equal(buf_data(&out), want, strlen(want));
	buf_done(&out);
}

static void events_hold_foreign_bytes_in_data_lines(void **state)
{
	struct buf out;

	(void)state;
	expect_event("", "", STR_LIT("x"), "data: x\n\n");
	expect_event("stdout", "7", STR_LIT("{}"), "event: stdout\nid: 7\ndata: {}\n\n");
	expect_event("", "", STR_LIT(""), "data: \n\n");
	expect_event("", "", STR_LIT("a\nb"), "data: a\ndata: b\n\n");
	expect_event("", "", STR_LIT("a\r\nb\rc\n"), "data: a\ndata: b\ndata: c\ndata: \n\n");
	expect_event("", "", STR_LIT("x\n\nevent: evil\ndata: y"),
		     "data: x\ndata: \ndata: event: evil\ndata: data: y\n\n");
	expect_event("e\nid: 1", "2\r\ndata: z", STR_LIT("d"),
		     "event: eid: 1\nid: 2data: z\ndata: d\n\n");
	expect_event("", "", (struct str){ NULL, 0 }, "data: \n\n");
	buf_init(&out, 16);
	assert_int_equal(sse_event(&out, STR_LIT("long name"), STR_LIT(""), STR_LIT("data")),
			 -ENOBUFS);
	assert_int_equal(buf_len(&out), 0);
	buf_done(&out);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(decoding_happens_once),
		T(bad_escapes_are_refused),
		T(query_lookup),
		T(events_hold_foreign_bytes_in_data_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
