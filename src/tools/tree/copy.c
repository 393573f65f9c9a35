/* SPDX-License-Identifier: Apache-2.0 */
/* copy */
#include "tools/tree/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "tools/tree/entry.h"
#include "tools/tree/remove.h"
#include "tools/content/temp.h"
#include "tools/tree/walk.h"
#include "tools/content/write.h"

#define PIECE_BYTES (16U << 20)
#define UNSIZED_MAX (64ULL << 20) /* some of them never end */

static int copy_plain(int from_fd, int to_fd, off_t at, off_t end)
{
	static char buffer[1U << 17];

	while (at < end) {
		ssize_t n = pread(from_fd, buffer, MIN(sizeof(buffer), (size_t)(end - at)), at), m;

		if (n < 0 && errno == EINTR && !op_stopped())
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ESTALE;
		for (ssize_t done = 0; done < n; done += m) {
			m = pwrite(to_fd, buffer + done, (size_t)(n - done), at + done);
			if (m < 0)
				return -errno;
		}
		at += n;
	}
	return 0;
}

static int copy_piece(int from_fd, int to_fd, off_t at, off_t end)
{
	while (at < end) {
		off_t in = at, out = at;
		ssize_t n = copy_file_range(from_fd, &in, to_fd, &out,
					    MIN(PIECE_BYTES, (size_t)(end - at)), 0);

		if (op_stopped())
			return -ECANCELED;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == EOPNOTSUPP ||
			      errno == ENOSYS || errno == EPERM))
			return copy_plain(from_fd, to_fd, at, end);
		if (n < 0)
			return -errno;
		if (n == 0) /* some kernel file systems do not support this */
			return copy_plain(from_fd, to_fd, at, end);
		at += n;
	}
	return 0;
}

/* Files of /proc and similar have no size: their content is what a read returns. */
static int copy_unsized(int from_fd, int to_fd, uint64_t *ret_size)
{
	static char buffer[1U << 17];
	uint64_t at = 0;

	for (;;) {
		ssize_t n = read(from_fd, buffer, sizeof(buffer)), m;

		if (n < 0 && errno == EINTR && !op_stopped())
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		if (at + (uint64_t)n > UNSIZED_MAX)
			return -EFBIG;
		for (ssize_t done = 0; done < n; done += m) {
			m = write(to_fd, buffer + done, (size_t)(n - done));
			if (m < 0)
				return -errno;
		}
		at += (uint64_t)n;
	}
	*ret_size = at;
	return 0;
}

/* Copies the content of one open file to another, with its holes; shares blocks where possible. */
static int copy_content(int from_fd, int to_fd, uint64_t size)
{
	off_t at = 0, end = (off_t)size;
	int r = 0;

	if (ioctl(to_fd, FICLONE, from_fd) == 0)
		return 0;
	while (r == 0 && at < end) {
		off_t data = lseek(from_fd, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break; /* only a hole up to the end */
		if (data < 0)
			data = at; /* it does not support holes */
		if (data >= end)
			break;
		hole = lseek(from_fd, data, SEEK_HOLE);
		if (hole < 0 || hole > end)
			hole = end;
		r = copy_piece(from_fd, to_fd, data, hole);
		at = hole;
	}
	if (r == 0 && ftruncate(to_fd, end) < 0)
		r = -errno;
	return r;
}

/* Sets owner, mode and times; the owner only as far as permitted. */
static int dress_fd(int fd, const struct stat *st)
{
	const struct timespec times[2] = { st->st_atim, st->st_mtim };
	mode_t mode = st->st_mode & 07777;

	if ((st->st_uid != geteuid() || st->st_gid != getegid()) &&
	    fchown(fd, st->st_uid, st->st_gid) < 0)
		mode &= ~(mode_t)06000;
	if (fchmod(fd, mode) < 0 || futimens(fd, times) < 0)
		return -errno;
	return 0;
}

/* Copies one entry, not a directory, into a directory. 1: a kind that is not copied. */
static int copy_entry(struct op *op, int from_fd, const char *name, int to_fd, const char *to_name,
		      struct temp_target target)
{
	struct temp temp = TEMP_INIT;
	_cleanup_close_ int fd = -1;
	char link[TOOL_TARGET_MAX + 1];
	uint64_t size;
	struct stat st;
	ssize_t n;
	int r;

	if (fstatat(from_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (S_ISLNK(st.st_mode)) {
		n = readlinkat(from_fd, name, link, sizeof(link) - 1);
		if (n < 0)
			return -errno;
		link[n] = '\0';
		if (symlinkat(link, to_fd, to_name) < 0)
			return -errno;
		(void)!fchownat(to_fd, to_name, st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW);
		return 0;
	}
	if (!S_ISREG(st.st_mode))
		return 1;
	fd = openat(from_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ELOOP ? -ESTALE : -errno;
	if (!S_ISREG(st.st_mode))
		return 1;
	size = (uint64_t)st.st_size;
	r = temp_open(&temp, to_fd, 0600);
	if (r == 0)
		r = size == 0 && walk_is_synthetic(fd) ? copy_unsized(fd, temp.fd, &size)
						       : copy_content(fd, temp.fd, size);
	if (r == 0)
		r = dress_fd(temp.fd, &st);
	if (r == 0)
		r = temp_publish(&temp, to_name, target);
	temp_done(&temp);
	if (r == 0)
		op->end.bytes += size;
	return r;
}

/* Whether directory fd is in the directory st, or is it. */
static int is_within(int dir_fd, const struct stat *st, bool *ret)
{
	_cleanup_close_ int fd = openat(dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat now, last = { 0 };

	for (;;) {
		int up;

		if (fd < 0 || fstat(fd, &now) < 0)
			return -errno;
		*ret = now.st_dev == st->st_dev && now.st_ino == st->st_ino;
		if (*ret || (now.st_dev == last.st_dev && now.st_ino == last.st_ino))
			return 0;
		last = now;
		up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		(void)close(fd);
		fd = up;
	}
}

static int enter_both(struct walk *w, struct descent *to, const char *name)
{
	int r;

	/* Accessible to its owner until it is filled; the real mode is set on the way back. */
	if (mkdirat(descent_fd(to), name, 0700) < 0)
		return -errno;
	r = descent_enter(to, name);
	if (r < 0)
		return r;
	r = walk_enter(w);
	return r;
}

static int leave_both(struct walk *w, struct descent *to, const struct walk_item *item)
{
	struct stat st;
	int r = 0;

	if (fstatat(item->dir_fd, item->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = -errno;
	if (r == 0 && S_ISDIR(st.st_mode))
		r = dress_fd(descent_fd(to), &st);
	return r < 0 ? r : descent_leave(to);
}

static int copy_level(struct op *op, struct walk *w, struct descent *to, struct str path)
{
	const struct temp_target fresh = { .must_be_absent = true };
	struct walk_item item;
	int r;

	while ((r = walk_next(w, &item)) == 1) {
		if (item.leaving)
			r = leave_both(w, to, &item);
		else if (item.type == DT_DIR)
			r = enter_both(w, to, item.name);
		else
			r = copy_entry(op, item.dir_fd, item.name, descent_fd(to), item.name,
				       fresh);
		if (op_stopped())
			r = -ECANCELED;
		if (r == -ENAMETOOLONG)
			return op_fail(op, TOOL_TOO_DEEP, path, "paths in it are too long");
		if (r < 0)
			return op_fail_disk(op, r, item.path, descent_fd(to));
		if (r == 1)
			op->end.skipped_special++;
		else if (!item.leaving)
			op->end.entries++;
	}
	if (w->cut)
		return op_fail(op, TOOL_TOO_LARGE, path, "a directory has too many entries");
	return r < 0 ? op_fail_errno(op, r, path) : 0;
}

/* Fills the new directory name in to_fd from the directory from_fd, which is consumed. */
static int copy_tree(struct op *op, int from_fd, struct str path, int to_fd, const char *name)
{
	static struct walk walk;
	struct descent to = { 0 };
	struct stat st;
	int fd, r;

	if (fstat(from_fd, &st) < 0 || mkdirat(to_fd, name, 0700) < 0) {
		r = -errno;
		(void)close(from_fd);
		return op_fail_disk(op, r, path, to_fd);
	}
	fd = openat(to_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	r = fd < 0 ? -errno : descent_begin(&to, fd);
	if (r < 0 || (r = walk_begin(&walk, from_fd)) < 0) {
		descent_end(&to);
		(void)close(from_fd);
		return op_fail_errno(op, r, path);
	}
	r = copy_level(op, &walk, &to, path);
	walk_end(&walk);
	if (r == 0) {
		op->end.entries++;
		r = dress_fd(descent_fd(&to), &st);
		if (r < 0)
			r = op_fail_errno(op, r, path);
	}
	descent_end(&to);
	return r;
}

/* Moves the finished copy to its place; a replaced directory is removed afterwards. */
static int settle(struct op *op, const struct leaf *to, struct str to_path, const char *temp,
		  bool overwrite)
{
	char bad[256];
	uint64_t count = 0;

	if (renameat2(to->dir_fd, temp, to->dir_fd, to->name, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EEXIST || !overwrite)
		return op_fail_errno(op, errno, to_path);
	if (renameat2(to->dir_fd, temp, to->dir_fd, to->name, RENAME_EXCHANGE) < 0)
		return op_fail_errno(op, errno, to_path);
	op->end.flags |= TOOL_END_REPLACED;
	if (remove_tree(to->dir_fd, temp, &count, bad) < 0)
		return op_fail(op, TOOL_IO, to_path, "the old one is left as %s", temp);
	return 0;
}

static int copy_directory(struct op *op, const struct leaf *from, struct str path,
			  const struct leaf *to, struct str to_path, bool overwrite)
{
	char temp[32], bad[256];
	uint64_t count = 0;
	struct stat st;
	bool within = false;
	int fd, r;

	fd = openat(from->dir_fd, from->name[0] ? from->name : ".",
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return op_fail_errno(op, errno, path);
	r = fstat(fd, &st) < 0 ? -errno : is_within(to->dir_fd, &st, &within);
	if (r < 0 || within) {
		(void)close(fd);
		return r < 0 ? op_fail_errno(op, r, path)
			     : op_fail(op, TOOL_INVALID, to_path,
				       "a directory cannot go into itself");
	}
	temp_make_name(temp);
	r = copy_tree(op, fd, path, to->dir_fd, temp);
	if (r == 0)
		r = settle(op, to, to_path, temp, overwrite);
	if (r < 0 && !(op->end.flags & TOOL_END_REPLACED))
		(void)!remove_tree(to->dir_fd, temp, &count, bad);
	return r;
}

int copy_leaf(struct op *op, const struct leaf *from, struct str path, const struct leaf *to,
	      struct str to_path, bool overwrite)
{
	const struct temp_target target = { .must_be_absent = !overwrite };
	struct stat st, old;
	bool existed;
	int r;

	if (!to->name[0])
		return op_fail_errno(op, EEXIST, to_path);
	if (fstatat(from->dir_fd, from->name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
		return op_fail_errno(op, errno, path);
	existed = fstatat(to->dir_fd, to->name, &old, AT_SYMLINK_NOFOLLOW) == 0;
	if (existed && old.st_dev == st.st_dev && old.st_ino == st.st_ino)
		return op_fail(op, TOOL_EXISTS, to_path, "is the same file");
	if (existed && !overwrite)
		return op_fail_errno(op, EEXIST, to_path);
	if (!existed)
		op->end.flags |= TOOL_END_CREATED;
	if (S_ISDIR(st.st_mode))
		return copy_directory(op, from, path, to, to_path, overwrite);
	if (to->wants_dir)
		return op_fail_errno(op, ENOTDIR, to_path);
	if (existed && S_ISDIR(old.st_mode))
		return op_fail_errno(op, EISDIR, to_path);
	if (existed && S_ISLNK(st.st_mode) && unlinkat(to->dir_fd, to->name, 0) < 0)
		return op_fail_errno(op, errno, to_path);
	r = copy_entry(op, from->dir_fd, from->name, to->dir_fd, to->name, target);
	if (r == 1)
		return op_fail(op, TOOL_NOT_FILE, path, "neither file, directory nor link");
	if (r < 0)
		return op_fail_disk(op, r, r == -EEXIST ? to_path : path, to->dir_fd);
	op->end.entries++;
	if (existed)
		op->end.flags |= TOOL_END_REPLACED;
	return 0;
}

int op_copy(struct op *op)
{
	_cleanup_leaf_ struct leaf from = LEAF_INIT, to = LEAF_INIT;
	bool overwrite, parents, recursive;
	struct tool_entry entry;
	char target[TOOL_TARGET_MAX + 1];
	struct str path, to_path;
	struct stat st;
	int r;

	if (op_needed(op, "path", &path) < 0 || op_needed(op, "to", &to_path) < 0 ||
	    op_flag(op, "overwrite", false, &overwrite) < 0 ||
	    op_flag(op, "parents", false, &parents) < 0 ||
	    op_flag(op, "recursive", false, &recursive) < 0 || op_args_end(op) < 0)
		return -1;
	r = recursive ? path_leaf(&op->place, path, &from)
		      : path_leaf_follow(&op->place, path, &from);
	if (r == 0 && fstatat(from.dir_fd, from.name, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) < 0)
		r = -errno;
	if (r == 0 && S_ISDIR(st.st_mode) && !recursive)
		r = -EISDIR;
	if (r < 0)
		return op_fail_errno(op, r, path);
	if (parents)
		r = path_make_parents(&op->place, to_path, PATH_OWNER_NONE);
	if (r == 0)
		r = path_leaf(&op->place, to_path, &to);
	if (r < 0)
		return op_fail_errno(op, r, to_path);
	op->keeps_going = true;
	op_on_stop();
	if (copy_leaf(op, &from, path, &to, to_path, overwrite) < 0)
		return -1;
	if (entry_look(to.dir_fd, to.name, target, &entry) == 0) {
		entry.path = to_path;
		op_put_entry(op, &entry);
	}
	return 0;
}
