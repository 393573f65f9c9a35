/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "http/message/head.h"

#define LIMIT 1024
#define MAX_HEADERS 8

static struct http_header fields[MAX_HEADERS];
static struct http_head head;

static enum http_verdict verdict_of(bool request, const char *p, size_t n)
{
	struct http_scan scan = { 0 };
	enum http_verdict v;
	size_t len;

	head = (struct http_head){ .headers = fields, .header_max = MAX_HEADERS };
	v = http_head_scan(&scan, request, p, n, LIMIT, &len);
	if (v != HTTP_OK)
		return v;
	return request ? http_head_parse_request(&head, p, len)
		       : http_head_parse_response(&head, p, len);
}

/* The same bytes one at a time: the verdict must not depend on how they arrive. */
static enum http_verdict verdict_by_byte(bool request, const char *p, size_t n)
{
	struct http_scan scan = { 0 };
	size_t len;

	head = (struct http_head){ .headers = fields, .header_max = MAX_HEADERS };
	for (size_t i = 1; i <= n; i++) {
		enum http_verdict v = http_head_scan(&scan, request, p, i, LIMIT, &len);

		if (v == HTTP_MORE)
			continue;
		if (v != HTTP_OK)
			return v;
		return request ? http_head_parse_request(&head, p, len)
			       : http_head_parse_response(&head, p, len);
	}
	return HTTP_MORE;
}

struct sample {
	int verdict;
	const char *text;
	size_t n; /* 0: strlen */
};

#define H "Host: a\r\n"
#define NUL_SAMPLE(v, s)            \
	{                           \
		v, s, sizeof(s) - 1 \
	}

static const struct sample requests[] = {
	/* fine */
	{ HTTP_OK, "GET / HTTP/1.1\r\n" H "\r\n" },
	{ HTTP_OK, "GET / HTTP/1.0\r\n\r\n" },
	{ HTTP_OK, "GET /a?b=c HTTP/1.1\r\nhOsT:a:80\r\n\r\n" },
	{ HTTP_OK, "GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n" },
	{ HTTP_OK, "GET / HTTP/1.1\r\nHost: \ta.b-c_d.e. \t\r\n\r\n" },
	{ HTTP_OK, "BREW / HTTP/1.1\r\n" H "\r\n" },
	{ HTTP_OK, "OPTIONS * HTTP/1.1\r\n" H "\r\n" },
	{ HTTP_OK, "GET http://a/x HTTP/1.1\r\n" H "\r\n" },
	{ HTTP_OK, "GET HTTP://A HTTP/1.1\r\n" H "\r\n" },
	{ HTTP_OK, "GET https://a?q HTTP/1.1\r\n" H "\r\n" },
	{ HTTP_OK, "POST / HTTP/1.1\r\n" H "Content-Length: 0\r\n\r\n" },
	{ HTTP_OK, "POST / HTTP/1.1\r\n" H "Content-Length: 9223372036854775807\r\n\r\n" },
	{ HTTP_OK, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\n\r\n" },
	{ HTTP_OK, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: CHUNKED\r\n\r\n" },
	{ HTTP_OK, "POST / HTTP/1.1\r\n" H "Transfer-Encoding:chunked\r\n\r\n" },
	{ HTTP_OK, "GET / HTTP/1.1\r\n" H "X: caf\xc3\xa9\r\n\r\n" },
	{ HTTP_OK, "GET / HTTP/1.1\r\n" H "X:\r\n\r\n" },
	/* unfinished */
	{ HTTP_MORE, "", 0 },
	{ HTTP_MORE, "G" },
	{ HTTP_MORE, "GET / HTTP/1.1\r\n" H "\r" },
	{ HTTP_MORE, "GET / HTTP/1.1\r\n" H },
	/* line ends */
	{ 400, "GET / HTTP/1.1\n" H "\r\n" },
	{ 400, "GET / HTTP/1.1\nHost: a\n\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: a\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\n" H "X: a\rb\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\n" H "X: a\r\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\r\n" H "\r\n" },
	{ 400, "\r\nGET / HTTP/1.1\r\n" H "\r\n" },
	{ 400, "\n" },
	{ 400, "GET / HTTP/1.1\r\n" H "\n" },
	/* folding and names */
	{ 400, "GET / HTTP/1.1\r\n" H "X: a\r\n b\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\n" H "X: a\r\n\tb\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\n " H "\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost : a\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\n" H ": a\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\n" H "X\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\n" H "X Y: a\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\n" H "X\t: a\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\n" H "X(y): a\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\n" H "caf\xc3\xa9: a\r\n\r\n" },
	NUL_SAMPLE(400, "GET / HTTP/1.1\r\n" H "X: a\0b\r\n\r\n"),
	NUL_SAMPLE(400, "GET / HTTP/1.1\r\n" H "X\0: b\r\n\r\n"),
	NUL_SAMPLE(400, "GET /\0 HTTP/1.1\r\n" H "\r\n"),
	NUL_SAMPLE(400, "\0GET / HTTP/1.1\r\n" H "\r\n"),
	{ 400, "GET / HTTP/1.1\r\n" H "X: a\x0b\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\n" H "X: a\x7f\r\n\r\n" },
	/* lengths and codings */
	{ 400, "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nContent-Length: 5\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\ncontent-length: 6\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Content-Length: 5, 5\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Content-Length: +5\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Content-Length: -1\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Content-Length: 0x5\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Content-Length: 5 5\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Content-Length: 05\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Content-Length:\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Content-Length: 9223372036854775808\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Content-Length: 99999999999999999999999\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked, identity\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: identity\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: gzip, chunked\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: xchunked\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\x0b\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: \x0b"
	       "chunked\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\tchunked\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: chunked\t\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding: \"chunked\"\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H "Transfer-Encoding:\r\n\r\n" },
	{ 400, "POST / HTTP/1.1\r\n" H
	       "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" },
	{ 400, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" },
	/* Host */
	{ 400, "GET / HTTP/1.1\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\n" H H "\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost:\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: a b\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: a:\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: a:80:80\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: a:b\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: a:-1\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: a:65536\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: :80\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: %61\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: []\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: [g]\r\n\r\n" },
	{ 400, "GET / HTTP/1.1\r\nHost: caf\xc3\xa9\r\n\r\n" },
	/* targets */
	{ 400, "GET http://b/ HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET http://a:80/ HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET http://u@a/ HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET ftp://a/ HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET http:// HTTP/1.1\r\n" H "\r\n" },
	{ 400, "CONNECT a:443 HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET a HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET * HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET  / HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET / HTTP/1.1 \r\n" H "\r\n" },
	{ 400, "GET /  HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET\t/ HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET /a\tb HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET /\x01 HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET /\x7f HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET /\xc3\xa9 HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET /#x HTTP/1.1\r\n" H "\r\n" },
	{ 400, "GET /\\..\\ HTTP/1.1\r\n" H "\r\n" },
	{ 400, " GET / HTTP/1.1\r\n" H "\r\n" },
	{ 400, "G@T / HTTP/1.1\r\n" H "\r\n" },
	/* versions */
	{ 400, "GET /\r\n" },
	{ 400, "GET /\r\n\r\n" },
	{ 400, "GET / http/1.1\r\n" H "\r\n" },
	{ 400, "GET / HTTP/1.\r\n" H "\r\n" },
	{ 400, "GET / HTTP/11\r\n" H "\r\n" },
	{ 400, "GET / HTTP/1.1x\r\n" H "\r\n" },
	{ 400, "GET / HTTP/1.10\r\n" H "\r\n" },
	{ 505, "GET / HTTP/0.9\r\n\r\n" },
	{ 505, "GET / HTTP/1.2\r\n" H "\r\n" },
	{ 505, "GET / HTTP/2.0\r\n" H "\r\n" },
	{ 505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" },
	{ 400, "\x16\x03\x01\x02" },
	/* expectations, methods, counts */
	{ 417, "POST / HTTP/1.1\r\n" H "Expect: 200-ok\r\n\r\n" },
	{ 501, "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n" H "\r\n" },
	{ HTTP_OK, "GET / HTTP/1.1\r\n" H "b:1\r\nc:1\r\nd:1\r\ne:1\r\nf:1\r\ng:1\r\nh:1\r\n\r\n" },
	{ 431,
	  "GET / HTTP/1.1\r\n" H "b:1\r\nc:1\r\nd:1\r\ne:1\r\nf:1\r\ng:1\r\nh:1\r\ni:1\r\n\r\n" },
};

static const struct sample responses[] = {
	{ HTTP_OK, "HTTP/1.1 200 OK\r\n\r\n" },
	{ HTTP_OK, "HTTP/1.0 404 Not Found\r\nContent-Length: 3\r\n\r\n" },
	{ HTTP_OK, "HTTP/1.1 204 \r\n\r\n" },
	{ HTTP_MORE, "HTTP/1.1 200 OK\r\n" },
	{ HTTP_OK,
	  "HTTP/1.1 200\r\n\r\n" }, /* the blank before an empty reason is often left out */
	{ 400, "HTTP/1.1 20\r\n\r\n" },
	{ 400, "HTTP/1.1 200OK\r\n\r\n" },
	{ 400, "HTTP/1.1  200 OK\r\n\r\n" },
	{ 400, "HTTP/1.1 2000 OK\r\n\r\n" },
	{ 400, "HTTP/1.1 20x OK\r\n\r\n" },
	{ 400, "HTTP/1.1 099 OK\r\n\r\n" },
	{ 400, "HTTP/1.1 600 OK\r\n\r\n" },
	{ 400, "HTTP/1.1 200 O\x01K\r\n\r\n" },
	{ 400, "ICY 200 OK\r\n\r\n" },
	{ 505, "HTTP/2.0 200 OK\r\n\r\n" },
	{ 400, "HTTP/1.1 200 OK\nA: b\n\n" },
	{ 400, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n" },
	{ 400, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" },
	{ 400, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" },
};

static void check(const struct sample *samples, size_t count, bool request)
{
	for (size_t i = 0; i < count; i++) {
		const struct sample *s = &samples[i];
		size_t n = s->n ? s->n : strlen(s->text);
		int whole = (int)verdict_of(request, s->text, n);
		int split = (int)verdict_by_byte(request, s->text, n);

		if (whole != s->verdict || split != s->verdict)
			fail_msg("[%zu] %s: want %d, got %d whole and %d by the byte", i, s->text,
				 s->verdict, whole, split);
	}
}

static void requests_get_their_verdict(void **state)
{
	(void)state;
	check(requests, ARRAY_LEN(requests), true);
}

static void responses_get_their_verdict(void **state)
{
	(void)state;
	check(responses, ARRAY_LEN(responses), false);
}

static void sizes_at_the_limit_and_above(void **state)
{
	static char text[LIMIT + 64];
	struct http_scan scan;
	size_t n, len;

	(void)state;
	n = (size_t)snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n" H "X: %*s\r\n\r\n",
			     LIMIT - 32, "y");
	assert_int_equal(n, LIMIT);
	assert_int_equal(verdict_of(true, text, n), HTTP_OK);
	assert_int_equal(verdict_by_byte(true, text, n), HTTP_OK);
	scan = (struct http_scan){ 0 };
	assert_int_equal(http_head_scan(&scan, true, text, n, LIMIT - 1, &len), 431);
	scan = (struct http_scan){ 0 };
	assert_int_equal(http_head_scan(&scan, true, text, n - 1, LIMIT - 1, &len), 431);
	memset(text, 'A', sizeof(text));
	assert_int_equal(verdict_of(true, text, LIMIT - 1), HTTP_MORE);
	assert_int_equal(verdict_of(true, text, LIMIT), 414);
}

static void a_long_target_has_its_own_status(void **state)
{
	static char text[HTTP_TARGET_MAX + 64];
	struct http_head big = { .headers = fields, .header_max = MAX_HEADERS };
	size_t n;

	(void)state;
	for (int over = 0; over < 2; over++) {
		n = (size_t)sprintf(text, "GET /");
		memset(text + n, 'a', (size_t)(HTTP_TARGET_MAX - 1 + over));
		n += (size_t)(HTTP_TARGET_MAX - 1 + over);
		n += (size_t)sprintf(text + n, " HTTP/1.1\r\n" H "\r\n");
		assert_int_equal(http_head_parse_request(&big, text, n), over ? 414 : HTTP_OK);
	}
}

static void fields_are_parsed(void **state)
{
	const char *text =
		"POST http://Example.org:81/a%2Fb?x=1&y HTTP/1.1\r\n"
		"Host: example.ORG:81\r\nConnection: foo, Upgrade\r\nUpgrade: websocket\r\n"
		"Expect: 100-Continue\r\nContent-Length: 12\r\n\r\n";
	struct str host;

	(void)state;
	assert_int_equal(verdict_of(true, text, strlen(text)), HTTP_OK);
	assert_int_equal(head.method, HTTP_POST);
	assert_true(str_is(head.path, "/a%2Fb"));
	assert_true(str_is(head.query, "x=1&y"));
	assert_true(http_host_split(head.host, &host));
	assert_true(str_is(host, "example.ORG"));
	assert_true(head.keep_alive);
	assert_true(head.upgrade);
	assert_true(head.expect_continue);
	assert_int_equal(head.content_length, 12);
	assert_int_equal(head.header_count, 5);
	text = "GET / HTTP/1.1\r\n" H "Connection: close\r\n\r\n";
	assert_int_equal(verdict_of(true, text, strlen(text)), HTTP_OK);
	assert_false(head.keep_alive);
	text = "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
	assert_int_equal(verdict_of(true, text, strlen(text)), HTTP_OK);
	assert_true(head.keep_alive);
	text = "GET / HTTP/1.0\r\n\r\n";
	assert_int_equal(verdict_of(true, text, strlen(text)), HTTP_OK);
	assert_false(head.keep_alive);
	assert_int_equal(head.host.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_get_their_verdict),
		cmocka_unit_test(responses_get_their_verdict),
		cmocka_unit_test(sizes_at_the_limit_and_above),
		cmocka_unit_test(a_long_target_has_its_own_status),
		cmocka_unit_test(fields_are_parsed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
