/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tool_codec.h"

#define ENTRY_FIXED (8 + 4 * 6 + 8 * 7)
#define LINE_FIXED 16
#define MATCH_FIXED 26
#define EVENT_FIXED 12
#define ITEM_FIXED 22
#define PROGRESS_FIXED 24
#define DETAIL_FIXED 12

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
	if (tool_check(frame, TOOL_ENTRY, 1) < 0 || frame_reader_end(&r) < 0 || zero ||
	    !entry_ok(&e))
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
	if (tool_check(frame, TOOL_LINE, TOOL_LINE_FLAGS) < 0 || frame_reader_end(&r) < 0 ||
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
	if (tool_check(frame, TOOL_MATCH, TOOL_MATCH_FLAGS) < 0 || frame_reader_end(&r) < 0 ||
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
	if (tool_check(frame, TOOL_EVENT, 1) < 0 || frame_reader_end(&r) < 0 || !event_ok(&e))
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
	if (tool_check(frame, TOOL_ITEM, 1) < 0 || frame_reader_end(&r) < 0 || !item_ok(&item))
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
	if (tool_check(frame, TOOL_DETAIL, 0) < 0 || frame_reader_end(&r) < 0 || !detail_ok(&d))
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
	if (tool_check(frame, TOOL_PROGRESS, 0) < 0 || frame_reader_end(&r) < 0)
		return -EPROTO;
	*ret = progress;
	return 0;
}
