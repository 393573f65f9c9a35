/* SPDX-License-Identifier: Apache-2.0 */
/* The client side against our own server in a thread. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "http/websocket/websocket.h"
#include "http/websocket/client.h"
#include "net/listen.h"

static struct loop *loop;
static struct http_server *server;
static pthread_t thread;
static int stop_pipe[2];
static struct loop_watch *stop_watch;
static char url[64];
static struct websocket *far;

static struct http_client *client;
static struct http_response res;
static struct websocket_client *ws;
static struct buf heard;
static int messages;

static void far_message(void *arg, bool is_text, struct str bytes)
{
	(void)arg;
	if (is_text && str_is(bytes, "close"))
		websocket_close(far, 4000, "as asked");
	else if (is_text && str_is(bytes, "huge"))
		for (int i = 0; i < 5; i++) {
			static char mib[1 << 20];

			(void)!websocket_send(far, false, STR_LIT(""),
					      (struct str){ mib, sizeof(mib) });
		}
	else
		(void)!websocket_send(far, is_text, bytes, STR_LIT(""));
}

static void handler(void *ctx, struct http_req *req)
{
	static const struct websocket_hooks hooks = { .on_message = far_message };
	static const struct http_header lie[] = {
		{ { "Upgrade", 7 }, { "websocket", 9 } },
		{ { "Connection", 10 }, { "Upgrade", 7 } },
		{ { "Sec-WebSocket-Accept", 20 }, { "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", 28 } },
	};

	(void)ctx;
	if (str_is(req->path, "/lie")) {
		struct str unread;
		int fd;

		assert_int_equal(http_reply_upgrade(req, 101, lie, 3, &fd, &unread), 0);
		(void)close(fd);
	} else if (str_is(req->path, "/no")) {
		http_reply(req, 404, NULL, 0, STR_LIT("{\"error\":{}}"));
	} else if (websocket_accept(req, NULL, &hooks, NULL, &far) == 0) {
		/* Sent together with the head or right after it. */
		(void)!websocket_send(far, true, STR_LIT("welcome"), STR_LIT(""));
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

static void on_message(void *arg, bool is_text, struct str bytes)
{
	assert_ptr_equal(arg, &messages);
	(void)is_text;
	messages++;
	buf_clear(&heard);
	assert_int_equal(buf_append(&heard, bytes.p, bytes.n), 0);
}

static int setup(void **state)
{
	uint16_t port = 0;
	int fd;

	(void)state;
	assert_int_equal(loop_new(&loop), 0);
	assert_int_equal(http_server_new(loop, NULL, handler, NULL, &server), 0);
	assert_int_equal(listen_open_tcp("127.0.0.1", 0, &fd), 0);
	assert_int_equal(listen_port(fd, &port), 0);
	assert_int_equal(http_server_listen(server, fd), 0);
	assert_int_equal(pipe(stop_pipe), 0);
	assert_int_equal(loop_watch_new(loop, stop_pipe[0], on_stop, NULL, &stop_watch), 0);
	assert_int_equal(loop_watch_set(stop_watch, LOOP_READ), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	(void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", port);
	assert_int_equal(http_client_new(url, &client), 0);
	http_response_init(&res, 65536);
	buf_init(&heard, 8 << 20);
	messages = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	websocket_client_free(ws);
	ws = NULL;
	http_client_free(client);
	http_response_done(&res);
	buf_done(&heard);
	assert_int_equal(write(stop_pipe[1], "x", 1), 1);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)close(stop_pipe[0]);
	(void)close(stop_pipe[1]);
	return 0;
}

static int wait_messages(int count)
{
	int r = websocket_client_work(ws);

	while (r == 0 && messages < count) {
		struct pollfd pfd = { websocket_client_fd(ws), websocket_client_events(ws), 0 };

		assert_true(poll(&pfd, 1, 5000) > 0);
		r = websocket_client_work(ws);
	}
	return r;
}

static void test_echo(void **state)
{
	static char bytes[900000];

	(void)state;
	assert_int_equal(websocket_client_open(client, "/ws", &res, on_message, &messages, &ws), 0);
	assert_int_equal(wait_messages(1), 0);
	assert_true(str_is(buf_str(&heard), "welcome"));
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)(i * 31);
	assert_int_equal(websocket_client_send(ws, false, (struct str){ bytes, sizeof(bytes) }), 0);
	assert_int_equal(wait_messages(2), 0);
	assert_int_equal(buf_len(&heard), sizeof(bytes));
	assert_memory_equal(buf_data(&heard), bytes, sizeof(bytes));
	assert_int_equal(websocket_client_send(ws, true, STR_LIT("close")), 0);
	assert_int_equal(wait_messages(3), 1);
	assert_int_equal(websocket_client_code(ws), 4000);
	assert_int_equal(websocket_client_send(ws, true, STR_LIT("x")), -EPIPE);
}

static void test_we_close(void **state)
{
	(void)state;
	assert_int_equal(websocket_client_open(client, "/ws", &res, on_message, &messages, &ws), 0);
	websocket_client_close(ws, 1000);
	assert_int_equal(wait_messages(9), 1);
	assert_int_equal(websocket_client_code(ws), 1000);
}

static void test_many_messages(void **state)
{
	(void)state;
	assert_int_equal(websocket_client_open(client, "/ws", &res, on_message, &messages, &ws), 0);
	assert_int_equal(websocket_client_send(ws, true, STR_LIT("huge")), 0);
	assert_int_equal(wait_messages(6), 0);
	assert_int_equal(buf_len(&heard), 1 << 20);
}

static void test_other_answers(void **state)
{
	(void)state;
	assert_int_equal(websocket_client_open(client, "/no", &res, on_message, &messages, &ws), 1);
	assert_int_equal(res.status, 404);
	assert_true(str_is(buf_str(&res.body), "{\"error\":{}}"));
	http_response_done(&res);
	http_response_init(&res, 65536);
	assert_int_equal(websocket_client_open(client, "/lie", &res, on_message, &messages, &ws),
			 -EPROTO);
	assert_null(ws);
}

static void test_full(void **state)
{
	static char bytes[700000];
	struct str piece = { bytes, sizeof(bytes) };
	int r, sent = 0;

	(void)state;
	assert_int_equal(websocket_client_open(client, "/ws", &res, on_message, &messages, &ws), 0);
	/* Without reading, the echoes fill both directions. */
	for (int i = 0; i < 200; i++) {
		r = websocket_client_send(ws, false, piece);
		if (r < 0)
			break;
		sent++;
	}
	/* Whether it is still full now depends on how fast the other end reads. */
	assert_int_equal(r, -EAGAIN);
	assert_int_equal(wait_messages(sent + 1), 0); /* nothing was lost */
	assert_int_equal(messages, sent + 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_echo),	  TEST(test_we_close), TEST(test_many_messages),
		TEST(test_other_answers), TEST(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
