/* SPDX-License-Identifier: Apache-2.0 */
/* POSTs to a scripted server: what is sent, which replies count, limits, and cancelling. */
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/time.h"
#include "http/client/post.h"
#include "net/listen.h"

static struct loop *loop;
static struct poster *poster;
static int server = -1;
static char url[64];
static int calls, status, error;

static void on_done(void *arg, int got_status, int got_error)
{
	(void)arg;
	calls++;
	status = got_status;
	error = got_error;
}

static void open_poster(bool private_ok, uint32_t limit)
{
	struct http_poster_config config = { .loop = loop,
					     .user_agent = "cay/test",
					     .private_ok = private_ok };

	assert_int_equal(http_poster_new(&config, limit, &poster), 0);
}

static int setup(void **state)
{
	uint16_t port;

	(void)state;
	(void)signal(SIGPIPE, SIG_IGN);
	calls = status = error = 0;
	assert_int_equal(loop_new(&loop), 0);
	open_poster(true, 4);
	assert_int_equal(listen_open_tcp("127.0.0.1", 0, &server), 0);
	assert_int_equal(listen_port(server, &port), 0);
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/hook?a=b", port);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	http_poster_free(poster);
	(void)close(server);
	loop_free(loop);
	return 0;
}

static uint64_t start(const char *to, const char *body, int64_t timeout_ms)
{
	static const struct poster_header headers[] = { { "Cay-Test", "yes" } };
	struct poster_request request = { .url = to,
					  .headers = headers,
					  .header_count = 1,
					  .body = str_of(body),
					  .timeout_ms = timeout_ms };
	uint64_t handle = 0;

	assert_int_equal(poster->post(poster, &request, on_done, NULL, &handle), 0);
	assert_int_equal(calls, 0);
	return handle;
}

static int64_t deadline(void)
{
	return time_mono_us() + 20 * 1000000LL;
}

static int take(void)
{
	for (int64_t end = deadline(); time_mono_us() < end;) {
		int fd = accept4(server, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0)
			return fd;
		loop_turn(loop, 5);
	}
	fail_msg("nobody connects");
	return -1;
}

static void read_request(int fd, const char *until, char *text, size_t size)
{
	size_t n = 0;

	text[0] = '\0';
	for (int64_t end = deadline(); !strstr(text, until) && time_mono_us() < end;) {
		ssize_t got = read(fd, text + n, size - n - 1);

		if (got > 0)
			n += (size_t)got;
		text[n] = '\0';
		loop_turn(loop, 1);
	}
	assert_non_null(strstr(text, until));
}

static void wait_done(void)
{
	for (int64_t end = deadline(); !calls && time_mono_us() < end;)
		loop_turn(loop, 5);
	assert_int_equal(calls, 1);
}

static void answer(int fd, const char *text)
{
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static void test_request(void **state)
{
	char text[4096];
	int fd;

	(void)state;
	(void)start(url, "{\"a\":1}", 30000);
	fd = take();
	read_request(fd, "{\"a\":1}", text, sizeof(text));
	assert_true(str_starts(str_of(text), "POST /hook?a=b HTTP/1.1\r\nHost: 127.0.0.1:"));
	assert_non_null(strstr(text, "\r\nContent-Length: 7\r\n"));
	assert_non_null(strstr(text, "\r\nContent-Type: application/json\r\n"));
	assert_non_null(strstr(text, "\r\nUser-Agent: cay/test\r\n"));
	assert_non_null(strstr(text, "\r\nCay-Test: yes\r\n"));
	answer(fd, "HTTP/1.1 100 Continue\r\n\r\n");
	answer(fd, "HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok");
	wait_done();
	assert_int_equal(status, 202);
	(void)close(fd);
}

static void expect_answer(const char *text, bool close_it, int want_status, int want_error)
{
	char got[4096];
	int fd;

	calls = 0;
	(void)start(url, "{}", 30000);
	fd = take();
	read_request(fd, "{}", got, sizeof(got));
	answer(fd, text);
	if (close_it)
		(void)close(fd);
	wait_done();
	if (!close_it)
		(void)close(fd);
	assert_int_equal(status, want_status);
	assert_int_equal(error, want_error);
}

static void test_answers(void **state)
{
	(void)state;
	expect_answer("HTTP/1.1 204 No Content\r\n\r\n", false, 204, 0);
	expect_answer("HTTP/1.1 200 OK\r\n\r\nuntil the end", true, 200, 0);
	expect_answer("HTTP/1.0 500 Bad\r\nContent-Length: 100\r\n\r\ncut", true, 500, 0);
	expect_answer("HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\n"
		      "Content-Length: 0\r\n\r\n",
		      false, 302, 0);
	expect_answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		      true, 200, 0);
	expect_answer("HTTP/1.1 200 OK\r\nContent-L", true, 0, -ECONNRESET);
	expect_answer("SMTP ready\r\n\r\n", false, 0, -EPROTO);
	expect_answer("HTTP/1.1 101 Switching Protocols\r\n\r\n", false, 0, -EPROTO);
}

/* An endless reply: the status counts, the rest is not read. */
static void test_endless_answer(void **state)
{
	char block[4096], got[4096];
	int fd;

	(void)state;
	memset(block, 'x', sizeof(block));
	(void)start(url, "{}", 30000);
	fd = take();
	read_request(fd, "{}", got, sizeof(got));
	answer(fd, "HTTP/1.1 200 OK\r\n\r\n");
	for (int64_t end = deadline(); !calls && time_mono_us() < end;) {
		(void)!write(fd, block, sizeof(block));
		loop_turn(loop, 1);
	}
	assert_int_equal(calls, 1);
	assert_int_equal(status, 200);
	(void)close(fd);
}

static void test_endless_head(void **state)
{
	char block[1024], got[4096];
	int fd;

	(void)state;
	memset(block, 'x', sizeof(block));
	memcpy(block, "X-A: ", 5);
	memcpy(block + sizeof(block) - 2, "\r\n", 2);
	(void)start(url, "{}", 30000);
	fd = take();
	read_request(fd, "{}", got, sizeof(got));
	answer(fd, "HTTP/1.1 200 OK\r\n");
	for (int64_t end = deadline(); !calls && time_mono_us() < end;) {
		(void)!write(fd, block, sizeof(block));
		loop_turn(loop, 1);
	}
	assert_int_equal(calls, 1);
	assert_int_equal(error, -EPROTO);
	(void)close(fd);
}

/* The kernel accepts the connection, but no reply comes. */
static void test_time(void **state)
{
	(void)state;
	(void)start(url, "{}", 50);
	wait_done();
	assert_int_equal(error, -ETIMEDOUT);
}

static void test_refused(void **state)
{
	(void)state;
	(void)close(server);
	server = -1;
	(void)start(url, "{}", 30000);
	wait_done();
	assert_int_equal(error, -ECONNREFUSED);
}

/* However it is written, a private address is not reached unless the operator allows it. */
static void test_private(void **state)
{
	static const char *const near[] = { "127.0.0.1",  "[::1]",	    "[::ffff:127.0.0.1]",
					    "2130706433", "0x7f.1",	    "127.1",
					    "0",	  "169.254.169.254" };
	uint16_t port;

	(void)state;
	assert_int_equal(listen_port(server, &port), 0);
	http_poster_free(poster);
	open_poster(false, 4);
	for (size_t i = 0; i < ARRAY_LEN(near); i++) {
		char to[64];

		(void)snprintf(to, sizeof(to), "http://%s:%u/", near[i], port);
		calls = 0;
		(void)start(to, "{}", 30000);
		wait_done();
		assert_int_equal(status, 0);
		if (error != -EPERM)
			fail_msg("%s: error %d", to, error);
	}
	assert_true(accept4(server, NULL, NULL, SOCK_NONBLOCK) < 0);
}

static void test_cancel_and_limit(void **state)
{
	struct poster_request request = { .url = url, .body = STR_LIT("{}"), .timeout_ms = 30000 };
	uint64_t handles[4], more;

	(void)state;
	for (int i = 0; i < 4; i++)
		handles[i] = start(url, "{}", 30000);
	assert_int_equal(poster->post(poster, &request, on_done, NULL, &more), -ENOBUFS);
	for (int i = 0; i < 4; i++) {
		poster->cancel(poster, handles[i]);
		loop_turn(loop, 10); /* in every state, also while a worker looks up */
	}
	poster->cancel(poster, handles[0]);
	loop_turn(loop, 20);
	assert_int_equal(calls, 0);
	request.url = "http://user@x/";
	assert_int_equal(poster->post(poster, &request, on_done, NULL, &more), -EINVAL);
	(void)start(url, "{}", 30000); /* cut by the end */
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_request),	   TEST(test_answers),
		TEST(test_endless_answer), TEST(test_endless_head),
		TEST(test_time),	   TEST(test_refused),
		TEST(test_private),	   TEST(test_cancel_and_limit),
	};

	return cmocka_run_group_tests_name("post", tests, NULL, NULL);
}
