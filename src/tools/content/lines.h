/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts a stream of bytes into lines and hands out a window of them. Pure. */
#ifndef CAY_TOOLS_CONTENT_LINES_H
#define CAY_TOOLS_CONTENT_LINES_H

#include "wire/tool.h"

#define LINES_SHOWN_MAX 2000 /* bytes of one line */

struct lines {
	uint64_t first, count; /* the window; lines count from 1 */
	uint64_t bytes_max;    /* of text handed out */
	uint64_t number;       /* lines ended so far */
	uint64_t sent, sent_bytes, sent_crlf;
	bool full; /* bytes_max was reached before the window's end */
	void (*emit)(void *arg, const struct tool_line *line);
	void *arg;
	/* the line under way */
	uint64_t line_bytes;
	char last; /* its last byte */
	size_t text_len;
	char text[LINES_SHOWN_MAX + 4];
};

void lines_feed(struct lines *l, struct str bytes);
/* The end of the file: a last line without an end is handed out too. True: there was one. */
bool lines_finish(struct lines *l);
/* How many line ends there are. */
uint64_t lines_count(struct str s);
/* NUL in its front: not text. */
bool lines_look_binary(struct str front);

#endif
