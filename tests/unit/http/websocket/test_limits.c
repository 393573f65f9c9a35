/* SPDX-License-Identifier: Apache-2.0 */
/* The server side over a socket pair: back-pressure, deadlines, the end of the server. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "websocket_fixture.h"

static void test_watermark(void **state)
{
	static char bytes[65536];
	size_t total = 0;
	struct str got;
	int r;

	(void)state;
	open_ws();
	do {
		memset(bytes, (int)(total >> 16), sizeof(bytes));
		r = websocket_send(ws, false, STR_LIT(""), (struct str){ bytes, sizeof(bytes) });
		total += sizeof(bytes);
	} while (r == 0);
	assert_int_equal(r, -EAGAIN);
	assert_true(websocket_unsent_bytes(ws) > limits.watermark_bytes);
	put_frame(0x82, "heard", 5); /* a slow reader may still send */
	loop_turn(loop, 0);
	loop_turn(loop, 0);
	assert_int_equal(messages, 1);
	messages = 0;
	while (websocket_unsent_bytes(ws) <= 4 * limits.watermark_bytes) {
		memset(bytes, (int)(total >> 16), sizeof(bytes));
		r = websocket_send(ws, false, STR_LIT(""), (struct str){ bytes, sizeof(bytes) });
		assert_int_equal(r, -EAGAIN);
		total += sizeof(bytes);
	}
	put_frame(0x82, "unheard", 7); /* a peer that does not read at all is not read from */
	loop_turn(loop, 0);
	loop_turn(loop, 0);
	assert_int_equal(messages, 0);
	assert_int_equal(drains, 0);
	pump(50);
	assert_int_equal(drains, 1);
	assert_int_equal(messages, 1);
	assert_int_equal(websocket_unsent_bytes(ws), 0);
	for (size_t at = 0; at < total; at += sizeof(bytes)) {
		assert_int_equal(take_frame(&got), 0x82);
		assert_int_equal(got.n, sizeof(bytes));
		memset(bytes, (int)(at >> 16), sizeof(bytes));
		assert_memory_equal(got.p, bytes, sizeof(bytes));
	}
}

static void test_queue_limit(void **state)
{
	static char bytes[65536];
	int r;

	(void)state;
	limits.queue_bytes = 1 << 20;
	open_ws();
	do
		r = websocket_send(ws, false, STR_LIT(""), (struct str){ bytes, sizeof(bytes) });
	while (r == 0 || r == -EAGAIN);
	assert_int_equal(r, -EPIPE);
	loop_turn(loop, 0);
	loop_turn(loop, 0);
	assert_int_equal(closes, 1);
}

static void test_ping_flood(void **state)
{
	unsigned char frame[6 + 125] = { 0x89, 0x80 | 125 };

	(void)state;
	open_ws();
	/* The peer never reads: its pings must not fill our memory. */
	for (int i = 0; i < 100000; i++) {
		if (send(peer, frame, sizeof(frame), MSG_NOSIGNAL) < 0)
			loop_turn(loop, 0);
		assert_true(websocket_unsent_bytes(ws) < 4 * limits.watermark_bytes + 65536);
	}
	assert_int_equal(closes, 0);
}

static void test_stalled_writer(void **state)
{
	static char bytes[1 << 20];

	(void)state;
	limits.write_ms = 500; /* a busy host must not use it up before the first check */
	open_ws();
	assert_int_equal(
		websocket_send(ws, false, STR_LIT(""), (struct str){ bytes, sizeof(bytes) }),
		-EAGAIN);
	wait_ms(30);
	assert_int_equal(closes, 0);
	for (int i = 0; i < 100 && !closes; i++)
		wait_ms(50);
	assert_int_equal(closes, 1);
	assert_int_equal(close_code, WEBSOCKET_ABNORMAL);
}

static void test_silence(void **state)
{
	struct str got;

	(void)state;
	limits.ping_ms = 40;
	limits.silence_ms = 150;
	open_ws();
	for (int i = 0; i < 5; i++) {
		wait_ms(60);
		pump(1);
		assert_int_equal(take_frame(&got), 0x89);
		buf_clear(&in);
		put_frame(0x8a, "", 0);
	}
	assert_int_equal(closes, 0);
	websocket_pause(ws, true); /* reading is paused, so its silence proves nothing */
	wait_ms(250);
	assert_int_equal(closes, 0);
	websocket_pause(ws, false);
	wait_ms(60);
	assert_int_equal(closes, 0);
	wait_ms(250);
	assert_int_equal(closes, 1);
	assert_int_equal(close_code, WEBSOCKET_ABNORMAL);
}

static void test_server_drains(void **state)
{
	(void)state;
	open_ws();
	http_server_drain(server, 5000, on_drained, NULL);
	pump(4);
	take_close(1001);
	assert_int_equal(drained, 0);
	put_frame(0x88, "\x03\xe9", 2);
	assert_true(pump(4));
	assert_int_equal(closes, 1);
	assert_int_equal(close_code, 1001);
	assert_int_equal(drained, 1);
}

static void test_server_gives_up(void **state)
{
	(void)state;
	open_ws();
	http_server_drain(server, 40, on_drained, NULL);
	wait_ms(100);
	assert_int_equal(closes, 1);
	assert_int_equal(drained, 1);
}

static void test_freed_with_the_server(void **state)
{
	(void)state;
	open_ws();
	/* A step is scheduled when teardown frees the server: on_close is called once. */
	websocket_pause(ws, true);
	websocket_pause(ws, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_watermark),	    TEST(test_queue_limit),
		TEST(test_ping_flood),	    TEST(test_stalled_writer),
		TEST(test_silence),	    TEST(test_server_drains),
		TEST(test_server_gives_up), TEST(test_freed_with_the_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
