/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns of paths. "*" and "?" stay within a name, "**" as a whole name stands for any number of
 * directories, "[a-z]" and "[!a-z]" are sets, "{a,b}" alternatives, "\" takes the next character
 * as it is. A pattern without "/" is matched against the last name, others against all of the path
 * (a leading "/" ties it to the top). Matching takes time in the order of path times pattern,
 * whatever the pattern.
 */
#ifndef CAY_TOOLS_SEARCH_GLOB_H
#define CAY_TOOLS_SEARCH_GLOB_H

#include "base/str.h"

#define GLOB_PATTERN_MAX 4096
#define GLOB_ALTERNATIVES_MAX 1024

struct glob;
/* -EINVAL: not a pattern (unclosed set or brace); -E2BIG: too long, or too many alternatives. */
int glob_new(struct str pattern, bool braces, struct glob **ret) _must_check_;
void glob_free(struct glob *glob);
bool glob_match(const struct glob *glob, struct str path);

/*
 * A list in which "!x" takes out again what was in; the last one that matches decides. As people
 * write them: "./x" is "/x", "a//b" is "a/b", and "x/" means directories.
 */
struct globs {
	struct glob_rule {
		struct glob *glob;
		bool negated;
		bool directories; /* it ended in "/": nothing else */
	} * rules;
	size_t count;
	bool any_positive;
};
int globs_add(struct globs *globs, struct str pattern) _must_check_;
void globs_done(struct globs *globs);
/* Without a positive pattern everything is in that is not taken out. */
bool globs_match(const struct globs *globs, struct str path, bool directory);

#endif
