/* SPDX-License-Identifier: Apache-2.0 */
/* What the file tool says, as the values that callers get. The tool may be hostile. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "service/files/files_private.h"

/* Everything that the hooks got, as one text. */
static char got[4096];
static bool enough;

static _printf_(1, 2) void note(const char *fmt, ...)
{
	size_t n = strlen(got);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(got + n, sizeof(got) - n, fmt, ap);
	va_end(ap);
}

static bool on_entry(void *arg, const struct files_entry *entry)
{
	(void)arg;
	note("%.*s(%.*s);", (int)entry->path.n, entry->path.p, (int)entry->name.n, entry->name.p);
	return !enough;
}

static bool on_match(void *arg, const struct files_match *match)
{
	(void)arg;
	for (size_t i = 0; i < match->before.count; i++)
		note("-%.*s", (int)match->before.list[i].n, match->before.list[i].p);
	note("=%.*s:%d", (int)match->path.n, match->path.p, (int)match->line);
	return !enough;
}

static bool on_after(void *arg, struct str line)
{
	(void)arg;
	note("+%.*s", (int)line.n, line.p);
	return !enough;
}

static bool on_outcome(void *arg, const struct files_outcome *outcome)
{
	(void)arg;
	note("%.*s%c", (int)outcome->path.n, outcome->path.p, outcome->failed ? '!' : '.');
	return !enough;
}

static void on_event(void *arg, const struct files_event *event)
{
	(void)arg;
	note("%d %.*s<%.*s;", event->change, (int)event->path.n, event->path.p, (int)event->from.n,
	     event->from.p);
}

static struct files_relay relay;

static void start(enum files_op op, int64_t context)
{
	static const struct files_hooks hooks = { .on_entry = on_entry,
						  .on_match = on_match,
						  .on_after = on_after,
						  .on_outcome = on_outcome,
						  .on_event = on_event };
	struct files_spec spec = { .context = context };

	files_relay_done(&relay);
	relay = (struct files_relay){ .hooks = &hooks };
	files_relay_init(&relay, op, &spec, STR_LIT("d"));
	got[0] = '\0';
	enough = false;
}

static int teardown(void **state)
{
	(void)state;
	files_relay_done(&relay);
	relay = (struct files_relay){ .path = { NULL, 0 } };
	return 0;
}

static int say_entry(enum files_op op, const char *path)
{
	struct tool_said said = { .type = TOOL_ENTRY };

	said.entry = (struct tool_entry){ .kind = TOOL_KIND_FILE, .path = str_of(path) };
	return files_relay_add(&relay, op, &said);
}

static int say_match(uint8_t flags, uint64_t line, const char *text)
{
	struct tool_said said = { .type = TOOL_MATCH };

	said.match = (struct tool_match){
		.flags = flags, .line = line, .path = STR_LIT("f"), .text = str_of(text)
	};
	return files_relay_add(&relay, FILES_GREP, &said);
}

static void test_entries_are_passed_on_until_the_caller_has_enough(void **state)
{
	(void)state;
	start(FILES_LIST, 0);
	assert_int_equal(say_entry(FILES_LIST, "a/b"), 0);
	assert_int_equal(say_entry(FILES_LIST, "/abs/"), 0);
	enough = true;
	assert_int_equal(say_entry(FILES_LIST, "c"), 1);
	assert_string_equal(got, "d/a/b(b);/abs/(abs);d/c(c);");
}

static void test_context_belongs_to_matches(void **state)
{
	(void)state;
	start(FILES_GREP, 2);
	assert_int_equal(say_match(TOOL_MATCH_CONTEXT, 1, "a"), 0);
	assert_int_equal(say_match(TOOL_MATCH_CONTEXT, 2, "b"), 0);
	assert_int_equal(say_match(TOOL_MATCH_CONTEXT, 3, "c"), 0);
	assert_int_equal(say_match(0, 4, "m"), 0);
	assert_int_equal(say_match(TOOL_MATCH_CONTEXT, 5, "e"), 0);
	assert_int_equal(say_match(TOOL_MATCH_CONTEXT, 6, "f"), 0);
	assert_int_equal(say_match(TOOL_MATCH_CONTEXT, 7, "g"), 0); /* too far behind it */
	assert_int_equal(say_match(TOOL_MATCH_CONTEXT | TOOL_MATCH_GAP, 20, "h"), 0);
	assert_int_equal(say_match(0, 21, "m"), 0);
	assert_string_equal(got, "-b-c=d/f:4+e+f-h=d/f:21");
	/* The tool was not asked for context. */
	start(FILES_GREP, 0);
	assert_int_equal(say_match(TOOL_MATCH_CONTEXT, 1, "a"), -EPROTO);
}

static void test_largest_context(void **state)
{
	(void)state;
	start(FILES_GREP, FILES_CONTEXT_MAX);
	for (uint64_t line = 1; line <= FILES_CONTEXT_MAX + 5; line++)
		assert_int_equal(say_match(TOOL_MATCH_CONTEXT, line, "x"), 0);
	assert_int_equal(say_match(0, FILES_CONTEXT_MAX + 6, "m"), 0);
	assert_int_equal(strlen(got), 2 * FILES_CONTEXT_MAX + strlen("=d/f:26"));
}

/* The frame that reported it is gone when the operation ends. */
static void test_an_entry_outlives_its_frame(void **state)
{
	char path[] = "x/y", target[] = "/z", marks[] = "k=v=w\nbroken\nl=\n";
	struct tool_said detail = { .type = TOOL_DETAIL }, entry = { .type = TOOL_ENTRY };
	struct tool_end end = { .flags = TOOL_END_CREATED };
	struct files_result result;
	struct str left, key, value;

	(void)state;
	start(FILES_STAT, 0);
	detail.detail = (struct tool_detail){ .kind = TOOL_KIND_DIRECTORY,
					      .mode = 0755,
					      .target = str_of(target),
					      .marks = str_of(marks) };
	entry.entry = (struct tool_entry){ .kind = TOOL_KIND_SYMLINK,
					   .path = str_of(path),
					   .target = str_of(target) };
	assert_int_equal(files_relay_add(&relay, FILES_STAT, &detail), 0);
	assert_int_equal(files_relay_add(&relay, FILES_STAT, &entry), 0);
	assert_int_equal(files_relay_add(&relay, FILES_STAT, &entry), -EPROTO);
	memset(path, '#', sizeof(path));
	memset(target, '#', sizeof(target));
	memset(marks, '#', sizeof(marks));
	detail.detail.marks = (struct str){ "", 0 }; /* what comes too late belongs to no entry */
	assert_int_equal(files_relay_add(&relay, FILES_STAT, &detail), 0);
	assert_int_equal(files_relay_end(&relay, FILES_STAT, &end, &result), 0);
	assert_true(str_is(result.entry->path, "x/y") && str_is(result.entry->name, "y"));
	assert_true(str_is(result.entry->target, "/z"));
	assert_int_equal(result.entry->behind.kind, FILES_KIND_DIRECTORY);
	assert_true(str_is(result.entry->behind.path, "/z"));
	assert_null(result.entry->etag);
	assert_true(result.created);
	left = result.entry->marks;
	assert_true(files_mark_next(&left, &key, &value));
	assert_true(str_is(key, "k") && str_is(value, "v=w"));
	assert_true(files_mark_next(&left, &key, &value));
	assert_true(str_is(key, "l") && value.n == 0);
	assert_false(files_mark_next(&left, &key, &value));
}

static void test_required_and_unexpected_frames(void **state)
{
	struct tool_said line = { .type = TOOL_LINE }, event = { .type = TOOL_EVENT };
	struct tool_end end = { 0 };
	struct files_result result;

	(void)state;
	start(FILES_WRITE, 0);
	assert_int_equal(files_relay_end(&relay, FILES_WRITE, &end, &result), -EPROTO);
	assert_int_equal(files_relay_add(&relay, FILES_WRITE, &line), -EPROTO);
	assert_int_equal(files_relay_add(&relay, FILES_WRITE, &event), -EPROTO);
	assert_int_equal(say_entry(FILES_GREP, "f"), -EPROTO);
	assert_int_equal(files_relay_end(&relay, FILES_MKDIR, &end, &result), 0);
	assert_null(result.entry);
	assert_true(str_is(result.path, "d"));
}

static void test_reasons_for_a_cut(void **state)
{
	struct tool_end ends[] = { { .cut = TOOL_CUT_TIME, .skipped_limit = 1 },
				   { .skipped_limit = 1, .skipped_deep = 1 },
				   { .skipped_deep = 1 },
				   { .cut = TOOL_CUT_NONE } };
	static const enum files_cut cuts[] = { FILES_CUT_TIME, FILES_CUT_PATTERN, FILES_CUT_DEPTH,
					       FILES_CUT_NONE };
	struct files_result result;

	(void)state;
	start(FILES_GREP, 0);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		assert_int_equal(files_relay_end(&relay, FILES_GREP, &ends[i], &result), 0);
		assert_int_equal(result.cut, cuts[i]);
	}
	assert_int_equal(files_relay_end(&relay, FILES_VIEW, &ends[1], &result), 0);
	assert_int_equal(result.cut, FILES_CUT_NONE);
}

static void test_outcomes_of_batches_and_archives(void **state)
{
	struct tool_said good = { .type = TOOL_ITEM }, bad = { .type = TOOL_ITEM };
	size_t told;

	(void)state;
	good.item.path = bad.item.path = STR_LIT("p");
	bad.item.error = TOOL_NOT_FOUND;
	start(FILES_BATCH, 0);
	assert_int_equal(files_relay_add(&relay, FILES_BATCH, &good), 0);
	assert_int_equal(files_relay_add(&relay, FILES_BATCH, &bad), 0);
	assert_string_equal(got, "p.p!");
	/* An archive's are failures only, and a thousand of them. */
	start(FILES_ARCHIVE_IN, 0);
	assert_int_equal(files_relay_add(&relay, FILES_ARCHIVE_IN, &good), 0);
	for (int i = 0; i < 1100; i++)
		assert_int_equal(files_relay_add(&relay, FILES_ARCHIVE_IN, &bad), 0);
	told = strlen(got) / 2;
	assert_int_equal(told, 1000);
}

static void test_both_names_of_a_rename(void **state)
{
	struct tool_said said = { .type = TOOL_EVENT };

	(void)state;
	start(FILES_WATCH, 0);
	said.event = (struct tool_event){ .change = TOOL_RENAMED,
					  .kind = TOOL_KIND_FILE,
					  .path = STR_LIT("new"),
					  .from = STR_LIT("old") };
	assert_int_equal(files_relay_add(&relay, FILES_WATCH, &said), 0);
	said.event.change = TOOL_GONE;
	said.event.path = (struct str){ "", 0 };
	assert_int_equal(files_relay_add(&relay, FILES_WATCH, &said), 0);
	assert_string_equal(got, "3 d/new<d/old;5 d<;");
}

#define T(name) cmocka_unit_test_teardown(name, teardown)
int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_entries_are_passed_on_until_the_caller_has_enough),
		T(test_context_belongs_to_matches),
		T(test_largest_context),
		T(test_an_entry_outlives_its_frame),
		T(test_required_and_unexpected_frames),
		T(test_reasons_for_a_cut),
		T(test_outcomes_of_batches_and_archives),
		T(test_both_names_of_a_rename),
	};

	return cmocka_run_group_tests_name("service-files-relay", tests, NULL, NULL);
}
