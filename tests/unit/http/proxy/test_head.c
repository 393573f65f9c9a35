/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "http/proxy/state.h"

#define MAX_HEADERS 16

static struct http_header fields[MAX_HEADERS];
static struct http_head head;

static void parse(bool request, const char *text)
{
	struct http_scan scan = { 0 };
	size_t n;

	head = (struct http_head){ .headers = fields, .header_max = MAX_HEADERS };
	assert_int_equal(http_head_scan(&scan, request, text, strlen(text), 4096, &n), HTTP_OK);
	assert_int_equal(request ? http_head_parse_request(&head, text, n)
				 : http_head_parse_response(&head, text, n),
			 HTTP_OK);
}

/* ---- requests ---- */

static struct http_req request(const char *text)
{
	parse(true, text);
	return (struct http_req){ .method_name = head.method_name,
				  .headers = head.headers,
				  .header_count = head.header_count,
				  .has_body = head.chunked || head.content_length > 0,
				  .content_length = head.content_length,
				  .upgrade = head.upgrade };
}

static const struct proxy_spec plain = { .path = STR_LIT("/p"), .host = STR_LIT("inside") };

static const char *written(const char *text, const struct proxy_spec *spec)
{
	static char out[8192];
	struct http_req req = request(text);
	struct buf buf;

	buf_init(&buf, sizeof(out) - 1);
	assert_int_equal(proxy_put_request(&buf, &req, spec, head.expect_continue), 0);
	(void)snprintf(out, sizeof(out), "%.*s", (int)buf_len(&buf), buf_data(&buf));
	buf_done(&buf);
	return out;
}

#define R(line, more) line " HTTP/1.1\r\nHost: outside\r\n" more "\r\n"
#define W(line, more) line " /p HTTP/1.1\r\nHost: inside\r\n" more "\r\n"

static void test_requests(void **state)
{
	static const struct {
		const char *in, *out;
	} samples[] = {
		{ R("GET /x", "A: 1\r\n"), W("GET", "A: 1\r\n") },
		{ R("PURGE /", ""), W("PURGE", "") },
		/* bodies are framed by us */
		{ R("POST /", "Content-Length: 5\r\n"), W("POST", "Content-Length: 5\r\n") },
		{ R("POST /", "Content-Length: 0\r\n"), W("POST", "Content-Length: 0\r\n") },
		{ R("POST /", "Transfer-Encoding: Chunked\r\n"),
		  W("POST", "Transfer-Encoding: chunked\r\n") },
		{ R("POST /", "Content-Length: 5\r\nExpect: 100-continue\r\n"),
		  W("POST", "Content-Length: 5\r\nExpect: 100-continue\r\n") },
		/* what concerns the connection stays on it */
		{ R("GET /", "Connection: close, X-Mine\r\nX-Mine: 1\r\nx-MINE: 2\r\nB: 2\r\n"),
		  W("GET", "B: 2\r\n") },
		{ R("GET /", "Keep-Alive: 5\r\nProxy-Authorization: x\r\nProxy-Connection: x\r\n"),
		  W("GET", "") },
		{ R("GET /", "Connection: TE\r\nTE: gzip, trailers\r\n"),
		  W("GET", "Connection: TE\r\nTE: trailers\r\n") },
		{ R("GET /", "TE: gzip\r\n"), W("GET", "") },
		/* Connection cannot take away what we write ourselves */
		{ R("POST /", "Connection: Host, Content-Length\r\nContent-Length: 5\r\n"),
		  W("POST", "Content-Length: 5\r\n") },
		/* upgrades */
		{ R("GET /", "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"),
		  W("GET", "Connection: upgrade\r\nUpgrade: websocket\r\n") },
		{ R("GET /", "Upgrade: websocket\r\n"), W("GET", "") },
		{ R("GET /", "Connection: Upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n"),
		  W("GET", "") },
		{ R("GET /", "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n"), W("GET", "") },
		{ R("POST /", "Connection: Upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n"),
		  W("POST", "Content-Length: 1\r\n") },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++)
		assert_string_equal(written(samples[i].in, &plain), samples[i].out);
}

static bool pass(void *arg, const struct http_header *header, struct str *value)
{
	if (str_eq_nocase(header->name, "changed"))
		*value = str_of(arg);
	return !str_eq_nocase(header->name, "secret");
}

static void test_headers_of_the_face(void **state)
{
	static const struct http_header extra[] = { { STR_LIT("X-Real-IP"),
						      STR_LIT("192.0.2.1") } };
	struct proxy_spec spec = plain;
	char evil[] = "a\r\nX: b";
	struct http_req req;
	struct buf buf;

	(void)state;
	spec.extra = extra;
	spec.extra_count = 1;
	spec.pass = pass;
	spec.pass_arg = (char[]){ "new" };
	assert_string_equal(written(R("GET /", "Secret: 1\r\nChanged: old\r\nKept: 1\r\n"), &spec),
			    W("GET", "Changed: new\r\nKept: 1\r\nX-Real-IP: 192.0.2.1\r\n"));
	/* A value that would end its line is not a value, wherever it came from. */
	spec.pass_arg = evil;
	req = request(R("GET /", "Changed: old\r\n"));
	buf_init(&buf, 4096);
	assert_true(proxy_put_request(&buf, &req, &spec, false) < 0);
	buf_done(&buf);
}

/* ---- answers ---- */

static const char *passed(const char *text, bool upgrade)
{
	static char out[4096];
	static const struct http_header extra = { STR_LIT("X-Ours"), STR_LIT("1") };
	struct proxy_spec spec = { .own_cookie = STR_LIT("cay_preview"),
				   .reply_extra = &extra,
				   .reply_extra_count = 1 };
	struct http_header dst[MAX_HEADERS];
	struct arena arena;
	size_t n = 0;
	int count;

	arena_init(&arena, 65536);
	parse(false, text);
	count = proxy_pass_response(&head, &spec, upgrade, &arena, dst, ARRAY_LEN(dst));
	assert_true(count >= 0);
	assert_true(proxy_pass_response(&head, &spec, upgrade, &arena, dst, head.header_count + 1) <
		    0);
	assert_true(proxy_pass_response(&head, &spec, upgrade, &arena, dst,
					head.header_count + 2) >= 0);
	out[0] = '\0';
	for (int i = 0; i < count; i++)
		n += (size_t)snprintf(out + n, sizeof(out) - n, "%.*s: %.*s\n", (int)dst[i].name.n,
				      dst[i].name.p, (int)dst[i].value.n, dst[i].value.p);
	arena_done(&arena);
	return out;
}

#define A(more) "HTTP/1.1 200 OK\r\n" more "\r\n"

static void test_answers(void **state)
{
	static const struct {
		const char *in, *out;
	} samples[] = {
		{ A("A: 1\r\n"), "A: 1\nX-Ours: 1\n" },
		{ A("Connection: X-Hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nAlt-Svc: h2=\":1\"\r\n"),
		  "X-Ours: 1\n" },
		{ A("Set-Cookie: a=1; Domain=x; Path=/\r\n"),
		  "Set-Cookie: a=1; Path=/\nX-Ours: 1\n" },
		{ A("Set-Cookie: a=1;DOMAIN=.x\r\n"), "Set-Cookie: a=1\nX-Ours: 1\n" },
		{ A("Set-Cookie: a=1; domain\r\n"), "Set-Cookie: a=1\nX-Ours: 1\n" },
		{ A("Set-Cookie: domain=1; Secure\r\n"),
		  "Set-Cookie: domain=1; Secure\nX-Ours: 1\n" },
		{ A("Set-Cookie: cay_preview=1\r\n"), "X-Ours: 1\n" },
		{ A("Set-Cookie:  cay_preview =1; Path=/\r\n"), "X-Ours: 1\n" },
		{ A("Set-Cookie: __Host-cay_preview=1; Path=/; Secure\r\n"), "X-Ours: 1\n" },
		{ A("Clear-Site-Data: \"cookies\"\r\nService-Worker-Allowed: /\r\n"
		    "STRICT-Transport-Security: max-age=9; includeSubDomains\r\nB: 2\r\n"),
		  "B: 2\nX-Ours: 1\n" },
		{ A("Set-Cookie: cay_preview2=1\r\n"), "Set-Cookie: cay_preview2=1\nX-Ours: 1\n" },
		{ A("Upgrade: h2c\r\nConnection: upgrade\r\n"), "X-Ours: 1\n" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++)
		assert_string_equal(passed(samples[i].in, false), samples[i].out);
	assert_string_equal(passed("HTTP/1.1 101 Go\r\nUpgrade: x\r\nConnection: upgrade, Y\r\n"
				   "Y: 1\r\nZ: 2\r\n\r\n",
				   true),
			    "Upgrade: x\nZ: 2\nX-Ours: 1\nConnection: upgrade\n");
}

/* ---- trailers ---- */

static void test_trailers(void **state)
{
	static const struct {
		const char *in, *out;
	} samples[] = {
		{ "", "" },
		{ "X-A: 1\r", "X-A: 1" },
		{ "X-A:1\rX-B: \t2 \r", "X-A: 1\r\nX-B: 2" },
		{ "Content-Length: 1\rTransfer-Encoding: chunked\rHost: x\rX-A: 1\r", "X-A: 1" },
		{ "Set-Cookie: a\rAuthorization: b\rLocation: /\rTrailer: X\r", "" },
		{ "X-Forwarded-For: 1\rCay-Hop: 1\rX-Real-IP: 1\rForwarded: 1\r", "" },
		{ "no colon\r: no name\rX A: 1\r", "" },
		{ "X-A: a\nb\rX-B: 2\r", "X-B: 2" },
		{ "X-A: cut", "" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		struct buf out;

		buf_init(&out, 4096);
		assert_int_equal(proxy_pass_trailers(str_of(samples[i].in), &out), 0);
		assert_true(str_is(buf_str(&out), samples[i].out));
		buf_done(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_headers_of_the_face),
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_trailers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
