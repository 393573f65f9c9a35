/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plain files of an archive. Consecutive files of one directory are written through one
 * descriptor of it, and directories alternate with a second thread, because they do not depend on
 * each other. In a directory with many files, equal names always go to the same thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "tools/archive/unpack.h"
#include "tools/content/write.h"

#define FREE_BYTES (64ULL << 20) /* up to this size the ratio is not checked */
#define MANY_FILES 256

/* 0: within the limits. Only written bytes count, not holes. */
int unpack_check_limits(struct unpack *u, uint64_t more)
{
	uint64_t bytes = u->op->end.bytes + more;
	bool large = u->max_bytes && bytes > u->max_bytes;

	if (!large && (bytes <= FREE_BYTES || bytes / u->max_ratio <= u->in_bytes))
		return 0;
	if (unpack_side_wait(u) < 0)
		return -1;
	u->op->failed.limit = large ? u->max_bytes : u->max_ratio;
	u->op->failed.done = u->op->end.entries;
	return op_fail(u->op, TOOL_ARCHIVE_LIMIT, (struct str){ u->path, u->path_len },
		       large ? "the content is larger than max_bytes"
			     : "the content is too large for the size of the archive");
}

static int write_at(int fd, const char *p, size_t n, off_t at)
{
	while (n) {
		ssize_t done = pwrite(fd, p, n, at);

		if (done < 0 && errno == EINTR && !op_stopped())
			continue;
		if (done < 0)
			return op_stopped() ? -ECANCELED : -errno;
		p += done;
		n -= (size_t)done;
		at += done;
	}
	return 0;
}

int unpack_read_end(struct unpack *u, int r)
{
	if (r == ARCHIVE_FAILED)
		return -EBADMSG; /* of this entry alone, for example if it is encrypted */
	return r == ARCHIVE_EOF ? 0 : unpack_fail_archive(u);
}

/* -1: the whole archive failed; -errno: this entry failed. */
static int receive(struct unpack *u, struct archive_entry *entry, int fd)
{
	la_int64_t at, end = 0;
	const void *bytes;
	size_t n;
	int r;

	while ((r = archive_read_data_block(u->archive, &bytes, &n, &at)) == ARCHIVE_OK ||
	       r == ARCHIVE_WARN) {
		if (unpack_check_limits(u, n) < 0)
			return -1;
		r = write_at(fd, bytes, n, at);
		if (r < 0)
			return r == -EPERM ? -EACCES : r;
		u->op->end.bytes += n;
		end = at + (la_int64_t)n;
		unpack_tell_progress(u);
	}
	r = unpack_read_end(u, r);
	/* A sparse file may end with a hole. */
	if (r == 0 && archive_entry_sparse_count(entry) && archive_entry_size(entry) > end &&
	    ftruncate(fd, archive_entry_size(entry)) < 0)
		return errno == EPERM ? -EACCES : -errno;
	return r;
}

int unpack_publish(struct temp *temp, const struct unpack_made *made, struct path_owner owner)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, made->mtime };
	struct stat st;

	if (owner.uid != (uid_t)-1 && fchown(temp->fd, owner.uid, owner.gid) < 0)
		return -EACCES;
	/* The umask or the directory's ACL may have changed it. */
	if (fstat(temp->fd, &st) < 0 ||
	    ((st.st_mode & 07777) != made->mode && fchmod(temp->fd, made->mode) < 0))
		return -EACCES;
	if (made->mtime.tv_nsec != UTIME_OMIT)
		/* the file system may not support the value: left as it is */
		(void)futimens(temp->fd, times);
	return temp_publish(temp, made->name, (struct temp_target){ 0 });
}

static int put_file(struct unpack *u, struct archive_entry *entry, const struct unpack_made *made)
{
	struct temp temp = TEMP_INIT;
	int r = temp_open(&temp, made->dir_fd, made->mode);

	if (r == 0)
		r = receive(u, entry, temp.fd);
	if (r == 0)
		r = unpack_publish(&temp, made, u->owner);
	temp_done(&temp);
	return r;
}

int unpack_leave_directory(struct unpack *u)
{
	int r = unpack_side_wait(u);

	if (u->dir_fd >= 0)
		(void)close(u->dir_fd);
	u->dir_fd = -1;
	return r;
}

int unpack_change_directory(struct unpack *u)
{
	if (u->dir_fd >= 0 && unpack_side_close(u, TAKE_FD(u->dir_fd)) < 0)
		return -1;
	return unpack_side_is_on(u->path) ? unpack_side_wait(u) : 0;
}

/* Which thread is next, by the pending work of the other one. */
static enum unpack_turn turn_of(const struct unpack *u)
{
	return unpack_side_is_in(u->dir_dev, u->dir_ino) || unpack_side_is_idle() ? TURN_SECOND
										  : TURN_FIRST;
}

/* Counts one more file in the directory. -1: the run failed. */
static int count_file(struct unpack *u)
{
	if (++u->dir_files != MANY_FILES)
		return 0;
	u->turn = TURN_BOTH;
	return unpack_side_wait(u);
}

/* Makes u->dir_fd the directory of u->path; *ret_name is its last name. */
static int enter_directory(struct unpack *u, const char **ret_name)
{
	struct leaf leaf = LEAF_INIT;
	const char *slash = memrchr(u->path, '/', u->path_len);
	size_t n = slash ? (size_t)(slash - u->path) : 0;
	int r;

	*ret_name = slash ? slash + 1 : u->path;
	if (u->dir_fd >= 0 && u->dir_len == n && memcmp(u->dir, u->path, n) == 0)
		return count_file(u);
	if (unpack_change_directory(u) < 0)
		return -1;
	r = path_leaf_beneath(u->root_fd, (struct str){ u->path, u->path_len }, u->owner, &leaf);
	if (r < 0)
		return r == -EPERM ? -EACCES : r;
	u->dir_fd = leaf.dir_fd;
	memcpy(u->dir, u->path, n);
	u->dir_len = n;
	u->dir_dev = leaf.dir_dev;
	u->dir_ino = leaf.dir_ino;
	u->dir_files = 1;
	u->turn = turn_of(u);
	return 0;
}

int unpack_file(struct unpack *u, struct archive_entry *entry)
{
	struct unpack_made made = { .mtime.tv_nsec = UTIME_OMIT };
	int r = enter_directory(u, &made.name);

	if (r < 0)
		return r;
	made.dir_fd = u->dir_fd;
	/* set-id bits from an archive are not applied */
	made.mode = archive_entry_perm(entry) & 0777;
	if (archive_entry_mtime_is_set(entry))
		made.mtime = (struct timespec){ archive_entry_mtime(entry),
						archive_entry_mtime_nsec(entry) };
	r = unpack_side_give(u, entry, &made);
	return r ? r : put_file(u, entry, &made);
}
