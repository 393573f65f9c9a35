/* SPDX-License-Identifier: Apache-2.0 */
#include "http/message/inflate.h"

#include <errno.h>
#include <zlib.h>

#define GZIP_ONLY (15 + 16) /* zlib's code for the largest window with a gzip header */

/* Owner: the caller of http_inflate_new(). */
struct http_inflate {
	z_stream z;
	uint64_t left;
	bool ended;
};

int http_inflate_new(uint64_t limit_bytes, struct http_inflate **ret)
{
	struct http_inflate *self = calloc(1, sizeof(*self));

	if (!self)
		return -ENOMEM;
	self->left = limit_bytes;
	if (inflateInit2(&self->z, GZIP_ONLY) != Z_OK) {
		free(self);
		return -ENOMEM;
	}
	*ret = self;
	return 0;
}

void http_inflate_free(struct http_inflate *self)
{
	if (!self)
		return;
	(void)inflateEnd(&self->z);
	free(self);
}

int http_inflate_step(struct http_inflate *self, struct str in, size_t *ret_used, char *dst,
		      size_t size, size_t *ret_n)
{
	unsigned char *bytes = (unsigned char *)(uintptr_t)in.p; /* zlib only reads it */
	unsigned given = (unsigned)MIN(in.n, (size_t)1 << 20);
	unsigned room = (unsigned)MIN(size, (size_t)1 << 20);
	int r;

	*ret_used = *ret_n = 0;
	if (self->ended)
		return in.n ? -EINVAL : 1;
	self->z.next_in = bytes;
	self->z.avail_in = given;
	self->z.next_out = (unsigned char *)dst;
	self->z.avail_out = room;
	r = inflate(&self->z, Z_NO_FLUSH);
	if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
		return r == Z_MEM_ERROR ? -ENOMEM : -EINVAL;
	*ret_used = given - self->z.avail_in;
	*ret_n = room - self->z.avail_out;
	if (*ret_n > self->left)
		return -EFBIG;
	self->left -= *ret_n;
	self->ended = r == Z_STREAM_END;
	return self->ended;
}
