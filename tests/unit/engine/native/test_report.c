/* SPDX-License-Identifier: Apache-2.0 */
/* The template builder's report. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "engine/native/report.h"

static void test_lines(void **state)
{
	struct report r;

	assert_int_equal(report_parse(str_of("step packages (12 named)"), &r), 0);
	assert_int_equal(r.kind, REPORT_STEP);
	assert_true(str_is(r.text, "packages (12 named)"));
	assert_int_equal(report_parse(str_of("done"), &r), 0);
	assert_int_equal(r.kind, REPORT_DONE);
	assert_int_equal(report_parse(str_of("failed conflict in use: sandbox s1"), &r), 0);
	assert_int_equal(r.kind, REPORT_FAILED);
	assert_int_equal(r.code, ERR_CONFLICT);
	assert_true(str_is(r.text, "in use: sandbox s1"));
	assert_int_equal(report_parse(str_of("failed template_not_found"), &r), 0);
	assert_int_equal(r.code, ERR_TEMPLATE_NOT_FOUND);
	assert_int_equal(r.text.n, 0);
	/* Neither other codes nor unknown ones reach a caller. */
	assert_int_equal(report_parse(str_of("failed unauthenticated x"), &r), 0);
	assert_int_equal(r.code, ERR_ENGINE_FAILED);
	assert_int_equal(report_parse(str_of("failed nonsense x"), &r), 0);
	assert_int_equal(r.code, ERR_ENGINE_FAILED);
	assert_int_equal(report_parse(str_of("step"), &r), -EINVAL);
	assert_int_equal(report_parse(str_of("failed"), &r), -EINVAL);
	assert_int_equal(report_parse(str_of("in use: sandbox s1"), &r), -EINVAL);
	assert_int_equal(report_parse(str_of(""), &r), -EINVAL);
}

static char seen[8][REPORT_LINE_MAX + 1];
static int seen_count;

static void on_line(void *arg, struct str line)
{
	assert_true(line.n <= REPORT_LINE_MAX);
	memcpy(seen[seen_count], line.p, line.n);
	seen[seen_count++][line.n] = '\0';
}

static void test_feed(void **state)
{
	struct report_lines lines = { .n = 0 };
	char big[REPORT_LINE_MAX + 100];

	report_feed(&lines, str_of("st"), on_line, NULL);
	report_feed(&lines, str_of("ep a\ndone\nfai"), on_line, NULL);
	assert_int_equal(seen_count, 2);
	assert_string_equal(seen[0], "step a");
	assert_string_equal(seen[1], "done");
	report_feed(&lines, str_of("led conflict x\n"), on_line, NULL);
	assert_string_equal(seen[2], "failed conflict x");
	memset(big, 'y', sizeof(big));
	report_feed(&lines, (struct str){ big, sizeof(big) }, on_line, NULL);
	report_feed(&lines, str_of("\nnext\n"), on_line, NULL);
	assert_int_equal(strlen(seen[3]), REPORT_LINE_MAX);
	assert_string_equal(seen[4], "next");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines),
					    cmocka_unit_test(test_feed) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
