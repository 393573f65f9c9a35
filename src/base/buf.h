/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A byte queue that grows up to a limit. The limit is set at creation; there is no unlimited
 * buffer. The owner of the struct owns the bytes.
 */
#ifndef CAY_BASE_BUF_H
#define CAY_BASE_BUF_H

#include "base/macro.h"
#include "base/str.h"

/*
 * Bytes are appended at the end and consumed at the front. At limit_bytes every append returns
 * -ENOBUFS and changes nothing; the owner decides whether to block, drop or close.
 */
struct buf {
	char *base;
	size_t head; /* first unread byte */
	size_t tail; /* one past the last byte */
	size_t capacity;
	size_t limit_bytes;
};

void buf_init(struct buf *buf, size_t limit_bytes);
void buf_done(struct buf *buf);

static inline char *buf_data(const struct buf *buf)
{
	return buf->base ? buf->base + buf->head : NULL;
}

static inline size_t buf_len(const struct buf *buf)
{
	return buf->tail - buf->head;
}

static inline struct str buf_str(const struct buf *buf)
{
	return (struct str){ buf->base ? buf_data(buf) : "", buf_len(buf) };
}

/*
 * Allocates space for n more bytes after the tail. The caller writes there and calls buf_commit().
 */
int buf_reserve(struct buf *buf, size_t n, char **ret) _must_check_;
void buf_commit(struct buf *buf, size_t n);
/* frees the memory if the buffer is then empty and large */
void buf_consume(struct buf *buf, size_t n);
void buf_clear(struct buf *buf);

int buf_append(struct buf *buf, const void *p, size_t n) _must_check_;
int buf_puts(struct buf *buf, const char *s) _must_check_;
int buf_putc(struct buf *buf, char c) _must_check_;
int buf_printf(struct buf *buf, const char *fmt, ...) _printf_(2, 3) _must_check_;

#endif
