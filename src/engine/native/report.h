/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the template builder reports over a pipe of its own, beside its log: lines of text.
 *
 *   step TEXT           what it does now
 *   done                it has ended well
 *   failed CODE TEXT    it has ended; CODE is one of src/base/err.h, TEXT one line for people
 *
 * The end of the pipe without the last two means that the builder was killed.
 */
#ifndef CAY_ENGINE_NATIVE_REPORT_H
#define CAY_ENGINE_NATIVE_REPORT_H

#include "base/err.h"
#include "base/str.h"

#define REPORT_LINE_MAX 512 /* the rest of a longer line is dropped */

enum report_kind { REPORT_STEP, REPORT_DONE, REPORT_FAILED };

struct report {
	enum report_kind kind;
	struct str text;    /* of STEP and FAILED; points into the line */
	enum err_code code; /* of FAILED: one that a caller of the API may see */
};

/* A line without its newline: 0, or -EINVAL when it is none of these. */
int report_parse(struct str line, struct report *ret) _must_check_;

/* Lines out of a stream of bytes. Start with zeros. */
struct report_lines {
	char text[REPORT_LINE_MAX];
	size_t n;
};
typedef void (*report_line_fn)(void *arg, struct str line);
void report_feed(struct report_lines *lines, struct str bytes, report_line_fn fn, void *arg);

#endif
