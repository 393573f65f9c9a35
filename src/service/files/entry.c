/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of a sandbox's tree, from the tool's frames to the values that callers get. */
#include "service/files/files_private.h"

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

enum files_kind files_kind(enum tool_kind kind)
{
	switch (kind) {
	case TOOL_KIND_FILE:
		return FILES_KIND_FILE;
	case TOOL_KIND_DIRECTORY:
		return FILES_KIND_DIRECTORY;
	case TOOL_KIND_SYMLINK:
		return FILES_KIND_SYMLINK;
	case TOOL_KIND_FIFO:
		return FILES_KIND_FIFO;
	case TOOL_KIND_SOCKET:
		return FILES_KIND_SOCKET;
	case TOOL_KIND_CHAR_DEVICE:
	case TOOL_KIND_BLOCK_DEVICE:
		return FILES_KIND_DEVICE;
	case TOOL_KIND_UNKNOWN:
		break;
	}
	return FILES_KIND_UNKNOWN;
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

void files_entry_fill(struct files_entry_held *ret, const struct tool_entry *from,
		      const struct tool_detail *detail, struct str path)
{
	struct files_entry *entry = &ret->entry;

	*entry = (struct files_entry){
		.kind = files_kind(from->kind),
		.mode = from->mode,
		.uid = from->uid,
		.gid = from->gid,
		.size = MIN(from->size, (uint64_t)INT64_MAX),
		.modified_ms = from->mtime_ns / 1000000,
		.accessed_ms = from->atime_ns / 1000000,
		.changed_ms = from->ctime_ns / 1000000,
		.path = path,
		.name = last_name(path),
		.user = from->user,
		.group = from->group,
		.target = from->target,
		.marks = detail->marks,
	};
	if (detail->target.n) {
		entry->behind.kind = files_kind(detail->kind);
		entry->behind.mode = detail->mode;
		entry->behind.path = detail->target;
	}
	if (entry->kind == FILES_KIND_FILE) {
		tool_token(ret->etag, from);
		entry->etag = ret->etag;
	}
}

int files_entry_keep(struct files_entry_held *held)
{
	struct files_entry *entry = &held->entry;
	struct str *const texts[] = { &entry->path,   &entry->user,	   &entry->group,
				      &entry->target, &entry->behind.path, &entry->marks };
	size_t total = 0;
	char *at;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		total += texts[i]->n;
	r = buf_reserve(&held->text, total, &at);
	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (texts[i]->n)
			memcpy(at, texts[i]->p, texts[i]->n);
		texts[i]->p = at;
		at += texts[i]->n;
	}
	buf_commit(&held->text, total);
	entry->name = last_name(entry->path);
	return 0;
}

bool files_mark_next(struct str *marks, struct str *ret_key, struct str *ret_value)
{
	struct str line;

	while (str_cut(*marks, '\n', &line, marks))
		if (str_cut(line, '=', ret_key, ret_value))
			return true;
	return false;
}
