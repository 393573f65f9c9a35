/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that the faces read from headers and queries: keys, ranges, cursors, page limits, types of
 * events, names of signals, Base64, and addresses behind proxies. Input: a request's head. Accepted
 * values are within their ranges, and a client's address is one that was sent or the peer's.
 */
#include <assert.h>
#include <string.h>

#include "face/kit/key.h"
#include "face/kit/page.h"
#include "face/kit/range.h"
#include "face/rest/run/stream.h"
#include "http/server/conn.h"
#include "service/event/bus.h"
#include "service/files/files.h"

#define LIMIT 16384
#define MAX_HEADERS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_inside(struct str part, struct str whole)
{
	return part.n == 0 || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n);
}

static void check_range(const struct http_req *req)
{
	struct files_spec spec = { .path = STR_LIT("") };
	struct err err;

	if (face_range_read(req, &spec, &err) < 0 || !spec.has_range)
		return;
	assert(spec.has_suffix ? spec.range_suffix > 0 : spec.range_begin >= 0);
	assert(!spec.has_length || spec.range_length > 0);
}

static void check_keys(const struct http_req *req, struct str head)
{
	struct str key = { NULL, 0 };

	for (int order = FACE_KEY_BEARER_FIRST; order <= FACE_KEY_X_API_KEY_FIRST; order++)
		if (face_key_read(req, (enum face_key_order)order, &key) == 0)
			assert(is_inside(key, head));
}

static void check_client(struct http_req *req, struct str head)
{
	static struct http_server server;
	static struct http_conn conn;

	if (!conn.server) {
		assert(http_server_trust(&server, "127.0.0.1 10.0.0.0/8 fd00::/8 ::/127") == 0);
		conn = (struct http_conn){ .server = &server, .peer = { .address = "127.0.0.1" } };
	}
	http_forwarded_read(&conn, req);
	assert(req->client.p == conn.peer.address || is_inside(req->client, head));
}

static void check_value(struct arena *arena, struct str value)
{
	uint64_t cursors[2] = { 0, 0 };
	int64_t number = 1;
	uint32_t types = 0;
	struct str bytes;
	struct err err;

	if (page_limit_parse(value, &number) == 0)
		assert(number >= 1 && number <= PAGE_LIMIT_MAX);
	number = 0;
	if (page_cursor_parse(value, &number) == 0)
		assert(number >= 0);
	(void)!cursor_parse(value, "cursor", cursors, &err);
	(void)!bus_types_parse(value, &types, &err);
	assert(process_signal_parse(value, 15, &err) >= 0);
	if (input_decode(arena, "data_b64", value, &bytes, &err) == 0)
		assert(bytes.n <= value.n / 4 * 3 + 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_header fields[MAX_HEADERS];
	struct http_head head = { .headers = fields, .header_max = MAX_HEADERS };
	struct str text = { (const char *)data, size };
	struct http_scan scan = { 0 };
	struct http_req req;
	struct arena arena;
	size_t n = 0;

	if (http_head_scan(&scan, true, text.p, text.n, LIMIT, &n) != HTTP_OK ||
	    http_head_parse_request(&head, text.p, n) != HTTP_OK)
		return 0;
	arena_init(&arena, 1 << 20);
	req = (struct http_req){ .arena = &arena,
				 .headers = head.headers,
				 .header_count = head.header_count };
	check_range(&req);
	check_keys(&req, text);
	check_client(&req, text);
	for (size_t i = 0; i < head.header_count; i++)
		check_value(&arena, head.headers[i].value);
	arena_done(&arena);
	return 0;
}
