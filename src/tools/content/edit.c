/* SPDX-License-Identifier: Apache-2.0 */
/* edit: replaces one string by another in one step; the file never has a mix of both versions. */
#include <errno.h>
#include <fcntl.h>

#include "tools/tree/entry.h"
#include "tools/content/read.h"
#include "tools/content/replace.h"
#include "tools/content/write.h"

#define FILE_MAX_BYTES (64U << 20) /* it is in memory twice, within the sandbox's limit */
#define STRING_MAX_BYTES (16U << 20)

/* Owner: op_edit(). */
struct edit {
	struct buf old_string, new_string;
	char *text;
	size_t text_len;
};

static int receive_strings(struct op *op, struct edit *edit)
{
	for (;;) {
		struct frame frame;
		struct str bytes;
		int r = op_next(op, &frame);

		if (r == 0 || r == -ECANCELED)
			return op_fail(op, TOOL_INCOMPLETE, STR_LIT(""), "the input broke off");
		if (r == 1 && tool_get_bytes(&frame, TOOL_COMMIT, &bytes) == 0)
			return 0;
		if (r == 1 && tool_get_bytes(&frame, TOOL_OLD, &bytes) == 0)
			r = buf_append(&edit->old_string, bytes.p, bytes.n);
		else if (r == 1 && tool_get_bytes(&frame, TOOL_NEW, &bytes) == 0)
			r = buf_append(&edit->new_string, bytes.p, bytes.n);
		else
			return op_fail(op, TOOL_INVALID, STR_LIT(""),
				       "unexpected frame in the input");
		if (r == -ENOBUFS) {
			op->failed.limit = STRING_MAX_BYTES;
			return op_fail(op, TOOL_TOO_LARGE, STR_LIT(""), "a string is too large");
		}
		if (r < 0)
			return op_fail_errno(op, r, STR_LIT(""));
	}
}

static int load(struct op *op, struct str path, int fd, const struct stat *st, struct edit *edit)
{
	size_t size = (size_t)st->st_size;

	if (st->st_size > FILE_MAX_BYTES) {
		op->failed.limit = FILE_MAX_BYTES;
		return op_fail(op, TOOL_TOO_LARGE, path, "too large to edit");
	}
	edit->text = malloc(size + 1);
	if (!edit->text)
		return op_fail_errno(op, ENOMEM, path);
	while (edit->text_len < size) {
		ssize_t n = read(fd, edit->text + edit->text_len, size - edit->text_len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return op_fail_errno(op, errno, path);
		if (n == 0)
			return op_fail(op, TOOL_CHANGED, path, "the file shrank while it was read");
		edit->text_len += (size_t)n;
	}
	return 0;
}

static int fail_replace(struct op *op, struct str path, const struct replace *r, int error)
{
	if (error == -ENOENT)
		return op_fail(op, TOOL_EDIT_NO_MATCH, path, "old_string is not in the file");
	if (error == -EINVAL)
		return op_fail(op, TOOL_INVALID, path,
			       r->old_string.n ? "old_string and new_string are the same"
					       : "old_string is empty");
	if (error == -EFBIG) {
		op->failed.limit = FILE_MAX_BYTES;
		return op_fail(op, TOOL_TOO_LARGE, path, "the result would be too large");
	}
	if (error != -EEXIST)
		return op_fail_errno(op, error, path);
	op->failed.count = r->count;
	op->failed.line_count = r->line_count;
	memcpy(op->failed.lines, r->lines, sizeof(r->lines));
	return op_fail(op, TOOL_EDIT_MANY, path, "old_string is there %llu times",
		       (unsigned long long)r->count);
}

/* The temporary file replaces exactly the file that was read; otherwise nothing changes. */
static int store(struct op *op, struct str path, const struct stat *st,
		 const struct write_options *o, struct str text)
{
	_cleanup_(write_file_done) struct write_file w = WRITE_FILE_INIT;
	struct tool_entry entry;
	struct stat now;
	int r = write_file_begin(&w, &op->place, path, o);

	if (r == 0 && (!w.existed || !temp_same(&w.old, st)))
		r = -ESTALE;
	w.expects = true;
	if (r == 0)
		r = write_file_add(&w, text);
	if (r == 0)
		r = write_file_end(&w, o);
	if (r == 0 && fstat(w.temp.fd, &now) < 0)
		r = -errno;
	if (r < 0)
		return op_fail_disk(op, r, path, w.leaf.dir_fd);
	entry_from_stat(&now, &entry);
	entry.path = path;
	op_put_entry(op, &entry);
	return 0;
}

static int apply(struct op *op, struct str path, struct edit *edit, const struct stat *st,
		 const struct write_options *o, bool all)
{
	struct replace r = { .text = { edit->text, edit->text_len },
			     .old_string = buf_str(&edit->old_string),
			     .new_string = buf_str(&edit->new_string),
			     .all = all };
	int e = replace_run(&r, FILE_MAX_BYTES);

	if (e == 0)
		e = store(op, path, st, o, (struct str){ r.result, r.result_len });
	else
		e = fail_replace(op, path, &r, e);
	op->end.matches = r.count;
	op->end.first_line = r.line_count ? r.lines[0] : 0;
	op->end.total_bytes = r.result_len;
	if (e == 0) {
		for (size_t i = 0; i < r.result_len; i++)
			op->end.total_lines += r.result[i] == '\n';
		if (r.result_len && r.result[r.result_len - 1] != '\n') {
			op->end.flags |= TOOL_END_NO_FINAL_EOL;
			op->end.total_lines++;
		}
		op->end.flags |= r.crlf ? TOOL_END_CRLF : 0;
		op->end.entries = 1;
	}
	free(r.result);
	return e;
}

int op_edit(struct op *op)
{
	struct write_options o = { .mode = TOOL_MODE_DEFAULT,
				   .owner = PATH_OWNER_NONE,
				   .if_unchanged = op_text(op, "if_unchanged") };
	_cleanup_close_ int fd = -1;
	struct edit edit = { 0 };
	struct str path;
	struct stat st;
	bool all;
	int r;

	if (op_needed(op, "path", &path) < 0 || op_flag(op, "replace_all", false, &all) < 0 ||
	    op_flag(op, "fsync", false, &o.sync) < 0 || op_args_end(op) < 0)
		return -1;
	op_on_stop();
	op->keeps_going = true;
	buf_init(&edit.old_string, STRING_MAX_BYTES);
	buf_init(&edit.new_string, STRING_MAX_BYTES);
	r = receive_strings(op, &edit);
	if (r == 0)
		r = read_open(op, path, &fd, &st);
	if (r == 0)
		r = load(op, path, fd, &st, &edit);
	if (r == 0)
		r = apply(op, path, &edit, &st, &o, all);
	buf_done(&edit.old_string);
	buf_done(&edit.new_string);
	free(edit.text);
	return r;
}
