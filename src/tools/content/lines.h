/* SPDX-License-Identifier: Apache-2.0 */
/* Splits a stream of bytes into lines and returns a range of them. No I/O. */
#ifndef CAY_TOOLS_CONTENT_LINES_H
#define CAY_TOOLS_CONTENT_LINES_H

#include "wire/tool.h"

#define LINES_SHOWN_MAX 2000 /* bytes of one line */

struct lines {
	uint64_t first, count; /* the range; lines count from 1 */
	uint64_t bytes_max;    /* limit of the returned text */
	uint64_t number;       /* complete lines so far */
	uint64_t sent, sent_bytes, sent_crlf;
	bool full; /* bytes_max was reached before the end of the range */
	void (*emit)(void *arg, const struct tool_line *line);
	void *arg;
	/* the current line */
	uint64_t line_bytes;
	char last; /* its last byte */
	size_t text_len;
	char text[LINES_SHOWN_MAX + 4];
};

void lines_feed(struct lines *l, struct str bytes);
/* End of the file: also returns a last line without a line end. True: there was one. */
bool lines_finish(struct lines *l);
/* The number of line ends. */
uint64_t lines_count(struct str s);
/* NUL in its first bytes: not text. */
bool lines_look_binary(struct str front);

#endif
