/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of the file routes: each row checks and describes one. */
#include "face/rest/files/files.h"

#define STR_ROW(name_, member, min_, max_, doc_)                                                   \
	{                                                                                          \
		.name = (name_), .type = FIELD_STR, .offset = offsetof(struct files_spec, member), \
		.min = (min_), .max = (max_), .doc = (doc_)                                        \
	}
#define MUST_ROW(name_, member, max_, doc_)                                                        \
	{                                                                                          \
		.name = (name_), .type = FIELD_STR, .offset = offsetof(struct files_spec, member), \
		.min = 1, .max = (max_), .required = true, .doc = (doc_)                           \
	}
#define INT_ROW(name_, member, min_, max_, fallback_, doc_)                                        \
	{                                                                                          \
		.name = (name_), .type = FIELD_INT, .offset = offsetof(struct files_spec, member), \
		.min = (min_), .max = (max_), .fallback = (fallback_), .doc = (doc_)               \
	}
#define BOOL_ROW(name_, member, fallback_, doc_)                                        \
	{                                                                               \
		.name = (name_), .type = FIELD_BOOL,                                    \
		.offset = offsetof(struct files_spec, member), .fallback = (fallback_), \
		.doc = (doc_)                                                           \
	}
#define END                       \
	{                         \
		.type = FIELD_END \
	}

#define PATH_ROWS                                                            \
	STR_ROW("path", path, 1, FILES_PATH_MAX,                             \
		"absolute, or relative to the template's workdir"),          \
		STR_ROW("path_b64", path_b64, 1, FILES_PATH_MAX * 4 / 3 + 4, \
			"instead of path, for names that are not UTF-8")
#define USER_ROW                     \
	STR_ROW("user", user, 1, 64, \
		"the user that performs the operation; default: the template's user")
#define OWNER_ROW                      \
	STR_ROW("owner", owner, 1, 64, \
		"the owner of the result; default: the user of the operation")
#define MODE_ROW STR_ROW("mode", mode, 1, 5, "octal; default 0644, or as the replaced file")
#define FSYNC_ROW BOOL_ROW("fsync", fsync, false, "reply only when the data is on disk")
#define PARENTS_ROW BOOL_ROW("parents", parents, true, "create missing parent directories")
#define IF_MATCH_ROW \
	STR_ROW("if_match", if_match, 1, 128, "an etag; 409 conflict if the file has changed")
#define TIMEOUT_ROW                                                                              \
	INT_ROW("timeout_sec", timeout_sec, 1, FILES_TIMEOUT_MAX_SEC, FILES_TIMEOUT_DEFAULT_SEC, \
		"after this time the results so far are returned, marked as truncated")
#define GITIGNORE_ROW BOOL_ROW("gitignore", gitignore, false, "skip what .gitignore files exclude")

/* ---- queries ---- */

const struct field files_raw_query[] = { PATH_ROWS, USER_ROW, END };
const struct field files_put_query[] = { PATH_ROWS, USER_ROW,	 OWNER_ROW,    MODE_ROW,
					 FSYNC_ROW, PARENTS_ROW, IF_MATCH_ROW, END };
const struct field files_list_query[] = { PATH_ROWS,
					  USER_ROW,
					  INT_ROW("depth", depth, 1, FILES_DEPTH_MAX, 1, "levels"),
					  INT_ROW("limit", limit, 1, FILES_LIST_MAX,
						  FILES_LIST_DEFAULT, "entries"),
					  TIMEOUT_ROW,
					  END };
const struct field files_view_query[] = {
	PATH_ROWS, USER_ROW,
	INT_ROW("offset", offset, -FILES_OFFSET_MAX, FILES_OFFSET_MAX, 1,
		"number of the first line; -N: the last N lines"),
	INT_ROW("limit", limit, 1, FILES_LINES_MAX, FILES_LINES_DEFAULT, "lines"), END
};
const struct field files_stat_query[] = {
	PATH_ROWS, USER_ROW, BOOL_ROW("follow", follow, false, "follow a symbolic link"), END
};
const struct field files_watch_query[] = {
	PATH_ROWS, USER_ROW,
	BOOL_ROW("recursive", recursive, false, "include subdirectories, also new ones"), END
};
const struct field files_archive_query[] = { PATH_ROWS,
					     USER_ROW,
					     { .name = "format",
					       .type = FIELD_ENUM,
					       .offset = offsetof(struct files_spec, format),
					       .names = files_format_names },
					     GITIGNORE_ROW,
					     END };
const struct field files_unpack_query[] = {
	PATH_ROWS,
	USER_ROW,
	OWNER_ROW,
	PARENTS_ROW,
	INT_ROW("max_entries", max_entries, 1, FILES_ENTRIES_MAX, FILES_ENTRIES_MAX,
		"more: refused"),
	INT_ROW("max_bytes", max_bytes, 0, INT64_MAX, 0,
		"bytes of content; 0: limited only by the disk"),
	INT_ROW("max_ratio", max_ratio, 1, FILES_RATIO_MAX, FILES_RATIO_DEFAULT,
		"the largest ratio of content to archive; more: refused"),
	END
};

/* ---- bodies ---- */

const struct field files_write_fields[] = {
	PATH_ROWS,
	STR_ROW("content", content, 0, FILES_BODY_LIMIT, "text; or"),
	STR_ROW("content_b64", content_b64, 0, FILES_BODY_LIMIT, "bytes"),
	USER_ROW,
	OWNER_ROW,
	MODE_ROW,
	FSYNC_ROW,
	PARENTS_ROW,
	IF_MATCH_ROW,
	END
};
#define ITEM_ROW(name_, member, min_, max_)                                                        \
	{                                                                                          \
		.name = (name_), .type = FIELD_STR, .offset = offsetof(struct files_item, member), \
		.min = (min_), .max = (max_)                                                       \
	}
const struct field files_item_fields[] = {
	ITEM_ROW("path", path, 1, FILES_PATH_MAX),
	ITEM_ROW("path_b64", path_b64, 1, FILES_PATH_MAX * 4 / 3 + 4),
	ITEM_ROW("content", content, 0, FILES_BATCH_LIMIT),
	ITEM_ROW("content_b64", content_b64, 0, FILES_BATCH_LIMIT),
	ITEM_ROW("mode", mode, 1, 5),
	END
};
const struct field files_batch_fields[] = { { .name = "files",
					      .type = FIELD_LIST,
					      .offset = offsetof(struct files_spec, files),
					      .read = files_items_decode,
					      .max = FILES_BATCH_MAX,
					      .required = true,
					      .fields = files_item_fields },
					    USER_ROW,
					    OWNER_ROW,
					    FSYNC_ROW,
					    PARENTS_ROW,
					    END };
const struct field files_edit_fields[] = {
	PATH_ROWS,
	MUST_ROW("old_string", old_string, FILES_STRING_MAX, "the text to replace, byte for byte"),
	{ .name = "new_string",
	  .type = FIELD_STR,
	  .offset = offsetof(struct files_spec, new_string),
	  .max = FILES_STRING_MAX,
	  .required = true,
	  .doc = "the new text" },
	BOOL_ROW("replace_all", replace_all, false,
		 "replace every match; otherwise there must be exactly one"),
	USER_ROW,
	FSYNC_ROW,
	IF_MATCH_ROW,
	END
};
const struct field files_glob_fields[] = {
	MUST_ROW("pattern", pattern, FILES_PATTERN_MAX,
		 "*, ?, [a-z], **, {a,b}; !pattern excludes"),
	PATH_ROWS,
	USER_ROW,
	INT_ROW("limit", limit, 1, FILES_LIST_MAX, FILES_LIST_DEFAULT, "entries"),
	BOOL_ROW("include_hidden", include_hidden, true, "include names that begin with a dot"),
	GITIGNORE_ROW,
	TIMEOUT_ROW,
	END
};
const struct field files_grep_fields[] = {
	MUST_ROW("pattern", pattern, FILES_PATTERN_MAX, "a regular expression (PCRE2)"),
	PATH_ROWS,
	USER_ROW,
	STR_ROW("include", include, 1, 1024, "only files that match this glob: *.{c,h}"),
	STR_ROW("exclude", exclude, 1, 1024, "skip files that match this glob"),
	INT_ROW("context", context, 0, FILES_CONTEXT_MAX, 0, "lines before and after each match"),
	INT_ROW("max_matches", max_matches, 1, FILES_MATCHES_MAX, FILES_MATCHES_DEFAULT, "lines"),
	INT_ROW("max_bytes", max_bytes, 1, FILES_GREP_BYTES_MAX, FILES_GREP_BYTES_DEFAULT,
		"of text"),
	BOOL_ROW("ignore_case", ignore_case, false, NULL),
	BOOL_ROW("fixed", fixed, false, "the pattern is plain text"),
	GITIGNORE_ROW,
	TIMEOUT_ROW,
	END
};
const struct field files_mkdir_fields[] = {
	PATH_ROWS,   USER_ROW, OWNER_ROW, STR_ROW("mode", mode, 1, 5, "octal; default 0755"),
	PARENTS_ROW, END
};
#define FROM_TO_ROWS                                                                            \
	STR_ROW("from", path, 1, FILES_PATH_MAX, NULL),                                         \
		STR_ROW("from_b64", path_b64, 1, FILES_PATH_MAX * 4 / 3 + 4, NULL),             \
		STR_ROW("to", to, 1, FILES_PATH_MAX, "the new path itself, not its directory"), \
		STR_ROW("to_b64", to_b64, 1, FILES_PATH_MAX * 4 / 3 + 4, NULL),                 \
		BOOL_ROW("overwrite", overwrite, false, "replace an existing file"),            \
		BOOL_ROW("parents", parents, false, "create missing parent directories"), USER_ROW
const struct field files_move_fields[] = { FROM_TO_ROWS, END };
const struct field files_copy_fields[] = { FROM_TO_ROWS,
					   BOOL_ROW("recursive", recursive, true, "trees too"),
					   END };
const struct field files_remove_fields[] = { PATH_ROWS, USER_ROW,
					     BOOL_ROW("recursive", recursive, false,
						      "remove a directory with its content"),
					     BOOL_ROW("missing_ok", missing_ok, false, NULL), END };
const struct field files_chmod_fields[] = { PATH_ROWS, USER_ROW, MUST_ROW("mode", mode, 5, "octal"),
					    BOOL_ROW("recursive", recursive, false, NULL), END };
const struct field files_chown_fields[] = {
	PATH_ROWS,
	STR_ROW("user", owner, 1, 64,
		"the new owner, a name or a number; the change is made as root inside"),
	STR_ROW("group", group, 1, 64, "the new group"),
	BOOL_ROW("recursive", recursive, false, NULL), END
};

/* ---- answers ---- */

static const char *const kind_names[] = { "file",   "directory", "symlink", "fifo",
					  "socket", "device",	 "unknown", NULL };
static const char *const cut_names[] = { "limit", "bytes", "time", "pattern", "depth", NULL };
#define NAME_ANSWER(name_, doc_)                                  \
	{                                                         \
		.name = (name_), .type = FIELD_STR, .doc = (doc_) \
	}
#define INT_ANSWER(name_)                          \
	{                                          \
		.name = (name_), .type = FIELD_INT \
	}
#define B64_ANSWER(name_)                                             \
	{                                                             \
		.name = (name_), .type = FIELD_STR, .optional = true, \
		.doc = "only when the name is not UTF-8"              \
	}
#define CUT_ANSWERS                                                                       \
	{ .name = "truncated", .type = FIELD_BOOL },                                      \
	{                                                                                 \
		.name = "reason", .type = FIELD_ENUM, .names = cut_names, .fallback = -1, \
		.nullable = true, .doc = "why it was truncated"                           \
	}
#define ENTRY_ANSWERS                                                                          \
	NAME_ANSWER("path", "bytes that are not UTF-8 as \\xNN"), B64_ANSWER("path_b64"),      \
		NAME_ANSWER("name", NULL), B64_ANSWER("name_b64"),                             \
		{ .name = "type", .type = FIELD_ENUM, .names = kind_names, .fallback = -1 },   \
		INT_ANSWER("size"), NAME_ANSWER("mode", "octal, 4 digits"), INT_ANSWER("uid"), \
		INT_ANSWER("gid"), { .name = "user", .type = FIELD_STR, .nullable = true },    \
		{ .name = "group", .type = FIELD_STR, .nullable = true },                      \
		{ .name = "modified_at", .type = FIELD_TIME },                                 \
		{ .name = "accessed_at", .type = FIELD_TIME },                                 \
		{ .name = "changed_at", .type = FIELD_TIME },                                  \
		{ .name = "target",                                                            \
		  .type = FIELD_STR,                                                           \
		  .nullable = true,                                                            \
		  .doc = "of a symbolic link" },                                               \
		B64_ANSWER("target_b64"),                                                      \
	{                                                                                      \
		.name = "etag", .type = FIELD_STR, .nullable = true,                           \
		.doc = "of a file; for if_match"                                               \
	}

const struct field files_entry_answer[] = {
	ENTRY_ANSWERS,
	{ .name = "created",
	  .type = FIELD_BOOL,
	  .optional = true,
	  .doc = "in replies to writes and mkdir: it did not exist before" },
	{ .name = "entries",
	  .type = FIELD_INT,
	  .optional = true,
	  .doc = "in replies to copy, chmod and chown: how many files were processed" },
	END
};
static const struct field listed_answer[] = { ENTRY_ANSWERS, END };
const struct field files_list_answer[] = {
	{ .name = "data", .type = FIELD_LIST, .fields = listed_answer },
	CUT_ANSWERS,
	INT_ANSWER("skipped_unreadable"),
	END
};
static const struct field failure_answer[] = { NAME_ANSWER("code", NULL),
					       NAME_ANSWER("message", NULL), END };
static const struct field item_answer[] = {
	NAME_ANSWER("path", NULL),
	B64_ANSWER("path_b64"),
	{ .name = "ok", .type = FIELD_BOOL },
	INT_ANSWER("size"),
	{ .name = "created", .type = FIELD_BOOL },
	{ .name = "error", .type = FIELD_OBJECT, .fields = failure_answer, .nullable = true },
	END
};
const struct field files_batch_answer[] = {
	{ .name = "data", .type = FIELD_LIST, .fields = item_answer }, INT_ANSWER("failed"), END
};
const struct field files_view_answer[] = {
	NAME_ANSWER("path", NULL),
	B64_ANSWER("path_b64"),
	NAME_ANSWER("content",
		    "each line: its number, right-aligned in six columns, a tab, the line"),
	INT_ANSWER("total_lines"),
	INT_ANSWER("total_bytes"),
	INT_ANSWER("offset"),
	INT_ANSWER("lines_returned"),
	{ .name = "truncated", .type = FIELD_BOOL },
	{ .name = "binary", .type = FIELD_BOOL },
	{ .name = "hint", .type = FIELD_STR, .nullable = true },
	END
};
const struct field files_exists_answer[] = { { .name = "exists", .type = FIELD_BOOL },
					     { .name = "type",
					       .type = FIELD_ENUM,
					       .names = kind_names,
					       .fallback = -1,
					       .nullable = true },
					     END };
const struct field files_edit_answer[] = { ENTRY_ANSWERS, INT_ANSWER("replacements"),
					   INT_ANSWER("first_line"), INT_ANSWER("total_lines"),
					   END };
static const struct field match_answer[] = {
	NAME_ANSWER("path", NULL),
	B64_ANSWER("path_b64"),
	INT_ANSWER("line"),
	{ .name = "column", .type = FIELD_INT, .doc = "in bytes, from 1" },
	NAME_ANSWER("text", NULL),
	{ .name = "cut",
	  .type = FIELD_BOOL,
	  .optional = true,
	  .doc = "text is a part of a long line" },
	{ .name = "before", .type = FIELD_STRINGS },
	{ .name = "after", .type = FIELD_STRINGS },
	END
};
const struct field files_grep_answer[] = {
	{ .name = "data", .type = FIELD_LIST, .fields = match_answer },
	INT_ANSWER("matches"),
	INT_ANSWER("files_searched"),
	INT_ANSWER("files_skipped_binary"),
	INT_ANSWER("files_skipped_unreadable"),
	INT_ANSWER("files_skipped_limit"),
	CUT_ANSWERS,
	END
};
const struct field files_event_answer[] = {
	NAME_ANSWER("path", NULL),
	B64_ANSWER("path_b64"),
	{ .name = "type", .type = FIELD_ENUM, .names = kind_names, .fallback = -1 },
	{ .name = "attributes",
	  .type = FIELD_BOOL,
	  .doc = "in the event modified: mode, owner or times changed, not content" },
	NAME_ANSWER("from", "of renamed"),
	NAME_ANSWER("hint", "of overflow"),
	{ .name = "at", .type = FIELD_TIME },
	END
};
static const struct field unpacked_answer[] = { NAME_ANSWER("path", NULL), B64_ANSWER("path_b64"),
						NAME_ANSWER("code", NULL),
						NAME_ANSWER("message", NULL), END };
const struct field files_unpack_answer[] = { { .name = "failed",
					       .type = FIELD_LIST,
					       .fields = unpacked_answer,
					       .doc = "the first 1000" },
					     INT_ANSWER("failed_count"),
					     INT_ANSWER("entries"),
					     INT_ANSWER("bytes"),
					     END };
