/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define FIRST_CAPACITY 512
#define KEEP_CAPACITY 16384 /* an empty buffer larger than this frees its memory */

void buf_init(struct buf *buf, size_t limit_bytes)
{
	*buf = (struct buf){ .limit_bytes = limit_bytes };
}

void buf_done(struct buf *buf)
{
	free(buf->base);
	buf->base = NULL;
	buf->head = buf->tail = buf->capacity = 0;
}

static int grow(struct buf *buf, size_t need)
{
	size_t capacity = buf->capacity ? buf->capacity : FIRST_CAPACITY;
	char *base;

	while (capacity < need)
		capacity *= 2;
	base = realloc(buf->base, capacity);
	if (!base)
		return -ENOMEM;
	buf->base = base;
	buf->capacity = capacity;
	return 0;
}

static bool fits(const struct buf *buf, size_t n)
{
	return n <= buf->limit_bytes && buf_len(buf) <= buf->limit_bytes - n;
}

static int make_room(struct buf *buf, size_t n, char **ret)
{
	size_t len = buf_len(buf);
	int r;

	if (buf->tail + n > buf->capacity) {
		if (buf->head) {
			memmove(buf->base, buf->base + buf->head, len);
			buf->head = 0;
			buf->tail = len;
		}
		if (len + n > buf->capacity) {
			r = grow(buf, len + n);
			if (r < 0)
				return r;
		}
	}
	*ret = buf->base ? buf->base + buf->tail : NULL; /* zero bytes of an empty buffer */
	return 0;
}

int buf_reserve(struct buf *buf, size_t n, char **ret)
{
	return fits(buf, n) ? make_room(buf, n, ret) : -ENOBUFS;
}

void buf_commit(struct buf *buf, size_t n)
{
	buf->tail += n;
}

void buf_clear(struct buf *buf)
{
	if (buf->capacity > KEEP_CAPACITY) {
		buf_done(buf);
		return;
	}
	buf->head = buf->tail = 0;
}

void buf_consume(struct buf *buf, size_t n)
{
	buf->head += n;
	if (buf->head >= buf->tail)
		buf_clear(buf);
}

int buf_append(struct buf *buf, const void *p, size_t n)
{
	char *at;
	int r = buf_reserve(buf, n, &at);

	if (r < 0)
		return r;
	if (n && at)
		memcpy(at, p, n);
	buf_commit(buf, n);
	return 0;
}

int buf_puts(struct buf *buf, const char *s)
{
	return buf_append(buf, s, strlen(s));
}

int buf_putc(struct buf *buf, char c)
{
	return buf_append(buf, &c, 1);
}

int buf_printf(struct buf *buf, const char *fmt, ...)
{
	va_list ap;
	char *at;
	int n, r;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return -EINVAL;
	if (!fits(buf, (size_t)n))
		return -ENOBUFS;
	r = make_room(buf, (size_t)n + 1, &at); /* the NUL does not count towards the limit */
	if (r < 0)
		return r;
	va_start(ap, fmt);
	(void)vsnprintf(at, (size_t)n + 1, fmt, ap);
	va_end(ap);
	buf_commit(buf, (size_t)n);
	return 0;
}
