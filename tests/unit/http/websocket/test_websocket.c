/* SPDX-License-Identifier: Apache-2.0 */
/* The server side over a socket pair: opening, messages, pausing, the end. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "websocket_fixture.h"

static void refused(const char *text, int r, const char *status)
{
	put(text, strlen(text));
	pump(3);
	assert_int_equal(check, r);
	assert_int_equal(accepted, r);
	assert_true(str_starts(buf_str(&in), status));
	if (r == -EPROTONOSUPPORT)
		assert_non_null(
			memmem(buf_data(&in), buf_len(&in), "Sec-WebSocket-Version: 13", 25));
	buf_clear(&in);
}

#define REQUEST(upgrade, rest) \
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n" upgrade rest "\r\n"
#define KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define UP "Upgrade: WebSocket\r\n"
#define V13 "Sec-WebSocket-Version: 13\r\n"

static void test_opening(void **state)
{
	(void)state;
	refused("GET / HTTP/1.1\r\nHost: a\r\n\r\n", -EPROTONOSUPPORT, "HTTP/1.1 426 ");
	refused(REQUEST("Upgrade: h2c\r\n", KEY V13), -EPROTONOSUPPORT, "HTTP/1.1 426 ");
	refused(REQUEST(UP, KEY), -EPROTONOSUPPORT, "HTTP/1.1 426 ");
	refused(REQUEST(UP, KEY "Sec-WebSocket-Version: 8\r\n"), -EPROTONOSUPPORT, "HTTP/1.1 426 ");
	refused(REQUEST(UP, KEY V13 V13), -EPROTONOSUPPORT, "HTTP/1.1 426 ");
	refused(REQUEST(UP, V13), -EINVAL, "HTTP/1.1 400 ");
	refused(REQUEST(UP, V13 "Sec-WebSocket-Key: short\r\n"), -EINVAL, "HTTP/1.1 400 ");
	refused(REQUEST(UP, V13 KEY KEY), -EINVAL, "HTTP/1.1 400 ");
	refused("POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nContent-Length: 0\r\n" UP V13
			KEY "\r\n",
		-EINVAL, "HTTP/1.1 400 ");
	put(REQUEST("Upgrade: h2c, websocket\r\n", V13 KEY),
	    strlen(REQUEST("Upgrade: h2c, websocket\r\n", V13 KEY)));
	pump(3);
	assert_int_equal(accepted, 0);
}

static void test_echo(void **state)
{
	static char large[100000];
	struct str got;

	(void)state;
	echo = true;
	memset(large, 0xff, sizeof(large));
	open_ws();
	put_frame(0x81, "hello", 5);
	put_frame(0x82, large, sizeof(large));
	put_frame(0x89, "ping", 4);
	put_frame(0x82, "", 0);
	pump(20);
	assert_int_equal(messages, 3);
	assert_int_equal(take_frame(&got), 0x81);
	assert_true(str_is(got, "re:hello"));
	assert_int_equal(take_frame(&got), 0x82);
	assert_int_equal(got.n, sizeof(large) + 3);
	assert_memory_equal(got.p + 3, large, sizeof(large));
	assert_int_equal(take_frame(&got), 0x8a);
	assert_true(str_is(got, "ping"));
	assert_int_equal(take_frame(&got), 0x82);
	assert_true(str_is(got, "re:"));
	put_frame(0x88, "\x03\xe9gone", 6);
	assert_true(pump(5));
	take_close(1001);
	assert_int_equal(closes, 1);
	assert_int_equal(close_code, 1001);
	assert_int_equal(websocket_count(server), 0);
}

static void test_bytes_behind_the_head(void **state)
{
	/* Masked by zeros: "one", "two". */
	static const char text[] = OPENING "\x81\x83\0\0\0\0one\x82\x83\0\0\0\0two";

	(void)state;
	put(text, sizeof(text) - 1);
	pump(4);
	assert_int_equal(messages, 2);
	assert_true(str_is(buf_str(&heard), "one|two|"));
}

static void test_we_close(void **state)
{
	(void)state;
	open_ws();
	assert_int_equal(websocket_send(ws, true, STR_LIT("last"), STR_LIT("")), 0);
	websocket_close(ws, 4001, "because");
	websocket_close(ws, 4002, "too late");
	assert_int_equal(websocket_send(ws, true, STR_LIT("x"), STR_LIT("")), -EPIPE);
	put_frame(0x81, "dropped", 7);
	pump(4);
	assert_int_equal(buf_data(&in)[0] & 0xff, 0x81);
	buf_consume(&in, 6);
	take_close(4001);
	assert_int_equal(closes, 0);
	assert_int_equal(messages, 0);
	put_frame(0x88, "\x0f\xa1", 2);
	assert_true(pump(4));
	assert_int_equal(closes, 1);
	assert_int_equal(close_code, 4001);
}

static void test_close_without_answer(void **state)
{
	(void)state;
	limits.close_ms = 60;
	open_ws();
	websocket_close(ws, 1000, NULL);
	pump(3);
	assert_int_equal(closes, 0);
	wait_ms(150);
	assert_int_equal(closes, 1);
	assert_int_equal(close_code, 1000);
	assert_true(drain_peer());
}

static void test_close_in_hook(void **state)
{
	(void)state;
	close_at_once = true;
	open_ws();
	put_frame(0x81, "1", 1);
	put_frame(0x81, "2", 1);
	pump(4);
	assert_int_equal(messages, 1);
	take_close(4000);
	put_frame(0x88, "", 0);
	assert_true(pump(4));
	assert_int_equal(closes, 1);
}

static void test_peer_closes(void **state)
{
	(void)state;
	open_ws();
	(void)close(peer);
	peer = -1;
	for (int i = 0; i < 4; i++)
		loop_turn(loop, 0);
	assert_int_equal(closes, 1);
	assert_int_equal(close_code, WEBSOCKET_ABNORMAL);
}

static void test_send_to_a_closed_peer(void **state)
{
	(void)state;
	open_ws();
	websocket_pause(ws, true);
	(void)close(peer);
	peer = -1;
	assert_int_equal(websocket_send(ws, false, STR_LIT("a"), STR_LIT("b")), -EPIPE);
	assert_int_equal(closes, 0); /* never from inside */
	loop_turn(loop, 0);
	loop_turn(loop, 0);
	assert_int_equal(closes, 1);
	assert_int_equal(close_code, WEBSOCKET_ABNORMAL);
}

static void rule_broken(const char *bytes, size_t n, int code)
{
	open_ws();
	put(bytes, n);
	put("garbage behind it", 17);
	pump(4);
	take_close(code);
	assert_int_equal(messages, 0);
	assert_int_equal(closes,
			 0); /* until the peer has closed, too, or the time limit is reached */
	assert_int_equal(shutdown(peer, SHUT_WR), 0);
	assert_true(pump(4));
	assert_int_equal(closes, 1);
	assert_int_equal(close_code, code);
}

static void test_unmasked(void **state)
{
	(void)state;
	rule_broken("\x81\x01x", 3, 1002);
}

static void test_bad_text(void **state)
{
	(void)state;
	rule_broken("\x81\x81\0\0\0\0\xff", 7, 1007);
}

static void test_too_big(void **state)
{
	(void)state;
	limits.message_bytes = 1000;
	rule_broken("\x82\xfe\x03\xe9\0\0\0\0x", 9, 1009);
}

static void test_at_the_limit(void **state)
{
	char bytes[1000];

	(void)state;
	limits.message_bytes = sizeof(bytes);
	memset(bytes, 'x', sizeof(bytes));
	open_ws();
	put_frame(0x02, bytes, 999);
	for (int i = 0; i < 1000; i++)
		put_frame(0x00, "", 0); /* empty fragments cost nothing */
	put_frame(0x80, "y", 1);
	pump(10);
	assert_int_equal(messages, 1);
	assert_int_equal(buf_len(&heard), 1001);
}

static void test_pause(void **state)
{
	(void)state;
	pause_at_once = true;
	open_ws();
	for (int i = 0; i < 5; i++)
		put_frame(0x82, "m", 1);
	for (int i = 1; i <= 5; i++) {
		pump(4);
		assert_int_equal(messages, i); /* one at a time, though all have arrived */
		websocket_pause(ws, false);
		assert_int_equal(messages, i);
	}
	pump(4);
	assert_int_equal(messages, 5);
	assert_int_equal(closes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_opening),
		TEST(test_echo),
		TEST(test_bytes_behind_the_head),
		TEST(test_we_close),
		TEST(test_close_without_answer),
		TEST(test_close_in_hook),
		TEST(test_peer_closes),
		TEST(test_send_to_a_closed_peer),
		TEST(test_unmasked),
		TEST(test_bad_text),
		TEST(test_too_big),
		TEST(test_at_the_limit),
		TEST(test_pause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
