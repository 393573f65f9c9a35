/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/previews.h"

#include <stdio.h>

#include "base/str.h"

static bool is_domain(struct str name)
{
	if (name.n == 0 || name.n > 190 || name.p[0] == '.' || name.p[name.n - 1] == '.')
		return false;
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.'))
			return false;
	}
	return true;
}

static struct str behind(struct str text, size_t n)
{
	return (struct str){ text.p + n, text.n - n };
}

int previews_address(struct preview_address *address, const char *setting, uint16_t listen_port,
		     struct err *err)
{
	struct str text = str_of(setting), name, port_text;
	bool secure = str_starts(text, "https://"), plain = str_starts(text, "http://");
	uint64_t port = secure || plain ? 0 : listen_port;
	unsigned usual = secure ? 443 : 80;

	text = behind(text, secure ? 8 : plain ? 7 : 0);
	name = text;
	if (str_cut(text, ':', &name, &port_text) &&
	    (str_to_u64(port_text, UINT16_MAX, &port) < 0 || port == 0))
		return err_set(err, ERR_INVALID_REQUEST, "preview_domain: the port is not one");
	if (!is_domain(name))
		return err_set(err, ERR_INVALID_REQUEST,
			       "preview_domain must be a name of lower case letters, digits, "
			       "'-' and '.', such as cay.localhost");
	address->scheme = secure ? "https" : "http";
	(void)!str_copy(address->domain, sizeof(address->domain), name);
	if (port && port != usual)
		(void)snprintf(address->suffix, sizeof(address->suffix), ".%s:%u", address->domain,
			       (unsigned)port);
	else
		(void)snprintf(address->suffix, sizeof(address->suffix), ".%s", address->domain);
	return 0;
}
