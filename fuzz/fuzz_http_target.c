/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs of webhooks: an accepted URL is valid in a request line and a Host header, and names one
 * host.
 */
#include <assert.h>

#include "http/message/head.h"
#include "http/message/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str url = { (const char *)data, size }, host;
	struct http_target t;

	if (http_target_parse(url, &t) < 0)
		return 0;
	assert(size <= HTTP_TARGET_URL_MAX && t.port > 0);
	assert(t.host[0] && strlen(t.host) <= HTTP_TARGET_HOST_MAX &&
	       !strpbrk(t.host, "@/?#[] \r\n"));
	assert(t.path.n && t.path.p[0] == '/');
	for (size_t i = 0; i < t.path.n; i++)
		assert(t.path.p[i] > ' ' && t.path.p[i] < 0x7f && t.path.p[i] != '#');
	assert(http_is_field_value(t.authority) && t.authority.n);
	if (http_host_split(t.authority, &host))
		assert(host.n >= strlen(t.host));
	return 0;
}
