/* SPDX-License-Identifier: Apache-2.0 */
/* The client against our own server in a thread, and against scripted replies of a faulty one. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "http/client/client.h"
#include "http/server/server.h"
#include "net/listen.h"

static struct loop *loop;
static struct http_server *server;
static pthread_t thread;
static int stop_pipe[2];
static struct loop_watch *stop_watch;
static uint16_t port;
static char url[64];

static void on_body(void *arg, struct http_req *req, int status, struct str body)
{
	(void)arg;
	http_reply(req, status ? 413 : 200, NULL, 0, status ? STR_LIT("too large") : body);
}

static void handler(void *ctx, struct http_req *req)
{
	struct http_header h = { STR_LIT("X-Test"), STR_LIT("yes") };
	struct http_header bye = { STR_LIT("Connection"), STR_LIT("close") };

	(void)ctx;
	if (req->method == HTTP_POST) {
		if (http_req_read_body(req, 1000, on_body, NULL) < 0)
			http_reply_abort(req);
	} else if (str_is(req->path, "/stream")) {
		if (http_reply_start(req, 200, &h, 1) < 0)
			return;
		for (int i = 0; i < 3; i++)
			(void)!http_reply_write(req, "piece ", 6);
		http_reply_end(req);
	} else if (str_is(req->path, "/close")) {
		http_reply(req, 200, &bye, 1, STR_LIT("bye"));
	} else if (str_is(req->path, "/cut")) {
		http_reply_abort(req);
	} else if (str_is(req->path, "/never")) {
		return;
	} else {
		http_reply(req, 200, &h, 1, STR_LIT("hello"));
	}
}

static void on_stop(void *arg, int events, int error)
{
	(void)arg;
	(void)events;
	(void)error;
	loop_watch_free(stop_watch);
	http_server_free(server);
	loop_stop(loop);
}

static void *serve(void *arg)
{
	(void)arg;
	(void)loop_run(loop);
	loop_free(loop);
	return NULL;
}

static int setup(void **state)
{
	struct http_limits limits = http_limits_default;
	int fd;

	(void)state;
	limits.idle_timeout_ms = 100;
	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(http_server_new(loop, &limits, handler, NULL, &server), 0);
	assert_int_equal(listen_open_tcp("127.0.0.1", 0, &fd), 0);
	assert_int_equal(listen_port(fd, &port), 0);
	assert_int_equal(http_server_listen(server, fd), 0);
	assert_int_equal(pipe(stop_pipe), 0);
	assert_int_equal(loop_watch_new(loop, stop_pipe[0], on_stop, NULL, &stop_watch), 0);
	assert_int_equal(loop_watch_set(stop_watch, LOOP_READ), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%u", (unsigned)port);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	assert_int_equal(write(stop_pipe[1], "x", 1), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)close(stop_pipe[0]);
	(void)close(stop_pipe[1]);
	return 0;
}

static int call(struct http_client *client, const char *method, const char *path, struct str body,
		struct http_response *res)
{
	http_response_init(res, 4096);
	return http_client_call(client, method, path, STR_LIT("text/plain"), body, res);
}

static const struct str none = { "", 0 };

static void calls_over_one_connection(void **state)
{
	struct http_client *client;
	struct http_response res;

	(void)state;
	assert_int_equal(http_client_new(url, &client), 0);
	http_client_set_header(client, "Authorization", "Bearer x");
	for (int i = 0; i < 3; i++) {
		assert_int_equal(call(client, "GET", "/", none, &res), 0);
		assert_int_equal(res.status, 200);
		assert_true(str_is(buf_str(&res.body), "hello"));
		assert_true(str_is(http_response_header(&res, "x-test"), "yes"));
		assert_int_equal(http_response_header(&res, "absent").n, 0);
		http_response_done(&res);
	}
	assert_int_equal(call(client, "POST", "/", STR_LIT("echo me"), &res), 0);
	assert_true(str_is(buf_str(&res.body), "echo me"));
	http_response_done(&res);
	assert_int_equal(call(client, "HEAD", "/", none, &res), 0);
	assert_int_equal(buf_len(&res.body), 0);
	http_response_done(&res);
	assert_int_equal(call(client, "GET", "/stream", none, &res), 0);
	assert_true(str_is(buf_str(&res.body), "piece piece piece "));
	http_response_done(&res);
	assert_int_equal(http_server_connections(server), 1);
	assert_int_equal(call(client, "GET", "/close", none, &res), 0);
	assert_true(str_is(buf_str(&res.body), "bye"));
	http_response_done(&res);
	assert_int_equal(call(client, "GET", "/", none, &res), 0);
	http_response_done(&res);
	assert_int_equal(call(client, "GET", "/cut", none, &res), -ECONNRESET);
	http_response_done(&res);
	http_client_free(client);
}

static void a_resting_connection_that_was_closed_is_replaced(void **state)
{
	struct http_client *client;
	struct http_response res;

	(void)state;
	assert_int_equal(http_client_new(url, &client), 0);
	assert_int_equal(call(client, "GET", "/", none, &res), 0);
	http_response_done(&res);
	usleep(300 * 1000); /* the server's idle limit passes */
	assert_int_equal(call(client, "POST", "/", STR_LIT("again"), &res), 0);
	assert_true(str_is(buf_str(&res.body), "again"));
	http_response_done(&res);
	http_client_free(client);
}

static void an_early_refusal_is_read(void **state)
{
	static char big[8 << 20];
	struct http_client *client;
	struct http_response res;

	(void)state;
	assert_int_equal(http_client_new(url, &client), 0);
	assert_int_equal(call(client, "POST", "/", (struct str){ big, sizeof(big) }, &res), 0);
	assert_int_equal(res.status, 413);
	http_response_done(&res);
	http_client_free(client);
}

static void limits_and_timeouts(void **state)
{
	struct http_client *client;
	struct http_response res;

	(void)state;
	assert_int_equal(http_client_new(url, &client), 0);
	http_response_init(&res, 4);
	assert_int_equal(http_client_call(client, "GET", "/", none, none, &res), -EFBIG);
	http_response_done(&res);
	http_response_init(&res, 5);
	assert_int_equal(http_client_call(client, "GET", "/", none, none, &res), 0);
	http_response_done(&res);
	http_client_set_timeout(client, 100, 50);
	assert_int_equal(call(client, "GET", "/never", none, &res), -ETIMEDOUT);
	http_response_done(&res);
	assert_int_equal(call(client, "GET", "/a b", none, &res), -EINVAL);
	http_response_done(&res);
	assert_int_equal(call(client, "GET", "/\r\nX: y", none, &res), -EINVAL);
	http_response_done(&res);
	http_client_free(client);
	assert_int_equal(http_client_new("ftp://a", &client), -EINVAL);
	assert_int_equal(http_client_new("http://a:b", &client), -EINVAL);
	assert_int_equal(http_client_new("unix:", &client), -EINVAL);
	assert_int_equal(http_client_new("http://127.0.0.1:1", &client), 0);
	assert_int_equal(call(client, "GET", "/", none, &res), -ECONNREFUSED);
	http_response_done(&res);
	http_client_free(client);
}

struct script {
	int fd;
	const char *answer;
	int rounds; /* connections served; one request each */
};

static void *play(void *arg)
{
	struct script *s = arg;

	for (int i = 0; i < s->rounds; i++) {
		char drop[4096];
		struct linger reset = { .l_onoff = 0 };
		int fd;

		do
			fd = accept(s->fd, NULL, NULL);
		while (fd < 0);
		(void)!read(fd, drop, sizeof(drop));
		(void)!write(fd, s->answer, strlen(s->answer));
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
		(void)close(fd);
	}
	return NULL;
}

static int scripted(const char *answer, const char *method, char *body, size_t size)
{
	struct script script = { .answer = answer, .rounds = 1 };
	struct http_client *client;
	struct http_response res;
	pthread_t other;
	uint16_t at;
	char where[64];
	int r;

	assert_int_equal(listen_open_tcp("127.0.0.1", 0, &script.fd), 0);
	assert_int_equal(listen_port(script.fd, &at), 0);
	assert_int_equal(pthread_create(&other, NULL, play, &script), 0);
	(void)snprintf(where, sizeof(where), "http://127.0.0.1:%u", (unsigned)at);
	assert_int_equal(http_client_new(where, &client), 0);
	r = call(client, method, "/", none, &res);
	assert_int_equal(str_copy(body, size, buf_str(&res.body)), 0);
	http_response_done(&res);
	http_client_free(client);
	assert_int_equal(pthread_join(other, NULL), 0);
	(void)close(script.fd);
	return r;
}

static void answers_are_read_strictly(void **state)
{
	static const struct {
		int want;
		const char *answer, *body;
	} samples[] = {
		{ 0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi" },
		{ 0, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
		  "hi" },
		{ 0, "HTTP/1.1 200 OK\r\n\r\nuntil close", "until close" },
		{ 0, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
		  "x" },
		{ 0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n\r\n",
		  "hi" },
		{ -EPROTO, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", "hi" },
		{ -EPROTO, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
		  "hi" },
		{ -EPROTO, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxx", "" },
		{ -EPROTO, "HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", "" },
		{ -EPROTO, "SSH-2.0-x\r\n", "" },
		{ -EPROTO, "HTTP/1.1 200", "" },
		{ -EPROTO, "HTTP/1.1 204 No\r\nContent-Length: 2\r\n\r\nhi", "" },
		{ -EPROTO, "HTTP/1.1 101 Up\r\n\r\n", "" },
		{ -ECONNRESET, "", "" },
	};
	char body[64];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		int r = scripted(samples[i].answer, "POST", body, sizeof(body));

		if (r != samples[i].want)
			fail_msg("%s: want %d, got %d", samples[i].answer, samples[i].want, r);
		assert_string_equal(body, samples[i].body);
	}
}

static int collected;

static int on_data(void *arg, const char *p, size_t n)
{
	(void)p;
	collected += (int)n;
	return *(int *)arg;
}

static void streams_go_to_the_callback(void **state)
{
	struct http_client *client;
	struct http_response res;
	int answer = 0;
	const struct http_client_sink sink = { on_data, &answer };

	(void)state;
	assert_int_equal(http_client_new(url, &client), 0);
	http_response_init(&res, 100);
	assert_int_equal(http_client_stream(client, "GET", "/stream", none, none, &res, &sink), 0);
	assert_int_equal(collected, 18);
	assert_int_equal(buf_len(&res.body), 0);
	answer = 1;
	assert_int_equal(http_client_stream(client, "GET", "/stream", none, none, &res, &sink), 0);
	answer = -EIO;
	assert_int_equal(http_client_stream(client, "GET", "/stream", none, none, &res, &sink),
			 -EIO);
	http_response_done(&res);
	http_client_free(client);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(calls_over_one_connection), T(a_resting_connection_that_was_closed_is_replaced),
		T(an_early_refusal_is_read),  T(limits_and_timeouts),
		T(answers_are_read_strictly), T(streams_go_to_the_callback),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
