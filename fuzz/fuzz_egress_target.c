/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client sends to the egress proxy. An accepted request names a valid target, and a
 * rewritten request is one head that a strict parser reads as a request for that target.
 */
#include <stdlib.h>
#include <string.h>

#include "face/egress/target.h"
#include "http/message/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool right)
{
	if (!right)
		abort();
}

static void check_rewritten(struct str head, const struct target *target)
{
	struct http_header headers[256];
	struct http_head parsed = { .headers = headers, .header_max = 256 };
	struct http_scan scan = { 0 };
	struct str host;
	struct buf out;
	size_t n = 0;

	buf_init(&out, 65536);
	if (target_rewrite(head, target, &out) == 0) {
		/*
		 * The relay checks what it reads, so a request that the parser rejects is not
		 * forwarded.
		 */
		if (http_head_scan(&scan, true, buf_data(&out), buf_len(&out), 65536, &n) ==
			    HTTP_OK &&
		    http_head_parse_request(&parsed, buf_data(&out), n) == HTTP_OK) {
			check(n == buf_len(&out));
			check(parsed.target.p[0] == '/');
			check(http_host_split(parsed.host, &host));
			check(!target->name[0] || str_is(host, target->name));
			check(parsed.upgrade || !parsed.keep_alive);
		}
	}
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct target target;
	struct str bytes;

	if (size < 1)
		return 0;
	bytes = (struct str){ (const char *)data + 1, size - 1 };
	target_read(bytes, data[0] & 1, &target);
	check(target.used <= bytes.n);
	check(target.kind != TARGET_BAD || target.why);
	if (target.kind >= TARGET_SOCKS) {
		check(target.port && target.used);
		check(memchr(target.name, 0, sizeof(target.name)));
		for (const char *c = target.name; *c; c++)
			check(*c > ' ' && *c < 127 && *c != ':' && !(*c >= 'A' && *c <= 'Z'));
	}
	if (target.kind == TARGET_FORWARD)
		check_rewritten((struct str){ bytes.p, target.used }, &target);
	return 0;
}
