/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pattern of grep: a PCRE2 pattern or a fixed string, matched within lines. Most patterns
 * cannot match a line end, or can be rewritten so that they do not; those are searched in many
 * lines at once. For others, each line is a separate subject.
 */
#ifndef CAY_TOOLS_SEARCH_PATTERN_H
#define CAY_TOOLS_SEARCH_PATTERN_H

#include "base/buf.h"

#define PATTERN_MAX 65536

struct pattern_options {
	bool ignore_case, fixed;
	bool by_line; /* for tests: always one line at a time */
};

struct pattern_error {
	size_t offset;
	char message[128];
};

struct pattern;
/* -EINVAL: error has the reason. -ENOMEM. */
int pattern_new(struct str text, struct pattern_options options, struct pattern **ret,
		struct pattern_error *error) _must_check_;
void pattern_free(struct pattern *pattern);

struct pattern_hit {
	size_t line, line_end; /* the line of the match, without its end */
	size_t begin, end;     /* the match */
};

/* Inspects the text for pattern_find(), to choose the faster method. */
void pattern_prepare(struct pattern *pattern, struct str text);

/*
 * The first line at or after from (the start of a line) with a match. text contains whole lines. 1:
 * found; 0: none; -ETIME: pattern_deadline() has passed; -E2BIG: the match is too expensive.
 */
int pattern_find(struct pattern *pattern, struct str text, size_t from,
		 struct pattern_hit *ret) _must_check_;

/* From now on a search that runs longer is aborted, wherever it is. 0: no deadline. */
void pattern_deadline(int64_t in_us);

/* Rewrites the pattern so that no part of it can match LF; false: not possible. */
bool pattern_within_lines(struct str text, struct buf *out);

#endif
