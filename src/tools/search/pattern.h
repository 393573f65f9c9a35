/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What grep looks for: a PCRE2 pattern or a fixed string, matched within lines. Most patterns
 * cannot match a line end, or can be written so that they do not; those are searched for in many
 * lines at once. For the rest each line is its own subject.
 */
#ifndef CAY_TOOLS_SEARCH_PATTERN_H
#define CAY_TOOLS_SEARCH_PATTERN_H

#include "base/buf.h"

#define PATTERN_MAX 65536

struct pattern_options {
	bool ignore_case, fixed;
	bool by_line; /* tests: never many lines at once */
};

struct pattern_error {
	size_t offset;
	char message[128];
};

struct pattern;
/* -EINVAL: error says why. -ENOMEM. */
int pattern_new(struct str text, struct pattern_options options, struct pattern **ret,
		struct pattern_error *error) _must_check_;
void pattern_free(struct pattern *pattern);

struct pattern_hit {
	size_t line, line_end; /* the line it is in, without its end */
	size_t begin, end;     /* the match */
};

/* Looks at text that pattern_find() will be asked about, to choose the faster way. */
void pattern_prepare(struct pattern *pattern, struct str text);

/*
 * The first line at or behind from (the begin of a line) with a match. text holds whole lines.
 * 1: found; 0: none; -ETIME: pattern_deadline() has passed; -E2BIG: it costs too much here.
 */
int pattern_find(struct pattern *pattern, struct str text, size_t from,
		 struct pattern_hit *ret) _must_check_;

/* From now on a search that runs longer is broken off, wherever it is. 0: never. */
void pattern_deadline(int64_t in_us);

/* Writes the pattern so that no part of it can match LF; false: it cannot be told. */
bool pattern_within_lines(struct str text, struct buf *out);

#endif
