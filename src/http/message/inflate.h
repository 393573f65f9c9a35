/* SPDX-License-Identifier: Apache-2.0 */
/* Content-Encoding: gzip of a request's body, piece by piece, within a limit. */
#ifndef CAY_HTTP_MESSAGE_INFLATE_H
#define CAY_HTTP_MESSAGE_INFLATE_H

#include "base/str.h"

struct http_inflate;

/* limit_bytes: of all that may come out. 0 or -ENOMEM. */
int http_inflate_new(uint64_t limit_bytes, struct http_inflate **ret) _must_check_;
void http_inflate_free(struct http_inflate *inflate); /* NULL is fine */
/*
 * Decodes into dst as much as fits. *ret_used bytes of in are done with, *ret_n bytes came out.
 * 1: the stream is complete (more input is -EINVAL); 0: more input or more room; -EINVAL: no gzip;
 * -EFBIG: more than the limit comes out.
 */
int http_inflate_step(struct http_inflate *inflate, struct str in, size_t *ret_used, char *dst,
		      size_t size, size_t *ret_n) _must_check_;

#endif
