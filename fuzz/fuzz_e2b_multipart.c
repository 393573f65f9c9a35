/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forms: any split of the body yields the same parts. The first byte is the size of the pieces, the
 * first line the content type.
 */
#include <assert.h>

#include "base/buf.h"
#include "face/e2b/envd/multipart.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Everything that was reported, as text. */
static int parse(struct str type, struct str body, size_t step, struct buf *out)
{
	struct multipart *m = calloc(1, sizeof(*m));
	struct buf in;
	size_t at = 0;
	int r = m ? multipart_init(m, type) : -1;

	buf_init(&in, body.n + 1);
	while (r >= 0) {
		size_t used = 0;

		r = multipart_next(m, buf_str(&in), &used);
		assert(used <= buf_len(&in));
		if (r == MULTIPART_BEGIN && buf_printf(out, "\n[%s|%s]", m->name, m->filename) < 0)
			abort();
		if (r == MULTIPART_DATA && buf_append(out, m->data.p, m->data.n) < 0)
			abort();
		if (r == MULTIPART_PART_END && buf_puts(out, "[/]") < 0)
			abort();
		if (r < 0 || r == MULTIPART_END)
			break;
		buf_consume(&in, used);
		if (r == MULTIPART_MORE && used == 0) {
			size_t take = MIN(step, body.n - at);

			if (take == 0)
				break;
			if (buf_append(&in, body.p + at, take) < 0)
				abort();
			at += take;
		}
	}
	buf_done(&in);
	free(m);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = { (const char *)data + 1, size - 1 }, type, body;
	struct buf whole, split;
	int a, b;

	if (size < 1 || !str_cut(rest, '\n', &type, &body))
		return 0;
	buf_init(&whole, 64 * size + 65536);
	buf_init(&split, 64 * size + 65536);
	a = parse(type, body, body.n, &whole);
	b = parse(type, body, data[0] % 16 + 1, &split);
	/*
	 * A head that is too long is rejected at another byte; nothing else depends on the split.
	 */
	assert((a < 0) == (b < 0));
	if (a >= 0)
		assert(a == b && str_eq(buf_str(&whole), buf_str(&split)));
	buf_done(&whole);
	buf_done(&split);
	return 0;
}
