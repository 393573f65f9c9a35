/* SPDX-License-Identifier: Apache-2.0 */
/* Tables, spans, sizes, and foreign text with control sequences. */
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output/table.h"

static char *printed(const struct table *table, bool color)
{
	char *text = NULL;
	size_t n = 0;
	FILE *out = open_memstream(&text, &n);

	assert_int_equal(table_print(table, out, color), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void test_alignment(void **state)
{
	static const char *const headers[] = { "ID", "NAME", "X", NULL };
	struct table table;
	char *text;

	table_init(&table, headers);
	table_put(&table, STR_LIT("a"), STYLE_PLAIN);
	table_put(&table, STR_LIT("sch\303\266n"), STYLE_PLAIN);
	table_put(&table, STR_LIT("1"), STYLE_PLAIN);
	table_put(&table, STR_LIT("bbbb"), STYLE_PLAIN);
	table_put(&table, STR_LIT(""), STYLE_PLAIN);
	table_printf(&table, STYLE_PLAIN, "%d", 22);
	text = printed(&table, false);
	assert_string_equal(text, "ID    NAME   X\n"
				  "a     sch\303\266n  1\n"
				  "bbbb  -      22\n");
	free(text);
	assert_int_equal(table.rows, 2);
	table_done(&table);
}

/* Colours must not change the layout: without them it is the plain table. */
static void test_colors(void **state)
{
	static const char *const headers[] = { "A", "B", NULL };
	struct table table;
	char *plain, *colored, bare[256];
	size_t n = 0;

	table_init(&table, headers);
	table_put(&table, STR_LIT("running"), STYLE_GREEN);
	table_put(&table, STR_LIT("x"), STYLE_PLAIN);
	plain = printed(&table, false);
	colored = printed(&table, true);
	assert_non_null(strstr(colored, "\033[32mrunning\033[0m"));
	for (const char *p = colored; *p != '\0'; p++) {
		if (*p == '\033') {
			p = strchr(p, 'm');
			continue;
		}
		bare[n++] = *p;
	}
	bare[n] = '\0';
	assert_string_equal(bare, plain);
	free(plain);
	free(colored);
	table_done(&table);
}

static void test_hostile_text(void **state)
{
	char text[64], small[6];

	style_clean(text, sizeof(text), STR_LIT("a\033[31mb\nc\177d\302\233e\tf"));
	assert_string_equal(text, "a?[31mb?c?d?e?f");
	style_clean(small, sizeof(small), STR_LIT("abcd\303\266\303\266"));
	assert_string_equal(small, "abcd"); /* never half a character */
	style_clean(small, sizeof(small), STR_LIT("abcde"));
	assert_string_equal(small, "abcde");
}

static void test_spans(void **state)
{
	char text[STYLE_SPAN_SIZE];

	style_span(text, 0);
	assert_string_equal(text, "0s");
	style_span(text, -5);
	assert_string_equal(text, "0s");
	style_span(text, 119);
	assert_string_equal(text, "119s");
	style_span(text, 120);
	assert_string_equal(text, "2m");
	style_span(text, 7200);
	assert_string_equal(text, "2h");
	style_span(text, 172800);
	assert_string_equal(text, "2d");
	style_bytes(text, 512ull << 20);
	assert_string_equal(text, "512 MB");
	style_bytes(text, 1536ull << 20);
	assert_string_equal(text, "1.5 GB");
	style_bytes(text, 17);
	assert_string_equal(text, "17 B");
}

static void test_times(void **state)
{
	int64_t ms;

	assert_int_equal(style_parse_time(STR_LIT("1970-01-02T00:00:01.250Z"), &ms), 0);
	assert_int_equal(ms, 86401250);
	assert_int_equal(style_parse_time(STR_LIT(""), &ms), -EINVAL);
	assert_int_equal(style_parse_time(STR_LIT("yesterday"), &ms), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alignment),    cmocka_unit_test(test_colors),
		cmocka_unit_test(test_hostile_text), cmocka_unit_test(test_spans),
		cmocka_unit_test(test_times),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
