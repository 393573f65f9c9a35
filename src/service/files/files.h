/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on the files of a sandbox. Each is one run of the file tool inside, as the user who is
 * asked for: the daemon itself never touches a sandbox's tree. Content flows as far as both ends
 * take it and is never held here; lists and matches are collected up to a limit.
 */
#ifndef CAY_SERVICE_FILES_FILES_H
#define CAY_SERVICE_FILES_FILES_H

#include "service/sandbox/sandbox.h"

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
#define FILES_TIMEOUT_DEFAULT_SEC 30
#define FILES_TIMEOUT_MAX_SEC 600
#define FILES_ANSWER_MAX \
	(16 * 1024 * 1024) /* of collected JSON; what exceeds it is cut and says so */
#define FILES_OPS_PER_SANDBOX 64
#define FILES_MARKS_MAX 4096   /* bytes of all marks of a file */
#define FILES_MARK_KEY_MAX 250 /* "user." stands before it */

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
	struct str known_user;	 /* this user must exist; nothing else */
	struct str marks;	 /* FILES_WRITE: lines "key=value", kept with the file */
	struct str if_match;	 /* an etag, with or without quotes */
	struct str pattern, include, exclude;
	struct str content, content_b64; /* FILES_WRITE without on_ready: all of it */
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
	uint64_t begin, length; /* of what is sent */
	int64_t modified_ms;
	const char *etag; /* without quotes; during the call */
};

struct files_result {
	struct str json; /* the answer, one object; during the call. Empty: there is none */
	bool created;	 /* it was not there before */
	uint64_t failed; /* entries that are not in the archive */
};

/* Views live for the call. Every hook may call files_cancel(). */
struct files_hooks {
	void (*on_ready)(void *arg); /* input may come; the watch is set */
	void (*on_head)(void *arg, const struct files_head *head);
	/* Return them with files_release() when they have been sent. */
	void (*on_data)(void *arg, struct str bytes);
	void (*on_room)(void *arg); /* after files_feed() said 0 */
	void (*on_event)(void *arg, const char *name, struct str json);
	void (*on_end)(void *arg, const struct files_result *result,
		       const struct err *err); /* once, the last */
};

/* The sandbox must be ready: see sandbox_when_ready(). */
int files_start(struct sandbox *sandbox, enum files_op op, const struct files_spec *spec,
		const struct files_hooks *hooks, void *arg, slot_handle *ret,
		struct err *err) _must_check_;
/* 1: more may follow; 0: taken, wait for on_room; -1: failed, its end follows. */
int files_feed(struct service *service, slot_handle run, struct str bytes);
void files_commit(struct service *service, slot_handle run); /* all content was fed */
void files_release(struct service *service, slot_handle run, size_t bytes);
/* For a slow reader of events: nothing more is read from the tool meanwhile. */
void files_pause(struct service *service, slot_handle run, bool paused);
/* The operation is cancelled: what it wrote so far is reverted, and no hook is called again. */
void files_cancel(struct service *service, slot_handle run);

#endif
