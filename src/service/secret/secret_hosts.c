/* SPDX-License-Identifier: Apache-2.0 */
/* Names of secrets and the hosts they are bound to, as callers write them. */
#include <stdio.h>

#include "service/secret/secret_internal.h"

bool secret_name_ok(struct str name)
{
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

		if (!letter && !(i > 0 && c >= '0' && c <= '9'))
			return false;
	}
	return name.n >= 1 && name.n <= SECRET_NAME_MAX;
}

/* "name", "*.name", either with ":port". */
static bool host_ok(struct str host)
{
	struct str name = host, port;
	uint64_t number;

	if (str_cut(host, ':', &name, &port) &&
	    (str_to_u64(port, UINT16_MAX, &number) < 0 || !number))
		return false;
	if (str_starts(name, "*."))
		name = (struct str){ name.p + 2, name.n - 2 };
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
		bool dot = c == '.' && i > 0 && i + 1 < name.n && name.p[i - 1] != '.';

		if (!word && !dot)
			return false;
	}
	return name.n >= 1 && name.n <= 253;
}

int secret_hosts_make(const struct text_list *hosts, const char *what, char **ret, struct err *err)
{
	size_t count = hosts->count;
	struct buf out;
	int r = 0;

	if (count > SECRET_HOSTS_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "%s: at most %d hosts", what,
			       SECRET_HOSTS_MAX);
	buf_init(&out, SECRET_HOSTS_BYTES);
	for (size_t i = 0; i < count && r == 0; i++) {
		struct str host = hosts->list[i];

		if (!host_ok(host)) {
			buf_done(&out);
			return err_set(err, ERR_INVALID_REQUEST,
				       "%s[%zu] must be a host name in lower case, optionally with "
				       "\"*.\" before and \":port\" after it",
				       what, i);
		}
		r = buf_printf(&out, "%s%.*s", i ? "," : "", (int)host.n, host.p);
	}
	*ret = r == 0 ? strndup(buf_str(&out).p, buf_len(&out)) : NULL;
	buf_done(&out);
	return *ret ? 0 : err_set(err, ERR_INVALID_REQUEST, "%s is too long", what);
}
