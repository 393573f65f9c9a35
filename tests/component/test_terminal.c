/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Terminals over WebSockets: bytes in both directions, control messages, replay, slow ends, limits.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/time.h"
#include "inside.h"

/* ---- a WebSocket client by hand ---- */

struct socket {
	struct request req; /* all bytes that came */
	size_t at;	    /* of the first frame not looked at */
	int code;	    /* of the close */
};

static void ws_send_head(struct socket *ws, const char *path, const char *headers)
{
	char text[1024];
	int ends[2], n;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends),
			 0);
	assert_int_equal(http_server_adopt(world.server, ends[1]), 0);
	n = snprintf(text, sizeof(text),
		     "GET /v1/sandboxes/%s%s HTTP/1.1\r\nHost: localhost\r\n"
		     "Authorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		     "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
		     "%s\r\n",
		     sandbox, path, world.admin, headers);
	*ws = (struct socket){ .req = { .fd = ends[0] } };
	assert_int_equal(write(ws->req.fd, text, (size_t)n), n);
}

static void ws_open(struct socket *ws, const char *path)
{
	ws_send_head(ws, path, "");
	(void)request_until(&ws->req, "\r\n\r\n");
	if (strncmp(ws->req.bytes, "HTTP/1.1 101 ", 13) != 0)
		fail_msg("%s", ws->req.bytes);
	ws->at = ws->req.seen;
}

/* The status of a refused opening. */
static int ws_refused(const char *path, const char *headers)
{
	struct socket ws;
	int status;

	ws_send_head(&ws, path, headers);
	(void)request_until(&ws.req, "\r\n\r\n");
	status = atoi(ws.req.bytes + 9);
	request_drop(&ws.req);
	return status;
}

static void ws_send(struct socket *ws, int opcode, const void *bytes, size_t n)
{
	unsigned char *frame = malloc(n + 14);
	size_t head = 2;

	frame[0] = (unsigned char)(0x80 | opcode);
	if (n < 126) {
		frame[1] = (unsigned char)(0x80 | n);
	} else {
		frame[1] = 0x80 | 127;
		for (int i = 0; i < 8; i++)
			frame[2 + i] = (unsigned char)((uint64_t)n >> (56 - 8 * i));
		head = 10;
	}
	memset(frame + head, 0, 4); /* a mask that changes nothing */
	memcpy(frame + head + 4, bytes, n);
	for (size_t at = 0; at < head + 4 + n;) {
		ssize_t r = write(ws->req.fd, frame + at, head + 4 + n - at);

		if (r < 0 && errno == EAGAIN)
			loop_turn(world.loop, 1);
		else if (r < 0)
			break;
		else
			at += (size_t)r;
	}
	free(frame);
}

static void ws_say(struct socket *ws, const char *text)
{
	ws_send(ws, 1, text, strlen(text));
}

static void ws_type(struct socket *ws, const char *text)
{
	ws_send(ws, 2, text, strlen(text));
}

/* The next frame if it is complete: its opcode; 0: not yet. */
static int ws_frame(struct socket *ws, struct str *ret)
{
	const unsigned char *p;
	size_t have, head = 2, n;

	(void)request_ended(&ws->req);
	p = (unsigned char *)ws->req.bytes + ws->at;
	have = ws->req.n - ws->at;
	if (have < 2)
		return 0;
	n = p[1] & 127;
	if (n == 126) {
		if (have < 4)
			return 0;
		n = (size_t)p[2] << 8 | p[3];
		head = 4;
	} else if (n == 127) {
		if (have < 10)
			return 0;
		n = 0;
		for (int i = 0; i < 8; i++)
			n = n << 8 | p[2 + i];
		head = 10;
	}
	if (have < head + n)
		return 0;
	*ret = (struct str){ (const char *)p + head, n };
	ws->at += head + n;
	return p[0] & 15;
}

static int ws_next(struct socket *ws, struct str *ret)
{
	int64_t end_us = time_mono_us() + WORLD_WAIT_US;
	int opcode;

	while (!(opcode = ws_frame(ws, ret))) {
		if (time_mono_us() > end_us)
			fail_msg("no frame arrived in time");
		loop_turn(world.loop, 5);
	}
	return opcode;
}

/* A text message that contains this; earlier ones are skipped. */
static void ws_expect(struct socket *ws, const char *text)
{
	struct str s;

	for (;;) {
		int opcode = ws_next(ws, &s);

		if (opcode == 8)
			fail_msg("closed before '%s'", text);
		if (opcode == 1 && memmem(s.p, s.n, text, strlen(text)))
			return;
	}
}

/* Binary messages with this content in total. */
static void ws_expect_bytes(struct socket *ws, const char *text)
{
	size_t want = strlen(text);
	struct str s;

	while (want) {
		int opcode = ws_next(ws, &s);

		if (opcode != 2 || s.n > want || memcmp(s.p, text, s.n) != 0)
			fail_msg("opcode %d, not '%s': %.*s", opcode, text, (int)s.n, s.p);
		text += s.n;
		want -= s.n;
	}
}

static int ws_closed(struct socket *ws)
{
	struct str s;

	while (ws_next(ws, &s) != 8)
		;
	return s.n >= 2 ? (unsigned char)s.p[0] << 8 | (unsigned char)s.p[1] : 0;
}

static void ws_drop(struct socket *ws)
{
	request_drop(&ws->req);
	world_turns(10);
}

/* ---- tests ---- */

static void test_pty(void **state)
{
	struct socket ws;
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	ws_open(&ws, "/pty?cols=100&rows=30&cwd=/tmp&user=root");
	ws_expect(&ws, "{\"type\":\"started\",\"process_id\":");
	a = get("/processes");
	assert_non_null(strstr(a->body, "\"tty\":true,\"cols\":100,\"rows\":30"));
	assert_non_null(strstr(a->body, "\"user\":\"root\""));
	ws_type(&ws, "ls\r");
	ws_expect_bytes(&ws, "ls\r"); /* the terminal's echo; then the program's */
	ws_say(&ws, "{\"type\":\"resize\",\"cols\":50,\"rows\":20}");
	world_turns(20);
	assert_non_null(strstr(get("/processes")->body, "\"cols\":50,\"rows\":20"));
	ws_say(&ws, "{\"type\":\"signal\",\"signal\":\"KILL\"}");
	ws_expect(&ws, "{\"type\":\"exit\",\"exit_code\":137,\"signal\":9,"
		       "\"reason\":\"killed_by_request\"");
	assert_int_equal(ws_closed(&ws), 1000);
	ws_drop(&ws);
}

static void test_bad_control(void **state)
{
	static const char *const bad[] = {
		"{}",
		"[]",
		"no json",
		"{\"type\":\"dance\"}",
		"{\"type\":\"resize\"}",
		"{\"type\":\"resize\",\"cols\":0,\"rows\":1}",
		"{\"type\":\"resize\",\"cols\":4097,\"rows\":1}",
		"{\"type\":\"signal\"}",
		"{\"type\":\"signal\",\"signal\":\"NOPE\"}",
		"{\"type\":\"close_stdin\",\"x\":1}",
	};
	struct socket ws;

	(void)state;
	new_sandbox("{}");
	ws_open(&ws, "/pty");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		ws_say(&ws, bad[i]);
		ws_expect(&ws, "{\"type\":\"error\",\"code\":\"invalid_request\"");
	}
	ws_type(&ws, "on"); /* and it continues */
	ws_expect_bytes(&ws, "on");
	ws_drop(&ws);
}

static void test_refusals(void **state)
{
	struct answer *a;

	(void)state;
	new_sandbox("{}");
	assert_int_equal(ws_refused("/pty?cols=0", ""), 400);
	assert_int_equal(ws_refused("/pty?rows=4097", ""), 400);
	assert_int_equal(ws_refused("/pty?x=1", ""), 400);
	assert_int_equal(ws_refused("/pty?shell=/bin/none", ""), 400);
	assert_int_equal(ws_refused("/processes/9/attach", ""), 404);
	assert_int_equal(ws_refused("/processes/none/attach", ""), 404);
	assert_int_equal(ws_refused("/pty", "Origin: http://evil.example\r\n"), 403);
	assert_int_equal(ws_refused("/pty", "Origin: http://localhost\r\n"), 101);
	a = get("/pty");
	expect_status(a, 426);
	assert_string_equal(error_code(a), "upgrade_required");
	assert_non_null(strstr(a->head, "Upgrade: websocket\r\n"));
	expect_status(call_as(NULL, "GET", path_of("/v1/sandboxes/%s/pty", sandbox), NULL), 401);
	expect_status(post("/processes", "{\"command\":\"echo 12345\",\"name\":\"e\"}"), 201);
	assert_int_equal(ws_refused("/processes/e/attach?cursor=7", ""), 400);
	assert_int_equal(ws_refused("/processes/e/attach?cursor=x", ""), 400);
	assert_int_equal(ws_refused("/processes/e/attach?tail=x", ""), 400);
}

static void test_detach_and_attach(void **state)
{
	struct socket one, two;

	(void)state;
	new_sandbox("{}");
	expect_status(post("/processes", "{\"command\":\"size\",\"name\":\"t\","
					 "\"tty\":{\"cols\":80,\"rows\":24}}"),
		      201);
	ws_open(&one, "/processes/t/attach");
	ws_expect(&one, "\"type\":\"started\"");
	/* Earlier output, then a size that changes briefly, so that programs redraw. */
	ws_expect_bytes(&one, "80x24\n80x23\n80x24\n");
	ws_drop(&one);
	ws_open(&one, "/processes/t/attach?cursor=6");
	ws_expect(&one, "\"cursor\":6}");
	ws_expect_bytes(&one, "80x23\n80x24\n");
	ws_open(&two, "/processes/t/attach?tail=3");
	ws_expect(&two, "\"cursor\":15}");
	ws_say(&two, "{\"type\":\"resize\",\"cols\":9,\"rows\":9}");
	world_turns(20);
	ws_expect_bytes(&one, "80x23\n80x24\n9x9\n"); /* two came without a cursor */
	ws_drop(&two);
	ws_say(&one, "{\"type\":\"close_stdin\"}");
	ws_expect(&one, "\"type\":\"exit\",\"exit_code\":0");
	assert_int_equal(ws_closed(&one), 1000);
	ws_drop(&one);
	/* The end can be read again, with all output that is kept. */
	ws_open(&one, "/processes/t/attach?cursor=0");
	ws_expect(&one, "\"type\":\"exit\"");
	ws_drop(&one);
}

static void test_without_terminal(void **state)
{
	struct socket ws;

	(void)state;
	new_sandbox("{}");
	expect_status(post("/processes", "{\"command\":\"error bad\",\"name\":\"e\"}"), 201);
	ws_open(&ws, "/processes/e/attach");
	ws_expect(&ws, "{\"type\":\"stderr\",\"data_b64\":\"YmFkCg==\"}");
	ws_expect(&ws, "\"type\":\"exit\"");
	ws_drop(&ws);
	expect_status(post("/processes", "{\"command\":\"cat\",\"name\":\"c\"}"), 201);
	ws_open(&ws, "/processes/c/attach");
	ws_send(&ws, 2, "\0\xff\n", 3);
	ws_expect(&ws, "started");
	ws_say(&ws, "{\"type\":\"close_stdin\"}");
	ws_expect(&ws, "\"stdout_bytes\":3");
	ws_drop(&ws);
}

static void test_gap(void **state)
{
	struct socket ws;

	(void)state;
	new_sandbox("{}");
	expect_status(post("/processes", "{\"command\":\"spew 1100000\",\"name\":\"s\"}"), 201);
	ws_open(&ws, "/processes/s/attach?cursor=0");
	ws_expect(&ws, path_of("{\"type\":\"gap\",\"bytes\":%d,\"stream\":\"stdout\"}",
			       1100000 - (1 << 20)));
	ws_expect(&ws, "\"type\":\"exit\"");
	ws_drop(&ws);
}

static void test_slow_client(void **state)
{
	struct socket ws;
	size_t total = 0;
	struct str s;
	int opcode;

	(void)state;
	new_sandbox("{}");
	expect_status(post("/processes", "{\"command\":\"spew 1000000\",\"name\":\"s\"}"), 201);
	ws_open(&ws, "/processes/s/attach?cursor=0");
	world_turns(200); /* no reader: the queue is bounded, nothing is lost */
	while ((opcode = ws_next(&ws, &s)) != 8)
		if (opcode == 2)
			total += s.n;
	assert_int_equal(total, 1000000);
	ws_drop(&ws);
}

/* A program that does not read delays the client; the rest of the daemon continues. */
static void test_much_input(void **state)
{
	static char bytes[200000];
	struct socket ws;
	struct str s;
	size_t total = 0;

	(void)state;
	new_sandbox("{}");
	expect_status(post("/processes", "{\"command\":\"cat\",\"name\":\"c\"}"), 201);
	ws_open(&ws, "/processes/c/attach");
	memset(bytes, 'i', sizeof(bytes));
	for (int i = 0; i < 10; i++)
		ws_send(&ws, 2, bytes, sizeof(bytes));
	for (int i = 0; i < 500; i++)
		ws_send(&ws, 2, "k", 1);
	/* Output that was not read in time is counted. */
	while (total < 10 * sizeof(bytes) + 500) {
		int opcode = ws_next(&ws, &s);
		const char *gap = opcode == 1 ? memmem(s.p, s.n, "\"bytes\":", 8) : NULL;

		total += opcode == 2 ? s.n : gap ? strtoul(gap + 8, NULL, 10) : 0;
	}
	assert_int_equal(total, 10 * sizeof(bytes) + 500);
	ws_drop(&ws);
	/* A message that is too large ends the connection, not the process. */
	ws_open(&ws, "/processes/c/attach?tail=0");
	for (int i = 0; i < 2; i++) {
		static char large[300000];

		ws_send(&ws, 2, large, sizeof(large));
	}
	assert_int_equal(ws_closed(&ws), 1009);
	ws_drop(&ws);
	assert_string_equal(text_of(get("/processes/c"), "state"), "running");
}

static void test_client_gone_any_time(void **state)
{
	struct socket ws;

	(void)state;
	new_sandbox("{}");
	for (int turns = 0; turns < 8; turns++) {
		ws_send_head(&ws, "/pty", "");
		for (int i = 0; i < turns; i++)
			loop_turn(world.loop, 1);
		ws_drop(&ws);
	}
	world_turns(50);
	assert_non_null(strstr(call("GET", "/metrics", NULL)->body, "cay_streams_open 0\n"));
	/*
	 * A client that received its shell can reattach; a shell that no client received is ended.
	 */
	ws_open(&ws, "/pty");
	ws_type(&ws, "x");
	ws_drop(&ws);
	assert_non_null(strstr(get("/processes")->body, "\"running\""));
}

static void test_broken_link_and_end(void **state)
{
	struct socket ws;

	(void)state;
	new_sandbox("{}");
	ws_open(&ws, "/pty");
	ws_expect(&ws, "started");
	fake_cut(world.engine, sandbox); /* a broken link is not noticed */
	world_turns(30);
	ws_type(&ws, "a");
	ws_expect_bytes(&ws, "a");
	fake_hold(world.engine, FAKE_DIAL);
	fake_cut(world.engine, sandbox);
	world_turns(30);
	ws_type(&ws, "b"); /* no link for the input */
	ws_expect(&ws, "\"code\":\"unavailable\"");
	fake_release(world.engine, FAKE_DIAL);
	world_turns(30);
	ws_type(&ws, "c");
	ws_expect_bytes(&ws, "c");
	expect_status(call("DELETE", path_of("/v1/sandboxes/%s", sandbox), NULL), 204);
	ws_expect(&ws, "\"exit_code\":null,\"signal\":null,\"reason\":\"sandbox_gone\"");
	assert_int_equal(ws_closed(&ws), 1000);
	ws_drop(&ws);
	/* The daemon ends with open terminals and input in flight. */
	new_sandbox("{}");
	ws_open(&ws, "/pty");
	ws_type(&ws, "typed");
	loop_turn(world.loop, 1);
	world_stop();
	request_drop(&ws.req);
	world_start();
	ws_open(&ws, "/processes/1/attach");
	ws_expect(&ws, "started");
	ws_drop(&ws);
}

static int setup_small(void **state)
{
	(void)state;
	world_prepare();
	world.config.streams_per_key = 2;
	world_start();
	return 0;
}

static void test_limit(void **state)
{
	struct socket one, two;

	(void)state;
	new_sandbox("{}");
	ws_open(&one, "/pty");
	ws_open(&two, "/pty");
	assert_int_equal(ws_refused("/pty", ""), 429);
	assert_int_equal(ws_refused("/processes/1/attach", ""), 429);
	ws_drop(&one);
	ws_open(&one, "/pty");
	ws_drop(&one);
	ws_drop(&two);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, world_setup, world_teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_pty),
		TEST(test_bad_control),
		TEST(test_refusals),
		TEST(test_detach_and_attach),
		TEST(test_without_terminal),
		TEST(test_gap),
		TEST(test_slow_client),
		TEST(test_much_input),
		TEST(test_client_gone_any_time),
		TEST(test_broken_link_and_end),
		cmocka_unit_test_setup_teardown(test_limit, setup_small, world_teardown),
	};

	return cmocka_run_group_tests_name("terminal", tests, NULL, NULL);
}
