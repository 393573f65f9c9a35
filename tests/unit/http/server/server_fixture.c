/* SPDX-License-Identifier: Apache-2.0 */
#include "server_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/socket.h>

#include <cmocka.h>

struct loop *loop;
struct http_server *server;
struct http_limits limits;
int peer; /* the client's end */
char got[1 << 20];
size_t got_len;
int handled, gone, drained, drains, body_status;
slot_handle last;
char seen_body[4096];
size_t seen_len;
static bool inside;
int upgraded_fd;
char unread[64];

static void on_gone(void *arg)
{
	(void)arg;
	gone++;
	assert_non_null(http_req_get(server, last));
	http_reply(http_req_get(server, last), 200, NULL, 0, STR_LIT("nobody hears"));
}

static void on_body(void *arg, struct http_req *req, int status, struct str body)
{
	(void)arg;
	assert_false(inside);
	body_status = status;
	memcpy(seen_body, body.p, body.n);
	seen_len = body.n;
	if (status == 0)
		http_reply(req, 200, NULL, 0, body);
	else
		http_reply(req,
			   status == -EFBIG	  ? 413
			   : status == -ETIMEDOUT ? 408
						  : 400,
			   NULL, 0, STR_LIT("no"));
}

static void on_piece(void *arg, struct http_req *req, int status, const char *p, size_t n)
{
	(void)arg;
	body_status = status;
	if (n == 0) {
		http_reply(req, status ? 400 : 200, NULL, 0, STR_LIT("streamed"));
		return;
	}
	if (seen_len + n <= sizeof(seen_body))
		memcpy(seen_body + seen_len, p, n);
	seen_len += n;
	if (req->path.n == 6) /* /pause */
		http_req_pause_body(req, true);
}

void on_drain(void *arg)
{
	(void)arg;
	drains++;
}

static void stream(struct http_req *req)
{
	struct http_header h = { STR_LIT("Content-Type"), STR_LIT("text/event-stream") };

	assert_int_equal(http_reply_start(req, 200, &h, 1), 0);
	assert_int_equal(http_reply_write(req, "one", 3), 0);
	assert_int_equal(http_reply_write(req, "", 0), 0);
	assert_int_equal(http_reply_write(req, "two", 3), 0);
	http_reply_end(req);
}

static void sized(struct http_req *req)
{
	struct http_header h = { STR_LIT("Content-Length"), STR_LIT("6") };

	assert_int_equal(http_reply_start(req, 200, &h, 1), 0);
	assert_int_equal(http_reply_write(req, "sized!", 6), 0);
	http_reply_end(req);
}

static void upgrade(struct http_req *req)
{
	struct http_header h[] = { { STR_LIT("Connection"), STR_LIT("Upgrade") },
				   { STR_LIT("Upgrade"), STR_LIT("echo") } };
	struct str rest;

	assert_true(req->upgrade);
	assert_int_equal(http_reply_upgrade(req, 101, h, 2, &upgraded_fd, &rest), 0);
	assert_int_equal(str_copy(unread, sizeof(unread), rest), 0);
}

static void hello(struct http_req *req)
{
	struct http_header h[] = { { STR_LIT("Content-Type"), STR_LIT("text/plain") },
				   { STR_LIT("X-Evil"), STR_LIT("a\r\nSet-Cookie: b") },
				   { STR_LIT("Transfer-Encoding"), STR_LIT("gzip") } };

	http_reply(req, 200, h, 3, STR_LIT("hello"));
}

static void handler(void *ctx, struct http_req *req)
{
	(void)ctx;
	handled++;
	last = req->handle;
	inside = true;
	assert_ptr_equal(http_req_get(server, last), req);
	if (str_is(req->path, "/body"))
		assert_int_equal(http_req_read_body(req, BODY_LIMIT, on_body, NULL), 0);
	else if (str_is(req->path, "/piece") || str_is(req->path, "/pause"))
		assert_int_equal(http_req_stream_body(req, on_piece, NULL), 0);
	else if (str_is(req->path, "/later"))
		http_req_on_gone(req, on_gone, NULL);
	else if (str_is(req->path, "/stream"))
		stream(req);
	else if (str_is(req->path, "/sized"))
		sized(req);
	else if (str_is(req->path, "/upgrade"))
		upgrade(req);
	else if (str_is(req->path, "/204"))
		http_reply(req, 204, NULL, 0, STR_LIT(""));
	else
		hello(req);
	inside = false;
}

void dial(void)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	assert_int_equal(http_server_adopt(server, fds[0]), 0);
	peer = fds[1];
}

void start(void)
{
	assert_int_equal(http_server_new(loop, &limits, handler, NULL, &server), 0);
	dial();
}

int setup(void **state)
{
	(void)state;
	handled = gone = drained = drains = body_status = 0;
	seen_len = got_len = 0;
	upgraded_fd = -1;
	unread[0] = '\0';
	limits = http_limits_default;
	assert_int_equal(loop_new(&loop), 0);
	return 0;
}

int teardown(void **state)
{
	(void)state;
	if (peer >= 0)
		(void)close(peer);
	http_server_free(server);
	loop_free(loop);
	return 0;
}

/* Reads everything available. True at the end of the stream. */
bool drain_peer(void)
{
	ssize_t n;

	while ((n = recv(peer, got + got_len, sizeof(got) - 1 - got_len, 0)) > 0)
		got_len += (size_t)n;
	got[got_len] = '\0';
	return n == 0 || (n < 0 && errno == ECONNRESET);
}

bool pump(int turns)
{
	bool end = false;

	for (int i = 0; i < turns && !end; i++) {
		loop_turn(loop, 1);
		end = drain_peer();
	}
	return end;
}

void put(const char *text)
{
	assert_int_equal(send(peer, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

int count_of(const char *needle)
{
	int n = 0;

	for (const char *p = got; (p = strstr(p, needle)); p += strlen(needle))
		n++;
	return n;
}

void on_drained(void *arg)
{
	(void)arg;
	drained++;
}
