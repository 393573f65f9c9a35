/* SPDX-License-Identifier: Apache-2.0 */
/* Output of programs as text: split at every position, in every chunking, binary or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "face/rest/run/stream.h"

/* One sequence of each length, and the first and last of each. */
static const char sample[] = "a\xc2\x80z\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbd"
			     "\xf0\x90\x80\x80\xf4\x8f\xbf\xbf!";

static void cuts_at_every_position_tear_nothing(void **state)
{
	size_t n = sizeof(sample) - 1;

	(void)state;
	assert_true(str_is_utf8(sample, n));
	for (size_t cut = 0; cut <= n; cut++) {
		struct str head = { sample, cut };
		size_t whole = text_whole(head);

		assert_true(cut - whole <= 3);
		assert_true(str_is_utf8(sample, whole));
		/* Held-back bytes are completed by what follows. */
		assert_true(str_is_utf8(sample + whole, n - whole));
		/* And no more bytes are held back than necessary. */
		for (size_t more = whole + 1; more <= cut; more++)
			assert_false(str_is_utf8(sample, more));
	}
}

static void bytes_that_begin_nothing_are_not_held(void **state)
{
	static const struct {
		const char *bytes;
		size_t n, whole;
	} rows[] = {
		{ "", 0, 0 },
		{ "\x80", 1, 1 },	      /* a continuation alone */
		{ "\x80\x80\x80\x80", 4, 4 }, /* and many */
		{ "\xff", 1, 1 },
		{ "\xc0", 1, 1 },	  /* never begins anything */
		{ "\xf5\x80\x80", 3, 3 }, /* beyond Unicode */
		{ "x\xc3", 2, 1 },
		{ "x\xe2\x82", 3, 1 },
		{ "x\xf0\x9f\x98", 4, 1 },
		{ "\xf0\x9f\x98\x80", 4, 4 },
		{ "\xc3\xa9\x80", 3, 3 }, /* complete, then a stray one */
		{ "\0\0\xe2", 3, 2 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_int_equal(text_whole((struct str){ rows[i].bytes, rows[i].n }),
				 rows[i].whole);
}

static void mostly_control_bytes_are_not_plain(void **state)
{
	char bytes[256];

	(void)state;
	memset(bytes, 'x', sizeof(bytes));
	assert_true(text_is_plain((struct str){ bytes, sizeof(bytes) }));
	memset(bytes, 0, 64); /* a quarter: at the limit */
	assert_true(text_is_plain((struct str){ bytes, sizeof(bytes) }));
	bytes[64] = 0;
	assert_false(text_is_plain((struct str){ bytes, sizeof(bytes) }));
	memset(bytes, '\n', sizeof(bytes)); /* short escapes do no harm */
	assert_true(text_is_plain((struct str){ bytes, sizeof(bytes) }));
	bytes[7] = (char)0xff;
	assert_false(text_is_plain((struct str){ bytes, sizeof(bytes) }));
	assert_true(text_is_plain((struct str){ "\x1b[0m", 4 })); /* little is text */
}

static void cursors(void **state)
{
	static const char *const bad[] = {
		"", ":", "1:", ":1", "x", "1:x", "-1", "1 2", "1:2:3", " 1", "9223372036854775808"
	};
	uint64_t at[2] = { 7, 7 };
	struct err err;

	(void)state;
	assert_int_equal(cursor_parse(STR_LIT("12"), "cursor", at, &err), 0);
	assert_true(at[0] == 12 && at[1] == 0);
	assert_int_equal(cursor_parse(STR_LIT("3:4"), "cursor", at, &err), 0);
	assert_true(at[0] == 3 && at[1] == 4);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(cursor_parse(str_of(bad[i]), "cursor", at, &err), -1);
		assert_int_equal(err.code, ERR_INVALID_REQUEST);
		assert_non_null(strstr(err.message, "cursor"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cuts_at_every_position_tear_nothing),
		cmocka_unit_test(bytes_that_begin_nothing_are_not_held),
		cmocka_unit_test(mostly_control_bytes_are_not_plain),
		cmocka_unit_test(cursors),
	};

	return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
