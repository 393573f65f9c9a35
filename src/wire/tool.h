/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between the daemon and cay-tools, which runs once per file operation inside a
 * sandbox.
 *
 * The operation is passed as argv: "cay-tools" OP "key=value"... (bytes, no NUL). Standard output
 * is a stream of frames of wire/frame.h (process id 0) that ends with exactly one END or FAILED;
 * without it the run was interrupted. Standard input, for operations that need any, is a stream of
 * the same frames that ends with COMMIT. An end of file before COMMIT is an interrupted upload and
 * changes nothing.
 *
 * Root inside can change what its tool sends. The daemon's decoders therefore check every length,
 * count, range and NUL and return -EPROTO. Names and texts stay bytes and are not trusted.
 *
 *   operation    in                      out
 *   stat         -                       ENTRY END
 *   exists       -                       [ENTRY] END; entries is 0 or 1
 *   list         -                       ENTRY... END; path is relative to the directory
 *   glob         -                       ENTRY... END
 *   grep         -                       MATCH... END; a GAP flag stands for grep's "--"
 *   read-raw     -                       ENTRY DATA... END; FAILED BAD_RANGE after ENTRY: HTTP 416
 *   read-view    -                       ENTRY LINE... END; BINARY in END: no LINE was sent
 *   write-raw    DATA... COMMIT          READY ENTRY END; send input after READY
 *   batch-write  (FILE DATA...)... COMMIT  READY ITEM... END
 *   edit         OLD... NEW... COMMIT    ENTRY END; matches: number of replacements
 *   mkdir, chmod, chown, move, copy, remove: -   [PROGRESS...] [ENTRY] END
 *   watch        -                       READY EVENT... [END]; until stdin (a pipe) ends, or GONE
 *   archive-out  -                       READY (DATA | PROGRESS)... ITEM... END
 *   archive-in   DATA... COMMIT          READY (ITEM | PROGRESS)... END
 *
 * FAILED instead of END: nothing was changed except the entries that its counter "done" counts,
 * which were completed before the failure and stay.
 */
/*
 * Keys. Every operation accepts path= (required), base= (the directory that relative paths start
 * from; default: the tool's cwd) and root= (a directory that is used as "/" and never left;
 * default "/"). Numbers are decimal, booleans 0 or 1, mode= is octal, owner= a name or id.
 *
 *   any          known_user= (fails like owner= if there is no such user)
 *   stat exists  follow=0, details=0
 *   list         depth=1 (0: all levels), max_entries=10000, time_ms, details=0
 *   glob         pattern=, max_entries=10000, gitignore=0, time_ms
 *   grep         pattern=, include= (repeatable; "!x" excludes), before=0, after=0, ignore_case=0,
 *                fixed=0, gitignore=0, max_matches=1000, max_bytes=1048576 (of text sent), time_ms
 *   read-raw     offset=0, length= (default: to the end), suffix= (the last N bytes instead)
 *   read-view    offset=1 (line), limit=50 (1 to 2000), max_bytes=1048576 (of text sent)
 *   write-raw    mode=, owner=, parents=1, fsync=0, exclusive=0, if_unchanged=, marks= (lines of
 *                "key=value": extended attributes user.KEY)
 *   batch-write  owner=, parents=1, fsync=0; relative paths in FILE start at path=
 *   edit         replace_all=0, if_unchanged=, fsync=0
 *   mkdir        mode=, owner=, parents=1, exist_ok=1, details=0
 *   move         to=, overwrite=0, parents=0, owner= (of created parents), details=0
 *   copy         to=, overwrite=0, parents=0, recursive=0
 *   remove       recursive=0, missing_ok=0
 *   chmod        mode=, recursive=0
 *   chown        owner=, group=, recursive=0
 *   watch        recursive=0, max_watches=8192
 *   archive-out  format=tar|tar.zst|zip, level=3 (zstd), gitignore=0
 *   archive-in   owner=, max_entries=1000000, max_bytes=0 (0: no limit), max_ratio=200, parents=1
 *
 * details=1: an ENTRY that has details is preceded by a DETAIL.
 * time_ms is 10000 by default; when it is over, END has the results so far and CUT_TIME.
 */
#ifndef CAY_WIRE_TOOL_H
#define CAY_WIRE_TOOL_H

#include "wire/frame.h"

#define TOOL_PAYLOAD_MAX ((1U << 18) + 64) /* in either direction */
#define TOOL_DATA_MAX (1U << 18)	   /* bytes per DATA, OLD or NEW */
/* of a path in a frame; deeper trees are cut off there */
#define TOOL_PATH_MAX 32768
#define TOOL_TEXT_MAX 8192   /* of LINE and MATCH */
#define TOOL_NAME_MAX 64     /* of a user or group */
#define TOOL_TARGET_MAX 4095 /* of a symbolic link */
#define TOOL_MARKS_MAX 8192  /* of DETAIL; further marks are omitted */
#define TOOL_MESSAGE_MAX 200
#define TOOL_LINES_MAX 10 /* line numbers in FAILED */

enum tool_type {
	/* tool to daemon */
	TOOL_ENTRY = 1,
	TOOL_DATA = 2, /* either direction; not empty */
	TOOL_LINE = 3,
	TOOL_MATCH = 4,
	TOOL_EVENT = 5,
	TOOL_ITEM = 6,
	TOOL_PROGRESS = 7,
	TOOL_READY = 8, /* input may be sent; watch: no later change is missed */
	TOOL_FAILED = 9,
	TOOL_END = 10,
	TOOL_DETAIL = 11, /* about the ENTRY that follows */

	/* daemon to tool */
	TOOL_FILE = 64,	  /* batch-write: the DATA that follows is this file's */
	TOOL_OLD = 65,	  /* edit: a piece of old_string; not empty */
	TOOL_NEW = 66,	  /* edit: a piece of new_string; not empty */
	TOOL_COMMIT = 67, /* all input was sent */
};

enum tool_kind {
	TOOL_KIND_FILE = 1,
	TOOL_KIND_DIRECTORY = 2,
	TOOL_KIND_SYMLINK = 3,
	TOOL_KIND_FIFO = 4,
	TOOL_KIND_SOCKET = 5,
	TOOL_KIND_CHAR_DEVICE = 6,
	TOOL_KIND_BLOCK_DEVICE = 7,
	TOOL_KIND_UNKNOWN = 8, /* it disappeared or cannot be inspected */
	TOOL_KIND_LAST = TOOL_KIND_UNKNOWN,
};

/* Why an operation failed; the daemon maps each to an API error. */
enum tool_error {
	TOOL_OK = 0,	  /* in ITEM only */
	TOOL_INVALID = 1, /* invalid argument; message names the key */
	TOOL_NOT_FOUND = 2,
	TOOL_IS_DIRECTORY = 3,
	TOOL_NOT_DIRECTORY = 4,
	TOOL_NOT_FILE = 5, /* fifo, socket, device */
	TOOL_EXISTS = 6,
	TOOL_NOT_EMPTY = 7,
	TOOL_FORBIDDEN = 8,
	TOOL_READ_ONLY = 9,
	TOOL_DISK_FULL = 10, /* limit: size of the file system */
	TOOL_QUOTA = 11,     /* inodes, disk quota or file size limit; limit: 0 or the limit */
	TOOL_NAME_TOO_LONG = 12,
	TOOL_LOOP = 13, /* too many symbolic links */
	TOOL_BUSY = 14,
	TOOL_CHANGED = 15, /* the file changed or disappeared during the operation; if_unchanged */
	TOOL_BAD_RANGE = 16,
	TOOL_BAD_PATTERN = 17, /* message gives the reason, count the offset */
	TOOL_EDIT_NO_MATCH = 18,
	TOOL_EDIT_MANY = 19, /* count, lines */
	TOOL_TOO_LARGE = 20, /* limit */
	TOOL_TOO_DEEP = 21,
	TOOL_TOO_MANY_WATCHES = 22,
	TOOL_ARCHIVE_BAD = 23,
	TOOL_ARCHIVE_ESCAPE = 24, /* an entry or link that leads outside the directory */
	TOOL_ARCHIVE_LIMIT = 25,  /* entries, bytes or ratio; limit */
	TOOL_ARCHIVE_KIND = 26,	  /* a device, fifo or socket in an archive */
	TOOL_INCOMPLETE = 27,	  /* input ended without COMMIT */
	TOOL_UNKNOWN_USER = 28,
	TOOL_ESCAPE = 29,     /* a path that leads outside root= */
	TOOL_UNREADABLE = 30, /* binary where text is needed */
	TOOL_NO_MEMORY = 31,
	TOOL_IO = 32, /* any other kernel error: errno_value */
	TOOL_ERROR_LAST = TOOL_IO,
};

/* An entry of the tree. Strings are views into the frame without NUL. */
struct tool_entry {
	enum tool_kind kind;
	uint32_t mode; /* permission bits, 07777 */
	uint32_t uid, gid;
	uint32_t links;
	uint32_t depth; /* list, glob: levels below path */
	uint64_t size;	/* for a directory, the kernel's value */
	uint64_t disk_bytes;
	uint64_t device, inode;
	int64_t mtime_ns, ctime_ns, atime_ns;
	bool target_is_directory; /* a symbolic link to a directory */
	struct str path;	  /* 1 to TOOL_PATH_MAX */
	struct str user, group;	  /* empty: the id has no name inside */
	struct str target;	  /* of a symbolic link */
};

/* Where a link leads, and the marks on a file. */
struct tool_detail {
	unsigned kind;	   /* enum tool_kind of the target; 0: not a link, or dangling */
	uint32_t mode;	   /* of the target */
	struct str target; /* its path without links; empty: unknown */
	struct str marks;  /* lines "key=value\n", printable */
};

/* A line of read-view. */
enum {
	TOOL_LINE_CUT = 1,  /* only the start of the line */
	TOOL_LINE_CR = 2,   /* ended by CR LF, which the text does not include */
	TOOL_LINE_OPEN = 4, /* the last line, without a line end */
	TOOL_LINE_FLAGS = 7
};
struct tool_line {
	uint64_t number; /* from 1 */
	uint64_t bytes;	 /* of the whole line without its end */
	uint8_t flags;
	struct str text; /* at most TOOL_TEXT_MAX */
};

/* A line of grep. */
enum {
	TOOL_MATCH_CONTEXT = 1, /* not a match but a line near one */
	TOOL_MATCH_CUT = 2,	/* text is a part of the line, starting at byte start */
	TOOL_MATCH_GAP = 4,	/* with context: lines were omitted before this one */
	TOOL_MATCH_FLAGS = 7
};
struct tool_match {
	uint8_t flags;
	uint64_t line;	 /* from 1 */
	uint64_t start;	 /* offset in the line of the first byte of text, from 0 */
	uint32_t column; /* column of the match in text, from 1; 0 with CONTEXT */
	uint32_t length; /* length of the match in text */
	struct str path; /* relative to the directory; empty: path= is this file */
	struct str text; /* at most TOOL_TEXT_MAX; no line end */
};

enum tool_change {
	TOOL_CREATED = 1,
	TOOL_MODIFIED = 2, /* content, or attributes with ATTRIBUTES */
	TOOL_DELETED = 3,
	TOOL_RENAMED = 4,  /* from -> path, both inside */
	TOOL_OVERFLOW = 5, /* events were lost: inspect the tree again */
	TOOL_GONE =
		6, /* the watched path itself was deleted, moved away or unmounted; END follows */
	TOOL_CHANGE_LAST = TOOL_GONE,
};
struct tool_event {
	enum tool_change change;
	enum tool_kind kind; /* UNKNOWN if it can no longer be determined */
	bool attributes;
	uint64_t at_ns; /* wall clock */
	/* relative to the watched path; empty: the path itself, and for OVERFLOW */
	struct str path;
	struct str from; /* RENAMED */
};

/* The result of one entry of a batch or archive. Archives report only failures. */
struct tool_item {
	enum tool_error error;
	uint32_t errno_value;
	uint64_t index; /* from 0, in the order of the input */
	uint64_t bytes;
	bool created; /* did not exist before */
	struct str path;
};

struct tool_progress {
	uint64_t entries;
	uint64_t bytes;	      /* of files */
	uint64_t total_bytes; /* 0: unknown */
};

struct tool_failed {
	enum tool_error error; /* not OK */
	uint32_t errno_value;
	uint64_t limit;
	uint64_t count;
	uint64_t done; /* entries completed (and kept) before it */
	uint8_t line_count;
	uint64_t lines[TOOL_LINES_MAX];
	struct str path;    /* the path concerned; may be empty */
	struct str message; /* printable ASCII; may be empty */
};

/* Why a result is incomplete. */
enum tool_cut {
	TOOL_CUT_NONE = 0,
	TOOL_CUT_COUNT = 1, /* max_matches, max_entries, limit */
	TOOL_CUT_BYTES = 2,
	TOOL_CUT_TIME = 3,
	TOOL_CUT_LAST = TOOL_CUT_TIME,
};
enum {
	TOOL_END_BINARY = 1,	   /* read-view: not text */
	TOOL_END_CREATED = 2,	   /* write, mkdir, copy: the target did not exist before */
	TOOL_END_REPLACED = 4,	   /* move, copy: an existing entry was replaced */
	TOOL_END_NO_FINAL_EOL = 8, /* read-view, edit */
	TOOL_END_CRLF = 16,	   /* read-view, edit: most lines end with CR LF */
	TOOL_END_FLAGS = 31,
};
struct tool_end {
	enum tool_cut cut;
	uint8_t flags;
	uint64_t entries;		   /* sent, written, removed, copied, ... */
	uint64_t bytes;			   /* bytes of file content transferred */
	uint64_t matches;		   /* lines of grep, replacements of edit */
	uint64_t files;			   /* grep: searched */
	uint64_t failed;		   /* batch, archives: entries with an error */
	uint64_t total_lines, total_bytes; /* read-view, edit */
	uint64_t offset;		   /* read-view: number of the first line sent */
	uint64_t first_line;		   /* edit: of the first replacement */
	uint64_t skipped_binary, skipped_unreadable, skipped_special, skipped_deep, skipped_limit;
	uint64_t duration_us;
};

/* batch-write: one file. */
struct tool_file {
	uint32_t mode;	 /* permission bits, or TOOL_MODE_DEFAULT */
	struct str path; /* 1 to TOOL_PATH_MAX */
};
#define TOOL_MODE_DEFAULT UINT32_MAX

/* Encoders: 0, -EINVAL, -EMSGSIZE, -ENOBUFS. Types without a struct carry bytes or nothing. */
int tool_put_entry(struct buf *out, const struct tool_entry *entry) _must_check_;
int tool_put_line(struct buf *out, const struct tool_line *line) _must_check_;
int tool_put_match(struct buf *out, const struct tool_match *match) _must_check_;
int tool_put_event(struct buf *out, const struct tool_event *event) _must_check_;
int tool_put_item(struct buf *out, const struct tool_item *item) _must_check_;
int tool_put_detail(struct buf *out, const struct tool_detail *detail) _must_check_;
int tool_put_progress(struct buf *out, const struct tool_progress *progress) _must_check_;
int tool_put_failed(struct buf *out, const struct tool_failed *failed) _must_check_;
int tool_put_end(struct buf *out, const struct tool_end *end) _must_check_;
int tool_put_file(struct buf *out, const struct tool_file *file) _must_check_;
/* DATA, OLD, NEW: 1 to TOOL_DATA_MAX bytes. READY, COMMIT: none. */
int tool_put_bytes(struct buf *out, enum tool_type type, struct str bytes) _must_check_;

/* Decoders: 0 or -EPROTO. */
int tool_get_entry(const struct frame *frame, struct tool_entry *ret) _must_check_;
int tool_get_line(const struct frame *frame, struct tool_line *ret) _must_check_;
int tool_get_match(const struct frame *frame, struct tool_match *ret) _must_check_;
int tool_get_event(const struct frame *frame, struct tool_event *ret) _must_check_;
int tool_get_item(const struct frame *frame, struct tool_item *ret) _must_check_;
int tool_get_detail(const struct frame *frame, struct tool_detail *ret) _must_check_;
int tool_get_progress(const struct frame *frame, struct tool_progress *ret) _must_check_;
int tool_get_failed(const struct frame *frame, struct tool_failed *ret) _must_check_;
int tool_get_end(const struct frame *frame, struct tool_end *ret) _must_check_;
int tool_get_file(const struct frame *frame, struct tool_file *ret) _must_check_;
int tool_get_bytes(const struct frame *frame, enum tool_type type, struct str *ret) _must_check_;

/*
 * if_unchanged=TOKEN of write-raw and edit: identifies the version of a file that a client has
 * seen, from its ENTRY, as "DEVICE-INODE-SIZE-MTIME_NS-CTIME_NS" in hex. "absent" means that no
 * file exists.
 */
#define TOOL_TOKEN_SIZE 96
void tool_token(char dst[TOOL_TOKEN_SIZE], const struct tool_entry *entry);

#endif
