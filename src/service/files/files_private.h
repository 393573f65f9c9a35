/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/service/files: one file operation in progress. */
#ifndef CAY_SERVICE_FILES_FILES_PRIVATE_H
#define CAY_SERVICE_FILES_FILES_PRIVATE_H

#include "base/arena.h"
#include "base/buf.h"
#include "engine/tool.h"
#include "service/files/files.h"
#include "service/files/files_internal.h"
#include "service/service_internal.h"

#define FILES_ARGS_MAX 24

/* The command line of the tool. Owner: the run; views stay good until args_done(). */
struct files_args {
	struct arena arena;
	const char *argv[FILES_ARGS_MAX + 1];
	size_t count;
	const char *cwd, *user;
	struct str path; /* as requested; relative paths in results are joined to it */
	bool input;
};
int files_args_build(struct files_args *args, const struct sandbox *sandbox, enum files_op op,
		     const struct files_spec *spec, struct err *err) _must_check_;
/* Replaces the value of "key=...". */
int files_args_replace(struct files_args *args, const char *key, uint64_t value) _must_check_;
void files_args_done(struct files_args *args);
/* Decodes into the arena, or takes the text as it is. */
int files_bytes(struct arena *arena, const char *what, struct str text, struct str b64,
		struct str *ret, struct err *err) _must_check_;
int files_check_limits(enum files_op op, const struct files_spec *spec,
		       struct err *err) _must_check_;
int files_check_path(const char *what, struct str path, struct err *err) _must_check_;
int files_mode(const char *what, struct str text, uint32_t *ret, struct err *err) _must_check_;

int files_no_memory(struct err *err);

/* input.c: the complete input of an operation whose spec contains it. */
int files_input_write(struct buf *frames, const struct files_spec *spec,
		      struct err *err) _must_check_;
int files_input_edit(struct buf *frames, const struct files_spec *spec,
		     struct err *err) _must_check_;
int files_input_batch(struct buf *frames, struct arena *arena, const struct files_item *items,
		      size_t count, struct err *err) _must_check_;

/* State of grep's output: the last match, to which lines of context after it belong. */
struct files_grep {
	bool open;
	uint64_t context;
	uint64_t line;	    /* of that match */
	struct buf path;    /* of the last line */
	struct buf *before; /* ring of the last lines, which may be context of the next match */
	uint64_t *before_lines;
	size_t before_count;
};

/* entry.c: an entry as callers get it. */
struct files_entry_held {
	struct files_entry entry;
	char etag[TOOL_TOKEN_SIZE];
	struct buf text; /* copies of the texts, if the entry outlives its frame */
};
/* The entry refers to the texts of the arguments; they are not copied. */
void files_entry_fill(struct files_entry_held *ret, const struct tool_entry *from,
		      const struct tool_detail *detail, struct str path);
/* Copies the texts. -errno: they do not fit. */
int files_entry_keep(struct files_entry_held *held) _must_check_;
enum files_kind files_kind(enum tool_kind kind);
struct str files_join(struct buf *scratch, struct str base, struct str path);

/* relay.c: converts the tool's frames to values for the hooks. Owner: the run. */
struct files_relay {
	const struct files_hooks *hooks;
	void *arg;
	struct buf text;     /* FILES_VIEW: the numbered lines */
	struct buf join;     /* scratch */
	struct buf from;     /* likewise */
	struct buf veil;     /* likewise: a line without its secrets */
	struct scrub *scrub; /* NULL: there are none */
	struct files_grep grep;
	struct str path;
	struct tool_detail detail; /* of the next entry; its texts are in detail_text */
	struct buf detail_text;
	struct files_entry_held held; /* of operations on one path */
	bool has_entry;
	uint64_t failed_told;
};
void files_relay_init(struct files_relay *relay, enum files_op op, const struct files_spec *spec,
		      struct str path);
void files_relay_done(struct files_relay *relay);
/*
 * Returns 0; 1 if a hook returned false; -EPROTO if the frame is not valid for the operation. A
 * hook may have ended the run and freed the relay, so the caller looks the run up again.
 */
int files_relay_add(struct files_relay *relay, enum files_op op,
		    const struct tool_said *said) _must_check_;
/* -EPROTO: something is missing. The views of the result are good until files_relay_done(). */
int files_relay_end(struct files_relay *relay, enum files_op op, const struct tool_end *end,
		    struct files_result *ret) _must_check_;

/* error.c */
int files_error(const struct sandbox *sandbox, const struct tool_failed *failed, struct err *err);
enum err_code files_error_code(enum tool_error error);
const char *files_error_text(enum tool_error error);

/* Owner: the service's table until its end; without a service it only frees itself. */
struct files_run {
	struct service *service;
	slot_handle handle;
	slot_handle sandbox;
	enum files_op op;
	struct files_hooks hooks;
	void *arg;
	struct tool_run *tool;
	struct files_args args;
	struct files_relay relay;
	int64_t stall_ms;	/* 0: never counts as stalled */
	int64_t lines_from_end; /* FILES_VIEW: the first run only counts lines */
	uint64_t lines_limit;
	bool has_head;		 /* FILES_READ, FILES_STAT: on_head was called */
	struct files_spec range; /* FILES_READ: range_... only */
};

#define FILE_RUNS_MAX 65536

/* The state of the theme. Owner: the service. */
struct file_runs {
	struct slot_table table;
};

#endif
