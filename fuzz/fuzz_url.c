/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Percent decoding: the result is never longer and has no NUL, and encoding reverts it. Lookup
 * agrees with a slow scan.
 */
#include <assert.h>

#include "http/message/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(struct buf *out, struct str s)
{
	static const char hex[] = "0123456789ABCDEF";

	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		char esc[3] = { '%', hex[c >> 4], hex[c & 15] };
		int r = buf_append(out, esc, sizeof(esc));

		assert(r == 0);
	}
}

static void check_decode(struct arena *arena, struct str raw)
{
	struct str once, twice;
	struct buf out;
	int r;

	if (http_decode(arena, raw, true, &once) < 0)
		return;
	assert(once.n <= raw.n && once.p[once.n] == '\0' && strlen(once.p) == once.n);
	buf_init(&out, once.n * 3 + 16);
	encode(&out, once);
	r = http_decode(arena, buf_str(&out), true, &twice);
	assert(r == 0 && str_eq(once, twice));
	buf_done(&out);
}

static int slow_get(struct arena *arena, struct str query, const char *name, struct str *ret)
{
	struct str key, value, plain;

	while (http_query_next(&query, &key, &value)) {
		if (http_decode(arena, key, true, &plain) < 0)
			return -1;
		if (str_is(plain, name))
			return http_decode(arena, value, true, ret) < 0 ? -1 : 1;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str raw = { (const char *)data, size }, fast, slow;
	struct arena arena;
	int a, b;

	if (size > 65536 || memchr(data, 0, size))
		return 0; /* NUL never passes the head parser */
	arena_init(&arena, (size_t)64 << 20);
	check_decode(&arena, raw);
	a = http_query_get(&arena, raw, "ab", &fast);
	b = slow_get(&arena, raw, "ab", &slow);
	assert((a < 0) == (b < 0));
	assert(a < 0 || (a == b && (a == 0 || str_eq(fast, slow))));
	arena_done(&arena);
	return 0;
}
