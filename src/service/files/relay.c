/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the tool's frames to values for the caller's hooks. Only the lines of a view and the
 * entry of an operation on one path are kept until the end; everything else is passed on
 * immediately.
 */
#include <errno.h>

#include "base/text/scrub.h"
#include "service/files/files_private.h"

#define FAILED_TOLD_MAX 1000 /* reported failures of an archive; further ones are only counted */
#define VIEW_BYTES_MAX (20 * 1024 * 1024)
#define CUT_MARK " ... [line cut: %llu bytes]"
#define ENTRY_TEXT_MAX (TOOL_PATH_MAX + 2 * TOOL_NAME_MAX + 2 * TOOL_TARGET_MAX + TOOL_MARKS_MAX)

void files_relay_init(struct files_relay *relay, enum files_op op, const struct files_spec *spec,
		      struct str path)
{
	buf_init(&relay->text, VIEW_BYTES_MAX);
	buf_init(&relay->join, 2 * FILES_PATH_MAX + 2);
	buf_init(&relay->from, 2 * FILES_PATH_MAX + 2);
	buf_init(&relay->veil, TOOL_TEXT_MAX);
	buf_init(&relay->grep.path, TOOL_PATH_MAX);
	buf_init(&relay->detail_text, TOOL_TARGET_MAX + TOOL_MARKS_MAX);
	buf_init(&relay->held.text, ENTRY_TEXT_MAX);
	relay->path = path;
	relay->grep.context = op == FILES_GREP ? (uint64_t)spec->context : 0;
}

void files_relay_done(struct files_relay *relay)
{
	for (size_t i = 0; relay->grep.before && i < relay->grep.context; i++)
		buf_done(&relay->grep.before[i]);
	free(relay->grep.before);
	free(relay->grep.before_lines);
	buf_done(&relay->grep.path);
	buf_done(&relay->text);
	buf_done(&relay->join);
	buf_done(&relay->from);
	buf_done(&relay->detail_text);
	buf_done(&relay->held.text);
	buf_done(&relay->veil);
	scrub_unref(relay->scrub);
}

/* ---- one entry, lists ---- */

static int add_detail(struct files_relay *relay, const struct tool_detail *detail)
{
	struct buf *text = &relay->detail_text;
	int r;

	buf_clear(text);
	r = buf_append(text, detail->target.p, detail->target.n);
	if (r == 0)
		r = buf_append(text, detail->marks.p, detail->marks.n);
	if (r < 0)
		return r;
	relay->detail = *detail;
	relay->detail.target.p = buf_str(text).p;
	relay->detail.marks.p = buf_str(text).p + detail->target.n;
	return 0;
}

/* A detail frame applies only to the entry that follows it. */
static void fill(struct files_relay *relay, struct files_entry_held *ret,
		 const struct tool_entry *entry, struct str path)
{
	files_entry_fill(ret, entry, &relay->detail, path);
	relay->detail = (struct tool_detail){ .kind = 0 };
}

static int add_one(struct files_relay *relay, const struct tool_entry *entry)
{
	if (relay->has_entry)
		return -EPROTO;
	relay->has_entry = true;
	fill(relay, &relay->held, entry, entry->path);
	return files_entry_keep(&relay->held);
}

static int add_listed(struct files_relay *relay, const struct tool_entry *entry)
{
	struct files_entry_held listed;

	fill(relay, &listed, entry, files_join(&relay->join, relay->path, entry->path));
	return relay->hooks->on_entry && !relay->hooks->on_entry(relay->arg, &listed.entry);
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

static size_t take_before(struct files_grep *g, const struct tool_match *m,
			  struct str ret[FILES_CONTEXT_MAX])
{
	size_t held = MIN(g->before_count, g->context), n = 0;

	for (size_t k = g->before_count - held; k < g->before_count; k++) {
		size_t i = k % g->context;

		if (g->before_lines[i] < m->line && m->line - g->before_lines[i] <= g->context)
			ret[n++] = buf_str(&g->before[i]);
	}
	g->before_count = 0;
	return n;
}

static int pass_match(struct files_relay *relay, const struct tool_match *m)
{
	struct str before[FILES_CONTEXT_MAX];
	struct files_match match = { .path = files_join(&relay->join, relay->path, m->path),
				     .line = m->line,
				     .column = m->start + m->column,
				     .text = m->text,
				     .cut = m->flags & TOOL_MATCH_CUT };

	match.before = (struct text_list){ before, take_before(&relay->grep, m, before) };
	relay->grep.open = true;
	relay->grep.line = m->line;
	return relay->hooks->on_match && !relay->hooks->on_match(relay->arg, &match);
}

static int pass_context(struct files_relay *relay, const struct tool_match *m)
{
	struct files_grep *g = &relay->grep;
	bool after = g->open && m->line > g->line && m->line - g->line <= g->context;
	int r = g->context ? grep_remember(g, m) : -EPROTO;

	if (r < 0 || !after)
		return r;
	return relay->hooks->on_after && !relay->hooks->on_after(relay->arg, m->text);
}

static int veil_match(struct files_relay *relay, struct tool_match *m)
{
	buf_clear(&relay->veil);
	if (!relay->scrub || !m->text.n)
		return 0;
	if (buf_append(&relay->veil, m->text.p, m->text.n) < 0)
		return -ENOMEM;
	(void)scrub_text(relay->scrub, buf_data(&relay->veil), m->text.n,
			 m->flags & TOOL_MATCH_CUT);
	m->text = buf_str(&relay->veil);
	return 0;
}

static int add_match(struct files_relay *relay, const struct tool_match *said)
{
	struct tool_match m = *said;
	struct files_grep *g = &relay->grep;

	if (grep_room(g) < 0 || veil_match(relay, &m) < 0)
		return -ENOMEM;
	if (!str_eq(buf_str(&g->path), m.path) || (m.flags & TOOL_MATCH_GAP)) {
		g->open = false;
		g->before_count = 0;
		buf_clear(&g->path);
		if (buf_append(&g->path, m.path.p, m.path.n) < 0)
			return -ENOMEM;
	}
	return m.flags & TOOL_MATCH_CONTEXT ? pass_context(relay, &m) : pass_match(relay, &m);
}

/* ---- the numbered view ---- */

static int add_line(struct files_relay *relay, const struct tool_line *line)
{
	int r = buf_printf(&relay->text, "%6llu\t", (unsigned long long)line->number);

	if (r == 0)
		r = buf_append(&relay->text, line->text.p, line->text.n);
	if (r == 0 && (line->flags & TOOL_LINE_CUT))
		r = buf_printf(&relay->text, CUT_MARK, (unsigned long long)line->bytes);
	return r == 0 ? buf_putc(&relay->text, '\n') : r;
}

/* ---- batches and archives ---- */

static int add_item(struct files_relay *relay, enum files_op op, const struct tool_item *item)
{
	struct files_outcome outcome = { .path = item->path,
					 .bytes = item->bytes,
					 .created = item->created,
					 .failed = item->error != TOOL_OK,
					 .code = files_error_code(item->error),
					 .message = files_error_text(item->error) };

	if (op != FILES_BATCH && (!outcome.failed || relay->failed_told == FAILED_TOLD_MAX))
		return 0;
	relay->failed_told++;
	return relay->hooks->on_outcome && !relay->hooks->on_outcome(relay->arg, &outcome);
}

/* ---- watches ---- */

static int add_event(struct files_relay *relay, const struct tool_event *said)
{
	static const enum files_change changes[] = {
		[TOOL_CREATED] = FILES_CREATED,	  [TOOL_MODIFIED] = FILES_MODIFIED,
		[TOOL_DELETED] = FILES_DELETED,	  [TOOL_RENAMED] = FILES_RENAMED,
		[TOOL_OVERFLOW] = FILES_OVERFLOW, [TOOL_GONE] = FILES_GONE
	};
	struct files_event event = { .change = changes[said->change],
				     .kind = files_kind(said->kind),
				     .attributes = said->attributes,
				     .at_ms = (int64_t)(said->at_ns / 1000000),
				     .path = files_join(&relay->join, relay->path, said->path) };

	if (said->change == TOOL_RENAMED)
		event.from = files_join(&relay->from, relay->path, said->from);
	if (relay->hooks->on_event)
		relay->hooks->on_event(relay->arg, &event);
	return 0;
}

/* ---- dispatch ---- */

static int add_entry(struct files_relay *relay, enum files_op op, const struct tool_entry *entry)
{
	switch (op) {
	case FILES_LIST:
	case FILES_GLOB:
		return add_listed(relay, entry);
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
	case FILES_EXISTS:
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
	return add_one(relay, entry);
}

int files_relay_add(struct files_relay *relay, enum files_op op, const struct tool_said *said)
{
	if (said->type == TOOL_PROGRESS)
		return 0;
	if (said->type == TOOL_DETAIL)
		return add_detail(relay, &said->detail);
	if (said->type == TOOL_ENTRY)
		return add_entry(relay, op, &said->entry);
	if (said->type == TOOL_MATCH && op == FILES_GREP)
		return add_match(relay, &said->match);
	if (said->type == TOOL_LINE && op == FILES_VIEW)
		return add_line(relay, &said->line);
	if (said->type == TOOL_ITEM && (op == FILES_BATCH || op == FILES_ARCHIVE_IN))
		return add_item(relay, op, &said->item);
	if (said->type == TOOL_ITEM && op == FILES_ARCHIVE_OUT)
		return 0; /* left out of the archive; END counts them */
	if (said->type == TOOL_EVENT && op == FILES_WATCH)
		return add_event(relay, &said->event);
	return -EPROTO;
}

static enum files_cut cut_of(enum files_op op, const struct tool_end *end)
{
	static const enum files_cut cuts[] = { [TOOL_CUT_NONE] = FILES_CUT_NONE,
					       [TOOL_CUT_COUNT] = FILES_CUT_LIMIT,
					       [TOOL_CUT_BYTES] = FILES_CUT_BYTES,
					       [TOOL_CUT_TIME] = FILES_CUT_TIME };
	bool searches = op == FILES_LIST || op == FILES_GLOB || op == FILES_GREP;

	if (end->cut == TOOL_CUT_NONE && searches && end->skipped_limit)
		return FILES_CUT_PATTERN;
	if (end->cut == TOOL_CUT_NONE && searches && end->skipped_deep)
		return FILES_CUT_DEPTH;
	return cuts[end->cut];
}

int files_relay_end(struct files_relay *relay, enum files_op op, const struct tool_end *end,
		    struct files_result *ret)
{
	if ((op == FILES_STAT || op == FILES_WRITE || op == FILES_EDIT) && !relay->has_entry)
		return -EPROTO;
	if (relay->scrub && buf_len(&relay->text))
		(void)scrub_text(relay->scrub, buf_data(&relay->text), buf_len(&relay->text),
				 false);
	*ret = (struct files_result){
		.entry = relay->has_entry ? &relay->held.entry : NULL,
		.path = relay->path,
		.text = buf_str(&relay->text),
		.cut = cut_of(op, end),
		.created = end->flags & TOOL_END_CREATED,
		.binary = end->flags & TOOL_END_BINARY,
		.entries = end->entries,
		.bytes = end->bytes,
		.matches = end->matches,
		.files = end->files,
		.failed = end->failed,
		.total_lines = end->total_lines,
		.total_bytes = end->total_bytes,
		.offset = end->offset,
		.first_line = end->first_line,
		.skipped_binary = end->skipped_binary,
		.skipped_unreadable = end->skipped_unreadable,
		.skipped_limit = end->skipped_limit + end->skipped_deep,
	};
	return 0;
}
