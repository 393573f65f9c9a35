/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wire/tool.h"

static struct buf out;

static int setup(void **state)
{
	buf_init(&out, 4U << 20);
	return 0;
}

static int teardown(void **state)
{
	buf_done(&out);
	return 0;
}

static struct frame only_frame(void)
{
	struct frame frame;

	assert_int_equal(frame_next(buf_str(&out), TOOL_PAYLOAD_MAX, &frame), 1);
	assert_int_equal(frame_size(&frame), buf_len(&out));
	return frame;
}

static int get_any(const struct frame *frame)
{
	union {
		struct tool_entry entry;
		struct tool_line line;
		struct tool_match match;
		struct tool_event event;
		struct tool_item item;
		struct tool_progress progress;
		struct tool_detail detail;
		struct tool_failed failed;
		struct tool_end end;
		struct tool_file file;
		struct str bytes;
	} u;

	switch (frame->type) {
	case TOOL_ENTRY:
		return tool_get_entry(frame, &u.entry);
	case TOOL_LINE:
		return tool_get_line(frame, &u.line);
	case TOOL_MATCH:
		return tool_get_match(frame, &u.match);
	case TOOL_EVENT:
		return tool_get_event(frame, &u.event);
	case TOOL_ITEM:
		return tool_get_item(frame, &u.item);
	case TOOL_PROGRESS:
		return tool_get_progress(frame, &u.progress);
	case TOOL_DETAIL:
		return tool_get_detail(frame, &u.detail);
	case TOOL_FAILED:
		return tool_get_failed(frame, &u.failed);
	case TOOL_END:
		return tool_get_end(frame, &u.end);
	case TOOL_FILE:
		return tool_get_file(frame, &u.file);
	default:
		return tool_get_bytes(frame, frame->type, &u.bytes);
	}
}

/*
 * Every truncated payload is rejected; every one-byte change decodes within its bounds or is
 * rejected.
 */
static void mutate(bool fixed_length)
{
	struct frame frame = only_frame();

	for (size_t n = 0; n < frame.payload.n; n++) {
		struct frame cut = frame;
		char *copy = malloc(n + 1); /* its own block: the sanitizer sees a read beyond it */

		memcpy(copy, frame.payload.p, n);
		cut.payload = (struct str){ copy, n };
		if (fixed_length)
			assert_int_equal(get_any(&cut), -EPROTO);
		else
			(void)!get_any(&cut);
		free(copy);
	}
	for (size_t i = 0; i < frame.payload.n * 256; i++) {
		struct frame changed = frame;
		char *copy = malloc(frame.payload.n);

		memcpy(copy, frame.payload.p, frame.payload.n);
		copy[i / 256] = (char)(i % 256);
		changed.payload.p = copy;
		(void)!get_any(&changed);
		free(copy);
	}
	frame.process_id = 1;
	assert_int_equal(get_any(&frame), -EPROTO);
	frame.process_id = 0;
	frame.flags = 0x80;
	assert_int_equal(get_any(&frame), -EPROTO);
}

static void test_entry(void **state)
{
	struct tool_entry e = { .kind = TOOL_KIND_SYMLINK,
				.mode = 0777,
				.uid = 1,
				.gid = 2,
				.links = 3,
				.depth = 4,
				.size = 5,
				.disk_bytes = 6,
				.device = 7,
				.inode = 8,
				.mtime_ns = -9,
				.ctime_ns = 10,
				.atime_ns = 11,
				.target_is_directory = true,
				.path = STR_LIT("a\nb\xff"),
				.user = STR_LIT("u"),
				.group = STR_LIT("g"),
				.target = STR_LIT("/t") },
			  got;
	struct frame frame;

	assert_int_equal(tool_put_entry(&out, &e), 0);
	frame = only_frame();
	assert_int_equal(tool_get_entry(&frame, &got), 0);
	assert_int_equal(got.kind, e.kind);
	assert_int_equal(got.mtime_ns, -9);
	assert_int_equal(got.atime_ns, 11);
	assert_int_equal(got.depth, 4);
	assert_true(got.target_is_directory);
	assert_true(str_is(got.path, "a\nb\xff"));
	assert_true(str_is(got.target, "/t"));
	mutate(true);
	buf_clear(&out);
	e.kind = TOOL_KIND_FILE;
	assert_int_equal(tool_put_entry(&out, &e), -EINVAL); /* a file has no target */
	e.target.n = 0;
	e.target_is_directory = false;
	assert_int_equal(tool_put_entry(&out, &e), 0);
	e.path = (struct str){ "a\0b", 3 };
	assert_int_equal(tool_put_entry(&out, &e), -EINVAL);
	e.path.n = 0;
	assert_int_equal(tool_put_entry(&out, &e), -EINVAL);
}

static void test_texts(void **state)
{
	static char big[TOOL_TEXT_MAX + 1];
	struct tool_line line = { .number = 1,
				  .bytes = 4,
				  .flags = TOOL_LINE_CUT,
				  .text = STR_LIT("a\0b") },
			 got_line;
	struct tool_match match = { .line = 3,
				    .start = 2,
				    .column = 2,
				    .length = 2,
				    .path = STR_LIT("p"),
				    .text = STR_LIT("xyz") },
			  got_match;
	struct frame frame;

	assert_int_equal(tool_put_line(&out, &line), 0);
	frame = only_frame();
	assert_int_equal(tool_get_line(&frame, &got_line), 0);
	assert_int_equal(got_line.text.n, 3);
	mutate(false);
	buf_clear(&out);
	line.text = (struct str){ big, sizeof(big) };
	line.bytes = sizeof(big);
	assert_int_equal(tool_put_line(&out, &line), -EINVAL);
	line.text.n--;
	assert_int_equal(tool_put_line(&out, &line), 0);
	buf_clear(&out);

	assert_int_equal(tool_put_match(&out, &match), 0);
	frame = only_frame();
	assert_int_equal(tool_get_match(&frame, &got_match), 0);
	assert_int_equal(got_match.column, 2);
	assert_true(str_is(got_match.text, "xyz"));
	mutate(false);
	match.length = 3; /* beyond the text */
	assert_int_equal(tool_put_match(&out, &match), -EINVAL);
	match.length = 0;
	match.flags = TOOL_MATCH_CONTEXT;
	assert_int_equal(tool_put_match(&out, &match), -EINVAL);
	match.column = 0;
	assert_int_equal(tool_put_match(&out, &match), 0);
}

static void test_events_and_items(void **state)
{
	struct tool_event event = { .change = TOOL_RENAMED,
				    .kind = TOOL_KIND_FILE,
				    .at_ns = 9,
				    .path = STR_LIT("new"),
				    .from = STR_LIT("old") },
			  got_event;
	struct tool_item item = { .error = TOOL_DISK_FULL,
				  .errno_value = ENOSPC,
				  .index = 5,
				  .bytes = 6,
				  .created = true,
				  .path = STR_LIT("x") },
			 got_item;
	struct tool_progress progress = { 1, 2, 3 }, got_progress;
	struct frame frame;

	assert_int_equal(tool_put_event(&out, &event), 0);
	frame = only_frame();
	assert_int_equal(tool_get_event(&frame, &got_event), 0);
	assert_true(str_is(got_event.from, "old"));
	assert_true(str_is(got_event.path, "new"));
	mutate(false);
	event.change = TOOL_CREATED; /* has no from */
	assert_int_equal(tool_put_event(&out, &event), -EINVAL);
	buf_clear(&out);

	assert_int_equal(tool_put_item(&out, &item), 0);
	frame = only_frame();
	assert_int_equal(tool_get_item(&frame, &got_item), 0);
	assert_int_equal(got_item.error, TOOL_DISK_FULL);
	assert_true(got_item.created);
	mutate(false);
	buf_clear(&out);

	assert_int_equal(tool_put_progress(&out, &progress), 0);
	frame = only_frame();
	assert_int_equal(tool_get_progress(&frame, &got_progress), 0);
	assert_int_equal(got_progress.total_bytes, 3);
	mutate(true);
}

static void test_detail(void **state)
{
	struct tool_detail detail = { .kind = TOOL_KIND_FILE,
				      .mode = 0640,
				      .target = STR_LIT("/a/b"),
				      .marks = STR_LIT("k=v\nl=\n") };
	struct tool_detail got;
	struct frame frame;

	(void)state;
	assert_int_equal(tool_put_detail(&out, &detail), 0);
	frame = only_frame();
	assert_int_equal(tool_get_detail(&frame, &got), 0);
	assert_int_equal(got.kind, TOOL_KIND_FILE);
	assert_int_equal(got.mode, 0640);
	assert_true(str_is(got.target, "/a/b"));
	assert_true(str_is(got.marks, "k=v\nl=\n"));
	mutate(false);
	buf_clear(&out);
	detail.marks = STR_LIT("k=v"); /* lines end */
	assert_int_equal(tool_put_detail(&out, &detail), -EINVAL);
	detail.marks = STR_LIT("k=\1\n");
	assert_int_equal(tool_put_detail(&out, &detail), -EINVAL);
	detail = (struct tool_detail){ .mode = 010000 };
	assert_int_equal(tool_put_detail(&out, &detail), -EINVAL);
}

static void test_ends(void **state)
{
	struct tool_failed failed = { .error = TOOL_EDIT_MANY,
				      .count = 7,
				      .done = 1,
				      .limit = 2,
				      .line_count = 2,
				      .lines = { 10, 20 },
				      .path = STR_LIT("p\xff"),
				      .message = STR_LIT("why") },
			   got;
	struct tool_end end = { .cut = TOOL_CUT_TIME,
				.flags = TOOL_END_CRLF,
				.entries = 1,
				.duration_us = 15 },
			got_end;
	struct frame frame;

	assert_int_equal(tool_put_failed(&out, &failed), 0);
	frame = only_frame();
	assert_int_equal(tool_get_failed(&frame, &got), 0);
	assert_int_equal(got.lines[1], 20);
	assert_int_equal(got.count, 7);
	assert_true(str_is(got.message, "why"));
	assert_true(str_is(got.path, "p\xff"));
	mutate(true);
	failed.message = STR_LIT("\n");
	assert_int_equal(tool_put_failed(&out, &failed), -EINVAL);
	failed.message = STR_LIT("");
	failed.error = TOOL_OK;
	assert_int_equal(tool_put_failed(&out, &failed), -EINVAL);
	buf_clear(&out);

	assert_int_equal(tool_put_end(&out, &end), 0);
	frame = only_frame();
	assert_int_equal(tool_get_end(&frame, &got_end), 0);
	assert_int_equal(got_end.cut, TOOL_CUT_TIME);
	assert_int_equal(got_end.entries, 1);
	assert_int_equal(got_end.duration_us, 15);
	mutate(true);
}

static void test_input(void **state)
{
	static char big[TOOL_DATA_MAX + 1];
	struct tool_file file = { .mode = 0644, .path = STR_LIT("f") }, got;
	struct frame frame;
	struct str bytes;

	assert_int_equal(tool_put_file(&out, &file), 0);
	frame = only_frame();
	assert_int_equal(tool_get_file(&frame, &got), 0);
	assert_int_equal(got.mode, 0644);
	mutate(false);
	file.mode = 010000;
	assert_int_equal(tool_put_file(&out, &file), -EINVAL);
	file.mode = TOOL_MODE_DEFAULT;
	assert_int_equal(tool_put_file(&out, &file), 0);
	buf_clear(&out);
	assert_int_equal(tool_put_bytes(&out, TOOL_DATA, STR_LIT("")), -EINVAL);
	assert_int_equal(tool_put_bytes(&out, TOOL_COMMIT, STR_LIT("x")), -EINVAL);
	assert_int_equal(tool_put_bytes(&out, TOOL_END, STR_LIT("")), -EINVAL);
	assert_int_equal(tool_put_bytes(&out, TOOL_OLD, (struct str){ big, sizeof(big) }), -EINVAL);
	assert_int_equal(tool_put_bytes(&out, TOOL_OLD, (struct str){ big, TOOL_DATA_MAX }), 0);
	frame = only_frame();
	assert_int_equal(tool_get_bytes(&frame, TOOL_OLD, &bytes), 0);
	assert_int_equal(tool_get_bytes(&frame, TOOL_NEW, &bytes), -EPROTO);
	buf_clear(&out);
	assert_int_equal(tool_put_bytes(&out, TOOL_COMMIT, STR_LIT("")), 0);
	frame = only_frame();
	assert_int_equal(tool_get_bytes(&frame, TOOL_COMMIT, &bytes), 0);
}

static void test_names(void **state)
{
	struct tool_entry e = { .device = 1, .inode = 255, .size = 16, .mtime_ns = -1 };
	char token[TOOL_TOKEN_SIZE];

	tool_token(token, &e);
	assert_string_equal(token, "1-ff-10-ffffffffffffffff-0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_entry, setup, teardown),
		cmocka_unit_test_setup_teardown(test_detail, setup, teardown),
		cmocka_unit_test_setup_teardown(test_texts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_events_and_items, setup, teardown),
		cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
		cmocka_unit_test_setup_teardown(test_input, setup, teardown),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
