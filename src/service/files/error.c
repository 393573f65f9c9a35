/* SPDX-License-Identifier: Apache-2.0 */
/* Translates the tool's failures to API errors. */
#include <stdio.h>

#include "service/files/files_private.h"

#define PATH_SHOWN 120

static const struct {
	enum err_code code;
	const char *text;
} table[] = {
	[TOOL_OK] = { ERR_TOOL_FAILED, "failed without a reason" },
	[TOOL_INVALID] = { ERR_INVALID_REQUEST, "was refused" },
	[TOOL_NOT_FOUND] = { ERR_FILE_NOT_FOUND, "does not exist" },
	[TOOL_IS_DIRECTORY] = { ERR_NOT_A_FILE, "is a directory" },
	[TOOL_NOT_DIRECTORY] = { ERR_NOT_A_DIRECTORY, "is not a directory" },
	[TOOL_NOT_FILE] = { ERR_NOT_A_FILE, "is not a regular file" },
	[TOOL_EXISTS] = { ERR_FILE_EXISTS, "exists already" },
	[TOOL_NOT_EMPTY] = { ERR_DIRECTORY_NOT_EMPTY, "is not empty" },
	[TOOL_FORBIDDEN] = { ERR_FILE_FORBIDDEN, "permission denied" },
	[TOOL_READ_ONLY] = { ERR_READ_ONLY, "is on a read-only file system" },
	[TOOL_DISK_FULL] = { ERR_DISK_FULL, "no space is left" },
	[TOOL_QUOTA] = { ERR_DISK_QUOTA, "a quota is used up" },
	[TOOL_NAME_TOO_LONG] = { ERR_NAME_TOO_LONG, "a name in the path is too long" },
	[TOOL_LOOP] = { ERR_SYMLINK_LOOP, "has too many symbolic links, or a loop of them" },
	[TOOL_BUSY] = { ERR_FILE_BUSY, "is in use" },
	[TOOL_CHANGED] = { ERR_CONFLICT, "changed during the operation" },
	[TOOL_BAD_RANGE] = { ERR_RANGE_NOT_SATISFIABLE, "the range is outside the file" },
	[TOOL_BAD_PATTERN] = { ERR_INVALID_REQUEST, "pattern is malformed" },
	[TOOL_EDIT_NO_MATCH] = { ERR_EDIT_NO_MATCH, "old_string was not found (0 matches)" },
	[TOOL_EDIT_MANY] = { ERR_EDIT_AMBIGUOUS, "old_string was found more than once" },
	[TOOL_TOO_LARGE] = { ERR_FILE_TOO_LARGE, "is too large for this operation" },
	[TOOL_TOO_DEEP] = { ERR_TREE_TOO_DEEP, "the tree is too deep" },
	[TOOL_TOO_MANY_WATCHES] = { ERR_TOO_MANY_WATCHES, "has too many directories to watch" },
	[TOOL_ARCHIVE_BAD] = { ERR_ARCHIVE_INVALID, "the archive is malformed" },
	[TOOL_ARCHIVE_ESCAPE] = { ERR_ARCHIVE_ESCAPE, "leaves the directory of the archive" },
	[TOOL_ARCHIVE_LIMIT] = { ERR_ARCHIVE_TOO_LARGE, "the archive exceeds a limit" },
	[TOOL_ARCHIVE_KIND] = { ERR_ARCHIVE_INVALID, "is a device, fifo or socket" },
	[TOOL_INCOMPLETE] = { ERR_INVALID_REQUEST, "the content is incomplete" },
	[TOOL_UNKNOWN_USER] = { ERR_INVALID_REQUEST, "owner: there is no such user or group" },
	[TOOL_ESCAPE] = { ERR_FILE_FORBIDDEN, "leads out of the tree" },
	[TOOL_UNREADABLE] = { ERR_NOT_TEXT, "is not text" },
	[TOOL_NO_MEMORY] = { ERR_OUT_OF_MEMORY, "the sandbox does not have enough free memory" },
	[TOOL_IO] = { ERR_FILE_IO, "the kernel reported an error" },
};
static_assert(ARRAY_LEN(table) == TOOL_ERROR_LAST + 1, "every error has a row");

enum err_code files_error_code(enum tool_error error)
{
	return table[error].code;
}

const char *files_error_text(enum tool_error error)
{
	return table[error].text;
}

/* Appends formatted text; what does not fit is cut off. */
static _printf_(3, 4) void append(char *dst, size_t size, const char *fmt, ...)
{
	size_t n = strlen(dst);
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(dst + n, size - n, fmt, ap);
	va_end(ap);
}

static void append_lines(char *dst, size_t size, const struct tool_failed *failed)
{
	for (size_t i = 0; i < failed->line_count; i++)
		append(dst, size, "%s%llu", i ? ", " : "; first on line ",
		       (unsigned long long)failed->lines[i]);
}

/* Adds the numbers of the failure to its message. */
static void add_figures(char *dst, size_t size, const struct sandbox *sandbox,
			const struct tool_failed *failed)
{
	switch ((int)failed->error) {
	case TOOL_EDIT_MANY:
		append(dst, size, " (%llu matches)", (unsigned long long)failed->count);
		append_lines(dst, size, failed);
		break;
	case TOOL_DISK_FULL:
		/* A separate file system has its own size; a shared one is larger than our part. */
		if (failed->limit && failed->limit >> 20 < sandbox->attrs.disk_size_mb)
			append(dst, size, " on a file system of %llu MiB",
			       (unsigned long long)(failed->limit >> 20));
		else
			append(dst, size, " (disk_size_mb is %u)", sandbox->attrs.disk_size_mb);
		break;
	case TOOL_NO_MEMORY:
		append(dst, size, " (memory_mb is %u)", sandbox->attrs.memory_mb);
		break;
	case TOOL_QUOTA:
	case TOOL_TOO_LARGE:
	case TOOL_ARCHIVE_LIMIT:
		if (failed->limit)
			append(dst, size, " (the limit is %llu)",
			       (unsigned long long)failed->limit);
		break;
	case TOOL_BAD_PATTERN:
		append(dst, size, " at byte %llu", (unsigned long long)failed->count);
		break;
	default:
		break;
	}
	if (failed->done)
		append(dst, size, "; %llu entries were processed before",
		       (unsigned long long)failed->done);
}

int files_error(const struct sandbox *sandbox, const struct tool_failed *failed, struct err *err)
{
	bool about_file = failed->error != TOOL_BAD_PATTERN && failed->path.n;
	struct str path = about_file ? failed->path : (struct str){ "", 0 };
	/* The tool's own message is more precise if the code covers several cases. */
	bool own_words = failed->message.n &&
			 (failed->error == TOOL_INVALID || failed->error == TOOL_BAD_PATTERN ||
			  failed->error == TOOL_UNKNOWN_USER || failed->error == TOOL_NOT_FILE ||
			  failed->error == TOOL_ARCHIVE_BAD ||
			  failed->error == TOOL_ARCHIVE_LIMIT || failed->error == TOOL_IO);
	char figures[160] = "";

	add_figures(figures, sizeof(figures), sandbox, failed);
	(void)err_set(err, files_error_code(failed->error), "%.*s%s%s%s%s%.*s%s",
		      (int)MIN(path.n, PATH_SHOWN), path.p, path.n > PATH_SHOWN ? "..." : "",
		      path.n ? ": " : "", files_error_text(failed->error), own_words ? ": " : "",
		      own_words ? (int)failed->message.n : 0, failed->message.p, figures);
	err->errno_value = (int)failed->errno_value;
	return -1;
}
