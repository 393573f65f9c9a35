/* SPDX-License-Identifier: Apache-2.0 */
/* Compressed bodies: the limit holds, and any split of the input yields the same bytes. */
#include <assert.h>
#include <errno.h>

#include "base/buf.h"
#include "http/message/inflate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define LIMIT 65536

static int run(struct str in, size_t step, size_t room, struct buf *out)
{
	struct http_inflate *inflate = NULL;
	size_t at = 0, used, n;
	char dst[4096];
	int r = http_inflate_new(LIMIT, &inflate);

	assert(r == 0);
	do {
		r = http_inflate_step(inflate, (struct str){ in.p + at, MIN(step, in.n - at) },
				      &used, dst, room, &n);
		assert(n <= room && used <= in.n - at);
		if (r >= 0 && buf_append(out, dst, n) < 0)
			abort();
		at += used;
	} while (r == 0 && (used || n || at < in.n) && (used || n));
	http_inflate_free(inflate);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str in = { (const char *)data + 1, size - 1 };
	struct buf whole, split;
	int a, b;

	if (size < 2)
		return 0;
	buf_init(&whole, LIMIT);
	buf_init(&split, LIMIT);
	a = run(in, in.n, 4096, &whole);
	b = run(in, data[0] % 16 + 1, data[0] % 64 + 1, &split);
	/*
	 * Input that is both too large and not gzip is rejected for the reason that is found first.
	 */
	assert((a < 0) == (b < 0) && (a < 0 || a == b));
	if (a == 1)
		assert(str_eq(buf_str(&whole), buf_str(&split)));
	buf_done(&whole);
	buf_done(&split);
	return 0;
}
