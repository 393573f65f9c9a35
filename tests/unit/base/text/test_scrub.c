/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/text/scrub.h"

static struct scrub *set;

static void make(const char *const *values, size_t count)
{
	assert_int_equal(scrub_new(&set), 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(scrub_add(set, str_of(values[i])), 0);
	assert_int_equal(scrub_finish(set), 0);
}

static void make_one(const char *value)
{
	make(&value, 1);
}

static int teardown(void **state)
{
	(void)state;
	scrub_unref(set);
	set = NULL;
	return 0;
}

static void assert_masked(const char *text, const char *want)
{
	char copy[8192];

	assert_int_equal(str_copy(copy, sizeof(copy), str_of(text)), 0);
	(void)scrub_text(set, copy, strlen(copy), false);
	assert_string_equal(copy, want);
}

static void a_value_is_masked_at_its_length(void **state)
{
	(void)state;
	make_one("hunter2hunter2");
	assert_masked("", "");
	assert_masked("hunter2hunter2", "**************");
	assert_masked("a hunter2hunter2.", "a **************.");
	assert_masked("hunter2hunter", "hunter2hunter");
	assert_masked("hunter2hunter2hunter2", "*********************"); /* they overlap */
	assert_masked("hunter2hunterhunter2hunter2", "hunter2hunter**************");
}

static void short_values_mask_nothing(void **state)
{
	static const char *const values[] = { "", "a", "1234567" };

	(void)state;
	make(values, ARRAY_LEN(values));
	assert_masked("a 1234567 aaaa", "a 1234567 aaaa");
}

static void the_forms_programs_give_it(void **state)
{
	static const char *const texts[] = {
		"cyZjciF0L3ZhbHVlKys=",		/* base64 */
		"eHMmY3IhdC92YWx1ZSsr",		/* one byte before it */
		"eHhzJmNyIXQvdmFsdWUrKw==",	/* two bytes before it */
		"7326637221742f76616c75652b2b", /* hex */
		"7326637221742F76616C75652B2B",
		"s%26cr%21t%2Fvalue%2B%2B", /* RFC 3986 */
		"s%26cr%21t%2fvalue%2b%2b",
		"s%26cr%21t/value%2B%2B", /* Python's quote() */
		"s%26cr!t%2Fvalue%2B%2B", /* encodeURIComponent() */
		"s&cr!t\\/value++",	  /* JSON as PHP writes it */
	};

	(void)state;
	make_one("s&cr!t/value++");
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		char copy[64];

		assert_int_equal(str_copy(copy, sizeof(copy), str_of(texts[i])), 0);
		assert_true(scrub_text(set, copy, strlen(copy), false));
		/* Digits that also depend on neighbouring bytes may stay. */
		assert_true(strspn(copy, "*") + 4 >= strlen(copy) ||
			    strstr(copy, "****************") != NULL);
	}
	assert_masked("s&cr!t/valuf++", "s&cr!t/valuf++");
}

static void both_alphabets_of_base64(void **state)
{
	(void)state;
	make_one("\xfb\xff\xbf\xfb\xff\xbf\xfb\xff\xbf");
	assert_masked("+/+/+/+/+/+/", "************");
	assert_masked("-_-_-_-_-_-_", "************");
	assert_masked("+_+/+/+/+/+/", "+_+/+/+/+/+/");
}

static void long_values_in_lines(void **state)
{
	char value[128], text[256];

	(void)state;
	memset(value, 'k', 99);
	value[99] = '\0';
	make_one(value);
	/* base64 -w76 of it: 76 digits, then 56. */
	(void)snprintf(text, sizeof(text), "%s\n%s",
		       "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tr"
		       "a2tra2tra2tra2tra2tra2tra2tra2tr",
		       "a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tr");
	assert_true(scrub_text(set, text, strlen(text), false));
	assert_int_equal(strspn(text, "*"), 76);
	assert_int_equal(strspn(text + 77, "*"), 56);
}

static void a_key_in_pem_is_masked_line_by_line(void **state)
{
	(void)state;
	make_one("-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTU\n"
		 "short\n-----END KEY-----\n");
	assert_masked("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTU\r\nshort",
		      "********************************************************\r\nshort");
	assert_masked("-----BEGIN KEY-----", "-----BEGIN KEY-----");
}

static void values_inside_values(void **state)
{
	static const char *const values[] = { "abcdefgh", "xxabcdefghyy", "cdefghijkl" };

	(void)state;
	make(values, ARRAY_LEN(values));
	assert_masked("xxabcdefghyy", "************");
	assert_masked("xxabcdefghzz", "xx********zz");
	assert_masked("abcdefghijkl", "************");
	assert_masked("bcdefghijkl", "b**********");
}

static void what_was_cut_off_hides_its_start_too(void **state)
{
	char text[] = "token hunter2hunt";

	(void)state;
	make_one("hunter2hunter2");
	assert_false(scrub_text(set, text, strlen(text), false));
	assert_true(scrub_text(set, text, strlen(text), true));
	assert_string_equal(text, "token ***********");
}

static void bytes_of_any_kind(void **state)
{
	char text[] = "a\0bcdefg\0h\0";

	(void)state;
	assert_int_equal(scrub_new(&set), 0);
	assert_int_equal(scrub_add(set, (struct str){ "\0bcdefg\0h", 9 }), 0);
	assert_int_equal(scrub_finish(set), 0);
	assert_true(scrub_text(set, text, sizeof(text), false));
	assert_memory_equal(text, "a*********\0", sizeof(text) - 1);
}

/* Feeds text in pieces of the given sizes, returns what came out. */
static size_t feed(const char *text, size_t n, const size_t *sizes, size_t count, char *out)
{
	struct scrub_stream stream;
	size_t at = 0, put = 0, i = 0;
	struct str s;

	scrub_stream_init(&stream, set);
	while (at < n) {
		size_t size = sizes[i++ % count], take = MIN(n - at, size);

		s = scrub_stream_feed(&stream, (struct str){ text + at, take });
		memcpy(out + put, s.p, s.n);
		put += s.n;
		at += take;
		assert_true(put <= at && at - put <= scrub_longest(set));
	}
	s = scrub_stream_flush(&stream);
	if (s.n)
		memcpy(out + put, s.p, s.n);
	put += s.n;
	scrub_stream_done(&stream);
	return put;
}

static void every_split_gives_the_same(void **state)
{
	static const char text[] = "x hunter2hunter2 aHVudGVyMmh1bnRlcjI= hunter2hunthunter2hunter2"
				   " 68756e7465723268756e74657232 end";
	char want[sizeof(text)], got[sizeof(text)];
	size_t n = sizeof(text) - 1;

	(void)state;
	make_one("hunter2hunter2");
	memcpy(want, text, sizeof(text));
	assert_true(scrub_text(set, want, n, true));
	assert_null(strstr(want, "hunter2hunter2"));
	for (size_t a = 1; a <= n; a++) {
		for (size_t b = 1; b <= 17; b += 4) {
			size_t sizes[] = { a, b };

			assert_int_equal(feed(text, n, sizes, 2, got), n);
			assert_memory_equal(got, want, n);
		}
	}
}

static uint32_t seed = 1;

static uint32_t next_random(void)
{
	seed = seed * 1664525 + 1013904223;
	return seed >> 8;
}

/* Small alphabets make near misses and overlaps common. */
static void random_texts_and_splits(void **state)
{
	(void)state;
	for (int round = 0; round < 300; round++) {
		char values[3][24], text[600], want[600], got[600];
		size_t sizes[5];

		assert_int_equal(scrub_new(&set), 0);
		for (int v = 0; v < 3; v++) {
			size_t n = 8 + next_random() % 12;

			for (size_t i = 0; i < n; i++)
				values[v][i] = (char)('a' + next_random() % 2);
			values[v][n] = '\0';
			assert_int_equal(scrub_add(set, str_of(values[v])), 0);
		}
		assert_int_equal(scrub_finish(set), 0);
		for (size_t i = 0; i < sizeof(text); i++)
			text[i] = (char)('a' + next_random() % 2);
		/* The plain reference: every occurrence of every value. */
		memcpy(want, text, sizeof(text));
		for (int v = 0; v < 3; v++) {
			size_t n = strlen(values[v]);

			for (size_t i = 0; i + n <= sizeof(text); i++)
				if (memcmp(text + i, values[v], n) == 0)
					memset(want + i, '*', n);
		}
		/* The start of one at the end is masked from four bytes on. */
		for (int v = 0; v < 3; v++)
			for (size_t n = strlen(values[v]) - 1; n > SCRUB_SHOWN_MAX; n--)
				if (memcmp(text + sizeof(text) - n, values[v], n) == 0)
					memset(want + sizeof(text) - n, '*', n);
		for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
			sizes[i] = 1 + next_random() % 30;
		assert_int_equal(feed(text, sizeof(text), sizes, ARRAY_LEN(sizes), got),
				 sizeof(text));
		assert_memory_equal(got, want, sizeof(text));
		scrub_unref(set);
		set = NULL;
	}
}

static void only_what_may_become_a_value_is_held(void **state)
{
	struct scrub_stream stream;
	struct str s;

	(void)state;
	make_one("hunter2hunter2");
	scrub_stream_init(&stream, set);
	s = scrub_stream_feed(&stream, STR_LIT("user@box:~$ "));
	assert_int_equal(s.n, 12);
	assert_int_equal(scrub_stream_held(&stream), 0);
	s = scrub_stream_feed(&stream, STR_LIT("echo hunt"));
	assert_int_equal(s.n, 5);
	assert_int_equal(scrub_stream_held(&stream), 4);
	/*
	 * Waited long enough: the bytes are passed on, and the rest of the value is still masked.
	 */
	s = scrub_stream_flush(&stream);
	assert_true(str_is(s, "****"));
	s = scrub_stream_feed(&stream, STR_LIT("er2hunter2 x"));
	assert_true(str_is(s, "********** x"));
	scrub_stream_done(&stream);
}

static void of_a_start_three_bytes_are_shown_at_most(void **state)
{
	char text[] = "hunter2";
	struct scrub_stream stream;

	(void)state;
	make_one("hunter2hunter2");
	for (size_t n = 1; n <= 7; n++) {
		(void)snprintf(text, sizeof(text), "hunter2");
		(void)scrub_text(set, text, n, true);
		assert_int_equal(text[0] == '*', n > 3);
		scrub_stream_init(&stream, set);
		(void)scrub_stream_feed(&stream, (struct str){ "hunter2", n });
		assert_int_equal(scrub_stream_flush(&stream).p[0] == '*', n > 3);
		scrub_stream_done(&stream);
	}
	/* Also byte by byte, with a wait after each. */
	scrub_stream_init(&stream, set);
	for (size_t i = 0; i < 7; i++) {
		(void)scrub_stream_feed(&stream, (struct str){ "hunter2" + i, 1 });
		assert_int_equal(scrub_stream_flush(&stream).p[0] == '*', i >= 3);
	}
	scrub_stream_done(&stream);
}

static void without_values_bytes_pass_untouched(void **state)
{
	struct scrub_stream stream;
	const char *text = "anything";
	struct str s;

	(void)state;
	scrub_stream_init(&stream, NULL);
	s = scrub_stream_feed(&stream, str_of(text));
	assert_ptr_equal(s.p, text); /* not even copied */
	assert_int_equal(scrub_stream_flush(&stream).n, 0);
	scrub_stream_done(&stream);
}

static void limits_hold_and_hard_texts_take_one_pass(void **state)
{
	static char value[SCRUB_VALUE_MAX + 1], text[1 << 20];

	(void)state;
	memset(value, 'a', sizeof(value));
	assert_int_equal(scrub_new(&set), 0);
	assert_int_equal(scrub_add(set, (struct str){ value, sizeof(value) }), -ENOBUFS);
	value[SCRUB_VALUE_MAX - 1] = 'b';
	assert_int_equal(scrub_add(set, (struct str){ value, SCRUB_VALUE_MAX }), 0);
	assert_int_equal(scrub_finish(set), 0);
	memset(text, 'a', sizeof(text)); /* a near miss at every byte */
	assert_false(scrub_text(set, text, sizeof(text), false));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_value_is_masked_at_its_length),
		TEST(short_values_mask_nothing),
		TEST(the_forms_programs_give_it),
		TEST(both_alphabets_of_base64),
		TEST(long_values_in_lines),
		TEST(a_key_in_pem_is_masked_line_by_line),
		TEST(values_inside_values),
		TEST(what_was_cut_off_hides_its_start_too),
		TEST(bytes_of_any_kind),
		TEST(every_split_gives_the_same),
		TEST(random_texts_and_splits),
		TEST(only_what_may_become_a_value_is_held),
		TEST(of_a_start_three_bytes_are_shown_at_most),
		TEST(without_values_bytes_pass_untouched),
		TEST(limits_hold_and_hard_texts_take_one_pass),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
