/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chunked transfer coding: a strict decoder that accepts the bytes in pieces of any size, and
 * an encoder.
 */
#ifndef CAY_HTTP_MESSAGE_CHUNKED_H
#define CAY_HTTP_MESSAGE_CHUNKED_H

#include "base/buf.h"
#include "base/str.h"

/* Limits; a body that exceeds one of them is malformed (-EPROTO). */
#define HTTP_CHUNK_DIGITS_MAX 16       /* and never beyond INT64_MAX */
#define HTTP_CHUNK_EXTENSION_MAX 256   /* bytes after one size */
#define HTTP_CHUNK_EXTENSIONS_MAX 4096 /* bytes of all extensions of one body */
#define HTTP_CHUNK_TRAILER_MAX 4096    /* bytes of all trailers; they are validated */
#define HTTP_CHUNK_TRAILER_KEPT 64     /* and all but this many are discarded */

enum http_chunk_state {
	HTTP_CHUNK_SIZE,
	HTTP_CHUNK_EXTENSION,
	HTTP_CHUNK_SIZE_LF,
	HTTP_CHUNK_DATA,
	HTTP_CHUNK_DATA_CR,
	HTTP_CHUNK_DATA_LF,
	HTTP_CHUNK_TRAILER_START,
	HTTP_CHUNK_TRAILER_NAME,
	HTTP_CHUNK_TRAILER_VALUE,
	HTTP_CHUNK_TRAILER_LF,
	HTTP_CHUNK_END_LF,
	HTTP_CHUNK_END,
	HTTP_CHUNK_FAILED,
};

struct http_chunked {
	enum http_chunk_state state;
	uint64_t left; /* first the size being read, then what is left of the chunk */
	unsigned digits;
	unsigned extension_bytes;
	unsigned extensions_bytes;
	unsigned trailer_bytes;
	char trailer[HTTP_CHUNK_TRAILER_KEPT]; /* its start; lines end in "\r" */
	/* NULL, or a buffer for all trailers in the same form; set it after init */
	struct buf *keep;
};

void http_chunked_init(struct http_chunked *c);
/*
 * Consumes a prefix of the bytes; ret_data is the part of them that is body (possibly empty). Call
 * again with the rest. 0: continue; 1: the body has ended (the next message follows); -EPROTO:
 * malformed, permanently.
 */
int http_chunked_next(struct http_chunked *c, const char *p, size_t n, size_t *ret_used,
		      struct str *ret_data) _must_check_;

#define HTTP_CHUNK_HEAD_SIZE 20
/* Writes the line before n > 0 bytes of data; "\r\n" must follow them. Returns its length. */
size_t http_chunk_head(char dst[HTTP_CHUNK_HEAD_SIZE], size_t n);
#define HTTP_CHUNK_LAST "0\r\n\r\n"

#endif
