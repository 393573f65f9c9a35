/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <errno.h>

#include <fcntl.h>
#include <stdio.h>

#include "base/text/ini.h"

static void numbers_are_parsed_strictly(void **state)
{
	static const struct {
		const char *text;
		uint64_t max;
		int result;
		uint64_t value;
	} cases[] = {
		{ "0", 10, 0, 0 },
		{ "10", 10, 0, 10 },
		{ "11", 10, -ERANGE, 0 },
		{ "", 10, -EINVAL, 0 },
		{ "00", 10, -EINVAL, 0 },
		{ "01", 10, -EINVAL, 0 },
		{ "-1", 10, -EINVAL, 0 },
		{ "+1", 10, -EINVAL, 0 },
		{ " 1", 10, -EINVAL, 0 },
		{ "1 ", 10, -EINVAL, 0 },
		{ "0x1", 10, -EINVAL, 0 },
		{ "1e1", 10, -EINVAL, 0 },
		{ "18446744073709551615", UINT64_MAX, 0, UINT64_MAX },
		{ "18446744073709551616", UINT64_MAX, -ERANGE, 0 },
		{ "99999999999999999999999999", UINT64_MAX, -ERANGE, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t value = 77;

		assert_int_equal(str_to_u64(str_of(cases[i].text), cases[i].max, &value),
				 cases[i].result);
		assert_int_equal(value, cases[i].result ? 77 : cases[i].value);
	}
	assert_int_equal(str_to_u64((struct str){ "1\0", 2 }, 10, &(uint64_t){ 0 }), -EINVAL);
}

static void utf8_is_checked_strictly(void **state)
{
	static const struct {
		const char *text;
		bool good;
	} cases[] = {
		{ "", true },
		{ "plain", true },
		{ "\xc2\x80", true },
		{ "\xdf\xbf", true },
		{ "\xe0\xa0\x80", true },
		{ "\xed\x9f\xbf", true },
		{ "\xee\x80\x80", true },
		{ "\xf0\x90\x80\x80", true },
		{ "\xf4\x8f\xbf\xbf", true },
		{ "\xc1\xbf", false },
		{ "\xe0\x9f\xbf", false },
		{ "\xed\xa0\x80", false },
		{ "\xed\xbf\xbf", false },
		{ "\xf0\x8f\xbf\xbf", false },
		{ "\xf4\x90\x80\x80", false },
		{ "\xf5\x80\x80\x80", false },
		{ "\x80", false },
		{ "\xff", false },
		{ "\xc2", false },
		{ "\xe2\x82", false },
		{ "\xf0\x9f\x98", false },
		{ "a\xc2 ", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(str_is_utf8(cases[i].text, strlen(cases[i].text)), cases[i].good);
	assert_true(str_is_utf8("\0", 1));
}

static void names_follow_their_rule(void **state)
{
	assert_true(str_is_name(STR_LIT("a"), 63));
	assert_true(str_is_name(STR_LIT("base"), 4));
	assert_false(str_is_name(STR_LIT("bases"), 4));
	assert_true(str_is_name(STR_LIT("0a.b_c-d"), 63));
	assert_false(str_is_name(STR_LIT(""), 63));
	assert_false(str_is_name(STR_LIT(".."), 63));
	assert_false(str_is_name(STR_LIT("-a"), 63));
	assert_false(str_is_name(STR_LIT("A"), 63));
	assert_false(str_is_name(STR_LIT("a/b"), 63));
	assert_false(str_is_name((struct str){ "a\0", 2 }, 63));
}

static void cutting_and_trimming(void **state)
{
	struct str head = STR_LIT("h"), rest = STR_LIT("r");

	assert_true(str_cut(STR_LIT("a=b=c"), '=', &head, &rest));
	assert_str(head, "a");
	assert_str(rest, "b=c");
	assert_true(str_cut(STR_LIT("="), '=', &head, &rest));
	assert_int_equal(head.n + rest.n, 0);
	assert_false(str_cut(STR_LIT("abc"), '=', &head, &rest));
	assert_false(str_cut((struct str){ NULL, 0 }, '=', &head, &rest));
	assert_str(str_trim(STR_LIT(" \ta b\t "), " \t"), "a b");
	assert_str(str_trim(STR_LIT("   "), " "), "");
	assert_int_equal(str_trim((struct str){ "\0a\0", 3 }, " ").n, 3);
	assert_true(str_eq_nocase(STR_LIT("Content-Length"), "content-length"));
	assert_false(str_eq_nocase(STR_LIT("Content-Lengt"), "content-length"));
	assert_true(str_starts(STR_LIT("Bearer x"), "Bearer "));
	assert_false(str_starts(STR_LIT("Bear"), "Bearer "));
	assert_true(str_eq((struct str){ NULL, 0 }, STR_LIT("")));
}

static void fixed_buffers_and_hex(void **state)
{
	unsigned char bytes[3] = { 9, 9, 9 };
	char dst[4], hex[7];

	assert_int_equal(str_copy(dst, sizeof(dst), STR_LIT("abc")), 0);
	assert_string_equal(dst, "abc");
	assert_int_equal(str_copy(dst, sizeof(dst), STR_LIT("abcd")), -ENAMETOOLONG);
	assert_int_equal(str_copy(dst, 0, STR_LIT("")), -ENAMETOOLONG);
	assert_int_equal(str_copy(dst, 1, (struct str){ NULL, 0 }), 0);
	str_hex(hex, "\x00\xab\xff", 3);
	assert_string_equal(hex, "00abff");
	assert_int_equal(str_unhex(bytes, 3, STR_LIT("00abff")), 0);
	assert_memory_equal(bytes, "\x00\xab\xff", 3);
	assert_int_equal(str_unhex(bytes, 3, STR_LIT("00ABff")), -EINVAL);
	assert_int_equal(str_unhex(bytes, 3, STR_LIT("00abf")), -EINVAL);
	assert_int_equal(str_unhex(bytes, 3, STR_LIT("00abfff")), -EINVAL);
	assert_int_equal(str_unhex(bytes, 3, STR_LIT("00abfg")), -EINVAL);
}

static void settings_are_read_line_by_line(void **state)
{
	static const struct {
		const char *line;
		int result;
		const char *name, *value;
	} cases[] = {
		{ "a = b\n", 1, "a", "b" },	{ "  a=b = c\r\n", 1, "a", "b = c" },
		{ "a =", 1, "a", "" },		{ "= b", 1, "", "b" },
		{ "", 0, NULL, NULL },		{ " \t\n", 0, NULL, NULL },
		{ "# a = b", 0, NULL, NULL },	{ "; a = b", 0, NULL, NULL },
		{ "[section]", 0, NULL, NULL }, { "a b", -EINVAL, NULL, NULL },
	};
	struct str name, value;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		assert_int_equal(ini_line(str_of(cases[i].line), &name, &value), cases[i].result);
		if (cases[i].result == 1) {
			assert_true(str_is(name, cases[i].name));
			assert_true(str_is(value, cases[i].value));
		}
	}
}

static void a_setting_is_found_in_a_file(void **state)
{
	char path[] = "/tmp/cay-ini-XXXXXX", value[8] = "before";
	static const char text[] = "# x\nstate = /one\nbroken\nstate=/two\nlong = 12345678\n";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, sizeof(text) - 1), sizeof(text) - 1);
	assert_int_equal(ini_find(path, "none", value, sizeof(value)), -ENOENT);
	assert_string_equal(value, "before");
	assert_int_equal(ini_find(path, "state", value, sizeof(value)), 0);
	assert_string_equal(value, "/two"); /* the last one counts, as in the daemon */
	assert_int_equal(ini_find(path, "long", value, sizeof(value)), -ENAMETOOLONG);
	assert_int_equal(ini_find("/nonexistent/file", "state", value, sizeof(value)), -ENOENT);
	(void)close(fd);
	(void)unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_are_parsed_strictly),
		cmocka_unit_test(utf8_is_checked_strictly),
		cmocka_unit_test(names_follow_their_rule),
		cmocka_unit_test(cutting_and_trimming),
		cmocka_unit_test(fixed_buffers_and_hex),
		cmocka_unit_test(settings_are_read_line_by_line),
		cmocka_unit_test(a_setting_is_found_in_a_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
