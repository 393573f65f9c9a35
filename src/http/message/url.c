/* SPDX-License-Identifier: Apache-2.0 */
#include "http/message/url.h"

#include <errno.h>

static int hex_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int http_decode(struct arena *arena, struct str raw, bool plus_is_space, struct str *ret)
{
	char *dst = arena_alloc(arena, raw.n + 1);
	size_t len = 0;

	if (!dst)
		return -ENOMEM;
	for (size_t i = 0; i < raw.n; i++) {
		char c = raw.p[i];

		if (c == '%') {
			int high = i + 2 < raw.n ? hex_of(raw.p[i + 1]) : -1;
			int low = i + 2 < raw.n ? hex_of(raw.p[i + 2]) : -1;

			if (high < 0 || low < 0)
				return -EINVAL;
			c = (char)(high * 16 + low);
			i += 2;
		} else if (c == '+' && plus_is_space) {
			c = ' ';
		}
		if (c == '\0')
			return -EINVAL;
		dst[len++] = c;
	}
	dst[len] = '\0';
	*ret = (struct str){ dst, len };
	return 0;
}

bool http_query_next(struct str *rest, struct str *ret_name, struct str *ret_value)
{
	while (rest->n) {
		struct str pair = *rest, next = { "", 0 };

		if (!str_cut(*rest, '&', &pair, &next)) {
			pair = *rest;
			next = (struct str){ "", 0 };
		}
		*rest = next;
		if (pair.n == 0)
			continue;
		if (!str_cut(pair, '=', ret_name, ret_value)) {
			*ret_name = pair;
			*ret_value = (struct str){ "", 0 };
		}
		return true;
	}
	return false;
}

/* Compares while decoding, so that a lookup allocates no memory for other names. */
static int name_matches(struct str raw, const char *name)
{
	bool same = true;

	for (size_t i = 0; i < raw.n; i++) {
		char c = raw.p[i];

		if (c == '%') {
			int high = i + 2 < raw.n ? hex_of(raw.p[i + 1]) : -1;
			int low = i + 2 < raw.n ? hex_of(raw.p[i + 2]) : -1;

			if (high < 0 || low < 0 || (high == 0 && low == 0))
				return -EINVAL;
			c = (char)(high * 16 + low);
			i += 2;
		} else if (c == '+') {
			c = ' ';
		}
		if (same && *name == c && c)
			name++;
		else
			same = false;
	}
	return same && *name == '\0';
}

int http_query_get(struct arena *arena, struct str query, const char *name, struct str *ret)
{
	struct str key, value;

	while (http_query_next(&query, &key, &value)) {
		int r = name_matches(key, name);

		if (r < 0)
			return r;
		if (r == 0)
			continue;
		r = http_decode(arena, value, true, ret);
		return r < 0 ? r : 1;
	}
	return 0;
}
