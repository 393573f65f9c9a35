/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of cay-tools is one operation on the files of a sandbox, as the user that the request
 * names. All communication goes through struct op: frames out, frames in, and the failure.
 */
#ifndef CAY_TOOLS_OP_H
#define CAY_TOOLS_OP_H

#include <sys/types.h>

#include "tools/path.h"
#include "wire/tool.h"

/* Owner: main(). One per process. */
struct op {
	int argc;
	char **argv;	 /* "key=value" */
	uint64_t used;	 /* bit i: argv[i] was read */
	struct buf out;	 /* frames not yet written */
	struct buf in;	 /* bytes read and not yet decoded */
	size_t in_frame; /* size of the frame returned last, still at the front of in */
	struct place place;
	int64_t start_us;
	int64_t deadline_us; /* 0: none */
	struct tool_end end;
	struct tool_failed failed; /* error 0: none yet */
	char failed_path[TOOL_PATH_MAX];
	char failed_message[TOOL_MESSAGE_MAX + 1];
	bool keeps_going; /* do not exit when the reader is gone, but clean up first */
	bool reader_lost;
	bool details; /* key details= */
};

#define OP_ARGS_MAX 64

/* Arguments. A missing key yields the default; an invalid value fails the operation (-1). */
const char *op_text(struct op *op, const char *key); /* NULL: not given */
int op_needed(struct op *op, const char *key, struct str *ret) _must_check_;
/* The i-th value of a key that may be repeated; NULL: end. */
const char *op_nth(struct op *op, const char *key, size_t i);
int op_number(struct op *op, const char *key, uint64_t preset, uint64_t min, uint64_t max,
	      uint64_t *ret) _must_check_;
int op_flag(struct op *op, const char *key, bool preset, bool *ret) _must_check_;
int op_mode(struct op *op, const char *key, uint32_t preset, uint32_t *ret) _must_check_;
int op_time(struct op *op) _must_check_; /* time_ms: sets the deadline */
/* Call after all keys were read: an unread key is an error. */
int op_args_end(struct op *op) _must_check_;

/* Failures: all return -1; the first failure is reported. */
int op_fail(struct op *op, enum tool_error error, struct str path, const char *fmt, ...)
	_printf_(4, 5);
int op_fail_errno(struct op *op, int error, struct str path);
/*
 * The same with the size of the file system, if the error is that it is full. fd: any descriptor on
 * it.
 */
int op_fail_disk(struct op *op, int error, struct str path, int fd);
static inline bool op_failed(const struct op *op)
{
	return op->failed.error != TOOL_OK;
}

enum tool_error op_error_of(int error); /* error: positive errno */

/* Output. The process exits if its reader is gone, unless keeps_going. */
/* With details of name in dir_fd, if they were requested. */
void op_put_found(struct op *op, const struct tool_entry *entry, int dir_fd, const char *name);
void op_put_entry(struct op *op, const struct tool_entry *entry);
void op_put_line(struct op *op, const struct tool_line *line);
void op_put_match(struct op *op, const struct tool_match *match);
void op_put_event(struct op *op, const struct tool_event *event);
void op_put_item(struct op *op, const struct tool_item *item);
void op_put_progress(struct op *op, const struct tool_progress *progress);
void op_put_ready(struct op *op); /* and flushes */
void op_put_data(struct op *op, struct str bytes);
/* Space for one DATA frame of up to TOOL_DATA_MAX bytes; commit sends the first n. */
char *op_data_room(struct op *op);
void op_data_commit(struct op *op, size_t n);
void op_flush(struct op *op);

/* 1: *ret is the next frame, valid until the next call; 0: end of input; -errno. */
int op_next(struct op *op, struct frame *ret) _must_check_;
/* The next piece of DATA: 1, 0 at COMMIT, -1 failed (also if the input ended without COMMIT). */
int op_next_data(struct op *op, struct str *ret) _must_check_;

/*
 * Moves the next piece of DATA directly from the pipe to a file: 1, *ret bytes were moved. -EINVAL:
 * not possible, use op_next_data(). -ENODATA: the input ended without COMMIT. Or -errno of either
 * side.
 */
int op_move_data(struct op *op, int fd, size_t *ret) _must_check_;

bool op_late(const struct op *op); /* the deadline has passed */
bool op_stopped(void);		   /* the daemon requested the end */
void op_on_stop(void);		   /* from now on SIGTERM only sets that */

/* The operations: 0 with op->end filled, or -1 with op->failed. */
int op_stat(struct op *op);
int op_exists(struct op *op);
int op_list(struct op *op);
int op_glob(struct op *op);
int op_grep(struct op *op);
int op_read_raw(struct op *op);
int op_read_view(struct op *op);
int op_write_raw(struct op *op);
int op_batch_write(struct op *op);
int op_edit(struct op *op);
int op_mkdir(struct op *op);
int op_move(struct op *op);
int op_copy(struct op *op);
int op_remove(struct op *op);
int op_chmod(struct op *op);
int op_chown(struct op *op);
int op_watch(struct op *op);
int op_archive_out(struct op *op);
int op_archive_in(struct op *op);

#endif
