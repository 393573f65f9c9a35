/* SPDX-License-Identifier: Apache-2.0 */
/* glob */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "tools/tree/entry.h"
#include "tools/search/glob.h"
#include "tools/search/ignore.h"
#include "tools/tree/walk.h"

struct find {
	struct globs globs;
	struct ignore ignore;
	bool gitignore, hidden;
	uint64_t max_entries;
};

static int find_keys(struct op *op, struct str *path, struct find *f)
{
	struct str pattern;
	const char *text;

	if (op_needed(op, "path", path) < 0 || op_needed(op, "pattern", &pattern) < 0 ||
	    op_number(op, "max_entries", 10000, 1, 10000000, &f->max_entries) < 0 ||
	    op_flag(op, "gitignore", false, &f->gitignore) < 0 ||
	    op_flag(op, "hidden", true, &f->hidden) < 0 || op_time(op) < 0)
		return -1;
	for (size_t i = 0; (text = op_nth(op, "pattern", i)); i++) {
		int r = globs_add(&f->globs, str_of(text));

		if (r == -ENOMEM)
			return op_fail_errno(op, r, STR_LIT(""));
		if (r < 0)
			return op_fail(op, TOOL_BAD_PATTERN, STR_LIT(""),
				       r == -E2BIG ? "the pattern is too long or has too many "
						     "alternatives"
						   : "the pattern has a set or brace without end");
	}
	return op_args_end(op);
}

/* Enters a directory; one that cannot be entered is counted. */
static int find_enter(struct op *op, struct find *f, struct walk *w, size_t path_len)
{
	int r = walk_enter(w);

	if (r == -ENAMETOOLONG)
		op->end.skipped_deep++;
	else if (r == -ESTALE)
		return r;
	else if (r < 0)
		op->end.skipped_unreadable++;
	else if (f->gitignore)
		return ignore_enter(&f->ignore, descent_fd(&w->descent), path_len);
	return 0;
}

static int find_all(struct op *op, struct find *f, struct walk *w)
{
	char target[TOOL_TARGET_MAX + 1];
	struct tool_entry entry;
	struct walk_item item;
	int r;

	while ((r = walk_next(w, &item)) == 1) {
		bool dir = item.type == DT_DIR;

		if (item.leaving) {
			if (f->gitignore)
				ignore_leave(&f->ignore);
			continue;
		}
		if (op_late(op)) {
			op->end.cut = TOOL_CUT_TIME;
			return 0;
		}
		if (!f->hidden && item.name[0] == '.')
			continue;
		if (f->gitignore && ignore_match(&f->ignore, item.path, dir))
			continue;
		op->end.files++;
		if (globs_match(&f->globs, item.path, dir) &&
		    entry_look(item.dir_fd, item.name, target, &entry) == 0) {
			if (op->end.entries == f->max_entries) {
				op->end.cut = TOOL_CUT_COUNT;
				return 0;
			}
			entry.path = item.path;
			entry.depth = item.depth;
			op_put_entry(op, &entry);
			op->end.entries++;
		}
		if (dir && (r = find_enter(op, f, w, item.path.n)) < 0)
			return r;
	}
	if (r == 0 && w->cut)
		op->end.cut = TOOL_CUT_COUNT;
	return r;
}

int op_glob(struct op *op)
{
	static struct walk walk;
	struct find f = { 0 };
	struct str path;
	int fd = -1, r;

	if (find_keys(op, &path, &f) < 0)
		return -1; /* the process exits, so nothing is freed */
	r = path_open(&op->place, path, O_RDONLY | O_DIRECTORY, &fd);
	if (r == 0 && f.gitignore)
		r = ignore_enter(&f.ignore, fd, 0);
	if (r == 0)
		r = walk_begin(&walk, fd);
	if (r < 0)
		return op_fail_errno(op, r, path);
	r = find_all(op, &f, &walk);
	walk_end(&walk);
	ignore_done(&f.ignore);
	globs_done(&f.globs);
	return r < 0 ? op_fail_errno(op, r, path) : 0;
}
