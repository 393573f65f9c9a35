/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/search/ignore.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "tools/search/glob.h"

#define FILE_MAX_BYTES (1U << 20)
#define RULES_MAX 10000

struct ignore_rule {
	struct glob *glob;
	bool negated, dir_only;
};

/* Trailing spaces count only after a backslash. */
static struct str trim_end(struct str line)
{
	if (line.n && line.p[line.n - 1] == '\r')
		line.n--;
	while (line.n && line.p[line.n - 1] == ' ' && !(line.n > 1 && line.p[line.n - 2] == '\\'))
		line.n--;
	return line;
}

/* 1: a rule; 0: an empty line; -ENOMEM. */
static int parse(struct str line, struct ignore_rule *ret)
{
	struct ignore_rule rule = { 0 };
	int r;

	line = trim_end(line);
	if (line.n == 0 || line.p[0] == '#')
		return 0;
	if (line.p[0] == '!') {
		rule.negated = true;
		line = (struct str){ line.p + 1, line.n - 1 };
	}
	if (line.n && line.p[line.n - 1] == '/') {
		rule.dir_only = true;
		line.n--;
	}
	r = glob_new(line, false, &rule.glob);
	if (r < 0)
		return r == -ENOMEM ? r : 0; /* git also skips what it cannot read */
	*ret = rule;
	return 1;
}

static int add_rules(struct ignore_level *level, struct str text)
{
	size_t capacity = 0;

	while (text.n && level->count < RULES_MAX) {
		struct str line, rest = { "", 0 };
		struct ignore_rule rule;
		int r;

		if (!str_cut(text, '\n', &line, &rest))
			line = text;
		text = rest;
		r = parse(line, &rule);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (level->count == capacity) {
			struct ignore_rule *rules;

			capacity = capacity ? capacity * 2 : 16;
			rules = reallocarray(level->rules, capacity, sizeof(*rules));
			if (!rules) {
				glob_free(rule.glob);
				return -ENOMEM;
			}
			level->rules = rules;
		}
		level->rules[level->count++] = rule;
	}
	return 0;
}

int ignore_enter_text(struct ignore *ignore, struct str text, size_t path_len)
{
	if (ignore->depth == ignore->capacity) {
		size_t capacity = ignore->capacity ? ignore->capacity * 2 : 32;
		struct ignore_level *levels =
			reallocarray(ignore->levels, capacity, sizeof(*levels));

		if (!levels)
			return -ENOMEM;
		ignore->levels = levels;
		ignore->capacity = capacity;
	}
	ignore->levels[ignore->depth] =
		(struct ignore_level){ .path_len = path_len ? path_len + 1 : 0 };
	return add_rules(&ignore->levels[ignore->depth++], text);
}

int ignore_enter(struct ignore *ignore, int dir_fd, size_t path_len)
{
	_cleanup_close_ int fd = openat(dir_fd, ".gitignore",
					O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	_cleanup_free_ char *text = NULL;
	struct stat st;
	ssize_t n = 0;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= FILE_MAX_BYTES) {
		text = malloc((size_t)st.st_size + 1);
		n = text ? read(fd, text, (size_t)st.st_size) : 0;
	}
	return ignore_enter_text(ignore, (struct str){ text ? text : "", n > 0 ? (size_t)n : 0 },
				 path_len);
}

void ignore_leave(struct ignore *ignore)
{
	struct ignore_level *level = &ignore->levels[--ignore->depth];

	for (size_t i = 0; i < level->count; i++)
		glob_free(level->rules[i].glob);
	free(level->rules);
}

void ignore_done(struct ignore *ignore)
{
	while (ignore->depth)
		ignore_leave(ignore);
	free(ignore->levels);
	*ignore = (struct ignore){ 0 };
}

bool ignore_match(const struct ignore *ignore, struct str path, bool is_dir)
{
	const char *slash = path.n ? memrchr(path.p, '/', path.n) : NULL;
	struct str name =
		slash ? (struct str){ slash + 1, (size_t)(path.p + path.n - slash - 1) } : path;

	if (str_is(name, ".git"))
		return true;
	for (size_t d = ignore->depth; d > 0; d--) {
		const struct ignore_level *level = &ignore->levels[d - 1];
		struct str below;

		if (path.n < level->path_len)
			continue;
		below = (struct str){ path.p + level->path_len, path.n - level->path_len };
		for (size_t i = level->count; i > 0; i--) {
			const struct ignore_rule *rule = &level->rules[i - 1];

			if ((is_dir || !rule->dir_only) && glob_match(rule->glob, below))
				return !rule->negated;
		}
	}
	return false;
}
