/* SPDX-License-Identifier: Apache-2.0 */
#include "http/message/target.h"

#include <errno.h>

static bool is_host_byte(char c, bool v6)
{
	bool digit = c >= '0' && c <= '9';
	bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

	if (v6)
		return digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' ||
		       c == '.';
	return digit || letter || c == '-' || c == '.' || c == '_';
}

/* Removes "[v6]" or a name from the front of *rest. */
static int take_host(struct str *rest, struct str *ret)
{
	bool v6 = rest->n && rest->p[0] == '[';
	size_t from = v6, n = from;

	while (n < rest->n && is_host_byte(rest->p[n], v6))
		n++;
	*ret = (struct str){ rest->p + from, n - from };
	if (v6) {
		if (n >= rest->n || rest->p[n] != ']')
			return -EINVAL;
		n++;
	}
	*rest = (struct str){ rest->p + n, rest->n - n };
	return ret->n && ret->p[0] != '.' && ret->p[0] != '-' ? 0 : -EINVAL;
}

static int take_port(struct str *rest, uint16_t *ret)
{
	uint64_t port;
	size_t n = 1;

	if (!rest->n || rest->p[0] != ':')
		return 0;
	while (n < rest->n && rest->p[n] >= '0' && rest->p[n] <= '9')
		n++;
	if (str_to_u64((struct str){ rest->p + 1, n - 1 }, UINT16_MAX, &port) < 0 || port == 0)
		return -EINVAL;
	*rest = (struct str){ rest->p + n, rest->n - n };
	*ret = (uint16_t)port;
	return 0;
}

int http_target_parse(struct str url, struct http_target *ret)
{
	bool secure = str_starts(url, "https://");
	struct http_target t = { .secure = secure, .port = secure ? 443 : 80 };
	struct str rest = url, host;
	size_t skip = secure ? 8 : 7;

	if (url.n > HTTP_TARGET_URL_MAX || (!secure && !str_starts(url, "http://")))
		return -EINVAL;
	rest = (struct str){ url.p + skip, url.n - skip };
	t.authority.p = rest.p;
	if (take_host(&rest, &host) < 0 || take_port(&rest, &t.port) < 0 ||
	    str_copy(t.host, sizeof(t.host), host) < 0)
		return -EINVAL;
	t.authority.n = (size_t)(rest.p - t.authority.p);
	if (rest.n && rest.p[0] != '/')
		return -EINVAL; /* a user name, or unknown syntax */
	for (size_t i = 0; i < rest.n; i++)
		if (rest.p[i] <= ' ' || rest.p[i] >= 0x7f || rest.p[i] == '#')
			return -EINVAL;
	t.path = rest.n ? rest : STR_LIT("/");
	*ret = t;
	return 0;
}
