/* SPDX-License-Identifier: Apache-2.0 */
/* Names and entries of a sandbox's tree as JSON. Names are bytes: what is no UTF-8 is shown with
 * \xNN in place of the bad bytes, and stands beside it whole, in base64. */
#include <stdio.h>

#include "service/event/bus.h"
#include "service/files/files_private.h"

static size_t whole_char(struct str s)
{
	for (size_t n = 1; n <= 4 && n <= s.n; n++)
		if (str_is_utf8(s.p, n))
			return n;
	return 0;
}

static void put_escaped(struct json_writer *w, const char *key, struct str name)
{
	struct buf shown;
	int r = 0;

	buf_init(&shown, 4 * name.n + 1);
	while (name.n && r == 0) {
		size_t n = whole_char(name);

		if (n)
			r = buf_append(&shown, name.p, n);
		else
			r = buf_printf(&shown, "\\x%02x", (unsigned char)name.p[0]);
		n = MAX(n, 1);
		name.p += n;
		name.n -= n;
	}
	if (r < 0)
		w->error = r;
	else
		json_put_str(w, key, buf_str(&shown));
	buf_done(&shown);
}

void files_put_name(struct json_writer *w, const char *key, const char *key_b64, struct str name)
{
	if (str_is_utf8(name.p, name.n)) {
		json_put_str(w, key, name);
		return;
	}
	put_escaped(w, key, name);
	json_put_b64(w, key_b64, name);
}

struct str files_join(struct buf *scratch, struct str base, struct str path)
{
	bool here = base.n == 0 || str_is(base, ".");
	bool slash = base.n && base.p[base.n - 1] == '/';

	if (here || (path.n && path.p[0] == '/'))
		return path.n ? path : base;
	if (path.n == 0)
		return base;
	buf_clear(scratch);
	if (buf_append(scratch, base.p, base.n) < 0 || (!slash && buf_putc(scratch, '/') < 0) ||
	    buf_append(scratch, path.p, path.n) < 0)
		return path;
	return buf_str(scratch);
}

const char *files_kind_name(enum tool_kind kind)
{
	switch (kind) {
	case TOOL_KIND_FILE:
		return "file";
	case TOOL_KIND_DIRECTORY:
		return "directory";
	case TOOL_KIND_SYMLINK:
		return "symlink";
	case TOOL_KIND_FIFO:
		return "fifo";
	case TOOL_KIND_SOCKET:
		return "socket";
	case TOOL_KIND_CHAR_DEVICE:
	case TOOL_KIND_BLOCK_DEVICE:
		return "device";
	case TOOL_KIND_UNKNOWN:
		break;
	}
	return "unknown";
}

static struct str last_name(struct str path)
{
	size_t end = path.n, begin;

	while (end > 1 && path.p[end - 1] == '/')
		end--;
	begin = end;
	while (begin && path.p[begin - 1] != '/')
		begin--;
	return begin < end ? (struct str){ path.p + begin, end - begin } : path;
}

static void put_word(struct json_writer *w, const char *key, struct str word)
{
	if (word.n)
		json_put_str(w, key, word);
	else
		json_put_null(w, key);
}

void files_put_entry(struct json_writer *w, const struct tool_entry *entry, struct str path)
{
	char mode[8], token[TOOL_TOKEN_SIZE];

	files_put_name(w, "path", "path_b64", path);
	files_put_name(w, "name", "name_b64", last_name(path));
	json_put_text(w, "type", files_kind_name(entry->kind));
	json_put_int(w, "size", (int64_t)MIN(entry->size, (uint64_t)INT64_MAX));
	(void)snprintf(mode, sizeof(mode), "%04o", entry->mode);
	json_put_text(w, "mode", mode);
	json_put_int(w, "uid", entry->uid);
	json_put_int(w, "gid", entry->gid);
	put_word(w, "user", entry->user);
	put_word(w, "group", entry->group);
	json_put_time(w, "modified_at", entry->mtime_ns / 1000000);
	json_put_time(w, "accessed_at", entry->atime_ns / 1000000);
	json_put_time(w, "changed_at", entry->ctime_ns / 1000000);
	if (entry->kind == TOOL_KIND_SYMLINK)
		files_put_name(w, "target", "target_b64", entry->target);
	else
		json_put_null(w, "target");
	if (entry->kind == TOOL_KIND_FILE) {
		tool_token(token, entry);
		json_put_text(w, "etag", token);
	} else {
		json_put_null(w, "etag");
	}
}

static void put_marks(struct json_writer *w, struct str marks)
{
	struct str line, key, value;
	char name[256];

	json_begin_object(w, "marks");
	while (str_cut(marks, '\n', &line, &marks))
		if (str_cut(line, '=', &key, &value) && str_copy(name, sizeof(name), key) == 0)
			json_put_str(w, name, value);
	json_end_object(w);
}

void files_put_detail(struct json_writer *w, const struct tool_detail *detail)
{
	char mode[8];

	if (detail->target.n) {
		json_put_text(w, "target_type", files_kind_name(detail->kind));
		(void)snprintf(mode, sizeof(mode), "%04o", detail->mode);
		json_put_text(w, "target_mode", mode);
		files_put_name(w, "target_path", "target_path_b64", detail->target);
	}
	if (detail->marks.n)
		put_marks(w, detail->marks);
}

const char *files_event_write(struct files_answer *a, const struct tool_event *event)
{
	static const char *const names[] = {
		[TOOL_CREATED] = "created",   [TOOL_MODIFIED] = "modified",
		[TOOL_DELETED] = "deleted",   [TOOL_RENAMED] = "renamed",
		[TOOL_OVERFLOW] = "overflow", [TOOL_GONE] = "deleted"
	};
	struct json_writer *w = &a->w;

	buf_clear(&a->out);
	json_writer_init(w, &a->out);
	json_begin_object(w, NULL);
	files_put_name(w, "path", "path_b64", files_join(&a->join, a->path, event->path));
	if (event->change == TOOL_OVERFLOW) {
		json_put_text(w, "hint", "events were lost: list the tree again");
	} else {
		json_put_text(w, "type", files_kind_name(event->kind));
		json_put_bool(w, "attributes", event->attributes);
	}
	if (event->change == TOOL_RENAMED)
		files_put_name(w, "from", "from_b64", files_join(&a->join, a->path, event->from));
	if (event->change == TOOL_GONE)
		json_put_text(w, "hint", "the watched path itself is gone: the watch ends");
	json_put_time(w, "at", (int64_t)(event->at_ns / 1000000));
	json_end_object(w);
	return json_writer_end(w) < 0 ? NULL : names[event->change];
}
