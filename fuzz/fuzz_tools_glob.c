/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input: pattern NUL path, and after another NUL a .gitignore. The matcher with its two
 * backtracking points must agree with a simple recursive one.
 */
#include <stdlib.h>

#include "tools/search/glob.h"
#include "tools/search/ignore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SMALL 20

static struct str take(struct str *rest)
{
	struct str head;

	if (!str_cut(*rest, '\0', &head, rest)) {
		head = *rest;
		*rest = (struct str){ "", 0 };
	}
	return head;
}

/* Only letters, "/", "?", "*" and a "**" that is a whole name. */
static bool plain(struct str p)
{
	for (size_t i = 0; i < p.n; i++)
		if (!((p.p[i] >= 'a' && p.p[i] <= 'z') || p.p[i] == '/' || p.p[i] == '?' ||
		      p.p[i] == '*'))
			return false;
	return p.n <= SMALL;
}

static bool reference(const char *p, const char *p_end, const char *p_start, const char *s,
		      const char *s_end)
{
	if (p == p_end)
		return s == s_end;
	if (p + 1 < p_end && p[0] == '*' && p[1] == '*' && (p == p_start || p[-1] == '/') &&
	    (p + 2 == p_end || p[2] == '/')) {
		if (p + 2 == p_end)
			return s < s_end || p == p_start;
		for (const char *at = s;;) {
			if (reference(p + 3, p_end, p_start, at, s_end))
				return true;
			while (at < s_end && *at != '/')
				at++;
			if (at == s_end)
				return false;
			at++;
		}
	}
	if (*p == '*') {
		for (const char *at = s;; at++) {
			if (reference(p + 1, p_end, p_start, at, s_end))
				return true;
			if (at == s_end || *at == '/')
				return false;
		}
	}
	if (s == s_end || (*p == '?' ? *s == '/' : *p != *s))
		return false;
	return reference(p + 1, p_end, p_start, s + 1, s_end);
}

static void compare(const struct glob *glob, struct str pattern, struct str path)
{
	struct str whole = path;
	const char *slash;

	if (!plain(pattern) || !plain(path))
		return;
	if (!memchr(pattern.p, '/', pattern.n) && (slash = memrchr(path.p, '/', path.n)))
		path = (struct str){ slash + 1, (size_t)(path.p + path.n - slash - 1) };
	if (pattern.p[0] == '/') {
		pattern.p++;
		pattern.n--;
	}
	if (glob_match(glob, whole) !=
	    reference(pattern.p, pattern.p + pattern.n, pattern.p, path.p, path.p + path.n))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct str rest = { (const char *)data, size };
	struct str pattern = take(&rest), path = take(&rest);
	struct ignore ignore = { 0 };
	struct glob *glob;

	if (glob_new(pattern, true, &glob) == 0) {
		compare(glob, pattern, path);
		(void)glob_match(glob, path);
		glob_free(glob);
	}
	if (ignore_enter_text(&ignore, rest, 0) == 0)
		(void)ignore_match(&ignore, path, size & 1);
	ignore_done(&ignore);
	return 0;
}
