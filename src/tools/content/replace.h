/* SPDX-License-Identifier: Apache-2.0 */
/* The text part of edit: finds one string in a file and replaces it by another. No I/O. */
#ifndef CAY_TOOLS_CONTENT_REPLACE_H
#define CAY_TOOLS_CONTENT_REPLACE_H

#include "wire/tool.h"

struct replace {
	struct str text, old_string, new_string;
	bool all;
	/* results */
	uint64_t count;
	uint64_t lines[TOOL_LINES_MAX]; /* of the first matches, from 1 */
	uint8_t line_count;
	bool crlf;    /* the file's lines end with CR LF */
	char *result; /* result_len bytes, possibly with NUL; freed by the caller */
	size_t result_len;
};

/*
 * 0: result is set. -ENOENT: no match. -EEXIST: more than one match and not all. -EINVAL:
 * old_string is empty or both are equal. -EFBIG: the result would exceed max. -ENOMEM. If all lines
 * of the file end with CR LF, an LF in either string means CR LF.
 */
int replace_run(struct replace *r, size_t max) _must_check_;

#endif
