/* SPDX-License-Identifier: Apache-2.0 */
/* Names in archives: what stays below the directory and what would leave it. */
#include <errno.h>
#include <langinfo.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tools/archive/charset.h"
#include "tools/archive/member.h"

static char cleaned[PATH_MAX];
static size_t cleaned_n;

static int clean(const char *path)
{
	cleaned_n = 999;
	return member_clean(str_of(path), cleaned, sizeof(cleaned), &cleaned_n);
}

static void paths_are_cleaned(void **state)
{
	static const char *const pairs[][2] = {
		{ "a", "a" },	   { "a/b", "a/b" }, { "./a", "a" },	   { "a/./b", "a/b" },
		{ "a//b", "a/b" }, { "a/", "a" },    { "./", "" },	   { ".", "" },
		{ "", "" },	   { "...", "..." }, { "a/..b", "a/..b" }, { ".a", ".a" },
		{ "a/./", "a" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
		assert_int_equal(clean(pairs[i][0]), 0);
		assert_string_equal(cleaned, pairs[i][1]);
		assert_int_equal(cleaned_n, strlen(pairs[i][1]));
	}
}

static void paths_that_leave_are_rejected(void **state)
{
	static const char *const bad[] = { "/",	   "/a",     "//a",  "..",	   "../a",
					   "a/..", "a/../b", "./..", "a/b/../../c" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(clean(bad[i]), -EXDEV);
	assert_int_equal(
		member_clean((struct str){ "a\0b", 3 }, cleaned, sizeof(cleaned), &cleaned_n),
		-EINVAL);
	assert_int_equal(cleaned_n, 999);
}

static void names_have_limits(void **state)
{
	char name[300], small[4];
	size_t n = 0;

	(void)state;
	memset(name, 'n', sizeof(name));
	assert_int_equal(member_clean((struct str){ name, 255 }, cleaned, sizeof(cleaned), &n), 0);
	assert_int_equal(n, 255);
	assert_int_equal(member_clean((struct str){ name, 256 }, cleaned, sizeof(cleaned), &n),
			 -ENAMETOOLONG);
	assert_int_equal(member_clean(str_of("ab"), small, sizeof(small), &n), 0);
	assert_int_equal(member_clean(str_of("abc"), small, sizeof(small), &n), -ENAMETOOLONG);
	assert_int_equal(member_clean(str_of("a/b"), small, sizeof(small), &n), 0);
	assert_int_equal(member_clean(str_of("a/bc"), small, sizeof(small), &n), -ENAMETOOLONG);
	assert_int_equal(member_clean(str_of("a/"), small, sizeof(small), &n), 0);
}

static bool stays(const char *path, const char *target)
{
	return member_link_stays(str_of(path), str_of(target));
}

static void links_stay_below_the_top(void **state)
{
	(void)state;
	assert_true(stays("link", "file"));
	assert_true(stays("link", "."));
	assert_true(stays("a/link", ".."));
	assert_true(stays("a/link", "../b/c/../.."));
	assert_true(stays("a/b/link", "../../x"));
	assert_true(stays("link", "a/../b"));
	assert_false(stays("link", ".."));
	assert_false(stays("link", "../x"));
	assert_false(stays("a/link", "../../x"));
	assert_false(stays("a/link", "../b/../../c")); /* outside in between */
	assert_false(stays("link", "/etc/passwd"));
	assert_false(stays("link", ""));
	assert_false(stays("", "file")); /* the top itself */
	assert_false(member_link_stays(str_of("link"), (struct str){ "a\0b", 3 }));
}

static void names_are_utf8_unless_said_otherwise(void **state)
{
	(void)state;
	assert_string_equal(nl_langinfo(CODESET), "UTF-8"); /* whatever the locale says */
	charset_bytes(true);
	assert_string_equal(nl_langinfo(CODESET), "");
	charset_bytes(false);
	assert_string_equal(nl_langinfo(CODESET), "UTF-8");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_cleaned),
		cmocka_unit_test(paths_that_leave_are_rejected),
		cmocka_unit_test(names_have_limits),
		cmocka_unit_test(links_stay_below_the_top),
		cmocka_unit_test(names_are_utf8_unless_said_otherwise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
