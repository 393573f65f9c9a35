/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/search/glob.h"

#include <errno.h>

#include "base/buf.h"

#define EXPANDED_MAX (256U << 10)

struct glob {
	bool whole; /* against the whole path */
	size_t count;
	struct str *alternatives;
	char *memory;
};

/* The end of the set that begins at p[i] == '['; 0: unclosed. */
static size_t set_end(struct str p, size_t i)
{
	i++;
	if (i < p.n && (p.p[i] == '!' || p.p[i] == '^'))
		i++;
	if (i < p.n && p.p[i] == ']')
		i++;
	for (; i < p.n && p.p[i] != ']'; i++)
		if (p.p[i] == '\\')
			i++;
	return i < p.n ? i : 0;
}

/* The length of one element of the pattern: an escape, a set, or a character. 0: malformed. */
static size_t element(struct str p, size_t i)
{
	size_t end;

	if (p.p[i] == '\\')
		return i + 1 < p.n ? 2 : 0;
	if (p.p[i] != '[')
		return 1;
	end = set_end(p, i);
	return end ? end + 1 - i : 0;
}

/* Finds the outermost brace in p and its end. -EINVAL: it is not closed. */
static int find_brace(struct str p, bool braces, size_t *ret_open, size_t *ret_close)
{
	size_t depth = 0, n;

	for (size_t i = 0; i < p.n; i += n) {
		n = element(p, i);
		if (n == 0)
			return -EINVAL;
		if (!braces)
			continue;
		if (p.p[i] == '{' && depth++ == 0)
			*ret_open = i;
		else if (p.p[i] == '}' && depth && --depth == 0) {
			*ret_close = i;
			return 1;
		}
	}
	return depth ? -EINVAL : 0;
}

struct expansion {
	struct buf done;  /* alternatives without braces: u16 length, bytes */
	struct buf stack; /* those still to be expanded, in the same form */
	size_t count;
};

static int push(struct buf *to, struct str a, struct str b, struct str c)
{
	size_t n = a.n + b.n + c.n;
	char head[2] = { (char)(n & 0xff), (char)(n >> 8) };
	int r;

	if (n > GLOB_PATTERN_MAX)
		return -E2BIG;
	r = buf_append(to, a.p, a.n);
	if (r == 0)
		r = buf_append(to, b.p, b.n);
	if (r == 0)
		r = buf_append(to, c.p, c.n);
	if (r == 0)
		/* the length follows, because the stack is read from its end */
		r = buf_append(to, head, 2);
	return r == -ENOBUFS ? -E2BIG : r;
}

/* Removes the last one. */
static struct str pop(struct buf *from)
{
	const unsigned char *end = (const unsigned char *)from->base + from->tail;
	size_t n = end[-2] | (size_t)end[-1] << 8;

	from->tail -= n + 2;
	return (struct str){ from->base + from->tail, n };
}

/* Pushes one pattern for each part of the brace. */
static int split_brace(struct expansion *x, struct str p, size_t open, size_t close)
{
	struct str front = { p.p, open }, back = { p.p + close + 1, p.n - close - 1 };
	size_t depth = 0, start = open + 1, n;

	for (size_t i = open + 1; i <= close; i += n) {
		n = element(p, i);
		if (p.p[i] == '{')
			depth++;
		if (i == close || (p.p[i] == ',' && depth == 0)) {
			struct str part = { p.p + start, i - start };
			int r = push(&x->stack, front, part, back);

			if (r < 0)
				return r;
			start = i + 1;
		} else if (p.p[i] == '}') {
			depth--;
		}
	}
	return 0;
}

static int expand(struct expansion *x, struct str pattern, bool braces)
{
	char work[GLOB_PATTERN_MAX];
	int r = push(&x->stack, pattern, STR_LIT(""), STR_LIT(""));

	for (size_t steps = 0; r >= 0 && buf_len(&x->stack); steps++) {
		size_t open = 0, close = 0;
		struct str p = pop(&x->stack);

		if (steps > 4 * GLOB_ALTERNATIVES_MAX)
			return -E2BIG;
		memcpy(work, p.p, p.n); /* pushing overwrites it */
		p.p = work;
		r = find_brace(p, braces, &open, &close);
		if (r == 1)
			r = split_brace(x, p, open, close);
		else if (r == 0 && x->count++ == GLOB_ALTERNATIVES_MAX)
			return -E2BIG;
		else if (r == 0)
			r = push(&x->done, p, STR_LIT(""), STR_LIT(""));
	}
	return r < 0 ? r : 0;
}

static bool contains_slash(struct str p)
{
	return p.n && memchr(p.p, '/', p.n);
}

int glob_new(struct str pattern, bool braces, struct glob **ret)
{
	struct expansion x = { 0 };
	struct glob *glob = NULL;
	int r;

	if (pattern.n == 0 || memchr(pattern.p, '\0', pattern.n))
		return -EINVAL;
	if (pattern.n > GLOB_PATTERN_MAX)
		return -E2BIG;
	buf_init(&x.done, EXPANDED_MAX);
	buf_init(&x.stack, EXPANDED_MAX);
	r = expand(&x, pattern, braces);
	if (r == 0) {
		glob = calloc(1, sizeof(*glob));
		if (glob)
			glob->alternatives = calloc(x.count, sizeof(*glob->alternatives));
		r = glob && glob->alternatives ? 0 : -ENOMEM;
	}
	if (r == 0) {
		glob->whole = contains_slash(pattern);
		for (size_t i = x.count; i > 0; i--) {
			struct str p = pop(&x.done);

			if (p.n && p.p[0] == '/')
				p = (struct str){ p.p + 1, p.n - 1 };
			glob->alternatives[i - 1] = p;
		}
		glob->count = x.count;
		glob->memory = TAKE_PTR(x.done.base);
		*ret = TAKE_PTR(glob);
	}
	glob_free(glob);
	buf_done(&x.done);
	buf_done(&x.stack);
	return r;
}

void glob_free(struct glob *glob)
{
	if (!glob)
		return;
	free(glob->alternatives);
	free(glob->memory);
	free(glob);
}

/* p[i] is '[': whether c is in the set, and its end. */
static bool in_set(struct str p, size_t i, unsigned char c, size_t *ret_next)
{
	size_t end = set_end(p, i);
	bool negated = false, in = false;

	i++;
	if (p.p[i] == '!' || p.p[i] == '^') {
		negated = true;
		i++;
	}
	while (i < end) {
		unsigned char low, high;

		if (p.p[i] == '\\')
			i++;
		low = high = (unsigned char)p.p[i++];
		if (i + 1 < end && p.p[i] == '-') {
			i++;
			if (p.p[i] == '\\' && i + 1 < end)
				i++;
			high = (unsigned char)p.p[i++];
		}
		in |= c >= low && c <= high;
	}
	*ret_next = end + 1;
	return c != '/' && in != negated;
}

/* The length of the character at s[i]; an invalid byte counts as one. */
static size_t character(struct str s, size_t i)
{
	unsigned char c = (unsigned char)s.p[i];
	size_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;

	return i + n <= s.n && str_is_utf8(s.p + i, n) ? n : 1;
}

/* One element of the pattern against one character. */
static bool match_one(struct str p, size_t i, struct str s, size_t j, size_t *next_i,
		      size_t *next_j)
{
	*next_j = j + 1;
	switch (p.p[i]) {
	case '?':
		*next_i = i + 1;
		*next_j = j + character(s, j);
		return s.p[j] != '/';
	case '[': {
		size_t n = character(s, j);
		bool in = in_set(p, i, (unsigned char)s.p[j], next_i);

		/* Sets contain bytes; a multi-byte character is in no positive set. */
		if (n > 1 && (p.p[i + 1] == '!' || p.p[i + 1] == '^'))
			*next_j = j + n;
		return in && (n == 1 || *next_j > j + 1);
	}
	case '\\':
		*next_i = i + 2;
		return p.p[i + 1] == s.p[j];
	default:
		*next_i = i + 1;
		return p.p[i] == s.p[j];
	}
}

/* Whether "**" is a whole name of the pattern; *ret_next is after its slash. */
static bool any_depth(struct str p, size_t i, size_t *ret_next)
{
	if (i + 1 >= p.n || p.p[i] != '*' || p.p[i + 1] != '*' || (i > 0 && p.p[i - 1] != '/') ||
	    (i + 2 < p.n && p.p[i + 2] != '/'))
		return false;
	*ret_next = MIN(i + 3, p.n);
	return true;
}

/*
 * Two backtracking points are enough: the last "*" of the current name and the last "**". What an
 * earlier one could match, the later one can match as well.
 */
static bool match(struct str p, struct str s)
{
	size_t i = 0, j = 0, star_i = SIZE_MAX, star_j = 0, deep_i = SIZE_MAX, deep_j = 0, next_i,
	       next_j;

	while (j < s.n || i < p.n) {
		if (i < p.n && any_depth(p, i, &next_i)) {
			if (next_i == p.n && i + 2 == p.n)
				return j < s.n || i == 0; /* at the end: matches anything below */
			deep_i = i = next_i;
			deep_j = j;
			star_i = SIZE_MAX;
			continue;
		}
		if (i < p.n && p.p[i] == '*') {
			star_i = ++i;
			star_j = j;
			continue;
		}
		if (i < p.n && j < s.n && match_one(p, i, s, j, &next_i, &next_j)) {
			if (p.p[i] == '/')
				star_i = SIZE_MAX;
			i = next_i;
			j = next_j;
			continue;
		}
		if (star_i != SIZE_MAX && star_j < s.n && s.p[star_j] != '/') {
			i = star_i;
			j = ++star_j;
			continue;
		}
		if (deep_i == SIZE_MAX)
			return false;
		while (deep_j < s.n && s.p[deep_j] != '/')
			deep_j++;
		if (deep_j >= s.n)
			return false;
		j = ++deep_j;
		i = deep_i;
		star_i = SIZE_MAX;
	}
	return true;
}

bool glob_match(const struct glob *glob, struct str path)
{
	if (!glob->whole) {
		const char *slash = path.n ? memrchr(path.p, '/', path.n) : NULL;

		if (slash)
			path = (struct str){ slash + 1, (size_t)(path.p + path.n - slash - 1) };
	}
	for (size_t i = 0; i < glob->count; i++)
		if (match(glob->alternatives[i], path))
			return true;
	return false;
}

/* Removes redundant slashes. buffer has space for the whole pattern. */
static struct str tidy(struct str pattern, char *buffer, bool *ret_directories)
{
	size_t n = 0, i = 0;

	if (pattern.n > 1 && pattern.p[0] == '.' && pattern.p[1] == '/')
		i = 1;
	for (; i < pattern.n; i++)
		if (pattern.p[i] != '/' || n == 0 || buffer[n - 1] != '/')
			buffer[n++] = pattern.p[i];
	*ret_directories = n > 1 && buffer[n - 1] == '/' && buffer[n - 2] != '\\';
	return (struct str){ buffer, n - *ret_directories };
}

int globs_add(struct globs *globs, struct str pattern)
{
	bool negated = pattern.n > 1 && pattern.p[0] == '!', directories;
	char buffer[GLOB_PATTERN_MAX];
	struct glob_rule *rules;
	struct glob *glob;
	int r;

	if (negated)
		pattern = (struct str){ pattern.p + 1, pattern.n - 1 };
	if (pattern.n > GLOB_PATTERN_MAX)
		return -E2BIG;
	r = glob_new(tidy(pattern, buffer, &directories), true, &glob);
	if (r < 0)
		return r;
	rules = reallocarray(globs->rules, globs->count + 1, sizeof(*rules));
	if (!rules) {
		glob_free(glob);
		return -ENOMEM;
	}
	globs->rules = rules;
	globs->rules[globs->count++] = (struct glob_rule){ glob, negated, directories };
	globs->any_positive |= !negated;
	return 0;
}

void globs_done(struct globs *globs)
{
	for (size_t i = 0; i < globs->count; i++)
		glob_free(globs->rules[i].glob);
	free(globs->rules);
	*globs = (struct globs){ 0 };
}

bool globs_match(const struct globs *globs, struct str path, bool directory)
{
	for (size_t i = globs->count; i > 0; i--) {
		const struct glob_rule *rule = &globs->rules[i - 1];

		if ((directory || !rule->directories) && glob_match(rule->glob, path))
			return !rule->negated;
	}
	return !globs->any_positive;
}
