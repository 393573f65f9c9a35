/* SPDX-License-Identifier: Apache-2.0 */
/* grep */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tools/search/glob.h"
#include "tools/search/ignore.h"
#include "tools/search/search.h"
#include "tools/tree/walk.h"

#include "base/time.h"

struct grep {
	struct search search;
	struct globs include;
	struct ignore ignore;
	bool gitignore;
	bool started_synthetic; /* /proc was requested by name */
	dev_t device;		/* of the current directory, to detect mounts */
};

static int grep_pattern(struct op *op, struct search *s)
{
	struct pattern_options o = { 0 };
	struct pattern_error error;
	struct str text;
	int r;

	if (op_needed(op, "pattern", &text) < 0 ||
	    op_flag(op, "ignore_case", false, &o.ignore_case) < 0 ||
	    op_flag(op, "fixed", false, &o.fixed) < 0)
		return -1;
	r = pattern_new(text, o, &s->pattern, &error);
	if (r == -EINVAL) {
		op->failed.count = error.offset;
		return op_fail(op, TOOL_BAD_PATTERN, STR_LIT(""), "%s (at %zu)", error.message,
			       error.offset);
	}
	return r < 0 ? op_fail_errno(op, r, STR_LIT("")) : 0;
}

static int grep_keys(struct op *op, struct str *path, struct grep *g)
{
	struct search *s = &g->search;
	const char *text;

	if (op_needed(op, "path", path) < 0 || op_number(op, "before", 0, 0, 100, &s->before) < 0 ||
	    op_number(op, "after", 0, 0, 100, &s->after) < 0 ||
	    op_number(op, "max_matches", 1000, 1, 10000000, &s->max_matches) < 0 ||
	    op_number(op, "max_bytes", 1U << 20, 1, 1ULL << 40, &s->max_bytes) < 0 ||
	    op_flag(op, "gitignore", false, &g->gitignore) < 0 || op_time(op) < 0)
		return -1;
	for (size_t i = 0; (text = op_nth(op, "include", i)); i++) {
		int r = globs_add(&g->include, str_of(text));

		if (r == -ENOMEM)
			return op_fail_errno(op, r, STR_LIT(""));
		if (r < 0)
			return op_fail(op, TOOL_BAD_PATTERN, STR_LIT(""), "include is no pattern");
	}
	return op_args_end(op);
}

/*
 * O_NONBLOCK and a check before the first read, so that a fifo in place of a file does not block.
 */
static int grep_one(struct grep *g, int dir_fd, const char *name, struct str path)
{
	_cleanup_close_ int fd =
		openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct tool_end *end = &g->search.op->end;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0) {
		end->skipped_unreadable++;
		return 0;
	}
	if (!S_ISREG(st.st_mode)) {
		end->skipped_special++;
		return 0;
	}
	r = search_file(&g->search, fd, path);
	if (r < 0 && r != -ENOMEM) {
		end->skipped_unreadable++;
		return 0;
	}
	return r;
}

/* Whether the directory just entered is on /proc or similar, which only a mount can be. */
static bool entered_synthetic(struct grep *g, const struct walk *w)
{
	dev_t device = w->descent.levels[w->descent.depth - 1].dev;

	if (g->started_synthetic || device == g->device)
		return false;
	return walk_is_synthetic(descent_fd(&w->descent));
}

static int grep_enter(struct grep *g, struct walk *w, size_t path_len)
{
	struct tool_end *end = &g->search.op->end;
	int r = walk_enter(w);

	if (r == -ENAMETOOLONG)
		end->skipped_deep++;
	else if (r == -ESTALE)
		return r;
	else if (r < 0)
		end->skipped_unreadable++;
	if (r < 0)
		return 0;
	if (entered_synthetic(g, w)) {
		end->skipped_special++;
		walk_skip(w);
	}
	return g->gitignore ? ignore_enter(&g->ignore, descent_fd(&w->descent), path_len) : 0;
}

static int grep_tree(struct grep *g, struct walk *w)
{
	struct op *op = g->search.op;
	struct walk_item item;
	int r;

	while ((r = walk_next(w, &item)) == 1) {
		bool dir = item.type == DT_DIR;

		if (item.leaving) {
			if (g->gitignore)
				ignore_leave(&g->ignore);
			continue;
		}
		if (op_late(op)) {
			op->end.cut = TOOL_CUT_TIME;
			return 0;
		}
		if (g->gitignore && ignore_match(&g->ignore, item.path, dir))
			continue;
		if (dir)
			r = grep_enter(g, w, item.path.n);
		else if (item.type == DT_LNK || !globs_match(&g->include, item.path, false))
			continue;
		else if (item.type != DT_REG)
			op->end.skipped_special++;
		else
			r = grep_one(g, item.dir_fd, item.name, item.path);
		if (op->end.cut || r < 0)
			return MIN(r, 0);
	}
	if (r == 0 && w->cut)
		op->end.cut = TOOL_CUT_COUNT;
	return r;
}

static int grep_path(struct grep *g, int fd)
{
	static struct walk walk;
	struct stat st;
	int dir, r = 0;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode)) {
		char self[32];
		_cleanup_close_ int file = -1;

		(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
		file = open(self, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (file < 0)
			return -errno;
		return search_file(&g->search, file, STR_LIT(""));
	}
	if (!S_ISDIR(st.st_mode))
		return -ENXIO;
	g->device = st.st_dev;
	g->started_synthetic = walk_is_synthetic(fd);
	dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	if (g->gitignore)
		r = ignore_enter(&g->ignore, dir, 0);
	if (r == 0)
		r = walk_begin(&walk, dir);
	if (r < 0) {
		(void)close(dir);
		return r;
	}
	r = grep_tree(g, &walk);
	walk_end(&walk);
	return r;
}

int op_grep(struct op *op)
{
	struct grep g = { .search.op = op };
	_cleanup_close_ int fd = -1;
	struct str path;
	int r;

	if (grep_pattern(op, &g.search) < 0 || grep_keys(op, &path, &g) < 0)
		return -1; /* the process exits, so nothing is freed */
	r = path_open(&op->place, path, O_PATH, &fd);
	if (r == 0) {
		pattern_deadline(op->deadline_us - time_mono_us());
		r = grep_path(&g, fd);
		pattern_deadline(0);
	}
	if (op->end.cut != TOOL_CUT_TIME) /* an aborted search leaks its memory */
		pattern_free(g.search.pattern);
	free(g.search.buffer);
	ignore_done(&g.ignore);
	globs_done(&g.include);
	return r < 0 ? op_fail_errno(op, r, path) : 0;
}
