/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of streams and the rules of credit. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "wire/stream.h"

static const char big[STREAM_DATA_MAX + 1];

static void expect_same(const struct stream_frame *f)
{
	struct stream_frame got;
	struct frame frame;
	struct buf out;

	buf_init(&out, 1U << 20);
	assert_int_equal(stream_put(&out, f), 0);
	assert_int_equal(frame_next(buf_str(&out), STREAM_DATA_MAX, &frame), 1);
	assert_int_equal(frame_size(&frame), buf_len(&out));
	assert_int_equal(stream_get(&frame, &got), 0);
	assert_int_equal(got.type, f->type);
	assert_int_equal(got.stream, f->stream);
	assert_int_equal(got.port, f->port);
	assert_int_equal(got.credit, f->credit);
	assert_int_equal(got.errno_value, f->errno_value);
	assert_int_equal(got.close, f->close);
	assert_int_equal(got.bytes.n, f->bytes.n);
	buf_done(&out);
}

static void test_frames(void **state)
{
	const struct stream_frame good[] = {
		{ .type = STREAM_DIAL, .stream = 1, .port = 65535, .credit = STREAM_WINDOW_MAX },
		{ .type = STREAM_OFFER, .stream = 2, .credit = 1 },
		{ .type = STREAM_OPENED, .stream = 1, .credit = 7 },
		{ .type = STREAM_OPENED, .stream = 2, .errno_value = STREAM_ERRNO_MAX },
		{ .type = STREAM_DATA, .stream = STREAM_NUMBER_MAX, .bytes = STR_LIT("x") },
		{ .type = STREAM_DATA, .stream = 1, .bytes = { big, STREAM_DATA_MAX } },
		{ .type = STREAM_CREDIT, .stream = 4, .credit = 9 },
		{ .type = STREAM_END, .stream = 5 },
		{ .type = STREAM_END, .stream = 5, .close = true },
		{ .type = STREAM_RESET, .stream = 6 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		expect_same(&good[i]);
}

static void test_refused_values(void **state)
{
	const struct stream_frame bad[] = {
		{ .type = STREAM_DIAL, .stream = 2, .port = 1, .credit = 1 },
		{ .type = STREAM_DIAL, .stream = 1, .port = 0, .credit = 1 },
		{ .type = STREAM_DIAL, .stream = 1, .port = 1, .credit = 0 },
		{ .type = STREAM_DIAL, .stream = 1, .port = 1, .credit = STREAM_WINDOW_MAX + 1 },
		{ .type = STREAM_OFFER, .stream = 1, .credit = 1 },
		{ .type = STREAM_OPENED, .stream = 1 },
		{ .type = STREAM_OPENED, .stream = 1, .errno_value = 1, .credit = 1 },
		{ .type = STREAM_OPENED, .stream = 1, .errno_value = STREAM_ERRNO_MAX + 1 },
		{ .type = STREAM_DATA, .stream = 1 },
		{ .type = STREAM_DATA, .stream = 1, .bytes = { big, STREAM_DATA_MAX + 1 } },
		{ .type = STREAM_DATA, .stream = 0, .bytes = STR_LIT("x") },
		{ .type = STREAM_CREDIT, .stream = 1 },
		{ .type = STREAM_RESET, .stream = STREAM_NUMBER_MAX + 1 },
		{ .type = STREAM_RESET, .stream = 1, .close = true },
	};
	struct buf out;

	(void)state;
	buf_init(&out, 1U << 20);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(stream_put(&out, &bad[i]), -EINVAL);
	assert_int_equal(buf_len(&out), 0);
	buf_done(&out);
}

static void test_refused_frames(void **state)
{
	struct stream_frame got;
	const struct frame bad[] = {
		{ .type = STREAM_DIAL - 1, .process_id = 1 },
		{ .type = STREAM_RESET + 1, .process_id = 1 },
		{ .type = STREAM_RESET, .flags = 1, .process_id = 1 },
		{ .type = STREAM_END, .flags = 2, .process_id = 1 },
		{ .type = STREAM_END, .process_id = 1, .payload = STR_LIT("x") },
		{ .type = STREAM_CREDIT, .process_id = 1, .payload = STR_LIT("\1\0\0") },
		{ .type = STREAM_CREDIT, .process_id = 1, .payload = STR_LIT("\1\0\0\0\0") },
		{ .type = STREAM_DIAL, .process_id = 1, .payload = STR_LIT("\1\0\1\0\1\0\0\0") },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(stream_get(&bad[i], &got), -EPROTO);
}

static void test_flow(void **state)
{
	struct stream_flow flow = { .may_come = 1000 };

	(void)state;
	assert_int_equal(stream_flow_on_data(&flow, 1), -EPROTO); /* not open */
	assert_int_equal(stream_flow_on_credit(&flow, 1), -EPROTO);
	assert_int_equal(stream_flow_on_end(&flow), -EPROTO);
	assert_int_equal(stream_flow_on_opened(&flow, 10), 0);
	assert_int_equal(stream_flow_on_opened(&flow, 10), -EPROTO);
	assert_int_equal(stream_flow_on_credit(&flow, STREAM_WINDOW_MAX - 10), 0);
	assert_int_equal(stream_flow_on_credit(&flow, 1), -EPROTO);
	assert_int_equal(stream_flow_on_data(&flow, 1001), -EPROTO);
	assert_int_equal(stream_flow_on_data(&flow, 1000), 0);
	assert_int_equal(stream_flow_on_data(&flow, 1), -EPROTO);
	assert_int_equal(stream_flow_taken(&flow, 249, 1000), 0);
	assert_int_equal(stream_flow_taken(&flow, 1, 1000), 250);
	assert_int_equal(stream_flow_on_data(&flow, 251), -EPROTO);
	assert_int_equal(stream_flow_on_data(&flow, 250), 0);
	assert_int_equal(stream_flow_on_end(&flow), 0);
	assert_int_equal(stream_flow_on_end(&flow), -EPROTO);
	assert_int_equal(stream_flow_on_data(&flow, 0), -EPROTO);
	assert_int_equal(stream_flow_taken(&flow, 1000, 1000), 0); /* nothing more comes */
	assert_false(stream_flow_over(&flow));
	flow.end_sent = true;
	assert_true(stream_flow_over(&flow));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_refused_values),
		cmocka_unit_test(test_refused_frames),
		cmocka_unit_test(test_flow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
