/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as JSON, put together while the tool speaks. */
#include <errno.h>
#include <stdio.h>

#include "base/text/scrub.h"
#include "service/files/files_private.h"

#define FRAME_JSON_MAX (1024 * 1024) /* what one frame can add at worst: six bytes for each */
#define FAILED_TOLD_MAX 1000	     /* of an archive's entries; the rest is only counted */
#define VIEW_BYTES_MAX (20 * 1024 * 1024)
#define CUT_MARK " ... [line cut: %llu bytes]"

void files_answer_init(struct files_answer *a, enum files_op op, const struct files_spec *spec,
		       struct str path)
{
	buf_init(&a->out, FILES_ANSWER_MAX + 2 * FRAME_JSON_MAX);
	buf_init(&a->text, VIEW_BYTES_MAX);
	buf_init(&a->join, 2 * FILES_PATH_MAX + 2);
	buf_init(&a->veil, TOOL_TEXT_MAX);
	buf_init(&a->grep.path, TOOL_PATH_MAX);
	buf_init(&a->detail_text, TOOL_TARGET_MAX + TOOL_MARKS_MAX);
	json_writer_init(&a->w, &a->out);
	a->path = path;
	a->grep.context = op == FILES_GREP ? (uint64_t)spec->context : 0;
}

void files_answer_done(struct files_answer *a)
{
	for (size_t i = 0; a->grep.before && i < a->grep.context; i++)
		buf_done(&a->grep.before[i]);
	free(a->grep.before);
	free(a->grep.before_lines);
	buf_done(&a->grep.path);
	buf_done(&a->out);
	buf_done(&a->text);
	buf_done(&a->join);
	buf_done(&a->detail_text);
	buf_done(&a->veil);
	scrub_unref(a->scrub);
}

static void begin(struct files_answer *a, const char *list)
{
	if (a->begun)
		return;
	a->begun = true;
	json_begin_object(&a->w, NULL);
	if (list)
		json_begin_array(&a->w, list);
}

/* ---- one entry, lists ---- */

static int add_detail(struct files_answer *a, const struct tool_detail *detail)
{
	struct buf *text = &a->detail_text;
	int r;

	buf_clear(text);
	r = buf_append(text, detail->target.p, detail->target.n);
	if (r == 0)
		r = buf_append(text, detail->marks.p, detail->marks.n);
	if (r < 0)
		return r;
	a->detail = *detail;
	a->detail.target.p = buf_str(text).p;
	a->detail.marks.p = buf_str(text).p + detail->target.n;
	return 0;
}

static void put_detail(struct files_answer *a)
{
	files_put_detail(&a->w, &a->detail);
	a->detail = (struct tool_detail){ .kind = 0 };
}

static int add_one(struct files_answer *a, const struct tool_entry *entry)
{
	if (a->has_entry)
		return -EPROTO;
	a->has_entry = true;
	begin(a, NULL);
	files_put_entry(&a->w, entry, entry->path);
	put_detail(a);
	return 0;
}

static int add_listed(struct files_answer *a, const struct tool_entry *entry)
{
	begin(a, "data");
	json_begin_object(&a->w, NULL);
	files_put_entry(&a->w, entry, files_join(&a->join, a->path, entry->path));
	put_detail(a);
	json_end_object(&a->w);
	return 0;
}

static void put_cut(struct files_answer *a, const struct tool_end *end)
{
	static const char *const reasons[] = { [TOOL_CUT_NONE] = NULL,
					       [TOOL_CUT_COUNT] = "limit",
					       [TOOL_CUT_BYTES] = "bytes",
					       [TOOL_CUT_TIME] = "time" };
	const char *reason = reasons[a->full ? TOOL_CUT_BYTES : end->cut];

	if (!reason && end->skipped_limit)
		reason = "pattern";
	else if (!reason && end->skipped_deep)
		reason = "depth";
	json_put_bool(&a->w, "truncated", reason != NULL);
	json_put_text(&a->w, "reason", reason);
}

/* ---- grep ---- */

static int grep_room(struct files_grep *g)
{
	if (g->before || !g->context)
		return 0;
	g->before = calloc(g->context, sizeof(*g->before));
	g->before_lines = calloc(g->context, sizeof(*g->before_lines));
	if (!g->before || !g->before_lines)
		return -ENOMEM;
	for (size_t i = 0; i < g->context; i++)
		buf_init(&g->before[i], TOOL_TEXT_MAX);
	return 0;
}

static int grep_remember(struct files_grep *g, const struct tool_match *m)
{
	size_t i = g->before_count % g->context;

	g->before_count++;
	g->before_lines[i] = m->line;
	buf_clear(&g->before[i]);
	return buf_append(&g->before[i], m->text.p, m->text.n);
}

static void grep_close(struct files_answer *a)
{
	if (!a->grep.open)
		return;
	a->grep.open = false;
	json_end_array(&a->w);
	json_end_object(&a->w);
}

static void put_before(struct files_answer *a, const struct tool_match *m)
{
	struct files_grep *g = &a->grep;
	size_t held = MIN(g->before_count, g->context);

	json_begin_array(&a->w, "before");
	for (size_t k = g->before_count - held; k < g->before_count; k++) {
		size_t i = k % g->context;

		if (g->before_lines[i] < m->line && m->line - g->before_lines[i] <= g->context)
			json_put_str(&a->w, NULL, buf_str(&g->before[i]));
	}
	json_end_array(&a->w);
	g->before_count = 0;
}

static void put_match(struct files_answer *a, const struct tool_match *m)
{
	grep_close(a);
	json_begin_object(&a->w, NULL);
	files_put_name(&a->w, "path", "path_b64", files_join(&a->join, a->path, m->path));
	json_put_int(&a->w, "line", (int64_t)m->line);
	json_put_int(&a->w, "column", (int64_t)m->start + m->column);
	json_put_str(&a->w, "text", m->text);
	if (m->flags & TOOL_MATCH_CUT)
		json_put_bool(&a->w, "cut", true);
	put_before(a, m);
	json_begin_array(&a->w, "after");
	a->grep.open = true;
	a->grep.line = m->line;
}

static int veil_match(struct files_answer *a, struct tool_match *m)
{
	buf_clear(&a->veil);
	if (!a->scrub || !m->text.n)
		return 0;
	if (buf_append(&a->veil, m->text.p, m->text.n) < 0)
		return -ENOMEM;
	(void)scrub_text(a->scrub, buf_data(&a->veil), m->text.n, m->flags & TOOL_MATCH_CUT);
	m->text = buf_str(&a->veil);
	return 0;
}

static int add_match(struct files_answer *a, const struct tool_match *said)
{
	struct tool_match veiled = *said, *m = &veiled;
	struct files_grep *g = &a->grep;
	bool context = m->flags & TOOL_MATCH_CONTEXT;

	if (grep_room(g) < 0 || veil_match(a, m) < 0)
		return -ENOMEM;
	begin(a, "data");
	if (!str_eq(buf_str(&g->path), m->path) || (m->flags & TOOL_MATCH_GAP)) {
		grep_close(a);
		g->before_count = 0;
		buf_clear(&g->path);
		if (buf_append(&g->path, m->path.p, m->path.n) < 0)
			return -ENOMEM;
	}
	if (!context) {
		put_match(a, m);
		return 0;
	}
	if (!g->context)
		return -EPROTO;
	if (g->open && m->line > g->line && m->line - g->line <= g->context)
		json_put_str(&a->w, NULL, m->text);
	return grep_remember(g, m);
}

static void end_grep(struct files_answer *a, const struct tool_end *end)
{
	begin(a, "data");
	grep_close(a);
	json_end_array(&a->w);
	json_put_int(&a->w, "matches", (int64_t)end->matches);
	json_put_int(&a->w, "files_searched", (int64_t)end->files);
	json_put_int(&a->w, "files_skipped_binary", (int64_t)end->skipped_binary);
	json_put_int(&a->w, "files_skipped_unreadable", (int64_t)end->skipped_unreadable);
	json_put_int(&a->w, "files_skipped_limit",
		     (int64_t)(end->skipped_limit + end->skipped_deep));
	put_cut(a, end);
}

/* ---- the numbered view ---- */

static int add_line(struct files_answer *a, const struct tool_line *line)
{
	int r = buf_printf(&a->text, "%6llu\t", (unsigned long long)line->number);

	if (r == 0)
		r = buf_append(&a->text, line->text.p, line->text.n);
	if (r == 0 && (line->flags & TOOL_LINE_CUT))
		r = buf_printf(&a->text, CUT_MARK, (unsigned long long)line->bytes);
	return r == 0 ? buf_putc(&a->text, '\n') : r;
}

static void put_view_hint(struct files_answer *a, const struct tool_end *end)
{
	unsigned long long first = end->offset, next = end->offset + end->entries;
	unsigned long long total = end->total_lines;
	char hint[160];

	if (end->flags & TOOL_END_BINARY)
		(void)snprintf(hint, sizeof(hint),
			       "a binary file of %llu bytes: files/raw gives its content",
			       (unsigned long long)end->total_bytes);
	else if (end->entries == 0 && total)
		(void)snprintf(hint, sizeof(hint), "the file has %llu lines", total);
	else if (end->cut == TOOL_CUT_TIME)
		(void)snprintf(hint, sizeof(hint),
			       "the file is too long to be counted in time; at least %llu lines",
			       total);
	else if (next <= total)
		(void)snprintf(hint, sizeof(hint),
			       "lines %llu to %llu of %llu; continue with offset=%llu", first,
			       next - 1, total, next);
	else
		hint[0] = '\0';
	json_put_text(&a->w, "hint", hint[0] ? hint : NULL);
}

static void end_view(struct files_answer *a, const struct tool_end *end)
{
	bool more = end->offset + end->entries <= end->total_lines;

	begin(a, NULL);
	files_put_name(&a->w, "path", "path_b64", a->path);
	if (a->scrub && buf_len(&a->text))
		(void)scrub_text(a->scrub, buf_data(&a->text), buf_len(&a->text), false);
	json_put_str(&a->w, "content", buf_str(&a->text));
	json_put_int(&a->w, "total_lines", (int64_t)end->total_lines);
	json_put_int(&a->w, "total_bytes", (int64_t)end->total_bytes);
	json_put_int(&a->w, "offset", (int64_t)end->offset);
	json_put_int(&a->w, "lines_returned", (int64_t)end->entries);
	json_put_bool(&a->w, "truncated", end->cut != TOOL_CUT_NONE || (end->entries && more));
	json_put_bool(&a->w, "binary", end->flags & TOOL_END_BINARY);
	put_view_hint(a, end);
}

/* ---- batches and archives ---- */

static void put_failure(struct json_writer *w, const char *key, const struct tool_item *item)
{
	json_begin_object(w, key);
	json_put_text(w, "code", err_name(files_error_code(item->error)));
	json_put_text(w, "message", files_error_text(item->error));
	json_end_object(w);
}

static int add_item(struct files_answer *a, enum files_op op, const struct tool_item *item)
{
	struct json_writer *w = &a->w;

	begin(a, op == FILES_BATCH ? "data" : "failed");
	if (op != FILES_BATCH && (item->error == TOOL_OK || a->failed_told == FAILED_TOLD_MAX))
		return 0;
	a->failed_told++;
	json_begin_object(w, NULL);
	files_put_name(w, "path", "path_b64", item->path);
	if (op == FILES_BATCH) {
		json_put_bool(w, "ok", item->error == TOOL_OK);
		json_put_int(w, "size", (int64_t)item->bytes);
		json_put_bool(w, "created", item->created);
		if (item->error)
			put_failure(w, "error", item);
		else
			json_put_null(w, "error");
	} else {
		json_put_text(w, "code", err_name(files_error_code(item->error)));
		json_put_text(w, "message", files_error_text(item->error));
	}
	json_end_object(w);
	return 0;
}

static void end_items(struct files_answer *a, enum files_op op, const struct tool_end *end)
{
	begin(a, op == FILES_BATCH ? "data" : "failed");
	json_end_array(&a->w);
	if (op == FILES_BATCH) {
		json_put_int(&a->w, "failed", (int64_t)end->failed);
		return;
	}
	json_put_int(&a->w, "failed_count", (int64_t)end->failed);
	json_put_int(&a->w, "entries", (int64_t)end->entries);
	json_put_int(&a->w, "bytes", (int64_t)end->bytes);
}

/* ---- all of them ---- */

static int add_entry(struct files_answer *a, enum files_op op, const struct tool_entry *entry)
{
	switch (op) {
	case FILES_LIST:
	case FILES_GLOB:
		return add_listed(a, entry);
	case FILES_EXISTS:
		a->has_entry = true;
		begin(a, NULL);
		json_put_bool(&a->w, "exists", true);
		json_put_text(&a->w, "type", files_kind_name(entry->kind));
		return 0;
	case FILES_READ:
	case FILES_VIEW:
		return 0;
	case FILES_GREP:
	case FILES_BATCH:
	case FILES_WATCH:
	case FILES_ARCHIVE_OUT:
	case FILES_ARCHIVE_IN:
	case FILES_OP_COUNT:
		return -EPROTO;
	case FILES_STAT:
	case FILES_WRITE:
	case FILES_EDIT:
	case FILES_MKDIR:
	case FILES_MOVE:
	case FILES_COPY:
	case FILES_REMOVE:
	case FILES_CHMOD:
	case FILES_CHOWN:
		break;
	}
	return add_one(a, entry);
}

int files_answer_add(struct files_answer *a, enum files_op op, const struct tool_said *said)
{
	int r = -EPROTO;

	if (said->type == TOOL_PROGRESS)
		return 0;
	if (said->type == TOOL_DETAIL)
		return add_detail(a, &said->detail);
	if (said->type == TOOL_ENTRY)
		r = add_entry(a, op, &said->entry);
	else if (said->type == TOOL_MATCH && op == FILES_GREP)
		r = add_match(a, &said->match);
	else if (said->type == TOOL_LINE && op == FILES_VIEW)
		r = add_line(a, &said->line);
	else if (said->type == TOOL_ITEM && (op == FILES_BATCH || op == FILES_ARCHIVE_IN))
		r = add_item(a, op, &said->item);
	else if (said->type == TOOL_ITEM && op == FILES_ARCHIVE_OUT)
		r = 0; /* left out of the archive; END counts them */
	a->full = buf_len(&a->out) > FILES_ANSWER_MAX;
	return r == 0 ? a->w.error : r;
}

static void end_one(struct files_answer *a, enum files_op op, const struct tool_end *end)
{
	begin(a, NULL);
	if (!a->has_entry)
		files_put_name(&a->w, "path", "path_b64", a->path);
	if (op == FILES_EDIT) {
		json_put_int(&a->w, "replacements", (int64_t)end->matches);
		json_put_int(&a->w, "first_line", (int64_t)end->first_line);
		json_put_int(&a->w, "total_lines", (int64_t)end->total_lines);
	} else if (op == FILES_COPY || op == FILES_CHMOD || op == FILES_CHOWN) {
		json_put_int(&a->w, "entries", (int64_t)end->entries);
	}
	if (op == FILES_WRITE || op == FILES_MKDIR)
		json_put_bool(&a->w, "created", end->flags & TOOL_END_CREATED);
}

int files_answer_end(struct files_answer *a, enum files_op op, const struct tool_end *end)
{
	switch (op) {
	case FILES_LIST:
	case FILES_GLOB:
		begin(a, "data");
		json_end_array(&a->w);
		put_cut(a, end);
		json_put_int(&a->w, "skipped_unreadable", (int64_t)end->skipped_unreadable);
		break;
	case FILES_GREP:
		end_grep(a, end);
		break;
	case FILES_VIEW:
		end_view(a, end);
		break;
	case FILES_BATCH:
	case FILES_ARCHIVE_IN:
		end_items(a, op, end);
		break;
	case FILES_EXISTS:
		begin(a, NULL);
		if (!a->has_entry) {
			json_put_bool(&a->w, "exists", false);
			json_put_null(&a->w, "type");
		}
		break;
	case FILES_READ:
	case FILES_WATCH:
	case FILES_ARCHIVE_OUT:
	case FILES_REMOVE:
		buf_clear(&a->out);
		return 0;
	case FILES_STAT:
	case FILES_WRITE:
	case FILES_EDIT:
		if (!a->has_entry)
			return -EPROTO;
		/* fall through */
	case FILES_MKDIR:
	case FILES_MOVE:
	case FILES_COPY:
	case FILES_CHMOD:
	case FILES_CHOWN:
		end_one(a, op, end);
		break;
	case FILES_OP_COUNT:
		return -EPROTO;
	}
	json_end_object(&a->w);
	return json_writer_end(&a->w);
}
