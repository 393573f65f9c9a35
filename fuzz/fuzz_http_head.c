/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads: the verdict does not depend on how the bytes arrive, and an accepted head, serialized
 * again, is accepted with the same meaning. The first byte selects request or response.
 */
#include <assert.h>
#include <stdio.h>

#include "base/buf.h"
#include "http/message/head.h"

#define LIMIT 4096
#define MAX_HEADERS 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum http_verdict parse(struct http_head *head, bool request, const char *p, size_t n,
			       size_t step)
{
	struct http_scan scan = { 0 };
	enum http_verdict v = HTTP_MORE;
	size_t len = 0;

	for (size_t i = MIN(step, n); v == HTTP_MORE; i = MIN(i + step, n)) {
		v = http_head_scan(&scan, request, p, i, LIMIT, &len);
		if (i == n)
			break;
	}
	if (v != HTTP_OK)
		return v;
	assert(len <= n);
	return request ? http_head_parse_request(head, p, len)
		       : http_head_parse_response(head, p, len);
}

static void write_again(struct buf *out, bool request, const struct http_head *head)
{
	int r;

	if (request)
		r = buf_printf(out, "%.*s %.*s HTTP/1.%d\r\n", (int)head->method_name.n,
			       head->method_name.p, (int)head->target.n, head->target.p,
			       head->minor);
	else
		r = buf_printf(out, "HTTP/1.%d %03d \r\n", head->minor, head->status);
	for (size_t i = 0; i < head->header_count; i++)
		r |= buf_printf(out, "%.*s: %.*s\r\n", (int)head->headers[i].name.n,
				head->headers[i].name.p, (int)head->headers[i].value.n,
				head->headers[i].value.p);
	r |= buf_puts(out, "\r\n");
	assert(r == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_header a_fields[MAX_HEADERS], b_fields[MAX_HEADERS];
	struct http_head a = { .headers = a_fields, .header_max = MAX_HEADERS };
	struct http_head b = { .headers = b_fields, .header_max = MAX_HEADERS };
	bool request = size && (data[0] & 1);
	const char *p = (const char *)data + 1;
	enum http_verdict whole, bytes;
	struct buf out;

	if (size < 2)
		return 0;
	size--;
	whole = parse(&a, request, p, size, size);
	bytes = parse(&b, request, p, size, 1);
	/* Byte by byte, a rejection may come earlier, with the reason known at that point. */
	assert((whole == HTTP_OK) == (bytes == HTTP_OK));
	assert(bytes != HTTP_MORE || whole == HTTP_MORE);
	if (whole != HTTP_OK)
		return 0;
	assert(!a.chunked || a.content_length < 0);
	assert(!request || (a.path.n && (a.path.p[0] == '/' || str_is(a.path, "*"))));
	buf_init(&out, 65536);
	write_again(&out, request, &a);
	if (buf_len(&out) <= LIMIT) {
		whole = parse(&b, request, buf_data(&out), buf_len(&out), buf_len(&out));
		assert(whole == HTTP_OK);
		assert(a.header_count == b.header_count && a.chunked == b.chunked &&
		       a.content_length == b.content_length && a.keep_alive == b.keep_alive &&
		       a.upgrade == b.upgrade && a.method == b.method && a.status == b.status &&
		       str_eq(a.path, b.path) && str_eq(a.query, b.query) &&
		       str_eq(a.host, b.host));
	}
	buf_done(&out);
	return 0;
}
