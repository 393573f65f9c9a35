/* SPDX-License-Identifier: Apache-2.0 */
/* Inside code.c, code_line.c and code_run.c only. */
#ifndef CAY_SERVICE_RUN_CODE_PRIVATE_H
#define CAY_SERVICE_RUN_CODE_PRIVATE_H

#include "service/run/code.h"
#include "service/service_internal.h"

/*
 * One call on contexts. Owner: the service's table, from code_job_new() to code_job_free().
 * Completions look it up by its handle and find nothing once it is freed.
 */
struct code_job {
	struct service *service;
	slot_handle handle;
	slot_handle sandbox;
	/* With context.process_id 0: there is no such context. */
	void (*found)(struct code_job *job, struct sandbox *sandbox);
	void (*started)(struct code_job *job, struct sandbox *sandbox);
	void (*failed)(struct code_job *job, const struct err *err);
	struct code_context context; /* its strings are those below */
	uint64_t cursor;	     /* position in its kernel's output */
	char id[CODE_ID_MAX + 1];
	char cwd[257];
	char user[65];
	code_context_fn made;
	process_done_fn done;
	void *arg;
	struct code_run *run; /* of executions */
};

struct code_job *code_job_new(struct sandbox *sandbox, struct str id, void *arg, struct err *err);
void code_job_free(struct code_job *job);
struct code_job *code_job_get(struct service *service, slot_handle handle);
/* Looks for the context; job->found or job->failed follows. */
int code_job_find(struct code_job *job, struct sandbox *sandbox, struct err *err) _must_check_;
/* Starts the kernel; job->started or job->failed follows. */
int code_job_start(struct code_job *job, struct sandbox *sandbox, struct err *err) _must_check_;
void code_run_free(struct code_run *run); /* NULL is allowed */
/* Working directory and user of a kernel that has to be started. */
int code_place(struct code_job *job, const struct code_spec *spec, struct err *err) _must_check_;

void code_stop_all(struct service *service);

/* code_line.c: lines exchanged with the kernel's program. */
enum code_line {
	CODE_LINE_OTHER, /* of another execution, or unreadable */
	CODE_LINE_EVENT,
	CODE_LINE_END,
};
/* Calls on_event for an event of the execution id. */
enum code_line code_line_read(struct str line, const char *id,
			      void (*on_event)(void *arg, const struct code_event *event),
			      void *arg);
extern const struct str code_line_interrupt; /* interrupts the running code */
/* The line that starts an execution. -errno: it does not fit. */
int code_line_write(struct buf *out, const char *id, const struct code_spec *spec) _must_check_;

#endif
