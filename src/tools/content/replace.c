/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/content/replace.h"

#include <errno.h>

static bool all_crlf(struct str s)
{
	const char *p = s.p, *end = s.p + s.n, *eol;
	bool any = false;

	while (p < end && (eol = memchr(p, '\n', (size_t)(end - p)))) {
		if (eol == s.p || eol[-1] != '\r')
			return false;
		any = true;
		p = eol + 1;
	}
	return any;
}

static bool has_bare_lf(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '\n' && (i == 0 || s.p[i - 1] != '\r'))
			return true;
	return false;
}

/* Inserts a CR before every LF that has none. */
static int to_crlf(struct str s, char **ret_memory, struct str *ret)
{
	char *p = malloc(s.n * 2 + 1);
	size_t n = 0;

	if (!p)
		return -ENOMEM;
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\n' && (i == 0 || s.p[i - 1] != '\r'))
			p[n++] = '\r';
		p[n++] = s.p[i];
	}
	*ret_memory = p;
	*ret = (struct str){ p, n };
	return 0;
}

/* Counts non-overlapping matches from left to right, and records the lines of the first ones. */
static void find_all(struct replace *r, struct str needle)
{
	const char *p = r->text.p, *end = p + r->text.n, *hit, *seen = p;
	uint64_t line = 1;

	r->count = 0;
	r->line_count = 0;
	while (p < end && (hit = memmem(p, (size_t)(end - p), needle.p, needle.n))) {
		if (r->line_count < TOOL_LINES_MAX) {
			for (; seen < hit; seen++)
				line += *seen == '\n';
			r->lines[r->line_count++] = line;
		}
		r->count++;
		p = hit + needle.n;
	}
}

static int build(struct replace *r, struct str needle, struct str other, size_t max)
{
	const char *p = r->text.p, *end = p + r->text.n, *hit;
	size_t grown, size = r->text.n - (size_t)r->count * needle.n;
	char *out;

	if (__builtin_mul_overflow((size_t)r->count, other.n, &grown) ||
	    __builtin_add_overflow(size, grown, &size) || size > max)
		return -EFBIG;
	out = r->result = malloc(size + 1);
	if (!out)
		return -ENOMEM;
	for (uint64_t i = 0; i < r->count; i++) {
		hit = memmem(p, (size_t)(end - p), needle.p, needle.n);
		memcpy(out, p, (size_t)(hit - p));
		out += hit - p;
		if (other.n)
			memcpy(out, other.p, other.n);
		out += other.n;
		p = hit + needle.n;
	}
	memcpy(out, p, (size_t)(end - p));
	r->result_len = size;
	return 0;
}

/* With the strings converted to the file's line ends. */
static int find_and_build(struct replace *r, struct str needle, struct str other, size_t max)
{
	find_all(r, needle);
	if (r->count == 0)
		return -ENOENT;
	if (r->count > 1 && !r->all)
		return -EEXIST;
	return build(r, needle, other, max);
}

int replace_run(struct replace *r, size_t max)
{
	struct str needle = r->old_string, other = r->new_string;
	char *old_memory = NULL, *new_memory = NULL;
	int e = 0;

	r->result = NULL;
	r->count = r->line_count = 0;
	r->crlf = all_crlf(r->text);
	if (needle.n == 0 || str_eq(needle, other))
		return -EINVAL;
	if (r->crlf && has_bare_lf(needle))
		e = to_crlf(needle, &old_memory, &needle);
	if (e == 0 && r->crlf && has_bare_lf(other))
		e = to_crlf(other, &new_memory, &other);
	if (e == 0)
		e = find_and_build(r, needle, other, max);
	free(old_memory);
	free(new_memory);
	return e;
}
