/* SPDX-License-Identifier: Apache-2.0 */
/* Named windows: persistent shells, each with one command at a time. Called by faces; the service
 * owns the calls. */
#ifndef CAY_SERVICE_RUN_WINDOW_H
#define CAY_SERVICE_RUN_WINDOW_H

#include "service/run/process.h"

#define WINDOW_WAIT_DEFAULT_MS 10000
#define WINDOW_WAIT_MAX_MS 600000
#define WINDOW_OUTPUT_DEFAULT (64 * 1024)
#define WINDOW_OUTPUT_MAX (1024 * 1024)

/* Strings live for the call. */
struct window_info {
	const char *name;
	uint32_t process_id; /* of its shell */
	bool busy;
	uint32_t run;			  /* number of the last command; 0: none yet */
	struct process_status run_status; /* reason NULL: it is running, or there was none */
	uint64_t begin, cursor; /* cursors of the oldest byte that is kept and of the next one */
	uint64_t run_cursor;	/* where the last command's output begins */
	int64_t idle_ms, started_ms;
};
/*
 * Called for each, oldest first, then once with info NULL; err says whether the list is complete.
 */
typedef void (*window_each_fn)(void *arg, const struct window_info *info, const struct err *err);
int window_list(struct sandbox *sandbox, window_each_fn each, void *arg,
		struct err *err) _must_check_;

/* command; and env, cwd, user for a window that must be created. */
struct window_spec {
	struct exec_spec exec;
	struct str name;
	int64_t wait_ms;
	int64_t max_output_bytes;
};
struct window_result {
	const char *name;
	uint32_t process_id, run;
	struct process_status status; /* reason NULL: the command is still running */
	struct str output;	      /* valid during the call */
	uint64_t cursor;	      /* after the output: where to continue reading */
	uint64_t gap_bytes;
	bool truncated; /* there was more; it can be read from cursor on */
	bool made, cancelled;
	int64_t duration_us;
};
typedef void (*window_ran_fn)(void *arg, const struct window_result *result, const struct err *err);
/* *ret_call identifies the call for window_leave(). */
int window_run(struct sandbox *sandbox, const struct window_spec *spec, window_ran_fn done,
	       void *arg, slot_handle *ret_call, struct err *err) _must_check_;
/* The caller has gone: done is not called, and the command continues. */
void window_leave(struct service *service, slot_handle call);

struct window_read {
	struct str name;
	uint64_t cursor;
	bool from_run; /* from the start of the last command instead */
	int64_t max_bytes;
};
typedef void (*window_read_fn)(void *arg, const struct window_info *info,
			       const struct window_result *result, const struct err *err);
int window_read(struct sandbox *sandbox, const struct window_read *read, window_read_fn done,
		void *arg, struct err *err) _must_check_;

/* Input for the current command; wrong_state if there is none. */
int window_input(struct sandbox *sandbox, struct str name, struct str bytes, process_done_fn done,
		 void *arg, struct err *err) _must_check_;
int window_close(struct sandbox *sandbox, struct str name, process_done_fn done, void *arg,
		 struct err *err) _must_check_;

#endif
