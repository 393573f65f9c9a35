/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes a request body with Content-Encoding: gzip piece by piece, within a limit. The caller
 * owns the decoder.
 */
#ifndef CAY_HTTP_MESSAGE_INFLATE_H
#define CAY_HTTP_MESSAGE_INFLATE_H

#include "base/str.h"

struct http_inflate;

/* limit_bytes: limit of the decoded size. 0 or -ENOMEM. */
int http_inflate_new(uint64_t limit_bytes, struct http_inflate **ret) _must_check_;
void http_inflate_free(struct http_inflate *inflate); /* NULL is allowed */
/*
 * Decodes as much as fits into dst. *ret_used bytes of in were consumed, *ret_n bytes were written.
 * 1: the stream is complete (more input is -EINVAL); 0: more input or more space is needed;
 * -EINVAL: not gzip; -EFBIG: the limit is exceeded.
 */
int http_inflate_step(struct http_inflate *inflate, struct str in, size_t *ret_used, char *dst,
		      size_t size, size_t *ret_n) _must_check_;

#endif
