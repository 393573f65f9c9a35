/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tools/search/glob.h"
#include "tools/search/ignore.h"

static bool matches(const char *pattern, const char *path)
{
	struct glob *glob;
	bool result;

	assert_int_equal(glob_new(str_of(pattern), true, &glob), 0);
	result = glob_match(glob, str_of(path));
	glob_free(glob);
	return result;
}

static void test_matches(void **state)
{
	static const struct {
		const char *pattern, *path;
		bool result;
	} cases[] = {
		{ "*.c", "a.c", true },
		{ "*.c", "x/y/a.c", true },
		{ "*.c", "a.ch", false },
		{ "a?c", "abc", true },
		{ "a?c", "a/c", false },
		{ "a?c",
		  "a\xc3\xa9"
		  "c",
		  true },
		{ "src/*.c", "src/a.c", true },
		{ "src/*.c", "src/x/a.c", false },
		{ "src/*.c", "x/src/a.c", false },
		{ "/a", "a", true },
		{ "/a", "x/a", false },
		{ "**/a", "a", true },
		{ "**/a", "x/y/a", true },
		{ "**/a", "x/ya", false },
		{ "a/**", "a/b/c", true },
		{ "a/**", "a", false },
		{ "a/**/b", "a/b", true },
		{ "a/**/b", "a/x/y/b", true },
		{ "a/**/b", "a/x/y/c", false },
		{ "a/**/b/**/c", "a/b/x/b/c", true },
		{ "**/*a*/**/b*", "x/bab/y/z/bb", true },
		{ "**", "x/y", true },
		{ "a**b", "axxb", true },
		{ "a**b", "a/b", false },
		{ "{a,b}.c", "b.c", true },
		{ "{a,b{1,2}}/x", "b2/x", true },
		{ "{a,b{1,2}}/x", "b3/x", false },
		{ "a{,x}", "a", true },
		{ "[a-c]", "b", true },
		{ "[!a-c]", "b", false },
		{ "[!a-c]", "d", true },
		{ "[]]", "]", true },
		{ "[a-]", "-", true },
		{ "[^x]", "y", true },
		{ "a[/]b", "a/b", false },
		{ "\\*", "*", true },
		{ "\\*", "x", false },
		{ "[\\]]", "]", true },
		{ "{\\,,b}", ",", true },
		{ "*", "", true },
		{ "*x*x*x*", "axbxcx", true },
		{ "*x*x*x*", "axbx", false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (matches(cases[i].pattern, cases[i].path) != cases[i].result)
			fail_msg("%s against %s", cases[i].pattern, cases[i].path);
}

static void test_broken(void **state)
{
	static char many[] = "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}";
	static char large[GLOB_PATTERN_MAX + 2];
	struct glob *glob;

	assert_int_equal(glob_new(STR_LIT(""), true, &glob), -EINVAL);
	assert_int_equal(glob_new(STR_LIT("[a"), true, &glob), -EINVAL);
	assert_int_equal(glob_new(STR_LIT("{a"), true, &glob), -EINVAL);
	assert_int_equal(glob_new(STR_LIT("a\\"), true, &glob), -EINVAL);
	assert_int_equal(glob_new(STR_LIT("a\0b"), true, &glob), -EINVAL);
	assert_int_equal(glob_new(str_of(many), true, &glob), -E2BIG);
	assert_int_equal(glob_new((struct str){ many, sizeof(many) - 6 }, true, &glob), 0);
	glob_free(glob);
	memset(large, 'a', sizeof(large) - 1);
	assert_int_equal(glob_new(str_of(large), true, &glob), -E2BIG);
	large[GLOB_PATTERN_MAX] = '\0';
	assert_int_equal(glob_new(str_of(large), true, &glob), 0);
	glob_free(glob);
}

static void test_lists(void **state)
{
	struct globs globs = { 0 };

	assert_true(globs_match(&globs, STR_LIT("x"), false));
	assert_int_equal(globs_add(&globs, STR_LIT("!*.o")), 0);
	assert_true(globs_match(&globs, STR_LIT("x"), false));
	assert_false(globs_match(&globs, STR_LIT("x.o"), false));
	assert_int_equal(globs_add(&globs, STR_LIT("keep.o")), 0);
	assert_true(globs_match(&globs, STR_LIT("d/keep.o"), false));
	assert_false(globs_match(&globs, STR_LIT("x"), false));
	assert_int_equal(globs_add(&globs, STR_LIT("[")), -EINVAL);
	globs_done(&globs);
	assert_int_equal(globs_add(&globs, STR_LIT("./a//*.c")), 0);
	assert_true(globs_match(&globs, STR_LIT("a/x.c"), false));
	assert_false(globs_match(&globs, STR_LIT("b/a/x.c"), false));
	globs_done(&globs);
	assert_int_equal(globs_add(&globs, STR_LIT("./*.c")), 0);
	assert_true(globs_match(&globs, STR_LIT("x.c"), false));
	assert_false(globs_match(&globs, STR_LIT("a/x.c"), false));
	globs_done(&globs);
	assert_int_equal(globs_add(&globs, STR_LIT("build/")), 0);
	assert_true(globs_match(&globs, STR_LIT("a/build"), true));
	assert_false(globs_match(&globs, STR_LIT("a/build"), false));
	globs_done(&globs);
}

static void test_ignore(void **state)
{
	struct ignore ig = { 0 };

	assert_int_equal(ignore_enter_text(&ig,
					   STR_LIT("# comment\n*.o\n!keep.o\nbuild/\n/top\n"
						   "a/b\nspace \\ \nx\\#y\n{a,b}.c\r\n\n[bad\n"),
					   0),
			 0);
	assert_true(ignore_match(&ig, STR_LIT("x.o"), false));
	assert_true(ignore_match(&ig, STR_LIT("d/x.o"), false));
	assert_false(ignore_match(&ig, STR_LIT("d/keep.o"), false));
	assert_true(ignore_match(&ig, STR_LIT("d/build"), true));
	assert_false(ignore_match(&ig, STR_LIT("d/build"), false));
	assert_true(ignore_match(&ig, STR_LIT("top"), false));
	assert_false(ignore_match(&ig, STR_LIT("d/top"), false));
	assert_true(ignore_match(&ig, STR_LIT("a/b"), false));
	assert_false(ignore_match(&ig, STR_LIT("d/a/b"), false));
	assert_true(ignore_match(&ig, STR_LIT("{a,b}.c"), false));
	assert_false(ignore_match(&ig, STR_LIT("a.c"), false));
	assert_true(ignore_match(&ig, STR_LIT("d/.git"), true));
	assert_true(ignore_match(&ig, STR_LIT("x#y"), false));
	/* A file in a lower directory has precedence. */
	assert_int_equal(ignore_enter_text(&ig, STR_LIT("!*.o\n/only\n"), 3), 0);
	assert_false(ignore_match(&ig, STR_LIT("sub/x.o"), false));
	assert_true(ignore_match(&ig, STR_LIT("sub/only"), false));
	assert_false(ignore_match(&ig, STR_LIT("sub/d/only"), false));
	ignore_leave(&ig);
	assert_true(ignore_match(&ig, STR_LIT("sub/x.o"), false));
	ignore_done(&ig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matches),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_ignore),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
