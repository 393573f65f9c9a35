/* SPDX-License-Identifier: Apache-2.0 */
#include "http/message/sse.h"

#include <errno.h>

/* Each line end is at least one byte of input, so no line is longer than its prefix and itself. */
static size_t worst_size(struct str event, struct str id, struct str data)
{
	size_t lines = 1;

	for (size_t i = 0; i < data.n; i++)
		if (data.p[i] == '\n' || data.p[i] == '\r')
			lines++;
	return event.n + id.n + data.n + lines * 7 + 16;
}

static size_t put(char *dst, struct str s)
{
	if (s.n)
		memcpy(dst, s.p, s.n);
	return s.n;
}

static size_t put_field(char *dst, struct str name, struct str value)
{
	size_t n = put(dst, name);

	for (size_t i = 0; i < value.n; i++)
		if (value.p[i] != '\r' && value.p[i] != '\n' && value.p[i] != '\0')
			dst[n++] = value.p[i];
	dst[n++] = '\n';
	return n;
}

static size_t put_data(char *dst, struct str data)
{
	size_t n = 0, start = 0;

	for (;;) {
		size_t end = start;

		while (end < data.n && data.p[end] != '\r' && data.p[end] != '\n')
			end++;
		n += put(dst + n, STR_LIT("data: "));
		n += put(dst + n, (struct str){ data.p + start, end - start });
		dst[n++] = '\n';
		if (end == data.n)
			return n;
		start = end + 1;
		if (data.p[end] == '\r' && start < data.n && data.p[start] == '\n')
			start++;
	}
}

int sse_event(struct buf *out, struct str event, struct str id, struct str data)
{
	size_t n = 0;
	char *dst;
	int r = buf_reserve(out, worst_size(event, id, data), &dst);

	if (r < 0)
		return r;
	if (event.n)
		n += put_field(dst + n, STR_LIT("event: "), event);
	if (id.n)
		n += put_field(dst + n, STR_LIT("id: "), id);
	n += put_data(dst + n, data);
	dst[n++] = '\n';
	buf_commit(out, n);
	return 0;
}
