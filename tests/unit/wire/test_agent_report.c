/* SPDX-License-Identifier: Apache-2.0 */
/* Frames from the agent to the daemon. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wire/agent.h"

static struct buf out;

static int setup(void **state)
{
	buf_init(&out, 8U << 20);
	return 0;
}

static int teardown(void **state)
{
	buf_done(&out);
	return 0;
}

static struct frame only_frame(size_t max)
{
	struct frame frame;

	assert_int_equal(frame_next(buf_str(&out), max, &frame), 1);
	assert_int_equal(frame_size(&frame), buf_len(&out));
	return frame;
}

static void test_hello_and_boot(void **state)
{
	struct agent_hello hello = { AGENT_PROTOCOL_VERSION, 2, 3, 4 }, got;
	char packed[AGENT_BOOT_FAILED_SIZE];
	struct agent_boot_failed failed;
	struct frame frame;

	assert_int_equal(agent_put_hello(&out, &hello), 0);
	frame = only_frame(AGENT_FROM_MAX_BYTES);
	assert_int_equal(agent_get_hello(&frame, &got), 0);
	assert_int_equal(got.next_process_id, 3);
	assert_int_equal(got.process_count, 4);
	buf_clear(&out);
	hello.features = AGENT_FEATURES + 1;
	assert_int_equal(agent_put_hello(&out, &hello), -EINVAL);
	/* a newer version may have more features: it is decoded, and named in the error */
	hello.version++;
	assert_int_equal(agent_put_hello(&out, &hello), 0);
	frame = only_frame(AGENT_FROM_MAX_BYTES);
	assert_int_equal(agent_get_hello(&frame, &got), 0);

	agent_pack_boot_failed(packed, 12, -EPERM, "Mount /proc, with a name that is too long");
	assert_int_equal(frame_next((struct str){ packed, sizeof(packed) }, 100, &frame), 1);
	assert_int_equal(frame_size(&frame), sizeof(packed));
	assert_int_equal(agent_get_boot_failed(&frame, &failed), 0);
	assert_int_equal(failed.step, 12);
	assert_int_equal(failed.errno_value, EPERM);
	assert_string_equal(failed.name, "-ount -proc- with a nam");
	packed[AGENT_BOOT_FAILED_SIZE - 1] = 'x';
	assert_int_equal(agent_get_boot_failed(&frame, &failed), -EPROTO);
	packed[AGENT_BOOT_FAILED_SIZE - 1] = '\0';
	packed[FRAME_HEADER_SIZE + 8] = '\033';
	assert_int_equal(agent_get_boot_failed(&frame, &failed), -EPROTO);
}

static void test_output(void **state)
{
	static char big[AGENT_OUTPUT_BYTES_MAX + 1];
	struct agent_output output = {
		9, 8, AGENT_STREAM_ERR, 1ULL << 40, { big, sizeof(big) - 1 }
	};
	char packed[FRAME_HEADER_SIZE + AGENT_OUTPUT_HEADER_SIZE];
	struct agent_output got;
	struct frame frame;

	assert_int_equal(agent_put_output(&out, &output), 0);
	frame = only_frame(AGENT_FROM_MAX_BYTES);
	assert_int_equal(agent_get_output(&frame, &got), 0);
	assert_int_equal(got.stream, AGENT_STREAM_ERR);
	assert_int_equal(got.follow_id, 8);
	agent_pack_output(packed, &output);
	assert_memory_equal(packed, buf_data(&out), sizeof(packed));
	assert_true(got.cursor == 1ULL << 40);
	assert_int_equal(got.bytes.n, sizeof(big) - 1);
	output.bytes.n++;
	assert_int_equal(agent_put_output(&out, &output), -EINVAL);
	output.bytes.n = 2;
	output.cursor = UINT64_MAX - 1;
	assert_int_equal(agent_put_output(&out, &output), -EINVAL);
}

static void test_exit(void **state)
{
	static const struct agent_status good[] = {
		{ AGENT_END_EXIT, 255, 0, 10, 20, 30, 0, 0 },
		{ AGENT_END_SIGNAL, 137, 9, 0, 0, 0, 0, 0 },
		{ AGENT_END_TIMEOUT, 124, 9, 0, 0, 0, 0, 0 },
		{ AGENT_END_OOM, 137, 9, 0, 0, 0, 1 << 20, 1 << 19 },
		{ AGENT_END_OOM, 137, 0, 0, 0, 0, 0, 0 },
		{ AGENT_END_KILLED, 143, 15, 0, 0, 0, 0, 0 },
	};
	static const struct agent_status bad[] = {
		{ AGENT_END_EXIT, 256, 0, 0, 0, 0, 0, 0 },
		{ AGENT_END_EXIT, 0, 9, 0, 0, 0, 0, 0 },
		{ AGENT_END_EXIT, 0, 0, 0, 0, 0, 1, 0 },
		{ AGENT_END_EXIT, 0, 0, 1ULL << 63, 0, 0, 0, 0 },
		{ AGENT_END_SIGNAL, 0, 9, 0, 0, 0, 0, 0 },
		{ AGENT_END_SIGNAL, 0, 0, 0, 0, 0, 0, 0 },
		{ AGENT_END_SIGNAL, 193, 65, 0, 0, 0, 0, 0 },
		{ AGENT_END_TIMEOUT, 0, 0, 0, 0, 0, 0, 0 },
		{ AGENT_END_OOM, 300, 0, 0, 0, 0, 0, 0 },
		{ AGENT_END_NONE, 0, 0, 0, 0, 0, 0, 0 },
		{ (enum agent_end)(AGENT_END_LAST + 1), 0, 0, 0, 0, 0, 0, 0 },
	};
	struct agent_exit e = { .process_id = 1 }, got;

	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct frame frame;

		e.status = good[i];
		assert_int_equal(agent_put_exit(&out, &e), 0);
		frame = only_frame(AGENT_FROM_MAX_BYTES);
		assert_int_equal(agent_get_exit(&frame, &got), 0);
		assert_int_equal(got.status.end, good[i].end);
		assert_int_equal(got.status.exit_code, good[i].exit_code);
		assert_int_equal(got.status.signal, good[i].signal);
		assert_int_equal(got.status.duration_us, good[i].duration_us);
		assert_int_equal(got.status.out_total, good[i].out_total);
		assert_int_equal(got.status.err_total, good[i].err_total);
		assert_int_equal(got.status.memory_limit_bytes, good[i].memory_limit_bytes);
		assert_int_equal(got.status.memory_peak_bytes, good[i].memory_peak_bytes);
		buf_clear(&out);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		e.status = bad[i];
		assert_int_equal(agent_put_exit(&out, &e), -EINVAL);
	}
}

static void test_exit_saved(void **state)
{
	char path[AGENT_PATH_MAX + 1];
	struct agent_exit e = { .process_id = 1, .status.end = AGENT_END_EXIT }, got;
	struct frame frame;

	memset(path, 'x', sizeof(path));
	path[0] = '/';
	e.saved = (struct str){ path, AGENT_PATH_MAX };
	e.saved_all = true;
	assert_int_equal(agent_put_exit(&out, &e), 0);
	frame = only_frame(AGENT_FROM_MAX_BYTES);
	assert_int_equal(agent_get_exit(&frame, &got), 0);
	assert_true(got.saved_all);
	assert_int_equal(got.saved.n, AGENT_PATH_MAX);
	e.saved.n++;
	assert_int_equal(agent_put_exit(&out, &e), -EINVAL);
	e.saved = STR_LIT("relative");
	assert_int_equal(agent_put_exit(&out, &e), -EINVAL);
	e.saved = (struct str){ "/a\0", 3 };
	assert_int_equal(agent_put_exit(&out, &e), -EINVAL);
	e.saved = (struct str){ NULL, 0 };
	assert_int_equal(agent_put_exit(&out, &e), -EINVAL); /* all of it, and nowhere */
}

static void test_done_and_followed(void **state)
{
	struct agent_done done = { 1, AGENT_REFUSED_LAST, 4095 }, got_done;
	struct agent_followed followed = { 1, 2, 0, { .out_total = 5 } }, got;
	struct frame frame;

	assert_int_equal(agent_put_done(&out, &done), 0);
	frame = only_frame(AGENT_FROM_MAX_BYTES);
	assert_int_equal(agent_get_done(&frame, &got_done), 0);
	assert_int_equal(got_done.refusal, AGENT_REFUSED_LAST);
	buf_clear(&out);
	assert_int_equal(agent_put_done(&out, &(struct agent_done){ 0, 0, 0 }), -EINVAL);
	assert_int_equal(agent_put_done(&out, &(struct agent_done){ 1, AGENT_REFUSED_LAST + 1, 0 }),
			 -EINVAL);
	assert_int_equal(agent_put_done(&out, &(struct agent_done){ 1, 1, 4096 }), -EINVAL);
	assert_int_equal(agent_put_done(&out, &(struct agent_done){ 1, 0, 1 }), -EINVAL);

	assert_int_equal(agent_put_followed(&out, &followed), 0);
	frame = only_frame(AGENT_FROM_MAX_BYTES);
	assert_int_equal(agent_get_followed(&frame, &got), 0);
	assert_int_equal(got.status.out_total, 5);
	followed.refusal = AGENT_REFUSED_CURSOR_AHEAD;
	followed.status.end = AGENT_END_EXIT; /* refused, and ended? */
	assert_int_equal(agent_put_followed(&out, &followed), -EINVAL);
	followed.status.end = AGENT_END_NONE;
	followed.status.exit_code = 1;
	assert_int_equal(agent_put_followed(&out, &followed), -EINVAL);
}

static const struct agent_listed a_window = {
	.process_id = 3,
	.pid = 4,
	.flags = AGENT_PROCESS_TTY | AGENT_PROCESS_WINDOW | AGENT_PROCESS_STDIN_OPEN,
	.cols = 80,
	.rows = 24,
	.start_ms = 5,
	.out_begin = 6,
	.err_begin = 0,
	.status = { .out_total = 7 },
	.run = 8,
	.run_exit_code = 9,
	.run_end = AGENT_END_EXIT,
	.run_cursor = 7,
	.idle_ms = 11,
	.name = { "main", 4 },
	.user = { "root", 4 },
	.command = { "bash", 4 },
};

static void test_listing(void **state)
{
	char command[AGENT_COMMAND_MAX];
	struct agent_listed listed = a_window, got;
	struct agent_listing listing;
	struct frame_reader reader;
	size_t added = 0, read = 0;
	struct frame frame;
	uint32_t tag;
	bool last;
	int r;

	memset(command, 'c', sizeof(command));
	assert_int_equal(agent_listing_begin(&listing, &out, 0), -EINVAL);
	assert_int_equal(buf_puts(&out, "before"), 0);
	assert_int_equal(agent_listing_begin(&listing, &out, 77), 0);
	listed.command = (struct str){ command, sizeof(command) };
	while ((r = agent_listing_add(&listing, &listed)) == 0) {
		listed.process_id++;
		added++;
	}
	assert_int_equal(r, -ENOBUFS);
	assert_true(added > 500);
	agent_listing_end(&listing, true);
	buf_consume(&out, 6);
	frame = only_frame(AGENT_FROM_MAX_BYTES);
	assert_int_equal(agent_get_listed(&frame, &tag, &last, &reader), 0);
	assert_int_equal(tag, 77);
	assert_true(last);
	while ((r = agent_next_listed(&reader, &got)) == 1) {
		assert_int_equal(got.process_id, 3 + read++);
		assert_int_equal(got.command.n, sizeof(command));
		assert_true(str_is(got.name, "main"));
		assert_int_equal(got.run_exit_code, 9);
		assert_int_equal(got.idle_ms, 11);
		assert_int_equal(got.rows, 24);
	}
	assert_int_equal(r, 0);
	assert_int_equal(read, added);
}

static void test_listing_refuses(void **state)
{
	struct agent_listing listing;
	struct agent_listed bad[14];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = a_window;
	bad[n++].process_id = 0;
	bad[n++].pid = 1U << 31;
	bad[n++].flags |= 32;
	bad[n++].cols = 0;
	bad[n++].flags = AGENT_PROCESS_TTY; /* a run of what is no window */
	bad[n++].start_ms = 1ULL << 63;
	bad[n++].out_begin = 8;
	bad[n++].run_cursor = 8;
	bad[n++].run_exit_code = 256;
	bad[n++].run_end = AGENT_END_NONE;
	bad[n++].run = 0;
	bad[n++].name = STR_LIT("a b");
	bad[n++].command.n = AGENT_COMMAND_MAX + 1;
	bad[n++].user = (struct str){ "a\0", 2 };
	assert_int_equal(n, ARRAY_LEN(bad));
	assert_int_equal(agent_listing_begin(&listing, &out, 1), 0);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(agent_listing_add(&listing, &bad[i]), -EINVAL);
	assert_int_equal(agent_listing_add(&listing, &a_window), 0);
}

/* Every truncation of a LISTED is detected; every changed byte stays within bounds. */
static void test_listing_mutations(void **state)
{
	struct agent_listing listing;
	struct frame_reader reader;
	struct agent_listed got;
	struct frame frame;
	uint32_t tag;
	bool last;

	assert_int_equal(agent_listing_begin(&listing, &out, 1), 0);
	assert_int_equal(agent_listing_add(&listing, &a_window), 0);
	agent_listing_end(&listing, false);
	frame = only_frame(AGENT_FROM_MAX_BYTES);
	for (size_t n = 0; n < frame.payload.n; n++) {
		struct frame cut = frame;
		char *copy = malloc(n + 1);

		memcpy(copy, frame.payload.p, n);
		cut.payload = (struct str){ copy, n };
		if (agent_get_listed(&cut, &tag, &last, &reader) == 0)
			assert_int_equal(agent_next_listed(&reader, &got), n == 4 ? 0 : -EPROTO);
		else
			assert_true(n < 4);
		free(copy);
	}
	for (size_t i = 0; i < frame.payload.n * 256; i++) {
		struct frame changed = frame;
		char *copy = malloc(frame.payload.n);

		memcpy(copy, frame.payload.p, frame.payload.n);
		copy[i / 256] = (char)(i % 256);
		changed.payload.p = copy;
		if (agent_get_listed(&changed, &tag, &last, &reader) == 0)
			while (agent_next_listed(&reader, &got) == 1)
				;
		free(copy);
	}
}

static void test_refused(void **state)
{
	struct agent_refused refused = { 1, AGENT_REFUSED_QUOTA, 11, STR_LIT("why") }, got;
	struct frame frame;

	assert_int_equal(agent_put_refused(&out, &refused), 0);
	frame = only_frame(AGENT_FROM_MAX_BYTES);
	assert_int_equal(agent_get_refused(&frame, &got), 0);
	assert_int_equal(got.code, AGENT_REFUSED_QUOTA);
	assert_true(str_is(got.message, "why"));
	refused.message = (struct str){ "a\0b", 3 };
	assert_int_equal(agent_put_refused(&out, &refused), -EINVAL);
	refused.message.n = 1;
	refused.code = (enum agent_refusal)(AGENT_REFUSED_LAST + 1);
	assert_int_equal(agent_put_refused(&out, &refused), -EINVAL);
}

static void test_full_buffer(void **state)
{
	struct agent_hello hello = { 1, 0, 1, 0 };
	struct buf small;

	buf_init(&small, 20);
	assert_int_equal(agent_put_hello(&small, &hello), -ENOBUFS);
	assert_int_equal(buf_len(&small), 0);
	buf_done(&small);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		T(test_hello_and_boot),
		T(test_output),
		T(test_exit),
		T(test_exit_saved),
		T(test_done_and_followed),
		T(test_listing),
		T(test_listing_refuses),
		T(test_listing_mutations),
		T(test_refused),
		T(test_full_buffer),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
