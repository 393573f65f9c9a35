/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request to a brokered host: the rewritten bytes parse as one request to the same host with
 * nothing after it, and request no encoding that the scrubber cannot read.
 */
#include <assert.h>

#include "face/broker/request.h"
#include "service/sandbox/record_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_body(const struct http_head *head, const char *p, size_t n)
{
	struct request_body whole, parts;
	ssize_t all, step, sum = 0;

	request_body_init(&whole, head);
	request_body_init(&parts, head);
	all = request_body_take(&whole, p, n);
	assert(all <= (ssize_t)n);
	for (size_t i = 0; all >= 0 && i < n && !parts.done; i++) {
		step = request_body_take(&parts, p + i, 1);
		assert(step == 0 || step == 1);
		sum += step;
	}
	assert(all < 0 || (sum == all && parts.done == whole.done));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http_header headers[REQUEST_HEADERS_MAX],
		again_headers[REQUEST_HEADERS_MAX + 2];
	static const struct sandbox none; /* without secrets: values are unchanged */
	struct request req = { .name = "api.test",
			       .port = 443,
			       .head = { .headers = headers, .header_max = REQUEST_HEADERS_MAX } };
	struct request again = { .name = "api.test",
				 .port = 443,
				 .head = { .headers = again_headers,
					   .header_max = REQUEST_HEADERS_MAX + 2 } };
	const char *p = (const char *)data;
	struct buf out;

	if (size == 0 || size > REQUEST_HEAD_MAX || request_read(&req, p, size) != 1)
		return 0;
	buf_init(&out, 2 * REQUEST_HEAD_MAX);
	assert(request_write(&req, &none, &out) == 0);
	if (buf_len(&out) <= REQUEST_HEAD_MAX) {
		assert(request_read(&again, buf_data(&out), buf_len(&out)) == 1);
		assert(again.head_bytes == buf_len(&out));
		assert(again.head.upgrade == req.head.upgrade &&
		       again.head.chunked == req.head.chunked &&
		       again.head.content_length == req.head.content_length);
		assert(again.head.upgrade || !again.head.keep_alive);
	}
	check_body(&req.head, p + req.head_bytes, size - req.head_bytes);
	buf_done(&out);
	return 0;
}
