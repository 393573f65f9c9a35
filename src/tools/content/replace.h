/* SPDX-License-Identifier: Apache-2.0 */
/* The text side of edit: finding one string in a file and putting another in its place. Pure. */
#ifndef CAY_TOOLS_CONTENT_REPLACE_H
#define CAY_TOOLS_CONTENT_REPLACE_H

#include "wire/tool.h"

struct replace {
	struct str text, old_string, new_string;
	bool all;
	/* out */
	uint64_t count;
	uint64_t lines[TOOL_LINES_MAX]; /* of the first matches, from 1 */
	uint8_t line_count;
	bool crlf;    /* the file's lines end with CR LF */
	char *result; /* NUL-free or not: result_len bytes, freed by the caller */
	size_t result_len;
};

/*
 * 0: result is set. -ENOENT: no match. -EEXIST: more than one and not all. -EINVAL: old_string is
 * empty or both are equal. -EFBIG: the result would be larger than max. -ENOMEM.
 * Where the file's lines all end with CR LF, an LF in either string stands for CR LF.
 */
int replace_run(struct replace *r, size_t max) _must_check_;

#endif
