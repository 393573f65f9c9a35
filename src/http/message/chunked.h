/* SPDX-License-Identifier: Apache-2.0 */
/* The chunked transfer coding: a strict decoder that takes any split of the bytes, and the encoder.
 */
#ifndef CAY_HTTP_MESSAGE_CHUNKED_H
#define CAY_HTTP_MESSAGE_CHUNKED_H

#include "base/buf.h"
#include "base/str.h"

/* Limits; beyond any of them the body is malformed (-EPROTO). */
#define HTTP_CHUNK_DIGITS_MAX 16       /* and never beyond INT64_MAX */
#define HTTP_CHUNK_EXTENSION_MAX 256   /* bytes behind one size */
#define HTTP_CHUNK_EXTENSIONS_MAX 4096 /* bytes of all extensions of one body */
#define HTTP_CHUNK_TRAILER_MAX 4096    /* bytes of all trailers; they are checked */
#define HTTP_CHUNK_TRAILER_KEPT 64     /* and but for so much thrown away */

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
	uint64_t left; /* of the size being read, then of the chunk */
	unsigned digits;
	unsigned extension_bytes;
	unsigned extensions_bytes;
	unsigned trailer_bytes;
	char trailer[HTTP_CHUNK_TRAILER_KEPT]; /* its begin, lines end in "\r" */
	struct buf *keep; /* NULL, or where all of it goes likewise; set after init */
};

void http_chunked_init(struct http_chunked *c);
/*
 * Takes a prefix of the bytes; ret_data is the part of them that is body (maybe empty). Call again
 * with the rest. 0: go on; 1: the body has ended (what follows is the next message); -EPROTO:
 * malformed, and it stays so.
 */
int http_chunked_next(struct http_chunked *c, const char *p, size_t n, size_t *ret_used,
		      struct str *ret_data) _must_check_;

#define HTTP_CHUNK_HEAD_SIZE 20
/* Writes the line before n > 0 bytes of data; behind them goes "\r\n". Returns its length. */
size_t http_chunk_head(char dst[HTTP_CHUNK_HEAD_SIZE], size_t n);
#define HTTP_CHUNK_LAST "0\r\n\r\n"

#endif
