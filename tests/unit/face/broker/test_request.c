/* SPDX-License-Identifier: Apache-2.0 */
/* One request to a host with brokered secrets: what is accepted, rejected and forwarded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "face/broker/request.h"
#include "service/sandbox/record_internal.h"

static struct http_header headers[REQUEST_HEADERS_MAX];

static struct request fresh(void)
{
	return (struct request){ .name = "api.test",
				 .port = 443,
				 .head = { .headers = headers,
					   .header_max = REQUEST_HEADERS_MAX } };
}

static void refusals(void **state)
{
	static const struct {
		const char *bytes, *status;
	} cases[] = {
		{ "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "421" },
		{ "GET / HTTP/1.1\r\nHost: api.test:444\r\n\r\n", "421" },
		{ "GET / HTTP/1.1\r\nHost: api.test.evil\r\n\r\n", "421" },
		{ "GET / HTTP/1.0\r\n\r\n", "421" },
		{ "GET / HTTP/1.1\r\nHost: api.test\r\nHost: api.test\r\n\r\n", "400" },
		{ "GET / HTTP/1.1\r\nHost: api.test\r\nX: a\r\n b\r\n\r\n", "400" },
		{ "GET https://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n", "400" },
		{ "POST / HTTP/1.1\r\nHost: api.test\r\nContent-Length: 1\r\n"
		  "Transfer-Encoding: chunked\r\n\r\n",
		  "400" },
		{ "TRACE / HTTP/1.1\r\nHost: api.test\r\n\r\n", "405" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct request req = fresh();

		assert_int_equal(request_read(&req, cases[i].bytes, strlen(cases[i].bytes)), -1);
		assert_int_equal(strncmp(req.status, cases[i].status, 3), 0);
		assert_non_null(req.why);
	}
}

static void what_goes_on(void **state)
{
	static const char bytes[] = "POST /a?b HTTP/1.1\r\nhost: API.test:443\r\nX-Key: one\r\n"
				    "Authorization: Basic Zm9v\r\nConnection: keep-alive\r\n"
				    "Accept-Encoding: gzip\r\nUpgrade: h2c\r\nTE: trailers\r\n"
				    "Content-Length: 2\r\n\r\nok";
	static const char after[] = "POST /a?b HTTP/1.1\r\nhost: API.test:443\r\nX-Key: one\r\n"
				    "Authorization: Basic Zm9v\r\nContent-Length: 2\r\n"
				    "Accept-Encoding: identity\r\nConnection: close\r\n\r\n";
	static const struct sandbox none;
	struct request req = fresh();
	struct request_body body;
	struct buf out;

	(void)state;
	for (size_t n = 1; n < sizeof(bytes) - 3; n++)
		assert_int_equal(request_read(&req, bytes, n), 0);
	assert_int_equal(request_read(&req, bytes, sizeof(bytes) - 1), 1);
	assert_int_equal(req.head_bytes, sizeof(bytes) - 3);
	buf_init(&out, REQUEST_HEAD_MAX);
	assert_int_equal(request_write(&req, &none, &out), 0);
	assert_int_equal(buf_len(&out), sizeof(after) - 1);
	assert_memory_equal(buf_data(&out), after, sizeof(after) - 1);
	buf_done(&out);
	request_body_init(&body, &req.head);
	assert_int_equal(request_body_take(&body, "okGET", 5), 2);
	assert_true(body.done);
	assert_int_equal(request_body_take(&body, "GET", 3), 0);
}

static void bodies(void **state)
{
	struct http_head head = { .content_length = -1 };
	struct request_body body;

	(void)state;
	request_body_init(&body, &head);
	assert_true(body.done);
	head.upgrade = true;
	request_body_init(&body, &head);
	assert_false(body.done);
	assert_int_equal(request_body_take(&body, "anything", 8), 8);
	head = (struct http_head){ .content_length = -1, .chunked = true };
	request_body_init(&body, &head);
	assert_int_equal(request_body_take(&body, "2\r\nok\r\n", 7), 7);
	assert_false(body.done);
	assert_int_equal(request_body_take(&body, "0\r\n\r\nGET", 8), 5);
	assert_true(body.done);
	request_body_init(&body, &head);
	assert_int_equal(request_body_take(&body, "x\r\n", 3), -1);
}

static void a_head_has_a_limit(void **state)
{
	static char bytes[REQUEST_HEAD_MAX + 64];

	(void)state;
	for (int over = 0; over <= 1; over++) {
		struct request req = fresh();
		size_t size = REQUEST_HEAD_MAX + (size_t)over;
		int at = snprintf(bytes, sizeof(bytes), "GET / HTTP/1.1\r\nHost: api.test\r\nX: ");

		memset(bytes + at, 'x', size - (size_t)at - 4);
		memcpy(bytes + size - 4, "\r\n\r\n", 4);
		assert_int_equal(request_read(&req, bytes, size), over ? -1 : 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refusals),
		cmocka_unit_test(what_goes_on),
		cmocka_unit_test(bodies),
		cmocka_unit_test(a_head_has_a_limit),
	};

	return cmocka_run_group_tests_name("broker-request", tests, NULL, NULL);
}
