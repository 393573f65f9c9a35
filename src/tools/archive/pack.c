/* SPDX-License-Identifier: Apache-2.0 */
/* archive-out: a tree, or one file, as a stream. */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/time.h"
#include "tools/archive/charset.h"
#include "tools/tree/entry.h"
#include "tools/search/ignore.h"
#include "tools/tree/walk.h"

#define HOLE_BYTES (1UL << 30)
#define PROGRESS_US 250000
#define FAILED_ITEMS_MAX 1000

/* Owner: op_archive_out(). */
struct pack {
	struct op *op;
	struct archive *archive;
	struct archive_entry_linkresolver *links; /* NULL: the format has no hard links */
	struct ignore ignore;
	bool gitignore, sparse;
	const char *hole; /* HOLE_BYTES of untouched zero pages */
	int64_t told_us;
	uint64_t index;
};

static void tell_progress(struct pack *p)
{
	int64_t now = time_mono_us();

	if (now - p->told_us < PROGRESS_US)
		return;
	p->told_us = now;
	op_put_progress(p->op, &(struct tool_progress){ .entries = p->op->end.entries,
							.bytes = p->op->end.bytes });
}

static la_ssize_t on_write(struct archive *archive, void *arg, const void *bytes, size_t n)
{
	struct pack *p = arg;

	op_put_data(p->op, (struct str){ bytes, n });
	op_flush(p->op);
	return (la_ssize_t)n;
}

static int fail_archive(struct pack *p, struct str path)
{
	const char *why = archive_error_string(p->archive);

	return op_fail(p->op, TOOL_IO, path, "%s", why ? why : "cannot write the archive");
}

static void tell_failed(struct pack *p, struct str path, int error)
{
	struct tool_item item = { .error = op_error_of(error),
				  .errno_value = (uint32_t)error,
				  .index = p->index,
				  .path = path };

	if (p->op->end.failed++ < FAILED_ITEMS_MAX)
		op_put_item(p->op, &item);
}

static int open_format(struct pack *p, const char *format, uint64_t level)
{
	struct archive *a = p->archive = archive_write_new();
	char number[8];
	int r;

	if (!a)
		return op_fail_errno(p->op, ENOMEM, STR_LIT(""));
	(void)snprintf(number, sizeof(number), "%u", (unsigned)level);
	if (strcmp(format, "zip") == 0) {
		r = archive_write_set_format_zip(a);
	} else if (strcmp(format, "tar") == 0 || strcmp(format, "tar.zst") == 0) {
		p->sparse = true;
		r = archive_write_set_format_pax_restricted(a);
		/*
		 * A name that is not UTF-8 is stored as bytes, with a header that says so. GNU tar
		 * warns of that header, so it is not written for every entry (hdrcharset=BINARY).
		 */
		if (r == ARCHIVE_OK && format[3]) {
			r = archive_write_add_filter_zstd(a);
			(void)archive_write_set_filter_option(a, "zstd", "compression-level",
							      number);
		}
		p->links = archive_entry_linkresolver_new();
		if (!p->links)
			return op_fail_errno(p->op, ENOMEM, STR_LIT(""));
		archive_entry_linkresolver_set_strategy(p->links, archive_format(a));
	} else {
		return op_fail(p->op, TOOL_INVALID, STR_LIT(""),
			       "format must be tar, tar.zst or zip");
	}
	(void)archive_write_set_bytes_per_block(a, TOOL_DATA_MAX);
	(void)archive_write_set_bytes_in_last_block(a, 1);
	if (r != ARCHIVE_OK || archive_write_open(a, p, NULL, on_write, NULL) != ARCHIVE_OK)
		return fail_archive(p, STR_LIT(""));
	return 0;
}

/* Records the parts of a file that contain data, so that holes are not sent. */
static void map_data(int fd, const struct stat *st, struct archive_entry *entry)
{
	off_t at = 0;

	if ((off_t)st->st_blocks * 512 >= st->st_size)
		return;
	while (at < st->st_size) {
		off_t data = lseek(fd, at, SEEK_DATA), hole;

		if (data < 0) {
			if (errno == ENXIO && at == 0)
				archive_entry_sparse_add_entry(entry, 0, 0);
			break;
		}
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole < 0)
			break;
		hole = MIN(hole, st->st_size);
		if (data < hole)
			archive_entry_sparse_add_entry(entry, data, hole - data);
		at = hole;
	}
}

static int put_zeroes(struct pack *p, uint64_t n)
{
	if (!p->hole) {
		void *zeroes = mmap(NULL, HOLE_BYTES, PROT_READ,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (zeroes == MAP_FAILED)
			return -ENOMEM;
		p->hole = zeroes;
	}
	while (n) {
		size_t piece = (size_t)MIN(n, HOLE_BYTES);

		if (archive_write_data(p->archive, p->hole, piece) < 0)
			return -EIO;
		n -= piece;
		tell_progress(p);
	}
	return 0;
}

/*
 * Sends the content with exactly the length in the header: a file that shrank is padded with
 * zeroes.
 */
static int put_content(struct pack *p, int fd, const struct stat *st, struct str path)
{
	static char buffer[TOOL_DATA_MAX];
	uint64_t at = 0, size = (uint64_t)st->st_size;

	while (at < size) {
		off_t data = p->sparse ? lseek(fd, (off_t)at, SEEK_DATA) : (off_t)at;
		uint64_t next = data < 0 ? (errno == ENXIO ? size : at) : (uint64_t)data;
		ssize_t n;

		if (next > at) {
			next = MIN(next, size);
			if (put_zeroes(p, next - at) < 0)
				return fail_archive(p, path);
			at = next;
			continue;
		}
		n = pread(fd, buffer, (size_t)MIN(sizeof(buffer), size - at), (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			tell_failed(p, path, n < 0 ? errno : ESTALE);
			return put_zeroes(p, size - at) < 0 ? fail_archive(p, path) : 0;
		}
		if (archive_write_data(p->archive, buffer, (size_t)n) < 0)
			return fail_archive(p, path);
		at += (uint64_t)n;
		p->op->end.bytes += (uint64_t)n;
		tell_progress(p);
	}
	return 0;
}

static int put_header(struct pack *p, struct archive_entry *entry, int fd, const struct stat *st,
		      struct str path)
{
	struct archive_entry *head = entry, *spare = NULL;
	int r;

	if (p->links)
		archive_entry_linkify(p->links, &head, &spare);
	/* Many programs reject a whole zip in which a name is declared as UTF-8 but is not. */
	charset_bytes(!p->links && !str_is_utf8(path.p, path.n));
	r = archive_write_header(p->archive, head);
	charset_bytes(false);
	if (r < ARCHIVE_WARN)
		return fail_archive(p, path);
	p->op->end.entries++;
	tell_progress(p);
	if (fd < 0 || archive_entry_size(head) == 0)
		return 0;
	return put_content(p, fd, st, path);
}

/* Packs one entry; an unreadable one is reported and omitted. */
static int put_one(struct pack *p, int dir_fd, const char *name, struct str path)
{
	struct archive_entry *entry;
	_cleanup_close_ int fd = -1;
	char target[TOOL_TARGET_MAX + 1];
	struct str user, group;
	char owner[TOOL_NAME_MAX + 1];
	struct stat st;
	ssize_t n = 0;
	int r;

	p->index++;
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		goto unreadable;
	if (S_ISREG(st.st_mode)) {
		fd = openat(dir_fd, name,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, &st) < 0)
			goto unreadable;
	}
	if (S_ISLNK(st.st_mode) && (n = readlinkat(dir_fd, name, target, sizeof(target) - 1)) < 0)
		goto unreadable;
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode) && !S_ISDIR(st.st_mode)) {
		p->op->end.skipped_special++;
		return 0;
	}
	entry = archive_entry_new();
	if (!entry)
		return op_fail_errno(p->op, ENOMEM, path);
	archive_entry_copy_stat(entry, &st);
	archive_entry_copy_pathname(entry, path.p);
	user = entry_user(st.st_uid);
	group = entry_group(st.st_gid);
	if (str_copy(owner, sizeof(owner), user) == 0)
		archive_entry_copy_uname(entry, owner);
	if (str_copy(owner, sizeof(owner), group) == 0)
		archive_entry_copy_gname(entry, owner);
	if (S_ISLNK(st.st_mode)) {
		target[n] = '\0';
		archive_entry_copy_symlink(entry, target);
	}
	if (fd >= 0 && p->sparse)
		map_data(fd, &st, entry);
	r = put_header(p, entry, fd, &st, path);
	archive_entry_free(entry);
	return r;
unreadable:
	tell_failed(p, path, errno);
	return 0;
}

static int pack_tree(struct pack *p, int dir_fd)
{
	static struct walk walk;
	struct walk_item item;
	int r = walk_begin(&walk, dir_fd);

	if (r < 0)
		return op_fail_errno(p->op, r, STR_LIT(""));
	while ((r = walk_next(&walk, &item)) == 1) {
		bool dir = item.type == DT_DIR;

		if (item.leaving) {
			if (p->gitignore)
				ignore_leave(&p->ignore);
			continue;
		}
		if (p->gitignore && ignore_match(&p->ignore, item.path, dir))
			continue;
		if (put_one(p, item.dir_fd, item.name, item.path) < 0)
			return -1;
		if (!dir)
			continue;
		r = walk_enter(&walk);
		if (r == -ESTALE)
			break;
		if (r < 0)
			tell_failed(p, item.path, -r);
		else if (p->gitignore &&
			 ignore_enter(&p->ignore, descent_fd(&walk.descent), item.path.n) < 0)
			return op_fail_errno(p->op, ENOMEM, item.path);
	}
	if (r == 0 && walk.cut)
		return op_fail(p->op, TOOL_TOO_LARGE, STR_LIT(""),
			       "a directory has too many entries");
	walk_end(&walk);
	return r < 0 ? op_fail_errno(p->op, r, STR_LIT("")) : 0;
}

static int pack_path(struct pack *p, struct str path)
{
	_cleanup_leaf_ struct leaf leaf = LEAF_INIT;
	int fd, r = path_open(&p->op->place, path, O_RDONLY | O_DIRECTORY, &fd);

	if (r == 0 && p->gitignore)
		r = ignore_enter(&p->ignore, fd, 0);
	if (r == 0) {
		op_put_ready(p->op);
		return pack_tree(p, fd);
	}
	if (r != -ENOTDIR)
		return op_fail_errno(p->op, r, path);
	r = path_leaf_follow(&p->op->place, path, &leaf);
	if (r < 0)
		return op_fail_errno(p->op, r, path);
	op_put_ready(p->op);
	r = put_one(p, leaf.dir_fd, leaf.name, str_of(leaf.name));
	if (r == 0 && p->op->end.entries == 0)
		return op_fail(p->op, TOOL_NOT_FILE, path, "not a file or directory");
	return r;
}

int op_archive_out(struct op *op)
{
	struct pack p = { .op = op };
	const char *format = op_text(op, "format");
	struct str path;
	uint64_t level;

	if (op_needed(op, "path", &path) < 0 || op_number(op, "level", 3, 1, 19, &level) < 0 ||
	    op_flag(op, "gitignore", false, &p.gitignore) < 0 || op_args_end(op) < 0 ||
	    open_format(&p, format ? format : "tar", level) < 0)
		return -1;
	(void)fcntl(STDOUT_FILENO, F_SETPIPE_SZ, 1 << 20);
	p.told_us = time_mono_us();
	if (pack_path(&p, path) < 0)
		return -1; /* the process exits, so nothing is freed */
	if (archive_write_close(p.archive) != ARCHIVE_OK)
		return fail_archive(&p, path);
	(void)archive_write_free(p.archive);
	archive_entry_linkresolver_free(p.links);
	ignore_done(&p.ignore);
	return 0;
}
