/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .gitignore as git reads it: one file per directory, the nearest one first, in it the last line
 * that matches; "!" takes back, a trailing "/" means directories, a slash elsewhere ties the
 * pattern to the file's directory. ".git" is always left out.
 */
#ifndef CAY_TOOLS_SEARCH_IGNORE_H
#define CAY_TOOLS_SEARCH_IGNORE_H

#include "base/str.h"

struct ignore_rule;
struct ignore_level {
	struct ignore_rule *rules;
	size_t count;
	size_t path_len; /* of its directory, with the slash behind it */
};

/* One level per directory on the way down; zeroed to begin. */
struct ignore {
	struct ignore_level *levels;
	size_t depth, capacity;
};

/* Reads the .gitignore of dir_fd, whose path is that long. -ENOMEM only. */
int ignore_enter(struct ignore *ignore, int dir_fd, size_t path_len) _must_check_;
/* The same from text. */
int ignore_enter_text(struct ignore *ignore, struct str text, size_t path_len) _must_check_;
void ignore_leave(struct ignore *ignore);
void ignore_done(struct ignore *ignore);
bool ignore_match(const struct ignore *ignore, struct str path, bool is_dir);

#endif
