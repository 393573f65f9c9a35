/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunked bodies: any split yields the same bytes and the same end, and encoding the result and
 * decoding it again yields the same bytes. The first byte is the size of the pieces.
 */
#include <assert.h>

#include "base/buf.h"
#include "http/message/chunked.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int decode(const char *p, size_t n, size_t step, struct buf *out, size_t *ret_used)
{
	struct http_chunked c;
	size_t at = 0;
	int r = 0;

	http_chunked_init(&c);
	while (at < n && r == 0) {
		size_t take = MIN(step, n - at), used;
		struct str piece;

		r = http_chunked_next(&c, p + at, take, &used, &piece);
		assert(used <= take && piece.n <= take);
		assert(r != 0 || used > 0);
		at += used;
		if (buf_append(out, piece.p, piece.n) < 0)
			abort();
	}
	*ret_used = at;
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf whole, split, again;
	char line[HTTP_CHUNK_HEAD_SIZE];
	size_t whole_used, split_used;
	int a, b;

	if (size < 1)
		return 0;
	buf_init(&whole, size);
	buf_init(&split, size);
	buf_init(&again, size + 64);
	a = decode((const char *)data + 1, size - 1, size, &whole, &whole_used);
	b = decode((const char *)data + 1, size - 1, data[0] % 16 + 1, &split, &split_used);
	assert(a == b && whole_used == split_used);
	assert(str_eq(buf_str(&whole), buf_str(&split)));
	if (a == 1) {
		size_t n = buf_len(&whole);
		int r = 0;

		if (n) {
			r |= buf_append(&again, line, http_chunk_head(line, n));
			r |= buf_append(&again, buf_data(&whole), n);
			r |= buf_puts(&again, "\r\n");
		}
		r |= buf_puts(&again, HTTP_CHUNK_LAST);
		assert(r == 0);
		buf_clear(&split);
		a = decode(buf_data(&again), buf_len(&again), 7, &split, &split_used);
		assert(a == 1 && split_used == buf_len(&again));
		assert(str_eq(buf_str(&whole), buf_str(&split)));
	}
	buf_done(&whole);
	buf_done(&split);
	buf_done(&again);
	return 0;
}
