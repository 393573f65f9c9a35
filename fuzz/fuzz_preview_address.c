/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to previews: the target is well formed, and our credentials are removed. */
#include <assert.h>

#include "face/preview/visit.h"

#define LIMIT 16384
#define MAX_HEADERS 64

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(const struct http_req *req)
{
	struct address address;

	if (address_find("cay.localhost", req, &address) != ADDRESS_OK)
		return;
	assert(address.port > 0 && address.id.n > 0 && address.id.n <= 63);
	assert(!address.e2b || address.by_header);
	for (size_t i = 0; !address.by_header && i < address.id.n; i++)
		assert((address.id.p[i] >= 'a' && address.id.p[i] <= 'z') ||
		       (address.id.p[i] >= '0' && address.id.p[i] <= '9'));
}

static void check_path(const struct http_req *req)
{
	struct credentials credentials;
	struct str query, name, value;
	char *path;

	credentials_find(req, &credentials);
	assert(credentials.key.n == 0 || address_is_key(credentials.key));
	path = address_path(req, credentials.by_query);
	assert(path && path[0] == req->path.p[0]);
	if (!str_cut(str_of(path), '?', &name, &query))
		return;
	while (http_query_next(&query, &name, &value))
		assert(!str_is(name, TOKEN_QUERY) || value.n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_header fields[MAX_HEADERS];
	struct http_head head = { .headers = fields, .header_max = MAX_HEADERS };
	struct http_scan scan = { 0 };
	struct http_req req;
	struct arena arena;
	size_t n = 0;

	if (http_head_scan(&scan, true, (const char *)data, size, LIMIT, &n) != HTTP_OK ||
	    http_head_parse_request(&head, (const char *)data, n) != HTTP_OK)
		return 0;
	arena_init(&arena, 1 << 20);
	req = (struct http_req){ .arena = &arena,
				 .method = head.method,
				 .target = head.target,
				 .path = head.path,
				 .query = head.query,
				 .headers = head.headers,
				 .header_count = head.header_count };
	if (http_host_split(head.host, &req.host)) {
		check_address(&req);
		check_path(&req);
	}
	arena_done(&arena);
	return 0;
}
