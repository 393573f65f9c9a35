/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cross-origin requests. A page must set the key's header itself; the browser never does. Cookies
 * are therefore not used, and Access-Control-Allow-Credentials is never sent. Without the setting,
 * none of this is enabled.
 */
#include "face/kit/cors.h"

#include <errno.h>

#include "http/server/server.h"

#define MAX_AGE_SEC "600"
#define METHODS "GET, HEAD, POST, PUT, PATCH, DELETE"
#define REQUEST_HEADERS                                                                   \
	"Authorization, X-API-Key, Content-Type, Idempotency-Key, Last-Event-ID, Range, " \
	"If-None-Match, If-Range"
#define ANSWER_HEADERS "ETag, Content-Range, Retry-After, X-Request-Id, Allow"

/*
 * Scheme, host and port as a browser writes them: lower case, without a path or a trailing slash.
 */
static bool is_origin(struct str text)
{
	size_t n = str_starts(text, "https://") ? 8 : str_starts(text, "http://") ? 7 : 0;

	if (!n || text.n == n)
		return false;
	for (size_t i = n; i < text.n; i++) {
		char c = text.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
		      c == ':' || c == '[' || c == ']'))
			return false;
	}
	return true;
}

static int add(struct cors *cors, struct str text)
{
	char **origins;

	if (!is_origin(text))
		return -EINVAL;
	origins = realloc(cors->origins, (cors->count + 1) * sizeof(*origins));
	if (!origins)
		return -ENOMEM;
	cors->origins = origins;
	origins[cors->count] = strndup(text.p, text.n);
	if (!origins[cors->count])
		return -ENOMEM;
	cors->count++;
	return 0;
}

int cors_init(struct cors *cors, const char *list)
{
	const char *at = list ? list : "";

	*cors = (struct cors){ NULL, 0 };
	while (*at) {
		size_t n = strcspn(at, " ,\t");
		int r = n ? add(cors, (struct str){ at, n }) : 0;

		if (r < 0)
			return r;
		at += MAX(n, (size_t)1);
	}
	return 0;
}

void cors_done(struct cors *cors)
{
	for (size_t i = 0; i < cors->count; i++)
		free(cors->origins[i]);
	free(cors->origins);
	*cors = (struct cors){ NULL, 0 };
}

bool cors_allows(const struct cors *cors, struct str origin)
{
	for (size_t i = 0; i < cors->count; i++)
		if (str_is(origin, cors->origins[i]))
			return true;
	return false;
}

void cors_mark(const struct cors *cors, struct http_req *req)
{
	const struct str *origin = http_req_header(req, "origin");

	if (!cors->count)
		return;
	/* Also for other origins: a cache must not give one page the reply to another. */
	http_req_add(req, STR_LIT("Vary"), STR_LIT("Origin"));
	if (!origin || !cors_allows(cors, *origin))
		return;
	http_req_add(req, STR_LIT("Access-Control-Allow-Origin"), *origin);
	http_req_add(req, STR_LIT("Access-Control-Expose-Headers"), STR_LIT(ANSWER_HEADERS));
}

bool cors_preflight(const struct cors *cors, struct http_req *req)
{
	static const struct http_header headers[] = {
		{ STR_LIT("Access-Control-Allow-Methods"), STR_LIT(METHODS) },
		{ STR_LIT("Access-Control-Allow-Headers"), STR_LIT(REQUEST_HEADERS) },
		{ STR_LIT("Access-Control-Max-Age"), STR_LIT(MAX_AGE_SEC) },
		{ STR_LIT("Access-Control-Allow-Private-Network"), STR_LIT("true") },
	};
	const struct str *origin = http_req_header(req, "origin");
	bool private = http_req_header(req, "access-control-request-private-network") != NULL;

	if (req->method != HTTP_OPTIONS || !origin || !cors_allows(cors, *origin) ||
	    !http_req_header(req, "access-control-request-method"))
		return false;
	/* The same for every path: without a key a client cannot learn which routes exist. */
	http_reply(req, 204, headers, ARRAY_LEN(headers) - !private, (struct str){ "", 0 });
	return true;
}
