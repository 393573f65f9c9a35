/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns for paths. "*" and "?" match within a name, "**" as a whole name matches any number of
 * directories, "[a-z]" and "[!a-z]" are sets, "{a,b}" are alternatives, "\" quotes the next
 * character. A pattern without "/" is matched against the last name, others against the whole path
 * (a leading "/" anchors it at the top). Matching takes time proportional to path times pattern.
 */
#ifndef CAY_TOOLS_SEARCH_GLOB_H
#define CAY_TOOLS_SEARCH_GLOB_H

#include "base/str.h"

#define GLOB_PATTERN_MAX 4096
#define GLOB_ALTERNATIVES_MAX 1024

struct glob;
/* -EINVAL: malformed (unclosed set or brace); -E2BIG: too long, or too many alternatives. */
int glob_new(struct str pattern, bool braces, struct glob **ret) _must_check_;
void glob_free(struct glob *glob);
bool glob_match(const struct glob *glob, struct str path);

/*
 * A list in which "!x" excludes; the last matching pattern decides. Common spellings are accepted:
 * "./x" is "/x", "a//b" is "a/b", and "x/" matches only directories.
 */
struct globs {
	struct glob_rule {
		struct glob *glob;
		bool negated;
		bool directories; /* it ended in "/": only directories */
	} * rules;
	size_t count;
	bool any_positive;
};
int globs_add(struct globs *globs, struct str pattern) _must_check_;
void globs_done(struct globs *globs);
/* Without a positive pattern everything matches that is not excluded. */
bool globs_match(const struct globs *globs, struct str path, bool directory);

#endif
