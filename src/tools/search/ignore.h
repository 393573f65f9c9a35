/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .gitignore as git interprets it: one file per directory, the nearest one first, and in it the
 * last matching line. "!" negates, a trailing "/" means directories, a slash elsewhere anchors the
 * pattern at the file's directory. ".git" is always excluded.
 */
#ifndef CAY_TOOLS_SEARCH_IGNORE_H
#define CAY_TOOLS_SEARCH_IGNORE_H

#include "base/str.h"

struct ignore_rule;
struct ignore_level {
	struct ignore_rule *rules;
	size_t count;
	size_t path_len; /* of its directory, with a trailing slash */
};

/* One level per directory of the descent; initially zeroed. */
struct ignore {
	struct ignore_level *levels;
	size_t depth, capacity;
};

/* Reads the .gitignore of dir_fd, whose path has that length. Fails only with -ENOMEM. */
int ignore_enter(struct ignore *ignore, int dir_fd, size_t path_len) _must_check_;
/* The same from text. */
int ignore_enter_text(struct ignore *ignore, struct str text, size_t path_len) _must_check_;
void ignore_leave(struct ignore *ignore);
void ignore_done(struct ignore *ignore);
bool ignore_match(const struct ignore *ignore, struct str path, bool is_dir);

#endif
