/* SPDX-License-Identifier: Apache-2.0 */
/* Searches one file: with large reads, many lines at a time, and context around the matches. */
#ifndef CAY_TOOLS_SEARCH_SEARCH_H
#define CAY_TOOLS_SEARCH_SEARCH_H

#include "tools/op.h"
#include "tools/search/pattern.h"

struct search {
	struct op *op;
	struct pattern *pattern;
	uint64_t before, after, max_matches, max_bytes;
	char *buffer;
	size_t capacity;
	uint64_t sent_bytes;
	/* the current file */
	struct str path;
	size_t have;	     /* bytes in buffer */
	size_t pos;	     /* the next line to search */
	uint64_t line;	     /* its number */
	uint64_t offset;     /* of buffer[0] in the file */
	uint64_t sent_until; /* offset after the last line sent; 0: none */
	uint64_t after_left;
	size_t part;	       /* start of the current search */
	uint64_t part_skipped; /* bytes of its line that were searched before, in parts */
};

/* 0: continue; 1: a limit was reached, op->end.cut is set; -errno: of reading. */
int search_file(struct search *s, int fd, struct str path) _must_check_;

#endif
