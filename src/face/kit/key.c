/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/key.h"

#include <errno.h>

#include "http/server/server.h"

static bool is_repeated(const struct http_req *req, const char *name)
{
	size_t n = 0;

	for (size_t i = 0; i < req->header_count; i++)
		n += str_eq_nocase(req->headers[i].name, name);
	return n > 1;
}

static struct str bearer(const struct str *header)
{
	if (header->n <= 7 || !str_eq_nocase((struct str){ header->p, 7 }, "bearer "))
		return (struct str){ NULL, 0 };
	return str_trim((struct str){ header->p + 7, header->n - 7 }, " ");
}

int face_key_read(const struct http_req *req, enum face_key_order order, struct str *ret)
{
	const struct str *authorization = http_req_header(req, "authorization");
	const struct str *key = http_req_header(req, "x-api-key");

	if (is_repeated(req, "authorization") || is_repeated(req, "x-api-key"))
		return -EINVAL;
	if (key && (order == FACE_KEY_X_API_KEY_FIRST || !authorization))
		*ret = *key;
	else
		*ret = authorization ? bearer(authorization) : (struct str){ NULL, 0 };
	return 0;
}
