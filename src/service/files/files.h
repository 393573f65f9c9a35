/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on the files of a sandbox. Each is one run of the file tool inside the sandbox, as the
 * requested user; the daemon itself never accesses a sandbox's tree. Content is streamed with
 * back-pressure and never stored here. Entries and matches are passed on one by one, so the caller
 * limits what it keeps. Called by faces; the service owns a run until its last hook was called.
 */
#ifndef CAY_SERVICE_FILES_FILES_H
#define CAY_SERVICE_FILES_FILES_H

#include "service/sandbox/sandbox.h"
#include "service/texts.h"

#define FILES_PATH_MAX 32768 /* bytes; a name in it has at most 255 */
#define FILES_PATTERN_MAX 8192
#define FILES_STRING_MAX (4 * 1024 * 1024) /* old_string, new_string */
#define FILES_BATCH_MAX 1000
#define FILES_LINES_DEFAULT 50
#define FILES_LINES_MAX 2000
#define FILES_LIST_DEFAULT 1000
#define FILES_LIST_MAX 10000
#define FILES_DEPTH_MAX 16
#define FILES_MATCHES_DEFAULT 200
#define FILES_MATCHES_MAX 10000
#define FILES_CONTEXT_MAX 20
#define FILES_GREP_BYTES_DEFAULT (1024 * 1024)
#define FILES_GREP_BYTES_MAX (8 * 1024 * 1024)
#define FILES_ENTRIES_MAX 1000000 /* of an archive */
#define FILES_RATIO_DEFAULT 200	  /* unpacked size to archive size */
#define FILES_RATIO_MAX 1000000
#define FILES_OFFSET_MAX INT64_C(1000000000000) /* lines, from either end */
#define FILES_TIMEOUT_DEFAULT_SEC 30
#define FILES_TIMEOUT_MAX_SEC 600
#define FILES_OPS_PER_SANDBOX 64
#define FILES_MARKS_MAX 4096   /* bytes of all marks of a file */
#define FILES_MARK_KEY_MAX 250 /* the attribute name also has the prefix "user." */

enum files_op {
	FILES_STAT,
	FILES_EXISTS,
	FILES_LIST,
	FILES_GLOB,
	FILES_GREP,
	FILES_READ,
	FILES_VIEW,
	FILES_WRITE,
	FILES_BATCH,
	FILES_EDIT,
	FILES_MKDIR,
	FILES_MOVE,
	FILES_COPY,
	FILES_REMOVE,
	FILES_CHMOD,
	FILES_CHOWN,
	FILES_WATCH,
	FILES_ARCHIVE_OUT,
	FILES_ARCHIVE_IN,
	FILES_OP_COUNT,
};

enum files_format { FILES_TAR_ZST, FILES_TAR, FILES_ZIP, FILES_FORMAT_COUNT };
extern const char *const files_format_names[]; /* NULL-terminated */

/* One file of a batch. */
struct files_item {
	struct str path, path_b64, content, content_b64, mode;
};
struct files_items {
	const struct files_item *list;
	size_t count;
};

/* The parameters; which of them are used depends on the operation. Views live during the call. */
struct files_spec {
	struct str path, path_b64; /* at most one; neither: the working directory, where allowed */
	struct str to, to_b64;
	struct str user;	 /* acting user; empty: the template's user */
	struct str owner, group; /* owner of the result */
	struct str mode;	 /* octal */
	struct str known_user;	 /* only check that this user exists */
	struct str marks;	 /* FILES_WRITE: lines "key=value", kept with the file */
	struct str if_match;	 /* an etag, with or without quotes */
	struct str pattern, include, exclude;
	struct str content, content_b64; /* FILES_WRITE without on_ready: the whole content */
	struct str old_string, new_string;
	struct files_items files; /* FILES_BATCH */
	int64_t depth, limit, offset;
	int64_t context, max_matches, max_bytes, timeout_sec;
	int64_t max_entries, max_ratio;
	int64_t range_begin, range_length, range_suffix; /* FILES_READ; see has_... */
	int format;					 /* enum files_format */
	bool has_range, has_length, has_suffix;
	bool follow, recursive, overwrite, missing_ok;
	bool parents, fsync, exclusive;
	bool ignore_case, fixed, gitignore, include_hidden, replace_all;
	bool details; /* with entries: targets of links, marks */
};

/* The result of FILES_READ and FILES_STAT. */
struct files_head {
	bool is_file;
	uint64_t size;
	uint64_t begin, length; /* of the part that is sent */
	int64_t modified_ms;
	const char *etag; /* without quotes; during the call */
};

enum files_kind {
	FILES_KIND_UNKNOWN,
	FILES_KIND_FILE,
	FILES_KIND_DIRECTORY,
	FILES_KIND_SYMLINK,
	FILES_KIND_FIFO,
	FILES_KIND_SOCKET,
	FILES_KIND_DEVICE,
};

/* One entry of a tree. Its texts come from the sandbox; names are bytes, not always UTF-8. */
struct files_entry {
	enum files_kind kind;
	uint32_t mode; /* permission bits, 07777 */
	uint32_t uid, gid;
	uint64_t size;
	int64_t modified_ms, accessed_ms, changed_ms;
	struct str path;
	struct str name;	/* last component of the path */
	struct str user, group; /* empty: the id has no name inside */
	struct str target;	/* of a symbolic link */
	const char *etag;	/* of a file, without quotes; NULL otherwise */
	/* With details: what a link leads to (path empty: unknown), and the marks of the file. */
	struct {
		enum files_kind kind;
		uint32_t mode;
		struct str path;
	} behind;
	struct str marks; /* lines "key=value"; see files_mark_next() */
};
/* Takes the first mark from *marks; false: there is none left. */
bool files_mark_next(struct str *marks, struct str *ret_key, struct str *ret_value);

/* A line that grep found. */
struct files_match {
	struct str path;
	uint64_t line;	 /* from 1 */
	uint64_t column; /* in bytes, from 1 */
	struct str text;
	bool cut; /* text is a part of the line */
	struct text_list before;
};

/* The result for one entry of a batch or an archive. */
struct files_outcome {
	struct str path;
	uint64_t bytes;
	bool failed, created;
	enum err_code code; /* if failed; err has a message about the path */
	const char *message;
};

enum files_change {
	FILES_CREATED,
	FILES_MODIFIED, /* content, or attributes */
	FILES_DELETED,
	FILES_RENAMED,	/* from -> path */
	FILES_OVERFLOW, /* events were lost */
	FILES_GONE,	/* the watched path itself; the watch ends */
};
struct files_event {
	enum files_change change;
	enum files_kind kind; /* UNKNOWN if the entry no longer exists */
	bool attributes;      /* FILES_MODIFIED: mode, owner or times, not content */
	int64_t at_ms;
	struct str path;
	struct str from; /* FILES_RENAMED */
};

/* Why a result is not complete. */
enum files_cut {
	FILES_CUT_NONE,
	FILES_CUT_LIMIT,   /* limit, max_matches */
	FILES_CUT_BYTES,   /* max_bytes, or a hook returned false */
	FILES_CUT_TIME,	   /* timeout_sec */
	FILES_CUT_PATTERN, /* matching one of the files took too long */
	FILES_CUT_DEPTH,   /* some directories are too deep */
};

/* The result of an operation, which determines the fields that are set. Views live for the call. */
struct files_result {
	const struct files_entry *entry; /* of operations on one path; NULL: not known */
	struct str path;		 /* as requested */
	struct str text;		 /* FILES_VIEW: the numbered lines */
	enum files_cut cut;
	bool created; /* the file did not exist before */
	bool binary;  /* FILES_VIEW: the file is not text */
	uint64_t entries, bytes;
	uint64_t matches; /* lines of grep, replacements of edit */
	uint64_t files;	  /* FILES_GREP: searched */
	uint64_t failed;  /* batches, archives: number of failed entries */
	uint64_t total_lines, total_bytes;
	uint64_t offset;     /* FILES_VIEW: number of the first line */
	uint64_t first_line; /* FILES_EDIT: of the first replacement */
	uint64_t skipped_binary, skipped_unreadable, skipped_limit;
};

/* Views live for the call. Every hook may call files_cancel(). Hooks that are not needed are NULL.
 */
struct files_hooks {
	void (*on_ready)(void *arg); /* input is accepted, or the watch is active */
	void (*on_head)(void *arg, const struct files_head *head);
	/* Return them with files_release() when they have been sent. */
	void (*on_data)(void *arg, struct str bytes);
	void (*on_room)(void *arg); /* after files_feed() returned 0 */
	/* A hook that returns false stops the operation; the result then has FILES_CUT_BYTES. */
	bool (*on_entry)(void *arg, const struct files_entry *entry); /* FILES_LIST, FILES_GLOB */
	bool (*on_match)(void *arg, const struct files_match *match);
	bool (*on_after)(void *arg, struct str line); /* a line of context after the last match */
	bool (*on_outcome)(void *arg, const struct files_outcome *outcome);
	void (*on_event)(void *arg, const struct files_event *event);
	void (*on_end)(void *arg, const struct files_result *result,
		       const struct err *err); /* exactly once, as the last hook */
};

/* The sandbox must be ready: see sandbox_when_ready(). */
int files_start(struct sandbox *sandbox, enum files_op op, const struct files_spec *spec,
		const struct files_hooks *hooks, void *arg, slot_handle *ret,
		struct err *err) _must_check_;
/* 1: more may follow; 0: accepted, wait for on_room before the next; -1: failed, on_end follows. */
int files_feed(struct service *service, slot_handle run, struct str bytes);
void files_commit(struct service *service, slot_handle run); /* the content is complete */
void files_release(struct service *service, slot_handle run, size_t bytes);
/* For a slow reader of events: nothing more is read from the tool meanwhile. */
void files_pause(struct service *service, slot_handle run, bool paused);
/* The operation is cancelled: what it wrote so far is reverted, and no hook is called again. */
void files_cancel(struct service *service, slot_handle run);

#endif
