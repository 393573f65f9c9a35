/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/face/e2b: the messages of envd's process procedures. Field tables decode them, and
 * translators turn them into specs of the service. The handlers call this; there is no I/O here.
 * Strings are views into the message; lists and decoded bytes are in the arena. All functions
 * return 0, or -1 with err set.
 */
#ifndef CAY_FACE_E2B_ENVD_PROCESS_MESSAGE_H
#define CAY_FACE_E2B_ENVD_PROCESS_MESSAGE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "service/run/process.h"

struct process_selector {
	int64_t pid; /* 0: the tag selects */
	struct str tag;
};

/* {"process":{"pid":N}} or {"process":{"tag":"T"}} */
int process_selector_read(const struct json *message, struct process_selector *ret,
			  struct err *err) _must_check_;

/* Values of the variables that E2B adds to every process. */
struct process_origin {
	struct str sandbox_id, template;
};

/* StartRequest. cwd is as sent; user, time limit and hold are left to the caller. */
int process_start_read(const struct json *message, const struct process_origin *origin,
		       struct arena *arena, struct exec_spec *ret, struct err *err) _must_check_;

/* {"input":{"stdin":"base64"}} or {"input":{"pty":"base64"}} */
int process_input_read(const struct json *message, struct arena *arena, struct str *ret,
		       struct err *err) _must_check_;

/* {"signal":"SIGNAL_SIGTERM"} or its number */
int process_signal_read(const struct json *message, int *ret, struct err *err) _must_check_;

struct process_size {
	int64_t cols, rows; /* 1 to PROCESS_TTY_MAX */
};

/* {"pty":{"size":{"cols":N,"rows":M}}}; sizes outside of the range are changed to its ends. */
int process_size_read(const struct json *message, struct process_size *ret,
		      struct err *err) _must_check_;

/* A message of StreamInput: the first selects the process, the others are input or keep-alives. */
struct process_stream_message {
	bool start, data;
	struct process_selector selector; /* of start */
	struct str bytes;		  /* of data */
};

int process_stream_read(const struct json *message, struct arena *arena,
			struct process_stream_message *ret, struct err *err) _must_check_;

#endif
