/* SPDX-License-Identifier: Apache-2.0 */
#include "websocket_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/time.h"
#include "http/websocket/frame.h"

struct loop *loop;
struct http_server *server;
struct websocket *ws;
struct websocket_limits limits;
int peer, accepted, check;
const char *why;
int messages, drains, closes, close_code, drained;
bool echo, pause_at_once, close_at_once;
struct buf heard;
struct buf in;
static bool inside;

static void on_message(void *arg, bool is_text, struct str bytes)
{
	assert_ptr_equal(arg, &ws);
	assert_false(inside);
	assert_int_equal(closes, 0);
	messages++;
	assert_int_equal(buf_append(&heard, bytes.p, bytes.n), 0);
	assert_int_equal(buf_putc(&heard, '|'), 0);
	if (echo)
		(void)!websocket_send(ws, is_text, STR_LIT("re:"), bytes);
	if (pause_at_once)
		websocket_pause(ws, true);
	if (close_at_once)
		websocket_close(ws, 4000, "enough");
}

static void on_drain(void *arg)
{
	(void)arg;
	assert_false(inside);
	drains++;
}

static void on_close(void *arg, int code)
{
	(void)arg;
	assert_false(inside);
	closes++;
	close_code = code;
	assert_int_equal(websocket_send(ws, false, STR_LIT("x"), STR_LIT("")), -EPIPE);
	websocket_close(ws, 1000, NULL);
	ws = NULL;
}

static void handler(void *ctx, struct http_req *req)
{
	static const struct websocket_hooks hooks = { on_message, on_drain, on_close };

	(void)ctx;
	check = websocket_check(req, &why);
	inside = true;
	accepted = websocket_accept(req, &limits, &hooks, &ws, &ws);
	inside = false;
	if (accepted == -EPROTONOSUPPORT)
		http_reply(req, 426, websocket_refusal_headers, WEBSOCKET_REFUSAL_HEADER_COUNT,
			   str_of(why));
	else if (accepted < 0)
		http_reply(req, 400, NULL, 0, str_of(why));
}

void on_drained(void *arg)
{
	(void)arg;
	drained++;
}

int setup(void **state)
{
	int pair[2];

	(void)state;
	limits = websocket_limits_default;
	ws = NULL;
	messages = drains = closes = close_code = drained = 0;
	echo = pause_at_once = close_at_once = false;
	buf_init(&heard, 64 << 20);
	buf_init(&in, 64 << 20);
	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(http_server_new(loop, NULL, handler, NULL, &server), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	peer = pair[0];
	assert_int_equal(fcntl(peer, F_SETFL, O_NONBLOCK), 0);
	return http_server_adopt(server, pair[1]);
}

int teardown(void **state)
{
	bool open = ws != NULL;

	(void)state;
	http_server_free(server);
	assert_int_equal(closes, open ? 1 : closes);
	for (int i = 0; i < 3; i++)
		loop_turn(loop, 0);
	loop_free(loop);
	if (peer >= 0)
		(void)close(peer);
	buf_done(&heard);
	buf_done(&in);
	return 0;
}

bool drain_peer(void)
{
	char bytes[65536];
	ssize_t n;

	while ((n = read(peer, bytes, sizeof(bytes))) > 0)
		assert_int_equal(buf_append(&in, bytes, (size_t)n), 0);
	return n == 0;
}

bool pump(int turns)
{
	bool end = false;

	for (int i = 0; i < turns; i++) {
		loop_turn(loop, 0);
		end = drain_peer() || end;
	}
	return end;
}

void wait_ms(int ms)
{
	int64_t until = time_boot_ms() + ms;

	while (time_boot_ms() < until)
		loop_turn(loop, 10);
}

void put(const void *p, size_t n)
{
	for (size_t at = 0; at < n;) {
		ssize_t sent = send(peer, (const char *)p + at, n - at, MSG_NOSIGNAL);

		if (sent > 0)
			at += (size_t)sent;
		else
			loop_turn(loop, 0);
	}
}

void put_frame(unsigned int first, const char *payload, size_t n)
{
	unsigned char head[WEBSOCKET_HEAD_MAX], mask[4] = { 9, 8, 7, 6 };
	size_t len = websocket_put_head(head, WEBSOCKET_BINARY, n, mask);
	char *bytes = malloc(len + n);

	assert_non_null(bytes);
	head[0] = (unsigned char)first;
	memcpy(bytes, head, len);
	for (size_t i = 0; i < n; i++)
		bytes[len + i] = (char)(payload[i] ^ mask[i % 4]);
	put(bytes, len + n);
	free(bytes);
}

int take_frame(struct str *ret)
{
	unsigned char *p = (unsigned char *)buf_data(&in);
	size_t n = buf_len(&in), head = 2, len;

	if (n < 2)
		return -1;
	assert_false(p[1] & 0x80);
	len = p[1];
	if (len == 126) {
		len = (size_t)p[2] << 8 | p[3];
		head = 4;
	} else if (len == 127) {
		len = (size_t)p[6] << 24 | (size_t)p[7] << 16 | (size_t)p[8] << 8 | p[9];
		head = 10;
	}
	if (n < head + len)
		return -1;
	*ret = (struct str){ (char *)p + head, len };
	in.head += head + len; /* the view stays */
	return p[0];
}

void take_close(int code)
{
	struct str got;

	assert_int_equal(take_frame(&got), 0x88);
	assert_true(got.n >= 2);
	assert_int_equal((unsigned char)got.p[0] << 8 | (unsigned char)got.p[1], code);
}

void open_ws(void)
{
	struct str head;
	const char *end;

	put(OPENING, sizeof(OPENING) - 1);
	pump(3);
	assert_int_equal(accepted, 0);
	assert_non_null(ws);
	head = buf_str(&in);
	assert_true(str_starts(head, "HTTP/1.1 101 Switching Protocols\r\n"));
	assert_non_null(memmem(head.p, head.n,
			       "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", 52));
	assert_non_null(memmem(head.p, head.n, "Connection: Upgrade\r\n", 21));
	end = memmem(head.p, head.n, "\r\n\r\n", 4);
	assert_non_null(end);
	buf_consume(&in, (size_t)(end + 4 - head.p));
	assert_int_equal(websocket_count(server), 1);
}
