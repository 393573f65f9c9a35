/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tool.h"

#include <errno.h>
#include <stdio.h>

#define ENTRY_FIXED (8 + 4 * 6 + 8 * 7)
#define LINE_FIXED 16
#define MATCH_FIXED 26
#define EVENT_FIXED 12
#define ITEM_FIXED 22
#define PROGRESS_FIXED 24
#define DETAIL_FIXED 12
#define FAILED_FIXED 36
#define END_FIXED (4 + 8 * 15)
#define FILE_FIXED 4

static int check(const struct frame *frame, enum tool_type type, uint8_t flags_allowed)
{
	if (frame->type != type || (frame->flags & ~flags_allowed) || frame->process_id)
		return -EPROTO;
	return 0;
}

static bool text_ok(struct str s, size_t min, size_t max)
{
	return s.n >= min && s.n <= max && (s.n == 0 || !memchr(s.p, '\0', s.n));
}

static bool printable(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < 0x20 || s.p[i] > 0x7e)
			return false;
	return s.n <= TOOL_MESSAGE_MAX;
}

/* Writes a payload front to back; the size was checked before. */
struct writer {
	char *p;
};

static void w8(struct writer *w, unsigned v)
{
	*w->p++ = (char)v;
}

static void w16(struct writer *w, size_t v)
{
	frame_store16(w->p, (uint16_t)v);
	w->p += 2;
}

static void w32(struct writer *w, uint32_t v)
{
	frame_store32(w->p, v);
	w->p += 4;
}

static void w64(struct writer *w, uint64_t v)
{
	frame_store64(w->p, v);
	w->p += 8;
}

static void wstr(struct writer *w, struct str s)
{
	if (s.n)
		memcpy(w->p, s.p, s.n);
	w->p += s.n;
}

static bool entry_ok(const struct tool_entry *e)
{
	bool link = e->kind == TOOL_KIND_SYMLINK;

	return e->kind >= TOOL_KIND_FILE && e->kind <= TOOL_KIND_LAST && e->mode <= 07777 &&
	       text_ok(e->path, 1, TOOL_PATH_MAX) && text_ok(e->user, 0, TOOL_NAME_MAX) &&
	       text_ok(e->group, 0, TOOL_NAME_MAX) && text_ok(e->target, 0, TOOL_TARGET_MAX) &&
	       (link || (e->target.n == 0 && !e->target_is_directory));
}

int tool_put_entry(struct buf *out, const struct tool_entry *e)
{
	struct writer w;
	int r;

	if (!entry_ok(e))
		return -EINVAL;
	r = frame_put(out, TOOL_ENTRY, e->target_is_directory, 0,
		      ENTRY_FIXED + e->path.n + e->user.n + e->group.n + e->target.n, &w.p);
	if (r < 0)
		return r;
	w8(&w, e->kind);
	w8(&w, (unsigned)e->user.n);
	w8(&w, (unsigned)e->group.n);
	w8(&w, 0);
	w16(&w, e->path.n);
	w16(&w, e->target.n);
	w32(&w, e->mode);
	w32(&w, e->uid);
	w32(&w, e->gid);
	w32(&w, e->links);
	w32(&w, e->depth);
	w32(&w, 0);
	w64(&w, e->size);
	w64(&w, e->disk_bytes);
	w64(&w, e->device);
	w64(&w, e->inode);
	w64(&w, (uint64_t)e->mtime_ns);
	w64(&w, (uint64_t)e->ctime_ns);
	w64(&w, (uint64_t)e->atime_ns);
	wstr(&w, e->path);
	wstr(&w, e->user);
	wstr(&w, e->group);
	wstr(&w, e->target);
	return 0;
}

int tool_get_entry(const struct frame *frame, struct tool_entry *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct tool_entry e = { .kind = frame_u8(&r) };
	size_t user = frame_u8(&r), group = frame_u8(&r), zero = frame_u8(&r);
	size_t path = frame_u16(&r), target = frame_u16(&r);

	e.mode = frame_u32(&r);
	e.uid = frame_u32(&r);
	e.gid = frame_u32(&r);
	e.links = frame_u32(&r);
	e.depth = frame_u32(&r);
	zero |= frame_u32(&r);
	e.size = frame_u64(&r);
	e.disk_bytes = frame_u64(&r);
	e.device = frame_u64(&r);
	e.inode = frame_u64(&r);
	e.mtime_ns = (int64_t)frame_u64(&r);
	e.ctime_ns = (int64_t)frame_u64(&r);
	e.atime_ns = (int64_t)frame_u64(&r);
	e.path = frame_bytes(&r, path);
	e.user = frame_bytes(&r, user);
	e.group = frame_bytes(&r, group);
	e.target = frame_bytes(&r, target);
	e.target_is_directory = frame->flags;
	if (check(frame, TOOL_ENTRY, 1) < 0 || frame_reader_end(&r) < 0 || zero || !entry_ok(&e))
		return -EPROTO;
	*ret = e;
	return 0;
}

int tool_put_line(struct buf *out, const struct tool_line *line)
{
	struct writer w;
	int r;

	if ((line->flags & ~TOOL_LINE_FLAGS) || line->number == 0 || line->text.n > TOOL_TEXT_MAX ||
	    line->bytes < line->text.n)
		return -EINVAL;
	r = frame_put(out, TOOL_LINE, line->flags, 0, LINE_FIXED + line->text.n, &w.p);
	if (r < 0)
		return r;
	w64(&w, line->number);
	w64(&w, line->bytes);
	wstr(&w, line->text);
	return 0;
}

int tool_get_line(const struct frame *frame, struct tool_line *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct tool_line line = { .number = frame_u64(&r), .flags = frame->flags };

	line.bytes = frame_u64(&r);
	line.text = frame_rest(&r);
	if (check(frame, TOOL_LINE, TOOL_LINE_FLAGS) < 0 || frame_reader_end(&r) < 0 ||
	    line.number == 0 || line.text.n > TOOL_TEXT_MAX || line.bytes < line.text.n)
		return -EPROTO;
	*ret = line;
	return 0;
}

static bool match_ok(const struct tool_match *m)
{
	bool context = m->flags & TOOL_MATCH_CONTEXT;

	return !(m->flags & ~TOOL_MATCH_FLAGS) && m->line && text_ok(m->path, 0, TOOL_PATH_MAX) &&
	       m->text.n <= TOOL_TEXT_MAX && context == (m->column == 0) &&
	       (context ? m->length == 0
			: m->column - 1 <= m->text.n && m->length <= m->text.n - (m->column - 1));
}

int tool_put_match(struct buf *out, const struct tool_match *m)
{
	struct writer w;
	int r;

	if (!match_ok(m))
		return -EINVAL;
	r = frame_put(out, TOOL_MATCH, m->flags, 0, MATCH_FIXED + m->path.n + m->text.n, &w.p);
	if (r < 0)
		return r;
	w64(&w, m->line);
	w64(&w, m->start);
	w32(&w, m->column);
	w32(&w, m->length);
	w16(&w, m->path.n);
	wstr(&w, m->path);
	wstr(&w, m->text);
	return 0;
}

int tool_get_match(const struct frame *frame, struct tool_match *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct tool_match m = { .flags = frame->flags, .line = frame_u64(&r) };

	m.start = frame_u64(&r);
	m.column = frame_u32(&r);
	m.length = frame_u32(&r);
	m.path = frame_bytes(&r, frame_u16(&r));
	m.text = frame_rest(&r);
	if (check(frame, TOOL_MATCH, TOOL_MATCH_FLAGS) < 0 || frame_reader_end(&r) < 0 ||
	    !match_ok(&m))
		return -EPROTO;
	*ret = m;
	return 0;
}

static bool event_ok(const struct tool_event *e)
{
	return e->change >= TOOL_CREATED && e->change <= TOOL_CHANGE_LAST &&
	       e->kind >= TOOL_KIND_FILE && e->kind <= TOOL_KIND_LAST &&
	       text_ok(e->path, 0, TOOL_PATH_MAX) && text_ok(e->from, 0, TOOL_PATH_MAX) &&
	       (e->change == TOOL_RENAMED) == (e->from.n > 0);
}

int tool_put_event(struct buf *out, const struct tool_event *e)
{
	struct writer w;
	int r;

	if (!event_ok(e))
		return -EINVAL;
	r = frame_put(out, TOOL_EVENT, e->attributes, 0, EVENT_FIXED + e->path.n + e->from.n, &w.p);
	if (r < 0)
		return r;
	w8(&w, e->change);
	w8(&w, e->kind);
	w16(&w, e->path.n);
	w64(&w, e->at_ns);
	wstr(&w, e->path);
	wstr(&w, e->from);
	return 0;
}

int tool_get_event(const struct frame *frame, struct tool_event *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct tool_event e = { .change = frame_u8(&r), .attributes = frame->flags };
	size_t path;

	e.kind = frame_u8(&r);
	path = frame_u16(&r);
	e.at_ns = frame_u64(&r);
	e.path = frame_bytes(&r, path);
	e.from = frame_rest(&r);
	if (check(frame, TOOL_EVENT, 1) < 0 || frame_reader_end(&r) < 0 || !event_ok(&e))
		return -EPROTO;
	*ret = e;
	return 0;
}

static bool item_ok(const struct tool_item *item)
{
	return item->error <= TOOL_ERROR_LAST && item->errno_value <= 4095 &&
	       text_ok(item->path, 0, TOOL_PATH_MAX);
}

int tool_put_item(struct buf *out, const struct tool_item *item)
{
	struct writer w;
	int r;

	if (!item_ok(item))
		return -EINVAL;
	r = frame_put(out, TOOL_ITEM, item->created, 0, ITEM_FIXED + item->path.n, &w.p);
	if (r < 0)
		return r;
	w16(&w, item->error);
	w32(&w, item->errno_value);
	w64(&w, item->index);
	w64(&w, item->bytes);
	wstr(&w, item->path);
	return 0;
}

int tool_get_item(const struct frame *frame, struct tool_item *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct tool_item item = { .error = frame_u16(&r), .created = frame->flags };

	item.errno_value = frame_u32(&r);
	item.index = frame_u64(&r);
	item.bytes = frame_u64(&r);
	item.path = frame_rest(&r);
	if (check(frame, TOOL_ITEM, 1) < 0 || frame_reader_end(&r) < 0 || !item_ok(&item))
		return -EPROTO;
	*ret = item;
	return 0;
}

static bool marks_ok(struct str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] != '\n' && (s.p[i] < 0x20 || s.p[i] > 0x7e))
			return false;
	return s.n <= TOOL_MARKS_MAX && (s.n == 0 || s.p[s.n - 1] == '\n');
}

static bool detail_ok(const struct tool_detail *d)
{
	return d->kind <= TOOL_KIND_LAST && d->mode <= 07777 &&
	       text_ok(d->target, 0, TOOL_TARGET_MAX) && marks_ok(d->marks);
}

int tool_put_detail(struct buf *out, const struct tool_detail *d)
{
	struct writer w;
	int r;

	if (!detail_ok(d))
		return -EINVAL;
	r = frame_put(out, TOOL_DETAIL, 0, 0, DETAIL_FIXED + d->target.n + d->marks.n, &w.p);
	if (r < 0)
		return r;
	w16(&w, d->kind);
	w16(&w, d->target.n);
	w32(&w, d->mode);
	w32(&w, (uint32_t)d->marks.n);
	wstr(&w, d->target);
	wstr(&w, d->marks);
	return 0;
}

int tool_get_detail(const struct frame *frame, struct tool_detail *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct tool_detail d = { .kind = frame_u16(&r) };
	size_t target = frame_u16(&r), marks;

	d.mode = frame_u32(&r);
	marks = frame_u32(&r);
	d.target = frame_bytes(&r, target);
	d.marks = frame_bytes(&r, marks);
	if (check(frame, TOOL_DETAIL, 0) < 0 || frame_reader_end(&r) < 0 || !detail_ok(&d))
		return -EPROTO;
	*ret = d;
	return 0;
}

int tool_put_progress(struct buf *out, const struct tool_progress *progress)
{
	struct writer w;
	int r = frame_put(out, TOOL_PROGRESS, 0, 0, PROGRESS_FIXED, &w.p);

	if (r < 0)
		return r;
	w64(&w, progress->entries);
	w64(&w, progress->bytes);
	w64(&w, progress->total_bytes);
	return 0;
}

int tool_get_progress(const struct frame *frame, struct tool_progress *ret)
{
	struct frame_reader r = frame_reader_of(frame->payload);
	struct tool_progress progress = { .entries = frame_u64(&r) };

	progress.bytes = frame_u64(&r);
	progress.total_bytes = frame_u64(&r);
	if (check(frame, TOOL_PROGRESS, 0) < 0 || frame_reader_end(&r) < 0)
		return -EPROTO;
	*ret = progress;
	return 0;
}

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
	if (check(frame, TOOL_FAILED, 0) < 0 || frame_reader_end(&r) < 0 || !failed_ok(&f))
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
	if (check(frame, TOOL_END, TOOL_END_FLAGS) < 0 || frame_reader_end(&r) < 0 ||
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
	if (check(frame, TOOL_FILE, 0) < 0 || frame_reader_end(&r) < 0 || !file_ok(&file))
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
	if (check(frame, type, 0) < 0 || !bytes_ok(type, frame->payload.n))
		return -EPROTO;
	*ret = frame->payload;
	return 0;
}

const char *tool_error_name(enum tool_error error)
{
	static const char *const names[] = {
		[TOOL_OK] = "ok",
		[TOOL_INVALID] = "invalid",
		[TOOL_NOT_FOUND] = "not_found",
		[TOOL_IS_DIRECTORY] = "is_a_directory",
		[TOOL_NOT_DIRECTORY] = "not_a_directory",
		[TOOL_NOT_FILE] = "not_a_file",
		[TOOL_EXISTS] = "exists",
		[TOOL_NOT_EMPTY] = "not_empty",
		[TOOL_FORBIDDEN] = "forbidden",
		[TOOL_READ_ONLY] = "read_only",
		[TOOL_DISK_FULL] = "disk_full",
		[TOOL_QUOTA] = "quota",
		[TOOL_NAME_TOO_LONG] = "name_too_long",
		[TOOL_LOOP] = "loop",
		[TOOL_BUSY] = "busy",
		[TOOL_CHANGED] = "changed",
		[TOOL_BAD_RANGE] = "bad_range",
		[TOOL_BAD_PATTERN] = "bad_pattern",
		[TOOL_EDIT_NO_MATCH] = "edit_no_match",
		[TOOL_EDIT_MANY] = "edit_many",
		[TOOL_TOO_LARGE] = "too_large",
		[TOOL_TOO_DEEP] = "too_deep",
		[TOOL_TOO_MANY_WATCHES] = "too_many_watches",
		[TOOL_ARCHIVE_BAD] = "archive_bad",
		[TOOL_ARCHIVE_ESCAPE] = "archive_escape",
		[TOOL_ARCHIVE_LIMIT] = "archive_limit",
		[TOOL_ARCHIVE_KIND] = "archive_kind",
		[TOOL_INCOMPLETE] = "incomplete",
		[TOOL_UNKNOWN_USER] = "unknown_user",
		[TOOL_ESCAPE] = "escape",
		[TOOL_UNREADABLE] = "unreadable",
		[TOOL_NO_MEMORY] = "no_memory",
		[TOOL_IO] = "io",
	};

	return error < ARRAY_LEN(names) ? names[error] : "io";
}

void tool_token(char dst[TOOL_TOKEN_SIZE], const struct tool_entry *entry)
{
	(void)snprintf(dst, TOOL_TOKEN_SIZE, "%llx-%llx-%llx-%llx-%llx",
		       (unsigned long long)entry->device, (unsigned long long)entry->inode,
		       (unsigned long long)entry->size, (unsigned long long)entry->mtime_ns,
		       (unsigned long long)entry->ctime_ns);
}
