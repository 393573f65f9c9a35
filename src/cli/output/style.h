/* SPDX-License-Identifier: Apache-2.0 */
/* Formatting for people: colours, times, sizes, and sanitizing of foreign text. */
#ifndef CAY_CLI_OUTPUT_STYLE_H
#define CAY_CLI_OUTPUT_STYLE_H

#include <stdio.h>

#include "base/str.h"

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_RED, STYLE_GREEN, STYLE_YELLOW, STYLE_CYAN };
enum color_mode { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

/* Whether to colour output to this descriptor; honours NO_COLOR and TERM=dumb. */
bool style_wanted(enum color_mode mode, int fd);
const char *style_on(bool color, enum style style);
const char *style_off(bool color);
/* The style of a sandbox state. */
enum style style_of_state(struct str state);

#define STYLE_SPAN_SIZE 24
/* "42s", "5m", "3h", "2d" */
void style_span(char dst[STYLE_SPAN_SIZE], int64_t seconds);
/* "512 MB", "1.5 GB" from bytes */
void style_bytes(char dst[STYLE_SPAN_SIZE], uint64_t bytes);
/* "2026-11-16T00:42:00.123Z" to milliseconds; -EINVAL */
int style_parse_time(struct str text, int64_t *ret_real_ms) _must_check_;

/*
 * Copies at most size-1 bytes and replaces control characters (also C1), so that foreign text can
 * neither move the cursor nor start a line.
 */
void style_clean(char *dst, size_t size, struct str text);
/* The columns of a UTF-8 text, one per character. */
size_t style_width(struct str text);

#define WRAP_COLUMNS 90
/* Writes text from a column on and ends the line, breaking before WRAP_COLUMNS. */
void style_wrapped(FILE *out, const char *text, int indent, int column);

#endif
