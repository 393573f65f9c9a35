/* SPDX-License-Identifier: Apache-2.0 */
/* read-raw and read-view. */
#include "tools/content/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "tools/tree/entry.h"
#include "tools/content/lines.h"
#include "tools/tree/walk.h"

#define SYNTHETIC_MAX_BYTES (4U << 20)

/*
 * O_PATH first: nothing is opened for reading before it is known to be a regular file, so that no
 * fifo blocks and no device is activated. The second open goes through the descriptor, to the same
 * inode.
 */
int read_open(struct op *op, struct str path, int *ret_fd, struct stat *ret_st)
{
	_cleanup_close_ int at = -1, fd = -1;
	char self[32];
	struct stat st;
	int r = path_open(&op->place, path, O_PATH, &at);

	if (r < 0)
		return op_fail_errno(op, r, path);
	if (fstat(at, &st) < 0)
		return op_fail_errno(op, errno, path);
	if (S_ISDIR(st.st_mode))
		return op_fail_errno(op, EISDIR, path);
	if (!S_ISREG(st.st_mode))
		return op_fail(op, TOOL_NOT_FILE, path, "not a regular file");
	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", at);
	fd = open(self, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 && errno == ENOENT) /* no /proc: opens the name again, checked below */
		r = path_open(&op->place, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, &fd);
	else if (fd < 0)
		r = -errno;
	if (r < 0)
		return op_fail_errno(op, r, path);
	if (fstat(fd, ret_st) < 0)
		return op_fail_errno(op, errno, path);
	if (!S_ISREG(ret_st->st_mode))
		return op_fail(op, TOOL_NOT_FILE, path, "not a regular file");
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* The start and end of the reply. */
struct range {
	uint64_t offset, length, suffix;
	bool has_length, has_suffix;
};

static int range_keys(struct op *op, struct range *range)
{
	const uint64_t max = INT64_MAX;

	range->has_length = op_text(op, "length");
	range->has_suffix = op_text(op, "suffix");
	if (op_number(op, "offset", 0, 0, max, &range->offset) < 0 ||
	    op_number(op, "length", 0, 0, max, &range->length) < 0 ||
	    op_number(op, "suffix", 0, 0, max, &range->suffix) < 0)
		return -1;
	return op_args_end(op);
}

static int range_of(struct op *op, struct str path, const struct range *range, uint64_t size,
		    uint64_t *ret_begin, uint64_t *ret_end)
{
	uint64_t begin = range->offset, end = size;

	if (range->has_suffix)
		begin = range->suffix < size ? size - range->suffix : 0;
	if (begin > size || (begin == size && (begin || range->has_suffix || range->has_length)))
		return op_fail(op, TOOL_BAD_RANGE, path, "the file has %llu bytes",
			       (unsigned long long)size);
	if (range->has_length && range->length < end - begin)
		end = begin + range->length;
	*ret_begin = begin;
	*ret_end = end;
	return 0;
}

/* Files of /proc have no size before they are read; they are small and read as a whole. */
static int send_synthetic(struct op *op, struct str path, int fd, struct tool_entry *entry,
			  const struct range *range)
{
	_cleanup_free_ char *text = malloc(SYNTHETIC_MAX_BYTES);
	uint64_t begin = 0, end = 0;
	size_t have = 0;
	ssize_t n = 1;

	if (!text)
		return op_fail_errno(op, ENOMEM, path);
	while (n > 0 && have < SYNTHETIC_MAX_BYTES) {
		n = read(fd, text + have, SYNTHETIC_MAX_BYTES - have);
		if (n < 0 && (errno == EAGAIN || errno == EINVAL))
			return op_fail(op, TOOL_NOT_FILE, path, "not a file with an end");
		if (n < 0)
			return op_fail_errno(op, errno, path);
		have += (size_t)n;
	}
	entry->size = have;
	op_put_entry(op, entry);
	if (range_of(op, path, range, have, &begin, &end) < 0)
		return -1;
	op_put_data(op, (struct str){ text + begin, end - begin });
	op->end.bytes = end - begin;
	return 0;
}

static int send_range(struct op *op, struct str path, int fd, uint64_t begin, uint64_t end)
{
	while (begin < end) {
		size_t want = (size_t)MIN(end - begin, (uint64_t)TOOL_DATA_MAX);
		ssize_t n = pread(fd, op_data_room(op), want, (off_t)begin);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return op_fail_errno(op, errno, path);
		if (n == 0)
			return op_fail(op, TOOL_CHANGED, path, "the file shrank while it was read");
		op_data_commit(op, (size_t)n);
		begin += (uint64_t)n;
		op->end.bytes += (uint64_t)n;
	}
	return 0;
}

int op_read_raw(struct op *op)
{
	_cleanup_close_ int fd = -1;
	struct tool_entry entry;
	uint64_t begin = 0, end = 0;
	struct range range;
	struct str path;
	struct stat st = { 0 };

	if (op_needed(op, "path", &path) < 0 || range_keys(op, &range) < 0 ||
	    read_open(op, path, &fd, &st) < 0)
		return -1;
	entry_from_stat(&st, &entry);
	entry.path = path;
	if (st.st_size == 0 && walk_is_synthetic(fd))
		return send_synthetic(op, path, fd, &entry, &range);
	op_put_entry(op, &entry);
	if (range_of(op, path, &range, (uint64_t)st.st_size, &begin, &end) < 0)
		return -1;
	if (end - begin > TOOL_DATA_MAX) {
		(void)fcntl(STDOUT_FILENO, F_SETPIPE_SZ, 1 << 20);
		(void)posix_fadvise(fd, (off_t)begin, (off_t)(end - begin), POSIX_FADV_SEQUENTIAL);
	}
	return send_range(op, path, fd, begin, end);
}

static void on_line(void *arg, const struct tool_line *line)
{
	op_put_line(arg, line);
}

static int feed_file(struct op *op, struct str path, int fd, struct lines *lines)
{
	static char buffer[TOOL_DATA_MAX];

	for (bool first = true;; first = false) {
		ssize_t n = read(fd, buffer, sizeof(buffer));
		struct str bytes = { buffer, n > 0 ? (size_t)n : 0 };

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return op_fail_errno(op, errno, path);
		if (n == 0)
			break;
		if (first && lines_look_binary(bytes)) {
			op->end.flags |= TOOL_END_BINARY;
			return 0;
		}
		lines_feed(lines, bytes);
		op->end.total_bytes += bytes.n;
		if (op_late(op)) {
			op->end.cut = TOOL_CUT_TIME;
			return 0;
		}
	}
	if (lines_finish(lines))
		op->end.flags |= TOOL_END_NO_FINAL_EOL;
	return 0;
}

int op_read_view(struct op *op)
{
	static struct lines lines;
	_cleanup_close_ int fd = -1;
	struct tool_entry entry;
	struct str path;
	struct stat st = { 0 };

	if (op_needed(op, "path", &path) < 0 ||
	    op_number(op, "offset", 1, 1, INT64_MAX, &lines.first) < 0 ||
	    op_number(op, "limit", 50, 1, 2000, &lines.count) < 0 ||
	    op_number(op, "max_bytes", 1U << 20, 1, 64U << 20, &lines.bytes_max) < 0 ||
	    op_time(op) < 0 || op_args_end(op) < 0 || read_open(op, path, &fd, &st) < 0)
		return -1;
	entry_from_stat(&st, &entry);
	entry.path = path;
	op_put_entry(op, &entry);
	lines.emit = on_line;
	lines.arg = op;
	if (feed_file(op, path, fd, &lines) < 0)
		return -1;
	op->end.offset = lines.first;
	op->end.entries = lines.sent;
	op->end.bytes = lines.sent_bytes;
	op->end.total_lines = lines.number;
	if (op->end.flags & TOOL_END_BINARY || op->end.total_bytes < (uint64_t)st.st_size)
		op->end.total_bytes = (uint64_t)st.st_size;
	if (lines.sent_crlf * 2 > lines.sent)
		op->end.flags |= TOOL_END_CRLF;
	if (!op->end.cut && lines.full)
		op->end.cut = TOOL_CUT_BYTES;
	else if (!op->end.cut && lines.sent == lines.count &&
		 lines.number >= lines.first + lines.count)
		op->end.cut = TOOL_CUT_COUNT;
	return 0;
}
