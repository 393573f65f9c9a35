/* SPDX-License-Identifier: Apache-2.0 */
#include "face/e2b/envd/connect.h"

#include <errno.h>

int envelope_next(struct str bytes, size_t limit, struct str *ret_message, size_t *ret_used,
		  bool *ret_end)
{
	const unsigned char *p = (const unsigned char *)bytes.p;
	size_t n;

	if (bytes.n == 0)
		return 0;
	if (p[0] != ENVELOPE_MESSAGE && p[0] != ENVELOPE_END)
		return -EINVAL;
	if (bytes.n < ENVELOPE_HEAD)
		return 0;
	n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	if (n > limit)
		return -EFBIG;
	if (bytes.n - ENVELOPE_HEAD < n)
		return 0;
	*ret_message = (struct str){ bytes.p + ENVELOPE_HEAD, n };
	*ret_used = ENVELOPE_HEAD + n;
	*ret_end = p[0] == ENVELOPE_END;
	return 1;
}

int envelope_begin(struct buf *out)
{
	static const char head[ENVELOPE_HEAD];

	return buf_append(out, head, sizeof(head));
}

void envelope_close(struct buf *out, size_t begin)
{
	unsigned char *p = (unsigned char *)buf_data(out) + begin;
	size_t n = buf_len(out) - begin - ENVELOPE_HEAD;

	p[1] = (unsigned char)(n >> 24);
	p[2] = (unsigned char)(n >> 16);
	p[3] = (unsigned char)(n >> 8);
	p[4] = (unsigned char)n;
}

int envelope_end(struct buf *out, const char *code, const char *message)
{
	size_t begin = buf_len(out);
	struct json_writer w;
	int r = envelope_begin(out);

	if (r < 0)
		return r;
	json_writer_init(&w, out);
	json_begin_object(&w, NULL);
	if (code) {
		json_begin_object(&w, "error");
		json_put_text(&w, "code", code);
		json_put_text(&w, "message", message);
		json_end_object(&w);
	}
	json_end_object(&w);
	r = json_writer_end(&w);
	if (r < 0)
		return r;
	envelope_close(out, begin);
	buf_data(out)[begin] = ENVELOPE_END;
	return 0;
}
