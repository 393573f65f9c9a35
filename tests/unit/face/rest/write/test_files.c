/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to file operations: what a full one looks like, names that are not text, watches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "face/rest/write/files.h"

static void expect_end(struct files_answer *a, const struct files_result *result, const char *text)
{
	struct err err;

	assert_int_equal(files_answer_end(a, result, &err), 0);
	assert_true(str_is(buf_str(&a->out), text));
	files_answer_done(a);
}

static void test_lists_end_at_the_limit(void **state)
{
	static char path[32768];
	struct files_entry entry = { .path = { path, sizeof(path) }, .name = STR_LIT("n") };
	struct files_result result = { .cut = FILES_CUT_BYTES };
	struct files_answer a;
	struct err err;
	size_t n = 1;

	(void)state;
	memset(path, '\x01', sizeof(path)); /* six bytes for each, the worst there is */
	files_answer_init(&a, FILES_LIST);
	while (files_answer_entry(&a, &entry))
		n++;
	assert_in_range(n, 80, 90);
	assert_true(buf_len(&a.out) > FILES_ANSWER_MAX);
	assert_int_equal(files_answer_end(&a, &result, &err), 0);
	assert_non_null(strstr(buf_str(&a.out).p, "\"reason\":\"bytes\""));
	files_answer_done(&a);
}

static void test_what_does_not_fit_is_an_error(void **state)
{
	static char text[4 * 1024 * 1024];
	struct files_result result = { .path = STR_LIT("f"), .text = { text, sizeof(text) } };
	struct files_answer a;
	struct err err;

	(void)state;
	memset(text, '\x01', sizeof(text));
	files_answer_init(&a, FILES_VIEW);
	assert_int_equal(files_answer_end(&a, &result, &err), -1);
	assert_int_equal(err.code, ERR_UNAVAILABLE);
	files_answer_done(&a);
}

static void test_matches_hold_the_lines_after_them(void **state)
{
	struct str before[] = { STR_LIT("b1"), STR_LIT("b2") };
	struct files_match match = { .path = STR_LIT("p"),
				     .line = 3,
				     .column = 1,
				     .text = STR_LIT("m"),
				     .before = { before, 2 } };
	struct files_result result = { .matches = 2 };
	struct files_answer a;

	(void)state;
	files_answer_init(&a, FILES_GREP);
	assert_true(files_answer_after(&a, STR_LIT("of no match")));
	assert_true(files_answer_match(&a, &match));
	assert_true(files_answer_after(&a, STR_LIT("a1")));
	match.before.count = 0;
	assert_true(files_answer_match(&a, &match));
	expect_end(&a, &result,
		   "{\"data\":[{\"path\":\"p\",\"line\":3,\"column\":1,\"text\":\"m\","
		   "\"before\":[\"b1\",\"b2\"],\"after\":[\"a1\"]},"
		   "{\"path\":\"p\",\"line\":3,\"column\":1,\"text\":\"m\",\"before\":[],"
		   "\"after\":[]}],\"matches\":2,\"files_searched\":0,\"files_skipped_binary\":0,"
		   "\"files_skipped_unreadable\":0,\"files_skipped_limit\":0,\"truncated\":false,"
		   "\"reason\":null}");
}

static void test_details_of_an_entry(void **state)
{
	struct files_entry entry = { .kind = FILES_KIND_SYMLINK,
				     .mode = 07777,
				     .modified_ms = 1700000000123,
				     .path = STR_LIT("l"),
				     .name = STR_LIT("l"),
				     .group = STR_LIT("g"),
				     .target = STR_LIT("t\xff"),
				     .behind = { FILES_KIND_DEVICE, 0600, STR_LIT("/t") },
				     .marks = STR_LIT("a=b\nbroken\nc=\n") };
	struct files_result result = { .entry = &entry };
	struct files_answer a;

	(void)state;
	files_answer_init(&a, FILES_STAT);
	expect_end(&a, &result,
		   "{\"path\":\"l\",\"name\":\"l\",\"type\":\"symlink\",\"size\":0,"
		   "\"mode\":\"7777\",\"uid\":0,\"gid\":0,\"user\":null,\"group\":\"g\","
		   "\"modified_at\":\"2023-11-14T22:13:20.123Z\",\"accessed_at\":null,"
		   "\"changed_at\":null,\"target\":\"t\\\\xff\",\"target_b64\":\"dP8=\","
		   "\"etag\":null,\"target_type\":\"device\",\"target_mode\":\"0600\","
		   "\"target_path\":\"/t\",\"marks\":{\"a\":\"b\",\"c\":\"\"}}");
}

static void test_events_of_watches(void **state)
{
	struct files_event event = { .change = FILES_OVERFLOW,
				     .at_ms = 1700000000000,
				     .path = STR_LIT("d") };
	struct json_writer w;
	struct buf out;

	(void)state;
	buf_init(&out, 4096);
	json_writer_init(&w, &out);
	files_event_write(&event, &w);
	event.change = FILES_GONE;
	event.kind = FILES_KIND_DIRECTORY;
	files_event_write(&event, &w);
	assert_int_equal(json_writer_end(&w), 0);
	assert_true(str_is(buf_str(&out),
			   "{\"path\":\"d\",\"hint\":\"events were lost: list the tree again\","
			   "\"at\":\"2023-11-14T22:13:20.000Z\"},"
			   "{\"path\":\"d\",\"type\":\"directory\",\"attributes\":false,"
			   "\"hint\":\"the watched path was removed: the watch ends\","
			   "\"at\":\"2023-11-14T22:13:20.000Z\"}"));
	assert_string_equal(files_event_name(FILES_OVERFLOW), "overflow");
	assert_string_equal(files_event_name(FILES_GONE), "deleted");
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists_end_at_the_limit),
		cmocka_unit_test(test_what_does_not_fit_is_an_error),
		cmocka_unit_test(test_matches_hold_the_lines_after_them),
		cmocka_unit_test(test_details_of_an_entry),
		cmocka_unit_test(test_events_of_watches),
	};

	return cmocka_run_group_tests_name("rest-write-files", tests, NULL, NULL);
}
