/* SPDX-License-Identifier: Apache-2.0 */
/* The server's limits: sizes, counts, deadlines, malformed input, draining. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "server_fixture.h"

static void bodies_at_the_limit_and_above(void **state)
{
	char text[512], fill[BODY_LIMIT + 2];

	(void)state;
	start();
	memset(fill, 'x', sizeof(fill));
	for (int n = BODY_LIMIT - 1; n <= BODY_LIMIT + 1; n++) {
		for (int chunked = 0; chunked < 2; chunked++) {
			char framing[64];

			got_len = 0;
			if (chunked)
				(void)snprintf(framing, sizeof(framing),
					       "Transfer-Encoding: chunked\r\n\r\n%x\r\n",
					       (unsigned)n);
			else
				(void)snprintf(framing, sizeof(framing),
					       "Content-Length: %d\r\n\r\n", n);
			(void)snprintf(text, sizeof(text),
				       "POST /body HTTP/1.1\r\nHost: a\r\n%s%.*s%s", framing, n,
				       fill, chunked ? "\r\n0\r\n\r\n" : "");
			put(text);
			if (n <= BODY_LIMIT) {
				assert_false(pump(3));
				assert_int_equal(seen_len, n);
				continue;
			}
			assert_true(pump(3));
			assert_int_equal(body_status, -EFBIG);
			assert_non_null(strstr(got, "HTTP/1.1 413"));
			assert_non_null(strstr(got, "Connection: close"));
			(void)close(peer);
			dial();
		}
	}
}

static void malformed_heads_are_refused_and_nothing_behind_is_read(void **state)
{
	static const struct {
		const char *text;
		const char *status;
	} samples[] = {
		{ "GET / HTTP/1.1\nHost: a\n\n" GET("/"), "HTTP/1.1 400 " },
		{ "GET / HTTP/1.1\r\n\r\n" GET("/"), "HTTP/1.1 400 " },
		{ "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: "
		  "chunked\r\n\r\n"
		  "0\r\n\r\n" GET("/"),
		  "HTTP/1.1 400 " },
		{ "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 505 " },
		{ "POST / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n", "HTTP/1.1 417 " },
	};

	(void)state;
	start();
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		got_len = 0;
		put(samples[i].text);
		assert_true(pump(3));
		assert_int_equal(handled, 0);
		assert_int_equal(count_of("X-Request-Id"), 1);
		assert_non_null(strstr(got, samples[i].status));
		assert_non_null(strstr(got, "Connection: close\r\n"));
		assert_non_null(
			strstr(got, "{\"error\":{\"code\":\"invalid_request\",\"message\":\""));
		(void)close(peer);
		dial();
	}
}

static void malformed_chunks_reach_the_reader_as_an_error(void **state)
{
	(void)state;
	start();
	put("POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0x5\r\nhello" GET(
		"/"));
	assert_true(pump(3));
	assert_int_equal(body_status, -EPROTO);
	assert_int_equal(handled, 1);
	assert_int_equal(count_of("HTTP/1.1 400"), 1);
}

static void large_heads_are_refused(void **state)
{
	(void)state;
	limits.head_bytes = 256;
	limits.header_count = 3;
	start();
	put("GET / HTTP/1.1\r\nHost: a\r\nB: c\r\nD: e\r\n\r\n");
	assert_false(pump(3));
	assert_int_equal(handled, 1);
	put("GET / HTTP/1.1\r\nHost: a\r\nB: c\r\nD: e\r\nF: g\r\n\r\n");
	assert_true(pump(3));
	assert_non_null(strstr(got, "HTTP/1.1 431"));
	assert_non_null(strstr(got, "headers_too_large"));
	(void)close(peer);
	dial();
	put("GET / HTTP/1.1\r\nHost: a\r\nX: ");
	for (int i = 0; i < 30; i++)
		put("0123456789");
	got_len = 0;
	assert_true(pump(3));
	assert_non_null(strstr(got, "HTTP/1.1 431"));
	assert_int_equal(handled, 1);
}

static void a_slow_head_times_out(void **state)
{
	(void)state;
	limits.head_timeout_ms = 400; /* a busy host must not use it up before the last byte */
	start();
	put("GET / HTTP/1.1\r\n");
	for (int i = 0; i < 4; i++) { /* trickling does not help */
		assert_false(pump(5));
		put("A");
	}
	assert_true(pump(4000));
	assert_non_null(strstr(got, "HTTP/1.1 408"));
	assert_non_null(strstr(got, "\"retryable\":true"));
}

static void a_silent_connection_is_closed(void **state)
{
	(void)state;
	limits.head_timeout_ms = 40;
	limits.idle_timeout_ms = 40;
	start();
	assert_true(pump(200));
	assert_int_equal(got_len, 0);
	(void)close(peer);
	dial();
	put(GET("/"));
	assert_true(pump(300));
	assert_int_equal(count_of("HTTP/1.1"), 1);
	assert_int_equal(http_server_connections(server), 0);
}

static void a_slow_body_times_out(void **state)
{
	(void)state;
	limits.body_timeout_ms = 40;
	start();
	put("POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nab");
	(void)pump(200);
	assert_int_equal(body_status, -ETIMEDOUT);
	assert_non_null(strstr(got, "HTTP/1.1 408"));
	assert_non_null(strstr(got, "Connection: close"));
}

static void a_client_that_does_not_read_is_cut(void **state)
{
	static char big[65536];
	struct http_req *req;
	int r = 0;

	(void)state;
	limits.write_timeout_ms = 40;
	start();
	put(GET("/later"));
	loop_turn(loop, 1);
	req = http_req_get(server, last);
	assert_int_equal(http_reply_start(req, 200, NULL, 0), 0);
	http_reply_on_drain(req, on_drain, NULL);
	for (int i = 0; i < 64 && r == 0; i++)
		r = http_reply_write(req, big, sizeof(big));
	assert_int_equal(r, -EAGAIN);
	for (int i = 0; i < 100 && !gone; i++)
		loop_turn(loop, 5);
	assert_int_equal(gone, 1);
	assert_int_equal(drains, 0);
	assert_null(http_req_get(server, last));
}

static void a_patient_answer_waits_longer(void **state)
{
	static char big[65536];
	struct http_req *req;
	int r = 0;

	(void)state;
	limits.write_timeout_ms = 40;
	start();
	put(GET("/later"));
	loop_turn(loop, 1);
	req = http_req_get(server, last);
	assert_int_equal(http_reply_start(req, 200, NULL, 0), 0);
	http_reply_patience(req, 400);
	for (int i = 0; i < 64 && r == 0; i++)
		r = http_reply_write(req, big, sizeof(big));
	for (int i = 0; i < 30 && !gone; i++)
		loop_turn(loop, 5);
	assert_int_equal(gone, 0);
	for (int i = 0; i < 200 && !gone; i++)
		loop_turn(loop, 5);
	assert_int_equal(gone, 1);
}

static void the_watermark_says_when_to_wait_and_when_to_go_on(void **state)
{
	static char big[16384];
	struct http_req *req;
	int r = 0, rounds = 0;

	(void)state;
	start();
	put(GET("/later"));
	loop_turn(loop, 1);
	req = http_req_get(server, last);
	assert_int_equal(http_reply_start(req, 200, NULL, 0), 0);
	http_reply_on_drain(req, on_drain, NULL);
	while (r == 0 && rounds++ < 1000)
		r = http_reply_write(req, big, sizeof(big));
	assert_int_equal(r, -EAGAIN);
	assert_int_equal(drains, 0);
	for (int i = 0; i < 1000 && !drains; i++) {
		got_len = 0;
		pump(1);
	}
	assert_int_equal(drains, 1);
	http_reply_end(http_req_get(server, last));
	assert_false(pump(10));
	assert_true(got_len >= 5 && memcmp(got + got_len - 5, "0\r\n\r\n", 5) == 0);
	got_len = 0;
	put(GET("/"));
	assert_false(pump(3));
	assert_int_equal(count_of("hello"), 1);
}

static void a_wrong_length_is_never_sent(void **state)
{
	struct http_header h = { STR_LIT("Content-Length"), STR_LIT("4") };
	struct http_req *req;

	(void)state;
	start();
	put(GET("/later"));
	pump(2);
	req = http_req_get(server, last);
	assert_int_equal(http_reply_start(req, 200, &h, 1), 0);
	assert_int_equal(http_reply_write(req, "toolong", 7), -EPIPE);
	assert_true(pump(3));
	(void)close(peer);
	dial();
	put(GET("/later"));
	pump(2);
	req = http_req_get(server, last);
	assert_int_equal(http_reply_start(req, 200, &h, 1), 0);
	assert_int_equal(http_reply_write(req, "abc", 3), 0);
	http_reply_end(req);
	assert_true(pump(3));
}

static void a_paused_body_pushes_back(void **state)
{
	static char big[65536];
	size_t sent = 0;
	ssize_t n;

	(void)state;
	start();
	put("POST /pause HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
	for (int i = 0; i < 500; i++) {
		n = send(peer, big, sizeof(big), MSG_NOSIGNAL);
		sent += n > 0 ? (size_t)n : 0;
		loop_turn(loop, 1);
		if (n < 0 && i > 50)
			break;
	}
	assert_true(sent < (size_t)4 << 20);
	assert_int_equal(http_server_connections(server), 1);
}

static void connections_beyond_the_limit_get_a_503(void **state)
{
	int fds[2];

	(void)state;
	limits.connections = 2;
	start();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	assert_int_equal(http_server_adopt(server, fds[0]), 0);
	(void)close(peer);
	peer = fds[1];
	loop_turn(loop, 5); /* the first one has gone: one is free */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	assert_int_equal(http_server_adopt(server, fds[0]), 0);
	(void)close(peer);
	peer = fds[1];
	assert_int_equal(http_server_connections(server), 2);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	assert_int_equal(http_server_adopt(server, fds[0]), -ENOBUFS);
	(void)close(peer);
	peer = fds[1];
	assert_true(drain_peer());
	assert_non_null(strstr(got, "HTTP/1.1 503"));
	assert_non_null(strstr(got, "Retry-After: 1"));
	assert_non_null(strstr(got, "capacity_exceeded"));
}

static void draining_lets_requests_finish(void **state)
{
	int idle;

	(void)state;
	start();
	idle = peer;
	dial();
	put(GET("/later"));
	pump(2);
	http_server_drain(server, 10000, on_drained, NULL);
	assert_int_equal(drained, 0);
	pump(3);
	assert_int_equal(http_server_connections(server), 1);
	assert_int_equal(recv(idle, got, 1, 0), 0);
	(void)close(idle);
	http_reply(http_req_get(server, last), 200, NULL, 0, STR_LIT("done"));
	assert_true(pump(3));
	assert_non_null(strstr(got, "Connection: close"));
	assert_non_null(strstr(got, "done"));
	pump(2);
	assert_int_equal(drained, 1);
}

static void draining_ends_after_its_grace(void **state)
{
	(void)state;
	start();
	put(GET("/later"));
	pump(2);
	http_server_drain(server, 20, on_drained, NULL);
	for (int i = 0; i < 100 && !drained; i++)
		loop_turn(loop, 5);
	assert_int_equal(drained, 1);
	assert_int_equal(gone, 1);
	assert_int_equal(http_server_connections(server), 0);
}

static int dial_from(const struct sockaddr_in *to, const char *from)
{
	struct sockaddr_in own = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(inet_pton(AF_INET, from, &own.sin_addr), 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)to, sizeof(*to)), 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	for (int i = 0; i < 5; i++)
		loop_turn(loop, 1);
	return fd;
}

static bool is_refused(int fd)
{
	char text[64] = "";

	return recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT) > 0 && strstr(text, " 503 ");
}

/* One address gets 6 of 8; what is left is for others. */
static void one_address_leaves_some_connections_to_others(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), fds[9];

	(void)state;
	limits.connections = 9; /* one is the fixture's own */
	start();
	assert_int_equal(inet_pton(AF_INET, "127.0.0.1", &at.sin_addr), 1);
	assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(listener, 16), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	assert_int_equal(http_server_listen(server, listener), 0);
	for (int i = 0; i < 7; i++) {
		fds[i] = dial_from(&at, "127.0.0.1");
		assert_int_equal(is_refused(fds[i]), i == 6);
	}
	fds[7] = dial_from(&at, "127.0.0.2");
	assert_false(is_refused(fds[7]));
	(void)close(fds[0]); /* its place is free again */
	for (int i = 0; i < 5; i++)
		loop_turn(loop, 1);
	fds[8] = dial_from(&at, "127.0.0.1");
	assert_false(is_refused(fds[8]));
	for (int i = 1; i < 9; i++)
		(void)close(fds[i]);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(bodies_at_the_limit_and_above),
		T(malformed_heads_are_refused_and_nothing_behind_is_read),
		T(malformed_chunks_reach_the_reader_as_an_error),
		T(large_heads_are_refused),
		T(a_slow_head_times_out),
		T(a_silent_connection_is_closed),
		T(a_slow_body_times_out),
		T(a_client_that_does_not_read_is_cut),
		T(a_patient_answer_waits_longer),
		T(the_watermark_says_when_to_wait_and_when_to_go_on),
		T(a_wrong_length_is_never_sent),
		T(a_paused_body_pushes_back),
		T(connections_beyond_the_limit_get_a_503),
		T(one_address_leaves_some_connections_to_others),
		T(draining_lets_requests_finish),
		T(draining_ends_after_its_grace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
