/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input: flags, pattern NUL text. Searching many lines at once and line by line must find the same
 * lines; the sanitizer checks bounds.
 */
#include <errno.h>
#include <stdlib.h>

#include "tools/search/pattern.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX 512
#define LINES 64

/* The starts of the lines found; -1: too expensive. */
static int search(struct str pattern, struct pattern_options o, struct str text, size_t *lines)
{
	struct pattern_error error;
	struct pattern_hit hit;
	struct pattern *p;
	int count = 0, r;
	size_t from = 0;

	if (pattern_new(pattern, o, &p, &error) < 0)
		return -1;
	pattern_prepare(p, text);
	while ((r = pattern_find(p, text, from, &hit)) == 1) {
		if (hit.line < from || hit.begin < hit.line || hit.end < hit.begin ||
		    hit.end > text.n || hit.line_end > text.n || hit.begin > hit.line_end ||
		    (hit.line && text.p[hit.line - 1] != '\n'))
			abort();
		if (count < LINES)
			lines[count++] = hit.line;
		from = hit.line_end + 1;
		if (from > text.n)
			break;
	}
	pattern_free(p);
	return r < 0 ? -1 : count;
}

/* PCRE2 10.42 skips characters beyond ASCII at \W and similar; as a set they are correct. */
static bool in_doubt(struct str pattern, struct str text)
{
	bool ascii = true;

	for (size_t i = 0; i < text.n; i++)
		ascii &= (unsigned char)text.p[i] < 0x80;
	for (size_t i = 0; i + 1 < pattern.n; i++)
		if (pattern.p[i] == '\\' && pattern.p[i + 1] >= 'A' && pattern.p[i + 1] <= 'Z')
			return !ascii;
	return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pattern_options o = { .ignore_case = size && data[0] & 1,
				     .fixed = size && data[0] & 2 };
	struct str rest = { (const char *)data + 1, size ? size - 1 : 0 }, pattern;
	size_t many[LINES], single[LINES];
	int a, b;

	if (size < 2 || !str_cut(rest, '\0', &pattern, &rest) || rest.n > TEXT_MAX ||
	    pattern.n > 200)
		return 0;
	a = search(pattern, o, rest, many);
	o.by_line = true;
	b = search(pattern, o, rest, single);
	if (a < 0 || b < 0 || in_doubt(pattern, rest))
		return 0;
	if (a != b || memcmp(many, single, (size_t)a * sizeof(many[0])) != 0)
		abort();
	return 0;
}
