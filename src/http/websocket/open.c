/* SPDX-License-Identifier: Apache-2.0 */
/* The opening of a WebSocket, server side (RFC 6455, section 4.2). */
#include <errno.h>

#include "http/websocket/websocket.h"
#include "http/websocket/key.h"

const struct http_header websocket_refusal_headers[WEBSOCKET_REFUSAL_HEADER_COUNT] = {
	{ { "Upgrade", 7 }, { "websocket", 9 } },
	{ { "Sec-WebSocket-Version", 21 }, { "13", 2 } },
};

static const struct str *header_once(const struct http_req *req, const char *name,
				     size_t *ret_count)
{
	const struct str *found = NULL;

	*ret_count = 0;
	for (size_t i = 0; i < req->header_count; i++) {
		if (!str_eq_nocase(req->headers[i].name, name))
			continue;
		found = &req->headers[i].value;
		++*ret_count;
	}
	return found;
}

/* "h2c, websocket": the header may be repeated and may list several. */
static bool asks_for_websocket(const struct http_req *req)
{
	for (size_t i = 0; i < req->header_count; i++) {
		struct str rest = req->headers[i].value, token;

		if (!str_eq_nocase(req->headers[i].name, "upgrade"))
			continue;
		while (rest.n) {
			if (!str_cut(rest, ',', &token, &rest)) {
				token = rest;
				rest.n = 0;
			}
			if (str_eq_nocase(str_trim(token, " \t"), "websocket"))
				return true;
		}
	}
	return false;
}

static int refuse(int r, const char *why, const char **ret_why)
{
	*ret_why = why;
	return r;
}

int websocket_check(const struct http_req *req, const char **ret_why)
{
	const struct str *version, *key;
	size_t versions, keys;

	if (!req->upgrade || !asks_for_websocket(req))
		return refuse(
			-EPROTONOSUPPORT,
			"This is a WebSocket: send Connection: Upgrade and Upgrade: websocket.",
			ret_why);
	if (req->method != HTTP_GET)
		return refuse(-EINVAL, "A WebSocket is opened with GET.", ret_why);
	if (req->has_body)
		return refuse(-EINVAL, "The opening of a WebSocket has no body.", ret_why);
	version = header_once(req, "sec-websocket-version", &versions);
	if (versions != 1 || !str_is(*version, "13"))
		return refuse(-EPROTONOSUPPORT, "Only Sec-WebSocket-Version 13 is spoken here.",
			      ret_why);
	key = header_once(req, "sec-websocket-key", &keys);
	if (keys != 1 || !websocket_key_is_valid(*key))
		return refuse(-EINVAL, "Sec-WebSocket-Key must be there once: 16 bytes in base64.",
			      ret_why);
	return 0;
}
