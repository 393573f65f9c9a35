/* SPDX-License-Identifier: Apache-2.0 */
/* The frames that end a run of the tool, and those that carry bytes. */
#include <stdio.h>

#include "wire/tool_codec.h"

#define FAILED_FIXED 36
#define END_FIXED (4 + 8 * 15)
#define FILE_FIXED 4

static bool failed_ok(const struct tool_failed *f)
{
	return f->error >= TOOL_INVALID && f->error <= TOOL_ERROR_LAST && f->errno_value <= 4095 &&
	       f->line_count <= TOOL_LINES_MAX && text_ok(f->path, 0, TOOL_PATH_MAX) &&
	       printable(f->message);
}

int tool_put_failed(struct buf *out, const struct tool_failed *f)
{
	struct writer w;
	int r;

	if (!failed_ok(f))
		return -EINVAL;
	r = frame_put(out, TOOL_FAILED, 0, 0,
		      FAILED_FIXED + 8 * (size_t)f->line_count + f->path.n + f->message.n, &w.p);
	if (r < 0)
		return r;
	w16(&w, f->error);
	w8(&w, f->line_count);
	w8(&w, (unsigned)f->message.n);
	w32(&w, f->errno_value);
	w64(&w, f->limit);
	w64(&w, f->count);
	w64(&w, f->done);
	w32(&w, (uint32_t)f->path.n);
	for (size_t i = 0; i < f->line_count; i++)
		w64(&w, f->lines[i]);
	wstr(&w, f->path);
	wstr(&w, f->message);
	return 0;
}

int tool_get_failed(const struct frame *frame, struct tool_failed *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct tool_failed f = { .error = frame_u16(&r) };
	size_t message, path;

	f.line_count = frame_u8(&r);
	message = frame_u8(&r);
	f.errno_value = frame_u32(&r);
	f.limit = frame_u64(&r);
	f.count = frame_u64(&r);
	f.done = frame_u64(&r);
	path = frame_u32(&r);
	if (f.line_count > TOOL_LINES_MAX)
		return -EPROTO;
	for (size_t i = 0; i < f.line_count; i++)
		f.lines[i] = frame_u64(&r);
	f.path = frame_bytes(&r, path);
	f.message = frame_bytes(&r, message);
	if (tool_check(frame, TOOL_FAILED, 0) < 0 || frame_reader_end(&r) < 0 || !failed_ok(&f))
		return -EPROTO;
	*ret = f;
	return 0;
}

/* clang-format off */
#define END_NUMBERS(X) \
	X(entries) X(bytes) X(matches) X(files) X(failed) X(total_lines) X(total_bytes) \
	X(offset) X(first_line) X(skipped_binary) X(skipped_unreadable) X(skipped_special) \
	X(skipped_deep) X(skipped_limit) X(duration_us)
/* clang-format on */

int tool_put_end(struct buf *out, const struct tool_end *end)
{
	struct writer w;
	int r;

	if (end->cut > TOOL_CUT_LAST || (end->flags & ~TOOL_END_FLAGS))
		return -EINVAL;
	r = frame_put(out, TOOL_END, end->flags, 0, END_FIXED, &w.p);
	if (r < 0)
		return r;
	w32(&w, end->cut);
#define X(field) w64(&w, end->field);
	END_NUMBERS(X)
#undef X
	return 0;
}

int tool_get_end(const struct frame *frame, struct tool_end *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct tool_end end = { .cut = frame_u32(&r), .flags = frame->flags };

#define X(field) end.field = frame_u64(&r);
	END_NUMBERS(X)
#undef X
	if (tool_check(frame, TOOL_END, TOOL_END_FLAGS) < 0 || frame_reader_end(&r) < 0 ||
	    end.cut > TOOL_CUT_LAST)
		return -EPROTO;
	*ret = end;
	return 0;
}

static bool file_ok(const struct tool_file *file)
{
	return (file->mode <= 07777 || file->mode == TOOL_MODE_DEFAULT) &&
	       text_ok(file->path, 1, TOOL_PATH_MAX);
}

int tool_put_file(struct buf *out, const struct tool_file *file)
{
	struct writer w;
	int r;

	if (!file_ok(file))
		return -EINVAL;
	r = frame_put(out, TOOL_FILE, 0, 0, FILE_FIXED + file->path.n, &w.p);
	if (r < 0)
		return r;
	w32(&w, file->mode);
	wstr(&w, file->path);
	return 0;
}

int tool_get_file(const struct frame *frame, struct tool_file *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct tool_file file = { .mode = frame_u32(&r) };

	file.path = frame_rest(&r);
	if (tool_check(frame, TOOL_FILE, 0) < 0 || frame_reader_end(&r) < 0 || !file_ok(&file))
		return -EPROTO;
	*ret = file;
	return 0;
}

static bool carries_bytes(enum tool_type type)
{
	return type == TOOL_DATA || type == TOOL_OLD || type == TOOL_NEW;
}

static bool bytes_ok(enum tool_type type, size_t n)
{
	if (carries_bytes(type))
		return n > 0 && n <= TOOL_DATA_MAX;
	return (type == TOOL_READY || type == TOOL_COMMIT) && n == 0;
}

int tool_put_bytes(struct buf *out, enum tool_type type, struct str bytes)
{
	char *p;
	int r;

	if (!bytes_ok(type, bytes.n))
		return -EINVAL;
	r = frame_put(out, type, 0, 0, bytes.n, &p);
	if (r == 0 && bytes.n)
		memcpy(p, bytes.p, bytes.n);
	return r;
}

int tool_get_bytes(const struct frame *frame, enum tool_type type, struct str *ret)
{
	if (tool_check(frame, type, 0) < 0 || !bytes_ok(type, frame->payload.n))
		return -EPROTO;
	*ret = frame->payload;
	return 0;
}

void tool_token(char dst[TOOL_TOKEN_SIZE], const struct tool_entry *entry)
{
	(void)snprintf(dst, TOOL_TOKEN_SIZE, "%llx-%llx-%llx-%llx-%llx",
		       (unsigned long long)entry->device, (unsigned long long)entry->inode,
		       (unsigned long long)entry->size, (unsigned long long)entry->mtime_ns,
		       (unsigned long long)entry->ctime_ns);
}
