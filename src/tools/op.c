/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/op.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/vfs.h>

#include "base/time.h"
#include "tools/tree/entry.h"

#define FLUSH_BYTES (1U << 16)

static volatile sig_atomic_t stop_asked;

/* Closing the input ensures that a read which is just about to wait does not block. */
static void on_term(int signum)
{
	int saved = errno;

	stop_asked = 1;
	(void)close(STDIN_FILENO);
	errno = saved;
}

bool op_stopped(void)
{
	return stop_asked;
}

void op_on_stop(void)
{
	/* no SA_RESTART, so that reads return */
	struct sigaction action = { .sa_handler = on_term };

	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGINT, &action, NULL);
}

bool op_late(const struct op *op)
{
	return op->deadline_us && time_mono_us() >= op->deadline_us;
}

const char *op_nth(struct op *op, const char *key, size_t i)
{
	size_t n = strlen(key);

	for (int a = 0; a < op->argc; a++)
		if (strncmp(op->argv[a], key, n) == 0 && op->argv[a][n] == '=' && i-- == 0) {
			op->used |= 1ULL << a;
			return op->argv[a] + n + 1;
		}
	return NULL;
}

const char *op_text(struct op *op, const char *key)
{
	return op_nth(op, key, 0);
}

int op_needed(struct op *op, const char *key, struct str *ret)
{
	const char *value = op_text(op, key);

	if (!value || !value[0])
		return op_fail(op, TOOL_INVALID, STR_LIT(""), "%s is missing or empty", key);
	*ret = str_of(value);
	return 0;
}

int op_number(struct op *op, const char *key, uint64_t preset, uint64_t min, uint64_t max,
	      uint64_t *ret)
{
	const char *value = op_text(op, key);

	*ret = preset;
	if (!value)
		return 0;
	if (str_to_u64(str_of(value), max, ret) < 0 || *ret < min)
		return op_fail(op, TOOL_INVALID, STR_LIT(""),
			       "%s must be a number from %llu to %llu", key,
			       (unsigned long long)min, (unsigned long long)max);
	return 0;
}

int op_flag(struct op *op, const char *key, bool preset, bool *ret)
{
	uint64_t value;
	int r = op_number(op, key, preset, 0, 1, &value);

	*ret = value;
	return r;
}

int op_mode(struct op *op, const char *key, uint32_t preset, uint32_t *ret)
{
	const char *value = op_text(op, key);
	uint32_t mode = 0;

	*ret = preset;
	if (!value)
		return 0;
	for (const char *p = value; *p; p++) {
		if (*p < '0' || *p > '7' || p - value >= 5)
			mode = UINT32_MAX / 16;
		mode = mode * 8 + (uint32_t)(*p - '0');
	}
	if (!value[0] || mode > 07777)
		return op_fail(op, TOOL_INVALID, STR_LIT(""),
			       "%s must be octal permission bits, such as 644", key);
	*ret = mode;
	return 0;
}

int op_time(struct op *op)
{
	uint64_t ms;

	if (op_number(op, "time_ms", 10000, 1, 3600000, &ms) < 0)
		return -1;
	op->deadline_us = op->start_us + (int64_t)ms * 1000;
	return 0;
}

int op_args_end(struct op *op)
{
	for (int a = 0; a < op->argc; a++)
		if (!(op->used & 1ULL << a)) {
			int n = (int)strcspn(op->argv[a], "=");

			return op_fail(op, TOOL_INVALID, STR_LIT(""), "unknown argument %.*s",
				       MIN(n, 40), op->argv[a]);
		}
	return 0;
}

enum tool_error op_error_of(int error)
{
	switch (error) {
	case ENOENT:
		return TOOL_NOT_FOUND;
	case ENOTDIR:
		return TOOL_NOT_DIRECTORY;
	case EISDIR:
		return TOOL_IS_DIRECTORY;
	case EEXIST:
		return TOOL_EXISTS;
	case ENOTEMPTY:
		return TOOL_NOT_EMPTY;
	case EACCES:
	case EPERM:
		return TOOL_FORBIDDEN;
	case EROFS:
		return TOOL_READ_ONLY;
	case ENOSPC:
	case EDQUOT: /* the sandbox's disk is a quota group on storage with quotas */
		return TOOL_DISK_FULL;
	case EFBIG:
		return TOOL_QUOTA;
	case ENAMETOOLONG:
		return TOOL_NAME_TOO_LONG;
	case ELOOP:
		return TOOL_LOOP;
	case EBUSY:
	case ETXTBSY:
		return TOOL_BUSY;
	case ESTALE:
		return TOOL_CHANGED;
	case EXDEV:
		return TOOL_ESCAPE;
	case EINVAL:
		return TOOL_INVALID;
	case ENXIO: /* a fifo or socket without a peer, a device without a driver */
	case ENODEV:
		return TOOL_NOT_FILE;
	case ENOMEM:
		return TOOL_NO_MEMORY;
	case ECANCELED:
		return TOOL_INCOMPLETE;
	default:
		return TOOL_IO;
	}
}

int op_fail(struct op *op, enum tool_error error, struct str path, const char *fmt, ...)
{
	va_list args;
	int n;

	if (op->failed.error)
		return -1;
	op->failed.error = error;
	path.n = MIN(path.n, sizeof(op->failed_path));
	if (path.n)
		memcpy(op->failed_path, path.p, path.n);
	op->failed.path = (struct str){ op->failed_path, path.n };
	va_start(args, fmt);
	n = vsnprintf(op->failed_message, sizeof(op->failed_message), fmt, args);
	va_end(args);
	n = MIN(MAX(n, 0), TOOL_MESSAGE_MAX);
	for (int i = 0; i < n; i++)
		if (op->failed_message[i] < 0x20 || op->failed_message[i] > 0x7e)
			op->failed_message[i] = '?';
	op->failed.message = (struct str){ op->failed_message, (size_t)n };
	return -1;
}

int op_fail_errno(struct op *op, int error, struct str path)
{
	if (op->failed.error)
		return -1;
	error = error < 0 ? -error : error;
	op->failed.errno_value = (uint32_t)MIN(error, 4095);
	return op_fail(op, op_error_of(error), path, "%s", strerror(error));
}

int op_fail_disk(struct op *op, int error, struct str path, int fd)
{
	bool first = !op->failed.error;
	struct statfs fs;

	(void)op_fail_errno(op, error, path);
	if (first && op->failed.error == TOOL_DISK_FULL && fstatfs(fd, &fs) == 0)
		op->failed.limit = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
	return -1;
}

static void write_out(struct op *op, const char *p, size_t n)
{
	while (n && !op->reader_lost) {
		ssize_t done = write(STDOUT_FILENO, p, n);

		if (done >= 0) {
			p += done;
			n -= (size_t)done;
		} else if (errno != EINTR || stop_asked) {
			if (!op->keeps_going)
				_exit(1);
			op->reader_lost = true;
		}
	}
}

void op_flush(struct op *op)
{
	write_out(op, buf_data(&op->out), buf_len(&op->out));
	buf_clear(&op->out);
}

/* The buffer always has space for one more frame, so a valid frame never fails here. */
static void after_put(struct op *op, int r)
{
	if (r < 0)
		_exit(3); /* out of memory */
	if (buf_len(&op->out) >= FLUSH_BYTES)
		op_flush(op);
}

void op_put_entry(struct op *op, const struct tool_entry *entry)
{
	after_put(op, tool_put_entry(&op->out, entry));
}

void op_put_found(struct op *op, const struct tool_entry *entry, int dir_fd, const char *name)
{
	static struct entry_detail room;
	struct tool_detail detail;

	if (op->details && entry_details(dir_fd, name, entry, &room, &detail))
		after_put(op, tool_put_detail(&op->out, &detail));
	op_put_entry(op, entry);
}

void op_put_line(struct op *op, const struct tool_line *line)
{
	after_put(op, tool_put_line(&op->out, line));
}

void op_put_match(struct op *op, const struct tool_match *match)
{
	after_put(op, tool_put_match(&op->out, match));
}

void op_put_event(struct op *op, const struct tool_event *event)
{
	after_put(op, tool_put_event(&op->out, event));
}

void op_put_item(struct op *op, const struct tool_item *item)
{
	after_put(op, tool_put_item(&op->out, item));
}

void op_put_progress(struct op *op, const struct tool_progress *progress)
{
	after_put(op, tool_put_progress(&op->out, progress));
	op_flush(op);
}

void op_put_ready(struct op *op)
{
	after_put(op, tool_put_bytes(&op->out, TOOL_READY, STR_LIT("")));
	op_flush(op);
}

/* Bulk data bypasses the buffer: the bytes are read into this frame and written from it. */
static char bulk[FRAME_HEADER_SIZE + TOOL_DATA_MAX];

char *op_data_room(struct op *op)
{
	return bulk + FRAME_HEADER_SIZE;
}

void op_data_commit(struct op *op, size_t n)
{
	op_flush(op);
	frame_store_header(bulk, n, TOOL_DATA, 0, 0);
	write_out(op, bulk, FRAME_HEADER_SIZE + n);
}

void op_put_data(struct op *op, struct str bytes)
{
	while (bytes.n) {
		size_t n = MIN(bytes.n, TOOL_DATA_MAX);

		op_flush(op);
		after_put(op, tool_put_bytes(&op->out, TOOL_DATA, (struct str){ bytes.p, n }));
		bytes.p += n;
		bytes.n -= n;
	}
}

int op_next(struct op *op, struct frame *ret)
{
	if (op->in_frame) {
		buf_consume(&op->in, op->in_frame);
		op->in_frame = 0;
	}
	for (;;) {
		int r = frame_next(buf_str(&op->in), TOOL_PAYLOAD_MAX, ret);
		size_t missing = frame_missing(buf_str(&op->in));
		ssize_t n;
		char *p;

		if (r == 1)
			op->in_frame = frame_size(ret);
		if (r)
			return r;
		/* As much as fits: small frames arrive many at a time. */
		r = buf_reserve(&op->in, MAX(missing, FLUSH_BYTES), &p);
		if (r < 0 || stop_asked)
			return r < 0 ? r : -ECANCELED;
		n = read(STDIN_FILENO, p, MAX(missing, FLUSH_BYTES));
		if (n < 0 && errno == EINTR && !stop_asked)
			continue;
		if (n < 0)
			return stop_asked ? -ECANCELED : -errno;
		if (n == 0)
			return buf_len(&op->in) ? -EPROTO : 0;
		buf_commit(&op->in, (size_t)n);
	}
}

/* Reads exactly n bytes of standard input: 1, 0 if it ended before the first, -errno. */
static int read_exactly(char *p, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t got = read(STDIN_FILENO, p + have, n - have);

		if (stop_asked)
			return -ECANCELED;
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			return have ? -EPROTO : 0;
		have += (size_t)got;
	}
	return 1;
}

/* Moves n bytes of standard input to the file. -EINVAL: nothing was moved, it is not supported. */
static int move_bytes(int fd, size_t n)
{
	bool any = false;

	while (n) {
		ssize_t moved =
			splice(STDIN_FILENO, NULL, fd, NULL, n, SPLICE_F_MOVE | SPLICE_F_MORE);

		if (stop_asked)
			return -ECANCELED;
		if (moved < 0 && errno == EINTR)
			continue;
		if (moved < 0)
			return errno == EINVAL && any ? -EIO : -errno;
		if (moved == 0)
			return -EPIPE;
		any = true;
		n -= (size_t)moved;
	}
	return 0;
}

int op_move_data(struct op *op, int fd, size_t *ret)
{
	static const char no_process[4];
	char head[FRAME_HEADER_SIZE];
	struct frame frame;
	size_t n;
	char *p;
	int r;

	if (buf_len(&op->in) || op->in_frame)
		return -EINVAL; /* some of it was already read */
	r = read_exactly(head, sizeof(head));
	if (r <= 0)
		return r < 0 ? r : -ENODATA;
	r = frame_next((struct str){ head, sizeof(head) }, TOOL_PAYLOAD_MAX, &frame);
	n = frame_missing((struct str){ head, sizeof(head) });
	/* Frames other than content are decoded as usual, with their head. */
	if (r == 0 && head[4] == TOOL_DATA && !head[5] && n <= TOOL_DATA_MAX &&
	    memcmp(head + 8, no_process, sizeof(no_process)) == 0) {
		r = move_bytes(fd, n);
		if (r == 0)
			*ret = n;
		if (r != -EINVAL)
			return r == 0 ? 1 : r;
	}
	r = buf_reserve(&op->in, sizeof(head), &p);
	if (r < 0)
		return r;
	memcpy(p, head, sizeof(head));
	buf_commit(&op->in, sizeof(head));
	return -EINVAL;
}

int op_next_data(struct op *op, struct str *ret)
{
	struct frame frame;
	int r = op_next(op, &frame);

	if (r == 0 || r == -ECANCELED)
		return op_fail(op, TOOL_INCOMPLETE, STR_LIT(""), "the input broke off");
	if (r < 0)
		return op_fail(op, TOOL_INVALID, STR_LIT(""), "the input is not made of frames");
	if (tool_get_bytes(&frame, TOOL_COMMIT, ret) == 0)
		return 0;
	if (tool_get_bytes(&frame, TOOL_DATA, ret) < 0)
		return op_fail(op, TOOL_INVALID, STR_LIT(""), "unexpected frame in the input");
	return 1;
}
