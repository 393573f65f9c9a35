/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas of replies about commands, processes, windows and code. */
#include "face/rest/openapi/schema.h"

#define END_MEMBERS                                                                       \
	MAYBE("exit_code", INT, "124 after a timeout, 128 + signal after a signal"),      \
		MAYBE("signal", INT, NULL),                                               \
		MAYBE("reason", STR,                                                      \
		      "exited, signaled, timeout, oom, killed_by_request, sandbox_gone"), \
	{                                                                                 \
		.name = "duration_ms", .type = FIELD_REAL                                 \
	}
#define OOM_KILLS            \
	INTEGER("oom_kills", \
		"processes of the sandbox that the memory limit killed while the command ran")
#define MEMORY_MEMBERS                                       \
	MAYBE("memory_limit_bytes", INT, "with reason oom"), \
		MAYBE("memory_peak_bytes", INT, "with reason oom"), OOM_KILLS

const struct field exec_answer[] = {
	INTEGER("process_id", NULL),
	PART("stdout", STR, "absent when the bytes are not UTF-8: then stdout_b64"),
	PART("stdout_b64", STR, NULL),
	PART("stderr", STR, "absent when the bytes are not UTF-8: then stderr_b64"),
	PART("stderr_b64", STR, NULL),
	END_MEMBERS,
	MEMORY_MEMBERS,
	FLAG("timed_out", NULL),
	FLAG("stdout_truncated", NULL),
	FLAG("stderr_truncated", NULL),
	FLAG("truncated", "either of them"),
	INTEGER("stdout_bytes", "written by the program"),
	INTEGER("stderr_bytes", "written by the program"),
	MAYBE("full_output", STR, "a file inside the sandbox with all of it, when it was cut"),
	MAYBE("hint", STR, "what to do when it was cut"),
	{ .type = FIELD_END }
};

const struct field stream_answer[] = {
	STRING("data", "of the events stdout and stderr; absent when not UTF-8: then data_b64"),
	PART("data_b64", STR, NULL),
	INTEGER("cursor", "position after the piece; send it as cursor to continue"),
	INTEGER("process_id", "of the event started"),
	INTEGER("pid", "of the event started, inside the sandbox"),
	STRING("stream", "of the event gap: stdout or stderr"),
	INTEGER("bytes", "of the event gap: this many were dropped"),
	END_MEMBERS,
	INTEGER("stdout_bytes", "of the event exit: written by the program"),
	INTEGER("stderr_bytes", NULL),
	MEMORY_MEMBERS,
	STRING("code", "of the event error"),
	STRING("message", "of the event error, and of exit with sandbox_gone"),
	{ .type = FIELD_END }
};

const struct field process_answer[] = { INTEGER("process_id", NULL),
					INTEGER("pid", "inside the sandbox"),
					MAYBE("name", STR, NULL),
					STRING("command", "its first 256 bytes"),
					STRING("user", NULL),
					STRING("state", "running, exited"),
					FLAG("tty", NULL),
					MAYBE("cols", INT, NULL),
					MAYBE("rows", INT, NULL),
					MAYBE("window", STR, "it is this window's shell"),
					{ .name = "started_at", .type = FIELD_TIME },
					END_MEMBERS,
					INTEGER("stdout_cursor", "bytes written so far"),
					INTEGER("stderr_cursor", "bytes written so far"),
					INTEGER("stdout_begin", "the oldest byte held"),
					INTEGER("stderr_begin", "the oldest byte held"),
					FLAG("stdin_open", NULL),
					MEMORY_MEMBERS,
					{ .type = FIELD_END } };
static const struct field orphan_members[] = {
	STRING("id", "pid:N, for DELETE and signal"),
	INTEGER("pid", "inside the sandbox"),
	STRING("command", "its first 256 bytes, or its name in brackets"),
	STRING("user", NULL),
	{ .name = "started_at", .type = FIELD_TIME },
	{ .type = FIELD_END }
};
const struct field process_list_answer[] = {
	LIST_OF(process_answer),
	{ .name = "orphans",
	  .type = FIELD_LIST,
	  .fields = orphan_members,
	  .doc = "processes that were not started through the API and whose ancestors have ended; "
		 "at most 1024, and what is found within a second" },
	{ .type = FIELD_END }
};

const struct field output_answer[] = {
	STRING("state", "running, exited"),
	PART("stdout", STR, "absent when the bytes are not UTF-8: then stdout_b64"),
	PART("stdout_b64", STR, NULL),
	PART("stderr", STR, NULL),
	PART("stderr_b64", STR, NULL),
	INTEGER("stdout_cursor", "where the next request continues"),
	INTEGER("stderr_cursor", NULL),
	INTEGER("stdout_gap_bytes", "bytes that were overwritten before they were read"),
	INTEGER("stderr_gap_bytes", NULL),
	FLAG("more", "more output is available"),
	END_MEMBERS,
	INTEGER("stdout_bytes", "written by the program so far"),
	INTEGER("stderr_bytes", NULL),
	MEMORY_MEMBERS,
	{ .type = FIELD_END }
};

#define OUTPUT_MEMBERS                                                                             \
	PART("output", STR, "absent when the bytes are not UTF-8: then output_b64"),               \
		PART("output_b64", STR, NULL), INTEGER("cursor", "where the next read continues"), \
		INTEGER("gap_bytes", "bytes that were overwritten before they were read"),         \
		FLAG("truncated", "more output is available from cursor on")
const struct field window_run_answer[] = { STRING("window", NULL),
					   INTEGER("run", "counts the commands of this window"),
					   INTEGER("process_id", "of the shell"),
					   STRING("state", "running, exited"),
					   MAYBE("exit_code", INT, "the command's own"),
					   MAYBE("reason", STR, NULL),
					   OOM_KILLS,
					   OUTPUT_MEMBERS,
					   FLAG("made", "the window was created by this call"),
					   FLAG("cancelled", "a running command was ended first"),
					   { .name = "duration_ms", .type = FIELD_REAL },
					   { .type = FIELD_END } };
#define WINDOW_MEMBERS                                                                      \
	STRING("name", NULL), STRING("state", "busy, idle"),                                \
		INTEGER("process_id", "of the shell"),                                      \
		INTEGER("run", "the last command's number"),                                \
		MAYBE("exit_code", INT, "of the last command"), MAYBE("reason", STR, NULL), \
		INTEGER("begin", "the oldest byte held"),                                   \
		{ .name = "idle_sec", .type = FIELD_REAL },                                 \
	{                                                                                   \
		.name = "started_at", .type = FIELD_TIME                                    \
	}
const struct field window_answer[] = { WINDOW_MEMBERS,
				       INTEGER("cursor", "bytes written so far"),
				       { .type = FIELD_END } };
const struct field window_list_answer[] = { LIST_OF(window_answer), { .type = FIELD_END } };
const struct field window_read_answer[] = { WINDOW_MEMBERS, OUTPUT_MEMBERS, { .type = FIELD_END } };

const struct field code_context_answer[] = { STRING("id", NULL),
					     STRING("language", NULL),
					     STRING("cwd", NULL),
					     INTEGER("process_id", "of its kernel"),
					     { .name = "started_at", .type = FIELD_TIME },
					     { .type = FIELD_END } };
const struct field code_context_list_answer[] = { LIST_OF(code_context_answer),
						  { .type = FIELD_END } };
static const struct field code_result_members[] = { FLAG("is_main_result",
							 "the value of the last expression"),
						    PART("text", STR, NULL),
						    PART("html", STR, NULL),
						    PART("markdown", STR, NULL),
						    PART("svg", STR, NULL),
						    PART("png", STR, "base64, as the next two"),
						    PART("jpeg", STR, NULL),
						    PART("pdf", STR, NULL),
						    PART("latex", STR, NULL),
						    PART("json", ANY, NULL),
						    PART("javascript", STR, NULL),
						    PART("extra", FREE, "other MIME types"),
						    { .type = FIELD_END } };
static const struct field code_error_members[] = { STRING("name", NULL),
						   STRING("value", NULL),
						   STRING("traceback", NULL),
						   { .type = FIELD_END } };
const struct field code_answer[] = {
	STRING("context_id", NULL),
	INTEGER("execution_count", NULL),
	STRING("stdout", NULL),
	STRING("stderr", NULL),
	{ .name = "results", .type = FIELD_LIST, .fields = code_result_members },
	{ .name = "error", .type = FIELD_OBJECT, .fields = code_error_members, .nullable = true },
	FLAG("timed_out", NULL),
	FLAG("truncated", "the output was cut"),
	{ .name = "duration_ms", .type = FIELD_REAL },
	{ .type = FIELD_END }
};
