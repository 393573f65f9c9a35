/* SPDX-License-Identifier: Apache-2.0 */
/* stat, exists, list. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "tools/tree/entry.h"
#include "tools/op.h"
#include "tools/tree/walk.h"

/* Reports the entry that a path names; with follow, its target. */
static int tell(struct op *op, struct str path, bool follow)
{
	_cleanup_leaf_ struct leaf leaf = LEAF_INIT;
	_cleanup_close_ int fd = -1;
	char target[TOOL_TARGET_MAX + 1];
	struct tool_entry entry;
	int r = path_leaf(&op->place, path, &leaf);

	if (r == 0 && (follow || leaf.wants_dir))
		r = path_open(&op->place, path, O_PATH, &fd);
	if (r == 0)
		r = fd >= 0 ? entry_look(fd, "", target, &entry)
			    : entry_look(leaf.dir_fd, leaf.name, target, &entry);
	if (r < 0)
		return r;
	entry.path = path;
	op->end.entries = 1;
	if (fd >= 0)
		op_put_entry(op, &entry);
	else
		op_put_found(op, &entry, leaf.dir_fd, leaf.name);
	return 0;
}

static int stat_keys(struct op *op, struct str *path, bool *follow)
{
	if (op_needed(op, "path", path) < 0 || op_flag(op, "follow", false, follow) < 0)
		return -1;
	return op_args_end(op);
}

int op_stat(struct op *op)
{
	struct str path;
	bool follow;
	int r;

	if (stat_keys(op, &path, &follow) < 0)
		return -1;
	r = tell(op, path, follow);
	return r < 0 ? op_fail_errno(op, r, path) : 0;
}

int op_exists(struct op *op)
{
	struct str path;
	bool follow;
	int r;

	if (stat_keys(op, &path, &follow) < 0)
		return -1;
	r = tell(op, path, follow);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	return r < 0 ? op_fail_errno(op, r, path) : 0;
}

static int list_tree(struct op *op, struct walk *w, uint64_t depth, uint64_t max_entries)
{
	char target[TOOL_TARGET_MAX + 1];
	struct tool_entry entry;
	struct walk_item item;
	int r;

	while ((r = walk_next(w, &item)) == 1) {
		if (item.leaving)
			continue;
		if (op->end.entries == max_entries)
			op->end.cut = TOOL_CUT_COUNT;
		else if (op_late(op))
			op->end.cut = TOOL_CUT_TIME;
		if (op->end.cut)
			return 0;
		r = entry_look(item.dir_fd, item.name, target, &entry);
		if (r == -ENOENT)
			continue; /* removed meanwhile */
		if (r < 0) {
			entry = (struct tool_entry){ .kind = TOOL_KIND_UNKNOWN };
			op->end.skipped_unreadable++;
		}
		entry.path = item.path;
		entry.depth = item.depth;
		op_put_found(op, &entry, item.dir_fd, item.name);
		op->end.entries++;
		if (entry.kind != TOOL_KIND_DIRECTORY || (depth && item.depth >= depth))
			continue;
		r = walk_enter(w);
		if (r == -ENAMETOOLONG)
			op->end.skipped_deep++;
		else if (r == -ESTALE)
			break;
		else if (r < 0)
			op->end.skipped_unreadable++;
	}
	if (r == 0 && w->cut)
		op->end.cut = TOOL_CUT_COUNT;
	return r;
}

int op_list(struct op *op)
{
	static struct walk walk;
	uint64_t depth, max_entries;
	struct str path;
	int fd, r;

	if (op_needed(op, "path", &path) < 0 ||
	    op_number(op, "depth", 1, 0, 1U << 20, &depth) < 0 ||
	    op_number(op, "max_entries", 10000, 1, 10000000, &max_entries) < 0 || op_time(op) < 0 ||
	    op_args_end(op) < 0)
		return -1;
	r = path_open(&op->place, path, O_RDONLY | O_DIRECTORY, &fd);
	if (r < 0)
		return op_fail_errno(op, r, path);
	r = walk_begin(&walk, fd);
	if (r < 0) {
		(void)close(fd);
		return op_fail_errno(op, r, path);
	}
	r = list_tree(op, &walk, depth, max_entries);
	walk_end(&walk);
	return r < 0 ? op_fail_errno(op, r, path) : 0;
}
