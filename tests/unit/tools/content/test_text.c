/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replacement for edit, lines for read-view, patterns for grep, names in archives, directories of a
 * watch
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tools/content/lines.h"
#include "tools/archive/member.h"
#include "tools/watch/nodes.h"
#include "tools/search/pattern.h"
#include "tools/content/replace.h"

static int replaced(const char *text, const char *old, const char *new, bool all, const char *want)
{
	struct replace r = { .text = str_of(text),
			     .old_string = str_of(old),
			     .new_string = str_of(new),
			     .all = all };
	int e = replace_run(&r, 100);

	if (e == 0) {
		assert_int_equal(r.result_len, strlen(want));
		assert_memory_equal(r.result, want, r.result_len);
	}
	free(r.result);
	return e;
}

static void test_replace(void **state)
{
	char large[64];

	assert_int_equal(replaced("abc", "b", "x", false, "axc"), 0);
	assert_int_equal(replaced("abc", "b", "", false, "ac"), 0);
	assert_int_equal(replaced("abc", "abc", "x", false, "x"), 0);
	assert_int_equal(replaced("aaa", "aa", "b", true, "ba"), 0);
	assert_int_equal(replaced("aaaa", "aa", "b", true, "bb"), 0);
	assert_int_equal(replaced("abab", "ab", "x", false, ""), -EEXIST);
	assert_int_equal(replaced("abc", "x", "y", false, ""), -ENOENT);
	assert_int_equal(replaced("", "x", "y", false, ""), -ENOENT);
	assert_int_equal(replaced("abc", "", "y", false, ""), -EINVAL);
	assert_int_equal(replaced("abc", "b", "b", false, ""), -EINVAL);
	assert_int_equal(replaced("a\r\nb\r\n", "a\nb", "c\nd", false, "c\r\nd\r\n"), 0);
	assert_int_equal(replaced("a\r\nb\r\n", "a\r\nb", "c", false, "c\r\n"), 0);
	assert_int_equal(replaced("a\r\nb\n", "a\nb", "c", false, ""), -ENOENT); /* mixed */
	assert_int_equal(replaced("a\nb", "a", "x\ny", false, "x\ny\nb"), 0);
	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	assert_int_equal(replaced("abab", "a", large, true, ""), -EFBIG);
}

struct seen {
	char text[4096];
};

static void on_line(void *arg, const struct tool_line *line)
{
	struct seen *seen = arg;
	size_t n = strlen(seen->text);

	(void)snprintf(seen->text + n, sizeof(seen->text) - n, "%llu:%.*s%s%s%s|",
		       (unsigned long long)line->number, (int)MIN(line->text.n, 20), line->text.p,
		       line->flags & TOOL_LINE_CR ? "<CR>" : "",
		       line->flags & TOOL_LINE_OPEN ? "<OPEN>" : "",
		       line->flags & TOOL_LINE_CUT ? "<CUT>" : "");
}

/* The same whatever the pieces the text comes in. */
static void check_lines(struct str text, uint64_t first, uint64_t count, const char *want,
			uint64_t total)
{
	for (size_t piece = 1; piece <= text.n + 1; piece++) {
		static struct lines l;
		struct seen seen = { "" };

		l = (struct lines){ .first = first,
				    .count = count,
				    .bytes_max = 1000000,
				    .emit = on_line,
				    .arg = &seen };
		for (size_t at = 0; at < text.n; at += piece)
			lines_feed(&l, (struct str){ text.p + at, MIN(piece, text.n - at) });
		(void)lines_finish(&l);
		assert_string_equal(seen.text, want);
		assert_int_equal(l.number, total);
	}
}

static void test_lines(void **state)
{
	static char large[LINES_SHOWN_MAX * 2];

	check_lines(STR_LIT(""), 1, 10, "", 0);
	check_lines(STR_LIT("a\nb\n"), 1, 10, "1:a|2:b|", 2);
	check_lines(STR_LIT("a\nb"), 1, 10, "1:a|2:b<OPEN>|", 2);
	check_lines(STR_LIT("a\r\n\r\nb\r"), 1, 10, "1:a<CR>|2:<CR>|3:b\r<OPEN>|", 3);
	check_lines(STR_LIT("1\n2\n3\n4\n5"), 2, 2, "2:2|3:3|", 5);
	check_lines(STR_LIT("1\n2\n3\n"), 9, 2, "", 3);
	check_lines(STR_LIT("\n\n\n"), 3, 5, "3:|", 3);
	memset(large, 'x', sizeof(large));
	large[sizeof(large) - 1] = '\n';
	{
		static struct lines l;
		struct seen seen = { "" };

		l = (struct lines){
			.first = 1, .count = 5, .bytes_max = 10, .emit = on_line, .arg = &seen
		};
		lines_feed(&l, (struct str){ large, sizeof(large) });
		lines_feed(&l, STR_LIT("y\n"));
		assert_string_equal(seen.text, "1:xxxxxxxxxxxxxxxxxxxx<CUT>|");
		assert_true(l.full);
		assert_int_equal(l.number, 2);
	}
	assert_int_equal(lines_count(STR_LIT("a\nb\n\n")), 3);
	assert_true(lines_look_binary(STR_LIT("a\0b")));
	assert_false(lines_look_binary(STR_LIT("")));
}

static bool by_buffer(const char *text, const char *want)
{
	struct buf out;
	bool ok;

	buf_init(&out, 4096);
	ok = pattern_within_lines(str_of(text), &out);
	if (ok)
		assert_true(str_is(buf_str(&out), want));
	buf_done(&out);
	return ok;
}

static void test_within_lines(void **state)
{
	static const char *const never[] = { "\\Aa",  "a\\z",	     "a\\Z",   "\\Ga",	  "a\\Kb",
					     "\\R",   "\\n",	     "\\x0a",  "\\012",	  "a\nb",
					     "(?s).", "(*UTF)a",     "[\\s]",  "[\\n]",	  "[\\W]",
					     "[]a]",  "[^]a]",	     "\\p{L}", "\\Qa\\E", "a\\",
					     "[a",    "[[:space:]]", "(?i)a",  "(?#x)a",  "[\t- ]",
					     "\\cJ",  "\\e",	     "[^-a]" };

	assert_true(by_buffer("abc", "abc"));
	assert_true(by_buffer("\\s+\\w", "[^\\S\\n]+\\w"));
	assert_true(by_buffer("[^a]", "[^\\na]"));
	assert_true(by_buffer("\\W\\D\\H", "[^\\w\\n][^\\d\\n][^\\h\\n]"));
	assert_true(by_buffer("(?:a|b)(?=c)(?<!d)", "(?:a|b)(?=c)(?<!d)"));
	assert_true(by_buffer("\\.\\\\\\[", "\\.\\\\\\["));
	assert_true(by_buffer("[a-z\\d]", "[a-z\\d]"));
	for (size_t i = 0; i < ARRAY_LEN(never); i++)
		if (by_buffer(never[i], ""))
			fail_msg("%s", never[i]);
}

static void test_pattern(void **state)
{
	const struct str text = STR_LIT("one\ntwo two\n\nlast");
	struct pattern_error error;
	struct pattern_hit hit;
	struct pattern *p;

	for (int by_line = 0; by_line < 2; by_line++) {
		struct pattern_options o = { .by_line = by_line };

		assert_int_equal(pattern_new(STR_LIT("t[^w]?w"), o, &p, &error), 0);
		pattern_prepare(p, text);
		assert_int_equal(pattern_find(p, text, 0, &hit), 1);
		assert_int_equal(hit.line, 4);
		assert_int_equal(hit.line_end, 11);
		assert_int_equal(hit.begin, 4);
		assert_int_equal(hit.end, 6);
		assert_int_equal(pattern_find(p, text, 12, &hit), 0);
		assert_int_equal(pattern_find(p, text, 17, &hit), 0);
		pattern_free(p);
		assert_int_equal(pattern_new(STR_LIT("^$"), o, &p, &error), 0);
		assert_int_equal(pattern_find(p, text, 0, &hit), 1);
		assert_int_equal(hit.line, 12);
		assert_int_equal(pattern_find(p, STR_LIT("a\n"), 0, &hit), 0);
		pattern_free(p);
		assert_int_equal(pattern_new(STR_LIT("x*"), o, &p, &error), 0);
		assert_int_equal(pattern_find(p, STR_LIT("a\n"), 0, &hit), 1);
		assert_int_equal(pattern_find(p, STR_LIT("a\n"), 2, &hit), 0);
		pattern_free(p);
	}
	assert_int_equal(pattern_new(STR_LIT("a(b"), (struct pattern_options){ 0 }, &p, &error),
			 -EINVAL);
	assert_int_equal(error.offset, 3);
	assert_true(error.message[0]);
	assert_int_equal(pattern_new(STR_LIT(""), (struct pattern_options){ 0 }, &p, &error),
			 -EINVAL);
	assert_int_equal(pattern_new(STR_LIT("A."),
				     (struct pattern_options){ .fixed = true, .ignore_case = true },
				     &p, &error),
			 0);
	assert_int_equal(pattern_find(p, STR_LIT("ab a."), 0, &hit), 1);
	assert_int_equal(hit.begin, 3);
	pattern_free(p);
}

static int cleaned(const char *path, const char *want)
{
	char out[64];
	size_t n;
	int r = member_clean(str_of(path), out, sizeof(out), &n);

	if (r == 0)
		assert_string_equal(out, want);
	return r;
}

static void test_member(void **state)
{
	assert_int_equal(cleaned("a/b", "a/b"), 0);
	assert_int_equal(cleaned("./a//b/./c/", "a/b/c"), 0);
	assert_int_equal(cleaned(".", ""), 0);
	assert_int_equal(cleaned("", ""), 0);
	assert_int_equal(cleaned("..a/b..", "..a/b.."), 0);
	assert_int_equal(cleaned("/a", ""), -EXDEV);
	assert_int_equal(cleaned("..", ""), -EXDEV);
	assert_int_equal(cleaned("a/../b", ""), -EXDEV);
	assert_int_equal(
		cleaned("0123456789012345678901234567890123456789012345678901234567890123", ""),
		-ENAMETOOLONG);
	assert_true(member_link_stays(STR_LIT("l"), STR_LIT("a")));
	assert_true(member_link_stays(STR_LIT("d/l"), STR_LIT("../a")));
	assert_true(member_link_stays(STR_LIT("d/l"), STR_LIT("./x/../../a")));
	assert_false(member_link_stays(STR_LIT("l"), STR_LIT("..")));
	assert_false(member_link_stays(STR_LIT("d/l"), STR_LIT("../../a")));
	assert_false(member_link_stays(STR_LIT("d/l"), STR_LIT("/a")));
	assert_false(member_link_stays(STR_LIT("d/l"), STR_LIT("")));
	assert_false(member_link_stays(STR_LIT("d/l"), STR_LIT("x/../../../x")));
}

static int gone_count;

static void on_gone(void *arg, int wd)
{
	gone_count++;
}

static void test_nodes(void **state)
{
	static struct nodes nodes;
	struct node *root = nodes_add(&nodes, NULL, "", 1), *a, *b, *deep;
	char path[64];
	struct str got;

	a = nodes_add(&nodes, root, "a", 2);
	b = nodes_add(&nodes, root, "b", 1 + NODES_BUCKETS);
	(void)nodes_add(&nodes, a, "x", 4);
	assert_ptr_equal(nodes_find(&nodes, 1 + NODES_BUCKETS), b);
	assert_ptr_equal(nodes_find(&nodes, 1), root);
	assert_int_equal(nodes_move(&nodes, &a, b, "moved"), 0);
	assert_null(node_child(root, "a"));
	assert_int_equal(node_path(nodes_find(&nodes, 4), "f", path, sizeof(path), &got), 0);
	assert_true(str_is(got, "b/moved/x/f"));
	assert_int_equal(node_path(nodes_find(&nodes, 4), "", path, sizeof(path), &got), 0);
	assert_true(str_is(got, "b/moved/x"));
	assert_int_equal(node_path(root, "", path, sizeof(path), &got), 0);
	assert_int_equal(got.n, 0);
	assert_int_equal(node_path(nodes_find(&nodes, 4), "f", path, 5, &got), -ENAMETOOLONG);
	assert_int_equal(nodes_move(&nodes, &b, nodes_find(&nodes, 4), "into-itself"), -ELOOP);
	node_tell(root, "one");
	node_tell(root, "two");
	assert_true(node_was_told(root, "one"));
	assert_false(node_was_told(root, "one"));
	assert_true(node_was_told(root, "two"));
	deep = root;
	for (int i = 0; i < 100000; i++)
		deep = nodes_add(&nodes, deep, "d", 10000 + i);
	nodes_remove(&nodes, root, on_gone, NULL);
	assert_int_equal(gone_count, 100004);
	assert_int_equal(nodes.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replace),	     cmocka_unit_test(test_lines),
		cmocka_unit_test(test_within_lines), cmocka_unit_test(test_pattern),
		cmocka_unit_test(test_member),	     cmocka_unit_test(test_nodes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
