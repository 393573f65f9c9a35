/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads forwarded by the proxy. The first byte selects a request's head, a reply's, or trailers. A
 * head that was accepted and serialized again is accepted again, frames the same body, and contains
 * no header of a single connection.
 */
#include <assert.h>
#include <errno.h>

#include "http/proxy/state.h"

#define LIMIT 16384
#define MAX_HEADERS 64
#define OWN_COOKIE "cay_preview"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool parse(struct http_head *head, bool request, struct str text)
{
	struct http_scan scan = { 0 };
	size_t n = 0;

	if (http_head_scan(&scan, request, text.p, text.n, LIMIT, &n) != HTTP_OK)
		return false;
	return (request ? http_head_parse_request(head, text.p, n)
			: http_head_parse_response(head, text.p, n)) == HTTP_OK;
}

static size_t count_of(const struct http_head *head, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < head->header_count; i++)
		n += str_eq_nocase(head->headers[i].name, name);
	return n;
}

static void try_request(struct str text)
{
	static const struct http_header extra = { STR_LIT("X-Forwarded-For"),
						  STR_LIT("192.0.2.1") };
	struct http_header fields[MAX_HEADERS], again_fields[MAX_HEADERS];
	struct http_head head = { .headers = fields, .header_max = MAX_HEADERS };
	struct http_head again = { .headers = again_fields, .header_max = MAX_HEADERS };
	struct proxy_spec spec = { .path = STR_LIT("/p?q"),
				   .host = STR_LIT("80-x.cay.localhost"),
				   .extra = &extra,
				   .extra_count = 1 };
	struct http_req req;
	struct buf out;

	if (!parse(&head, true, text))
		return;
	req = (struct http_req){ .method = head.method,
				 .method_name = head.method_name,
				 .headers = head.headers,
				 .header_count = head.header_count,
				 .has_body = head.chunked || head.content_length > 0,
				 .content_length = head.content_length,
				 .upgrade = head.upgrade };
	buf_init(&out, 4 * LIMIT);
	assert(proxy_put_request(&out, &req, &spec, head.expect_continue) == 0);
	if (head.header_count + 6 < MAX_HEADERS && buf_len(&out) <= LIMIT) {
		assert(parse(&again, true, buf_str(&out)));
		assert(again.chunked == head.chunked &&
		       again.content_length == head.content_length &&
		       again.expect_continue == head.expect_continue);
		assert(str_is(again.target, "/p?q") && count_of(&again, "host") == 1 &&
		       str_is(again.host, "80-x.cay.localhost"));
		assert(!again.upgrade || (head.upgrade && !req.has_body));
		assert(!count_of(&again, "keep-alive") && !count_of(&again, "proxy-authorization"));
		assert(again.minor == 1 && str_eq(again.method_name, head.method_name));
	}
	buf_done(&out);
}

static void check_cookie(struct str value)
{
	struct str part, rest, name, left;
	bool first = true;

	for (bool more = true; more; first = false) {
		more = str_cut(value, ';', &part, &rest);
		if (!more)
			part = value;
		value = rest;
		if (!str_cut(part, '=', &name, &left))
			name = part;
		name = str_trim(name, " \t");
		assert(first || !str_eq_nocase(name, "domain"));
		assert(!first || !str_is(name, OWN_COOKIE));
	}
}

static void try_response(struct str text, bool upgrade)
{
	struct http_header fields[MAX_HEADERS], passed[MAX_HEADERS + 2];
	struct http_head head = { .headers = fields, .header_max = MAX_HEADERS };
	struct proxy_spec spec = { .own_cookie = STR_LIT(OWN_COOKIE) };
	struct arena arena;
	int n;

	if (!parse(&head, false, text))
		return;
	arena_init(&arena, 1 << 20);
	n = proxy_pass_response(&head, &spec, upgrade, &arena, passed, ARRAY_LEN(passed));
	assert(n >= 0 && (size_t)n <= head.header_count + 1);
	for (int i = 0; i < n; i++) {
		struct str name = passed[i].name;

		assert(http_is_token(name) && http_is_field_value(passed[i].value));
		assert(upgrade || !proxy_is_hop(name));
		if (str_eq_nocase(name, "set-cookie"))
			check_cookie(passed[i].value);
	}
	assert(proxy_pass_response(&head, &spec, upgrade, &arena, passed, head.header_count) ==
	       -ENOMEM);
	arena_done(&arena);
}

static void try_trailers(struct str text)
{
	struct str line, rest, name, value;
	struct buf out;

	buf_init(&out, 4 * LIMIT);
	if (text.n < LIMIT) {
		assert(proxy_pass_trailers(text, &out) == 0);
		for (rest = buf_str(&out); rest.n;) {
			if (!str_cut(rest, '\n', &line, &rest)) {
				line = rest;
				rest.n = 0;
			} else {
				assert(line.n && line.p[line.n - 1] == '\r');
				line.n--;
			}
			assert(str_cut(line, ':', &name, &value) && http_is_token(name) &&
			       http_is_field_value(value) && !proxy_is_hop(name));
			assert(!str_eq_nocase(name, "content-length") &&
			       !str_eq_nocase(name, "set-cookie"));
		}
	}
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str text = { (const char *)data + 1, size - 1 };

	if (size < 2)
		return 0;
	switch (data[0] & 3) {
	case 0:
		try_request(text);
		break;
	case 1:
	case 2:
		try_response(text, (data[0] & 3) == 2);
		break;
	default:
		try_trailers(text);
	}
	return 0;
}
