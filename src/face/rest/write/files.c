/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the results of file operations as REST objects. */
#include "face/rest/write/files.h"

#include <stdio.h>

#include "face/kit/json/name.h"

#define ITEM_MAX                                                                         \
	(1024 * 1024) /* the most that one item can add: six bytes for each of its bytes \
		       */

/* ---- entries ---- */

static const char *kind_name(enum files_kind kind)
{
	static const char *const names[] = {
		[FILES_KIND_UNKNOWN] = "unknown",     [FILES_KIND_FILE] = "file",
		[FILES_KIND_DIRECTORY] = "directory", [FILES_KIND_SYMLINK] = "symlink",
		[FILES_KIND_FIFO] = "fifo",	      [FILES_KIND_SOCKET] = "socket",
		[FILES_KIND_DEVICE] = "device",
	};

	return names[kind];
}

static void put_word(struct json_writer *w, const char *key, struct str word)
{
	if (word.n)
		json_put_str(w, key, word);
	else
		json_put_null(w, key);
}

static void put_mode(struct json_writer *w, const char *key, uint32_t mode)
{
	char text[16];

	(void)snprintf(text, sizeof(text), "%04o", mode);
	json_put_text(w, key, text);
}

static void put_marks(struct json_writer *w, struct str marks)
{
	struct str key, value;
	char name[FILES_MARK_KEY_MAX + 1];

	json_begin_object(w, "marks");
	while (files_mark_next(&marks, &key, &value))
		if (str_copy(name, sizeof(name), key) == 0)
			json_put_str(w, name, value);
	json_end_object(w);
}

static void put_entry(struct json_writer *w, const struct files_entry *entry)
{
	name_write(w, "path", "path_b64", entry->path);
	name_write(w, "name", "name_b64", entry->name);
	json_put_text(w, "type", kind_name(entry->kind));
	json_put_int(w, "size", (int64_t)entry->size);
	put_mode(w, "mode", entry->mode);
	json_put_int(w, "uid", entry->uid);
	json_put_int(w, "gid", entry->gid);
	put_word(w, "user", entry->user);
	put_word(w, "group", entry->group);
	json_put_time(w, "modified_at", entry->modified_ms);
	json_put_time(w, "accessed_at", entry->accessed_ms);
	json_put_time(w, "changed_at", entry->changed_ms);
	if (entry->kind == FILES_KIND_SYMLINK)
		name_write(w, "target", "target_b64", entry->target);
	else
		json_put_null(w, "target");
	json_put_text(w, "etag", entry->etag);
	if (entry->behind.path.n) {
		json_put_text(w, "target_type", kind_name(entry->behind.kind));
		put_mode(w, "target_mode", entry->behind.mode);
		name_write(w, "target_path", "target_path_b64", entry->behind.path);
	}
	if (entry->marks.n)
		put_marks(w, entry->marks);
}

/* ---- while the operation runs ---- */

void files_answer_init(struct files_answer *a, enum files_op op)
{
	buf_init(&a->out, FILES_ANSWER_MAX + 2 * ITEM_MAX);
	json_writer_init(&a->w, &a->out);
	a->op = op;
	a->begun = a->match = false;
}

void files_answer_done(struct files_answer *a)
{
	buf_done(&a->out);
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

static bool goes_on(const struct files_answer *a)
{
	return a->w.error == 0 && buf_len(&a->out) <= FILES_ANSWER_MAX;
}

bool files_answer_entry(struct files_answer *a, const struct files_entry *entry)
{
	begin(a, "data");
	json_begin_object(&a->w, NULL);
	put_entry(&a->w, entry);
	json_end_object(&a->w);
	return goes_on(a);
}

static void close_match(struct files_answer *a)
{
	if (!a->match)
		return;
	a->match = false;
	json_end_array(&a->w);
	json_end_object(&a->w);
}

bool files_answer_match(struct files_answer *a, const struct files_match *match)
{
	struct json_writer *w = &a->w;

	begin(a, "data");
	close_match(a);
	json_begin_object(w, NULL);
	name_write(w, "path", "path_b64", match->path);
	json_put_int(w, "line", (int64_t)match->line);
	json_put_int(w, "column", (int64_t)match->column);
	json_put_str(w, "text", match->text);
	if (match->cut)
		json_put_bool(w, "cut", true);
	json_begin_array(w, "before");
	for (size_t i = 0; i < match->before.count; i++)
		json_put_str(w, NULL, match->before.list[i]);
	json_end_array(w);
	json_begin_array(w, "after");
	a->match = true;
	return goes_on(a);
}

bool files_answer_after(struct files_answer *a, struct str line)
{
	if (a->match)
		json_put_str(&a->w, NULL, line);
	return goes_on(a);
}

static const char *outcomes_key(const struct files_answer *a)
{
	return a->op == FILES_BATCH ? "data" : "failed";
}

static void put_failure(struct json_writer *w, const struct files_outcome *outcome)
{
	json_put_text(w, "code", err_name(outcome->code));
	json_put_text(w, "message", outcome->message);
}

bool files_answer_outcome(struct files_answer *a, const struct files_outcome *outcome)
{
	struct json_writer *w = &a->w;

	begin(a, outcomes_key(a));
	json_begin_object(w, NULL);
	name_write(w, "path", "path_b64", outcome->path);
	if (a->op != FILES_BATCH) {
		put_failure(w, outcome);
	} else {
		json_put_bool(w, "ok", !outcome->failed);
		json_put_int(w, "size", (int64_t)outcome->bytes);
		json_put_bool(w, "created", outcome->created);
		if (outcome->failed) {
			json_begin_object(w, "error");
			put_failure(w, outcome);
			json_end_object(w);
		} else {
			json_put_null(w, "error");
		}
	}
	json_end_object(w);
	return goes_on(a);
}

/* ---- the end of a reply ---- */

static void put_cut(struct json_writer *w, enum files_cut cut)
{
	static const char *const reasons[] = {
		[FILES_CUT_NONE] = NULL,	 [FILES_CUT_LIMIT] = "limit",
		[FILES_CUT_BYTES] = "bytes",	 [FILES_CUT_TIME] = "time",
		[FILES_CUT_PATTERN] = "pattern", [FILES_CUT_DEPTH] = "depth",
	};

	json_put_bool(w, "truncated", cut != FILES_CUT_NONE);
	json_put_text(w, "reason", reasons[cut]);
}

static void end_grep(struct files_answer *a, const struct files_result *result)
{
	struct json_writer *w = &a->w;

	begin(a, "data");
	close_match(a);
	json_end_array(w);
	json_put_int(w, "matches", (int64_t)result->matches);
	json_put_int(w, "files_searched", (int64_t)result->files);
	json_put_int(w, "files_skipped_binary", (int64_t)result->skipped_binary);
	json_put_int(w, "files_skipped_unreadable", (int64_t)result->skipped_unreadable);
	json_put_int(w, "files_skipped_limit", (int64_t)result->skipped_limit);
	put_cut(w, result->cut);
}

static void put_view_hint(struct json_writer *w, const struct files_result *result)
{
	unsigned long long first = result->offset, next = result->offset + result->entries;
	unsigned long long total = result->total_lines;
	char hint[160] = "";

	if (result->binary)
		(void)snprintf(hint, sizeof(hint),
			       "a binary file of %llu bytes: files/raw returns its content",
			       (unsigned long long)result->total_bytes);
	else if (result->entries == 0 && total)
		(void)snprintf(hint, sizeof(hint), "the file has %llu lines", total);
	else if (result->cut == FILES_CUT_TIME)
		(void)snprintf(hint, sizeof(hint),
			       "the time limit was reached while counting; the file has at least "
			       "%llu lines",
			       total);
	else if (next <= total)
		(void)snprintf(hint, sizeof(hint),
			       "lines %llu to %llu of %llu; continue with offset=%llu", first,
			       next - 1, total, next);
	json_put_text(w, "hint", hint[0] ? hint : NULL);
}

static void end_view(struct files_answer *a, const struct files_result *result)
{
	bool more = result->offset + result->entries <= result->total_lines;
	struct json_writer *w = &a->w;

	begin(a, NULL);
	name_write(w, "path", "path_b64", result->path);
	json_put_str(w, "content", result->text);
	json_put_int(w, "total_lines", (int64_t)result->total_lines);
	json_put_int(w, "total_bytes", (int64_t)result->total_bytes);
	json_put_int(w, "offset", (int64_t)result->offset);
	json_put_int(w, "lines_returned", (int64_t)result->entries);
	json_put_bool(w, "truncated", result->cut != FILES_CUT_NONE || (result->entries && more));
	json_put_bool(w, "binary", result->binary);
	put_view_hint(w, result);
}

static void end_outcomes(struct files_answer *a, const struct files_result *result)
{
	begin(a, outcomes_key(a));
	json_end_array(&a->w);
	if (a->op == FILES_BATCH) {
		json_put_int(&a->w, "failed", (int64_t)result->failed);
		return;
	}
	json_put_int(&a->w, "failed_count", (int64_t)result->failed);
	json_put_int(&a->w, "entries", (int64_t)result->entries);
	json_put_int(&a->w, "bytes", (int64_t)result->bytes);
}

static void end_exists(struct files_answer *a, const struct files_result *result)
{
	begin(a, NULL);
	json_put_bool(&a->w, "exists", result->entry != NULL);
	json_put_text(&a->w, "type", result->entry ? kind_name(result->entry->kind) : NULL);
}

static void end_one(struct files_answer *a, const struct files_result *result)
{
	struct json_writer *w = &a->w;

	begin(a, NULL);
	if (result->entry)
		put_entry(w, result->entry);
	else
		name_write(w, "path", "path_b64", result->path);
	if (a->op == FILES_EDIT) {
		json_put_int(w, "replacements", (int64_t)result->matches);
		json_put_int(w, "first_line", (int64_t)result->first_line);
		json_put_int(w, "total_lines", (int64_t)result->total_lines);
	} else if (a->op == FILES_COPY || a->op == FILES_CHMOD || a->op == FILES_CHOWN) {
		json_put_int(w, "entries", (int64_t)result->entries);
	}
	if (a->op == FILES_WRITE || a->op == FILES_MKDIR)
		json_put_bool(w, "created", result->created);
}

int files_answer_end(struct files_answer *a, const struct files_result *result, struct err *err)
{
	int r;

	switch ((int)a->op) {
	case FILES_LIST:
	case FILES_GLOB:
		begin(a, "data");
		json_end_array(&a->w);
		put_cut(&a->w, result->cut);
		json_put_int(&a->w, "skipped_unreadable", (int64_t)result->skipped_unreadable);
		break;
	case FILES_GREP:
		end_grep(a, result);
		break;
	case FILES_VIEW:
		end_view(a, result);
		break;
	case FILES_BATCH:
	case FILES_ARCHIVE_IN:
		end_outcomes(a, result);
		break;
	case FILES_EXISTS:
		end_exists(a, result);
		break;
	default:
		end_one(a, result);
		break;
	}
	json_end_object(&a->w);
	r = json_writer_end(&a->w);
	return r < 0 ? err_set_errno(err, ERR_UNAVAILABLE, r, "the reply does not fit into memory")
		     : 0;
}

/* ---- watches ---- */

const char *files_event_name(enum files_change change)
{
	static const char *const names[] = {
		[FILES_CREATED] = "created",   [FILES_MODIFIED] = "modified",
		[FILES_DELETED] = "deleted",   [FILES_RENAMED] = "renamed",
		[FILES_OVERFLOW] = "overflow", [FILES_GONE] = "deleted"
	};

	return names[change];
}

void files_event_write(const struct files_event *event, struct json_writer *w)
{
	json_begin_object(w, NULL);
	name_write(w, "path", "path_b64", event->path);
	if (event->change == FILES_OVERFLOW) {
		json_put_text(w, "hint", "events were lost: list the tree again");
	} else {
		json_put_text(w, "type", kind_name(event->kind));
		json_put_bool(w, "attributes", event->attributes);
	}
	if (event->change == FILES_RENAMED)
		name_write(w, "from", "from_b64", event->from);
	if (event->change == FILES_GONE)
		json_put_text(w, "hint", "the watched path was removed: the watch ends");
	json_put_time(w, "at", event->at_ms);
	json_end_object(w);
}
