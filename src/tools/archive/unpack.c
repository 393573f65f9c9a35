/* SPDX-License-Identifier: Apache-2.0 */
/*
 * archive-in. Nothing is written outside the given directory: the kernel resolves every name
 * strictly beneath it, whatever links the archive or another process creates. Each file appears
 * atomically. An entry that fails is reported, and the others continue.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/time.h"
#include "tools/content/temp.h"
#include "tools/archive/unpack.h"
#include "tools/content/write.h"

#define PROGRESS_US 250000
#define FAILED_ITEMS_MAX 1000
#define LATER_MAX_BYTES (64U << 20)

static la_ssize_t on_read(struct archive *archive, void *arg, const void **ret)
{
	struct unpack *u = arg;
	struct str bytes = u->first;
	int r = 1;

	u->first.n = 0;
	if (bytes.n == 0)
		r = u->committed ? 0 : op_next_data(u->op, &bytes);
	if (r < 0) {
		archive_set_error(archive, EIO, "the input broke off");
		return ARCHIVE_FATAL;
	}
	if (r == 0) {
		u->committed = true;
		return 0;
	}
	u->in_bytes += bytes.n;
	*ret = bytes.p;
	return (la_ssize_t)bytes.n;
}

int unpack_fail_archive(struct unpack *u)
{
	const char *why = archive_error_string(u->archive);

	(void)unpack_side_wait(u);
	u->op->failed.done = u->op->end.entries;
	return op_fail(u->op, TOOL_ARCHIVE_BAD, (struct str){ u->path, u->path_len }, "%s",
		       why ? why : "not an archive that can be read");
}

void unpack_tell_progress(struct unpack *u)
{
	int64_t now = time_mono_us();

	if (now - u->told_us < PROGRESS_US)
		return;
	u->told_us = now;
	op_put_progress(u->op, &(struct tool_progress){ .entries = u->op->end.entries,
							.bytes = u->op->end.bytes });
}

static void tell_failed(struct unpack *u, uint64_t index, struct str path, enum tool_error code,
			int error)
{
	struct tool_item item = { .error = code,
				  .errno_value = (uint32_t)error,
				  .index = index,
				  .path = { path.p, MIN(path.n, TOOL_PATH_MAX) } };

	if (u->op->end.failed++ < FAILED_ITEMS_MAX)
		op_put_item(u->op, &item);
}

/* Moves the entry from its temporary name to its place. */
static int settle(const struct leaf *leaf, const char *temp)
{
	int r = 0;

	if (renameat(leaf->dir_fd, temp, leaf->dir_fd, leaf->name) < 0)
		r = -errno;
	/* Left over after a failure, or if both names were already the same file. */
	(void)unlinkat(leaf->dir_fd, temp, 0);
	return r;
}

static int put_symlink(struct unpack *u, struct archive_entry *entry, const struct leaf *leaf)
{
	const char *target = archive_entry_symlink(entry);
	char temp[32];

	if (!target)
		return -EINVAL;
	if (!member_link_stays((struct str){ u->path, u->path_len }, str_of(target)))
		return -EXDEV;
	temp_make_name(temp);
	if (symlinkat(target, leaf->dir_fd, temp) < 0)
		return errno == EPERM ? -EACCES : -errno;
	if (u->owner.uid != (uid_t)-1)
		(void)!fchownat(leaf->dir_fd, temp, u->owner.uid, u->owner.gid,
				AT_SYMLINK_NOFOLLOW);
	return settle(leaf, temp);
}

/* Only to a regular file below the top, even if it is replaced meanwhile. */
static int put_hardlink(struct unpack *u, struct archive_entry *entry, const struct leaf *leaf)
{
	_cleanup_leaf_ struct leaf from = LEAF_INIT;
	const char *target = archive_entry_hardlink(entry);
	char clean[PATH_MAX], temp[32];
	struct stat st;
	size_t n;
	int r;

	if (!target)
		return -EINVAL;
	r = member_clean(str_of(target), clean, sizeof(clean), &n);
	if (r == 0 && n == 0)
		r = -EXDEV;
	if (r == 0)
		r = path_leaf_beneath(u->root_fd, (struct str){ clean, n }, u->owner, &from);
	if (r < 0)
		return r;
	temp_make_name(temp);
	if (linkat(from.dir_fd, from.name, leaf->dir_fd, temp, 0) < 0)
		return errno == EPERM ? -EACCES : -errno;
	if (fstatat(leaf->dir_fd, temp, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode)) {
		(void)unlinkat(leaf->dir_fd, temp, 0);
		return -ENXIO;
	}
	return settle(leaf, temp);
}

static int put_directory(struct unpack *u, struct archive_entry *entry, const struct leaf *leaf)
{
	bool made = mkdirat(leaf->dir_fd, leaf->name, 0700) == 0;
	struct stat st;

	if (!made && errno != EEXIST)
		return errno == EPERM ? -EACCES : -errno;
	if (!made) {
		if (fstatat(leaf->dir_fd, leaf->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -errno;
		if (!S_ISDIR(st.st_mode))
			return -ENOTDIR;
	} else if (u->owner.uid != (uid_t)-1 && fchownat(leaf->dir_fd, leaf->name, u->owner.uid,
							 u->owner.gid, AT_SYMLINK_NOFOLLOW) < 0) {
		return -EACCES;
	}
	return unpack_remember(u, entry, made);
}

/* As unpack_file(). */
static int put_entry(struct unpack *u, struct archive_entry *entry)
{
	_cleanup_leaf_ struct leaf leaf = LEAF_INIT;
	mode_t type = archive_entry_filetype(entry);
	bool hardlink = archive_entry_hardlink(entry);
	int r;

	if (u->path_len == 0)
		return type == AE_IFDIR ? 0 : -EXDEV; /* the top itself exists */
	if (!hardlink && type != AE_IFREG && type != AE_IFDIR && type != AE_IFLNK)
		return -ENODEV;
	if (!hardlink && type == AE_IFREG)
		return unpack_file(u, entry);
	/* Any other entry may change where a file's directory is. */
	if ((type == AE_IFDIR && !hardlink ? unpack_change_directory(u)
					   : unpack_leave_directory(u)) < 0)
		return -1;
	r = path_leaf_beneath(u->root_fd, (struct str){ u->path, u->path_len }, u->owner, &leaf);
	if (r < 0)
		return r == -EPERM ? -EACCES : r;
	if (hardlink)
		return put_hardlink(u, entry, &leaf);
	if (type == AE_IFDIR)
		return put_directory(u, entry, &leaf);
	return put_symlink(u, entry, &leaf);
}

static enum tool_error code_of(int error)
{
	if (error == ENODEV || error == ENXIO)
		return TOOL_ARCHIVE_KIND;
	if (error == EBADMSG)
		return TOOL_ARCHIVE_BAD;
	return error == EXDEV ? TOOL_ARCHIVE_ESCAPE : op_error_of(error);
}

int unpack_settle(struct unpack *u, uint64_t index, const char *name, int r)
{
	if (r == -ENOSPC || r == -EDQUOT || r == -ECANCELED) {
		if (!name || member_clean(str_of(name), u->path, sizeof(u->path), &u->path_len) < 0)
			u->path_len = 0;
		u->op->failed.done = u->op->end.entries;
		return op_fail_disk(u->op, r, (struct str){ u->path, u->path_len }, u->root_fd);
	}
	if (r < 0)
		tell_failed(u, index, str_of(name ? name : ""),
			    name ? code_of(-r) : TOOL_ARCHIVE_BAD, -r);
	else
		u->op->end.entries++;
	unpack_tell_progress(u);
	return 0;
}

/* -1 means "the run failed". -EPERM has the same value and is never returned as such. */
static int take_entry(struct unpack *u, struct archive_entry *entry)
{
	const char *name = archive_entry_pathname(entry);
	int r;

	u->path_len = 0;
	if (u->index >= u->max_entries) {
		if (unpack_leave_directory(u) < 0)
			return -1;
		u->op->failed.limit = u->max_entries;
		u->op->failed.done = u->op->end.entries;
		return op_fail(u->op, TOOL_ARCHIVE_LIMIT, STR_LIT(""),
			       "the archive has more entries than max_entries");
	}
	r = name ? member_clean(str_of(name), u->path, sizeof(u->path), &u->path_len) : -EINVAL;
	if (r == 0)
		r = put_entry(u, entry);
	if (r == -1)
		return -1;
	if (r <= 0 && unpack_settle(u, u->index, name, r) < 0)
		return -1;
	u->index++;
	return 0;
}

static int unpack_all(struct unpack *u)
{
	struct archive_entry *entry;
	struct str rest;
	int r;

	while ((r = archive_read_next_header(u->archive, &entry)) >= ARCHIVE_WARN &&
	       r != ARCHIVE_EOF)
		if (r != ARCHIVE_RETRY && take_entry(u, entry) < 0)
			return -1;
	if (r != ARCHIVE_EOF)
		return unpack_fail_archive(u);
	while (!u->committed) { /* tar's padding after its end */
		r = op_next_data(u->op, &rest);
		if (r < 0) {
			u->op->failed.done = u->op->end.entries;
			return -1;
		}
		u->committed = r == 0;
	}
	return 0;
}

/* zip has its table at the end, so it is first stored in a file without a name. */
static int open_zip(struct unpack *u)
{
	struct temp temp;
	struct str bytes = u->first;
	int r = temp_open(&temp, u->root_fd, 0600);

	if (r < 0)
		return op_fail_disk(u->op, r, STR_LIT(""), u->root_fd);
	do {
		r = write_all(temp.fd, bytes);
		if (r < 0) {
			temp_done(&temp);
			return op_fail_disk(u->op, r, STR_LIT(""), u->root_fd);
		}
		u->in_bytes += bytes.n;
	} while ((r = op_next_data(u->op, &bytes)) == 1);
	u->spool_fd = r < 0 ? -1 : fcntl(temp.fd, F_DUPFD_CLOEXEC, 3);
	temp_done(&temp);
	if (r < 0)
		return -1;
	u->committed = true;
	u->first.n = 0;
	if (u->spool_fd < 0 || lseek(u->spool_fd, 0, SEEK_SET) < 0)
		return op_fail_errno(u->op, errno, STR_LIT(""));
	if (archive_read_support_format_zip_seekable(u->archive) != ARCHIVE_OK ||
	    archive_read_open_fd(u->archive, u->spool_fd, TOOL_DATA_MAX) != ARCHIVE_OK)
		return unpack_fail_archive(u);
	return 0;
}

static int open_archive(struct unpack *u)
{
	int r = op_next_data(u->op, &u->first);

	if (r < 0)
		return -1;
	u->archive = archive_read_new();
	if (!u->archive)
		return op_fail_errno(u->op, ENOMEM, STR_LIT(""));
	if (r == 0) {
		u->committed = true;
		return op_fail(u->op, TOOL_ARCHIVE_BAD, STR_LIT(""), "the archive is empty");
	}
	if (u->first.n >= 4 && memcmp(u->first.p, "PK", 2) == 0)
		return open_zip(u);
	(void)archive_read_support_format_tar(u->archive);
	(void)archive_read_support_filter_zstd(u->archive);
	(void)archive_read_support_filter_gzip(u->archive);
	if (archive_read_open(u->archive, u, NULL, on_read, NULL) != ARCHIVE_OK)
		return op_failed(u->op) ? -1 : unpack_fail_archive(u);
	return 0;
}

static int open_top(struct unpack *u, struct str path, bool parents)
{
	int r = path_open(&u->op->place, path, O_RDONLY | O_DIRECTORY, &u->root_fd);

	if (r == -ENOENT && parents) {
		char inner[TOOL_PATH_MAX + 3];

		/* The whole path is created, as if an entry in it were to be written. */
		if (path.n > TOOL_PATH_MAX)
			return op_fail_errno(u->op, ENAMETOOLONG, path);
		memcpy(inner, path.p, path.n);
		memcpy(inner + path.n, "/x", 2);
		r = path_make_parents(&u->op->place, (struct str){ inner, path.n + 2 }, u->owner);
		if (r == 0)
			r = path_open(&u->op->place, path, O_RDONLY | O_DIRECTORY, &u->root_fd);
	}
	return r < 0 ? op_fail_errno(u->op, r, path) : 0;
}

int op_archive_in(struct op *op)
{
	static struct unpack u; /* large */
	struct str path;
	bool parents;
	int r;

	u = (struct unpack){ .op = op, .root_fd = -1, .spool_fd = -1, .dir_fd = -1 };
	if (op_needed(op, "path", &path) < 0 || write_owner(op, &u.owner) < 0 ||
	    op_number(op, "max_entries", 1000000, 1, 1ULL << 40, &u.max_entries) < 0 ||
	    op_number(op, "max_bytes", 0, 0, INT64_MAX, &u.max_bytes) < 0 ||
	    op_number(op, "max_ratio", 200, 1, 1U << 20, &u.max_ratio) < 0 ||
	    op_flag(op, "parents", true, &parents) < 0 || op_args_end(op) < 0)
		return -1;
	op_on_stop();
	buf_init(&u.later, LATER_MAX_BYTES);
	if (open_top(&u, path, parents) < 0)
		return -1;
	(void)fcntl(STDIN_FILENO, F_SETPIPE_SZ, 1 << 20);
	op_put_ready(op);
	op->keeps_going = true;
	u.told_us = time_mono_us();
	r = open_archive(&u);
	if (r == 0)
		r = unpack_all(&u);
	if (unpack_side_end(&u) < 0)
		r = -1;
	unpack_finish_directories(&u);
	(void)archive_read_free(u.archive);
	buf_done(&u.later);
	if (u.spool_fd >= 0)
		(void)close(u.spool_fd);
	(void)close(u.root_fd);
	return r;
}
