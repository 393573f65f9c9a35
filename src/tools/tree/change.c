/* SPDX-License-Identifier: Apache-2.0 */
/* mkdir, move, chmod, chown. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tools/tree/copy.h"
#include "tools/tree/entry.h"
#include "tools/tree/remove.h"
#include "tools/tree/walk.h"
#include "tools/content/write.h"

static void put_leaf(struct op *op, const struct leaf *leaf, struct str path)
{
	char target[TOOL_TARGET_MAX + 1];
	struct tool_entry entry;

	if (entry_look(leaf->dir_fd, leaf->name, target, &entry) < 0)
		return; /* already removed again; the operation succeeded */
	entry.path = path;
	op_put_found(op, &entry, leaf->dir_fd, leaf->name);
}

static int make_leaf(struct op *op, const struct leaf *leaf, struct str path, uint32_t mode,
		     struct path_owner owner, bool exist_ok)
{
	struct stat st;
	int r = 0;

	if (leaf->name[0] && mkdirat(leaf->dir_fd, leaf->name, 0700) == 0) {
		_cleanup_close_ int fd = openat(leaf->dir_fd, leaf->name,
						O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

		if (fd < 0)
			return op_fail_errno(op, errno, path);
		if (owner.uid != (uid_t)-1 && fchown(fd, owner.uid, owner.gid) < 0)
			r = -errno;
		if (r == 0 && fchmod(fd, mode) < 0)
			r = -errno;
		if (r < 0) {
			(void)unlinkat(leaf->dir_fd, leaf->name, AT_REMOVEDIR);
			return op_fail_errno(op, r, path);
		}
		op->end.flags |= TOOL_END_CREATED;
		op->end.entries = 1;
		return 0;
	}
	if (leaf->name[0] && errno != EEXIST)
		return op_fail_disk(op, errno, path, leaf->dir_fd);
	/* A link to a directory counts as one. */
	if (exist_ok && fstatat(leaf->dir_fd, leaf->name, &st, AT_EMPTY_PATH) == 0 &&
	    S_ISDIR(st.st_mode))
		return 0;
	return op_fail_errno(op, EEXIST, path);
}

int op_mkdir(struct op *op)
{
	_cleanup_leaf_ struct leaf leaf = LEAF_INIT;
	struct path_owner owner;
	bool parents, exist_ok;
	struct str path;
	uint32_t mode;
	int r;

	if (op_needed(op, "path", &path) < 0 || op_mode(op, "mode", 0755, &mode) < 0 ||
	    write_owner(op, &owner) < 0 || op_flag(op, "parents", true, &parents) < 0 ||
	    op_flag(op, "exist_ok", true, &exist_ok) < 0 || op_args_end(op) < 0)
		return -1;
	r = path_leaf(&op->place, path, &leaf);
	if (r == -ENOENT && parents) {
		r = path_make_parents(&op->place, path, owner);
		if (r == 0)
			r = path_leaf(&op->place, path, &leaf);
	}
	if (r < 0)
		return op_fail_errno(op, r, path);
	if (make_leaf(op, &leaf, path, mode, owner, exist_ok) < 0)
		return -1;
	put_leaf(op, &leaf, path);
	return 0;
}

/* To another file system: an atomic copy, then the original is removed. */
static int move_by_copy(struct op *op, const struct leaf *from, struct str path,
			const struct leaf *to, struct str to_path, bool overwrite)
{
	uint64_t count = 0;
	char bad[256];
	int r;

	if (copy_leaf(op, from, path, to, to_path, overwrite) < 0)
		return -1;
	r = remove_tree(from->dir_fd, from->name, &count, bad);
	if (r < 0) {
		op->failed.errno_value = (uint32_t)-r;
		op->failed.done = op->end.entries;
		return op_fail(op, op_error_of(-r), path,
			       "copied, but the original cannot be removed: %s", strerror(-r));
	}
	return 0;
}

/* Swaps with the existing entry first, so that the target always exists. */
static int move_over(struct op *op, const struct leaf *from, struct str path, const struct leaf *to,
		     struct str to_path)
{
	uint64_t count = 0;
	char bad[256];
	int r;

	if (renameat(from->dir_fd, from->name, to->dir_fd, to->name) == 0)
		return 0;
	if (errno == EXDEV)
		return move_by_copy(op, from, path, to, to_path, true);
	if (errno != ENOTEMPTY && errno != EEXIST && errno != EISDIR && errno != ENOTDIR)
		return op_fail_errno(op, errno, path);
	if (renameat2(from->dir_fd, from->name, to->dir_fd, to->name, RENAME_EXCHANGE) < 0)
		return op_fail_errno(op, errno, to_path);
	r = remove_tree(from->dir_fd, from->name, &count, bad);
	return r < 0 ? op_fail_errno(op, r, path) : 0;
}

static int move_leaf(struct op *op, const struct leaf *from, struct str path, const struct leaf *to,
		     struct str to_path, bool overwrite)
{
	struct stat st;

	if (!from->name[0] || !to->name[0])
		return op_fail(op, TOOL_INVALID, from->name[0] ? to_path : path,
			       "names no entry of a directory");
	if (fstatat(from->dir_fd, from->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return op_fail_errno(op, errno, path);
	if (to->wants_dir && !S_ISDIR(st.st_mode))
		return op_fail_errno(op, ENOTDIR, to_path);
	op->end.entries = 1;
	if (renameat2(from->dir_fd, from->name, to->dir_fd, to->name, RENAME_NOREPLACE) == 0) {
		op->end.flags |= TOOL_END_CREATED;
		return 0;
	}
	if (errno == EXDEV) {
		op->end.entries = 0;
		return move_by_copy(op, from, path, to, to_path, overwrite);
	}
	if (errno == EEXIST && overwrite) {
		op->end.flags |= TOOL_END_REPLACED;
		return move_over(op, from, path, to, to_path);
	}
	if (errno == EINVAL)
		return op_fail(op, TOOL_INVALID, to_path, "a directory cannot go into itself");
	return op_fail_errno(op, errno, errno == EEXIST ? to_path : path);
}

int op_move(struct op *op)
{
	_cleanup_leaf_ struct leaf from = LEAF_INIT, to = LEAF_INIT;
	struct path_owner owner;
	struct str path, to_path;
	bool overwrite, parents;
	int r;

	if (op_needed(op, "path", &path) < 0 || op_needed(op, "to", &to_path) < 0 ||
	    write_owner(op, &owner) < 0 || op_flag(op, "overwrite", false, &overwrite) < 0 ||
	    op_flag(op, "parents", false, &parents) < 0 || op_args_end(op) < 0)
		return -1;
	r = path_leaf(&op->place, path, &from);
	if (r < 0)
		return op_fail_errno(op, r, path);
	if (faccessat(from.dir_fd, from.name, F_OK, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
		/* checked before directories are created for it */
		return op_fail_errno(op, errno, path);
	if (parents)
		r = path_make_parents(&op->place, to_path, owner);
	if (r == 0)
		r = path_leaf(&op->place, to_path, &to);
	if (r < 0)
		return op_fail_errno(op, r, to_path);
	op->keeps_going = true;
	op_on_stop();
	if (move_leaf(op, &from, path, &to, to_path, overwrite) < 0)
		return -1;
	put_leaf(op, &to, to_path);
	return 0;
}

/* chmod or chown of one entry, never through a link. */
struct change {
	bool owner;
	uint32_t mode;
	uid_t uid;
	gid_t gid;
};

static int change_fd(int fd, const struct change *c)
{
	char self[32];

	if (c->owner)
		return fchownat(fd, "", c->uid, c->gid, AT_EMPTY_PATH) < 0 ? -errno : 0;
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd); /* O_PATH: no fchmod() */
	return chmod(self, c->mode) < 0 ? -errno : 0;
}

static int change_name(int dir_fd, const char *name, const struct change *c)
{
	if (c->owner)
		return fchownat(dir_fd, name, c->uid, c->gid, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
	if (fchmodat(dir_fd, name, c->mode, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	return errno == EOPNOTSUPP ? 0 : -errno; /* a link has no mode */
}

/* Directories last, on the way back, because their new mode might deny access. */
static int change_tree(struct op *op, int fd, struct str path, const struct change *c)
{
	static struct walk walk;
	struct walk_item item;
	int r = walk_begin(&walk, fd);

	if (r < 0) {
		(void)close(fd);
		return op_fail_errno(op, r, path);
	}
	while ((r = walk_next(&walk, &item)) == 1) {
		if (item.type == DT_DIR && !item.leaving) {
			r = walk_enter(&walk);
			if (r == 0)
				continue;
			if (r == -ENAMETOOLONG)
				op->end.skipped_deep++;
			else if (r == -ESTALE)
				break;
			else
				op->end.skipped_unreadable++;
		}
		r = change_name(item.dir_fd, item.name, c);
		if (r < 0 && r != -ENOENT) {
			op->failed.done = op->end.entries;
			(void)op_fail_errno(op, r, item.path);
			walk_end(&walk);
			return -1;
		}
		op->end.entries++;
	}
	walk_end(&walk);
	return r < 0 ? op_fail_errno(op, r, path) : 0;
}

static int change_path(struct op *op, struct str path, const struct change *c, bool recursive)
{
	_cleanup_close_ int fd = -1;
	struct tool_entry entry;
	struct stat st;
	int r = path_open(&op->place, path, O_PATH, &fd);

	if (r < 0 || fstat(fd, &st) < 0)
		return op_fail_errno(op, r < 0 ? r : errno, path);
	if (recursive && S_ISDIR(st.st_mode)) {
		int dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (dir < 0)
			return op_fail_errno(op, errno, path);
		if (change_tree(op, dir, path, c) < 0)
			return -1;
	}
	r = change_fd(fd, c);
	if (r < 0)
		return op_fail_errno(op, r, path);
	op->end.entries++;
	if (fstat(fd, &st) == 0) {
		entry_from_stat(&st, &entry);
		entry.path = path;
		op_put_entry(op, &entry);
	}
	return 0;
}

int op_chmod(struct op *op)
{
	struct change c = { 0 };
	struct str path, mode;
	bool recursive;

	if (op_needed(op, "path", &path) < 0 || op_needed(op, "mode", &mode) < 0 ||
	    op_mode(op, "mode", 0, &c.mode) < 0 ||
	    op_flag(op, "recursive", false, &recursive) < 0 || op_args_end(op) < 0)
		return -1;
	return change_path(op, path, &c, recursive);
}

int op_chown(struct op *op)
{
	const char *group = op_text(op, "group");
	struct change c = { .owner = true };
	struct path_owner owner;
	struct str path;
	bool recursive;

	if (op_needed(op, "path", &path) < 0 || write_owner(op, &owner) < 0 ||
	    op_flag(op, "recursive", false, &recursive) < 0 || op_args_end(op) < 0)
		return -1;
	c.uid = owner.uid;
	c.gid = owner.gid;
	if (group && entry_find_group(str_of(group), &c.gid) < 0)
		return op_fail(op, TOOL_UNKNOWN_USER, STR_LIT(""), "there is no group %.40s",
			       group);
	if (!group && c.uid == (uid_t)-1)
		return op_fail(op, TOOL_INVALID, STR_LIT(""), "owner or group is needed");
	return change_path(op, path, &c, recursive);
}
