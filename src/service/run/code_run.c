/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One execution: finds or creates its context, writes the code to the kernel, and reads events from
 * the kernel's output until the last one. Executions of one context are queued in the kernel. Each
 * reads the output on its own and skips events of the others.
 */
#include <errno.h>

#include "base/log.h"
#include "base/rand.h"
#include "service/event/bus.h"
#include "service/range_internal.h"
#include "service/run/code_private.h"
#include "service/run/process_internal.h"
#include "service/run/time_limit.h"

#define RUN_ID_LEN 16
#define CREDIT (1024 * 1024)
#define STOP_AFTER_MS 5000 /* then an interrupted kernel is killed */
#define AGAIN_MS 20	   /* retry delay if another call is creating the same context */

struct code_run {
	struct code_job *job;
	struct code_hooks hooks;
	char id[RUN_ID_LEN + 1];
	struct buf request; /* the line for the kernel */
	struct buf line;    /* the part of the next event that has arrived */
	struct loop_timer *timer, *again;
	slot_handle follow;
	uint32_t owed; /* credit held back while the reader is behind */
	int64_t timeout_ms;
	int64_t started_us;
	bool behind;
	bool overlong; /* the rest of this line is skipped */
	bool busy;     /* counted in sandbox->execs, so the sandbox is not idle */
	bool timed_out;
	bool may_make;
	bool writing; /* on_written has not been called yet */
	bool ended;   /* on_written only frees the run */
};

static struct sandbox *sandbox_of(const struct code_run *run)
{
	return sandbox_get(run->job->service, run->job->sandbox);
}

void code_run_free(struct code_run *run)
{
	struct sandbox *sandbox = run ? sandbox_of(run) : NULL;

	if (!run)
		return;
	if (sandbox && run->busy && sandbox->execs)
		sandbox->execs--;
	if (run->follow)
		follow_close(run->job->service, run->follow);
	loop_timer_free(run->timer);
	loop_timer_free(run->again);
	buf_done(&run->request);
	buf_done(&run->line);
	free(run);
}

static void end(struct code_job *job, const struct err *err)
{
	struct code_run *run = job->run;
	struct code_end told = { .timed_out = run->timed_out,
				 .duration_us = time_mono_us() - run->started_us,
				 .context_id = job->id };

	run->hooks.on_end(job->arg, &told, err);
	if (!run->writing) {
		code_job_free(job);
		return;
	}
	run->ended = true;
	loop_timer_clear(run->timer);
	if (run->follow)
		follow_close(job->service, run->follow);
	run->follow = 0;
}

/* ---- events ---- */

static void on_event(void *arg, const struct code_event *event)
{
	struct code_run *run = arg;

	if (!run->hooks.on_event(run->job->arg, event))
		run->behind = true;
}

/* An event that is larger than the limit is skipped completely. */
static void keep_part(struct code_run *run, struct str bytes)
{
	if (run->overlong || buf_append(&run->line, bytes.p, bytes.n) == 0)
		return;
	buf_clear(&run->line);
	run->overlong = true;
}

/* False: the execution has ended. */
static bool take_bytes(struct code_run *run, struct str bytes)
{
	const char *newline;

	while (bytes.n && (newline = memchr(bytes.p, '\n', bytes.n))) {
		size_t n = (size_t)(newline - bytes.p);
		bool whole = buf_len(&run->line) == 0 && !run->overlong;
		bool more = true;

		if (!whole)
			keep_part(run, (struct str){ bytes.p, n });
		if (!run->overlong)
			more = code_line_read(whole ? (struct str){ bytes.p, n }
						    : buf_str(&run->line),
					      run->id, on_event, run) != CODE_LINE_END;
		buf_clear(&run->line);
		run->overlong = false;
		if (!more)
			return false;
		bytes.p += n + 1;
		bytes.n -= n + 1;
	}
	keep_part(run, bytes);
	return true;
}

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct code_run *run = arg;

	(void)stream;
	if (cursor != run->job->cursor) { /* bytes were lost: the current line is incomplete */
		buf_clear(&run->line);
		run->overlong = true;
	}
	run->job->cursor = cursor + bytes.n;
	run->owed += (uint32_t)bytes.n;
	if (!take_bytes(run, bytes)) {
		end(run->job, NULL);
		return;
	}
	if (!run->behind) {
		follow_credit(run->job->service, run->follow, run->owed);
		run->owed = 0;
	}
}

static void on_follow_end(void *arg, const struct process_status *status, const struct err *error)
{
	struct code_run *run = arg;
	struct err err;

	run->follow = 0;
	if (!error) {
		(void)err_set(&err, ERR_WRONG_STATE, "the kernel of context '%s' ended (%s)",
			      run->job->id, status->reason ? status->reason : "unknown");
		error = &err;
	}
	end(run->job, error);
}

static const struct follow_hooks follow_hooks = { .on_output = on_output, .on_end = on_follow_end };

/* ---- context and kernel ---- */

static void on_timer(void *arg)
{
	struct code_run *run = arg;
	struct sandbox *sandbox = sandbox_of(run);
	uint32_t process = run->job->context.process_id;
	struct err err;
	int r = -1;

	if (sandbox && sandbox->link)
		r = run->timed_out ? process_stop(sandbox, process, NULL, NULL, &err)
				   : process_stdin(sandbox, process, code_line_interrupt, false,
						   NULL, NULL, &err);
	run->timed_out = true;
	if (r == 0)
		loop_timer_set(run->timer, STOP_AFTER_MS, 0);
}

static void on_written(void *arg, const struct err *error)
{
	struct code_job *job = arg;

	job->run->writing = false;
	if (job->run->ended)
		code_job_free(job);
	else if (error)
		end(job, error);
}

static int begin(struct code_job *job, struct sandbox *sandbox, struct err *err)
{
	struct code_run *run = job->run;
	struct follow_spec follow = { .out_cursor = job->cursor,
				      .credit = CREDIT,
				      .streams = PROCESS_OUT,
				      .live = true,
				      .hold = true };

	if (follow_open(sandbox, job->context.process_id, &follow, &follow_hooks, run, &run->follow,
			err) < 0 ||
	    process_stdin(sandbox, job->context.process_id, buf_str(&run->request), false,
			  on_written, job, err) < 0)
		return -1;
	run->writing = true;
	run->busy = true;
	sandbox->execs++;
	if (run->timeout_ms)
		loop_timer_set(run->timer, run->timeout_ms, 0);
	return 0;
}

static void run_started(struct code_job *job, struct sandbox *sandbox)
{
	struct err err;

	if (begin(job, sandbox, &err) < 0)
		end(job, &err);
}

static void run_failed(struct code_job *job, const struct err *err)
{
	/* Of two concurrent first executions, one creates the context and the other retries and
	 * finds it. */
	if (job->run->may_make && err->code == ERR_CONFLICT)
		loop_timer_set(job->run->again, AGAIN_MS, 0);
	else
		end(job, err);
}

static void run_found(struct code_job *job, struct sandbox *sandbox)
{
	struct err err;
	int r;

	if (job->context.process_id) {
		run_started(job, sandbox);
		return;
	}
	r = job->run->may_make
		    ? code_job_start(job, sandbox, &err)
		    : err_set(&err, ERR_CONTEXT_NOT_FOUND, "no code context '%s'", job->id);
	if (r < 0)
		run_failed(job, &err);
}

static void on_again(void *arg)
{
	struct code_job *job = arg;
	struct sandbox *sandbox = sandbox_of(job->run);
	struct err err;

	if (!sandbox || !sandbox->link)
		(void)sandbox_gone(sandbox, &err);
	else if (code_job_find(job, sandbox, &err) == 0)
		return;
	end(job, &err);
}

/* ---- the call ---- */

static int run_new(struct code_job *job, const struct code_spec *spec,
		   const struct code_hooks *hooks, struct err *err)
{
	struct code_run *run = calloc(1, sizeof(*run));
	int r;

	if (!run)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	job->run = run;
	run->job = job;
	run->hooks = *hooks;
	run->timeout_ms = spec->timeout_sec * 1000;
	run->started_us = time_mono_us();
	run->may_make = !spec->context_id.n;
	rand_label(run->id, RUN_ID_LEN);
	buf_init(&run->request, 4 * CODE_MAX);
	buf_init(&run->line, CODE_LINE_MAX);
	if (loop_timer_new(job->service->config.loop, on_timer, run, &run->timer) < 0 ||
	    loop_timer_new(job->service->config.loop, on_again, job, &run->again) < 0)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	r = code_line_write(&run->request, run->id, spec);
	return r < 0 ? err_set_errno(err, ERR_PAYLOAD_TOO_LARGE, r, "code and env are too long")
		     : 0;
}

int code_run(struct sandbox *sandbox, const struct code_spec *spec, const struct code_hooks *hooks,
	     void *arg, slot_handle *ret_run, struct err *err)
{
	struct str id =
		spec->context_id.n ? spec->context_id : str_of(code_languages[spec->language]);
	struct code_job *job = code_job_new(sandbox, id, arg, err);

	if (!job)
		return -1;
	job->found = run_found;
	job->started = run_started;
	job->failed = run_failed;
	if (range_check("timeout_sec", spec->timeout_sec, 0,
			command_time_max_sec(&sandbox->service->config), err) < 0 ||
	    code_place(job, spec, err) < 0 || run_new(job, spec, hooks, err) < 0 ||
	    code_job_find(job, sandbox, err) < 0) {
		code_job_free(job);
		return -1;
	}
	*ret_run = job->handle;
	return 0;
}

void code_more(struct service *service, slot_handle handle)
{
	struct code_job *job = code_job_get(service, handle);
	struct code_run *run = job ? job->run : NULL;

	if (!run || !run->behind)
		return;
	run->behind = false;
	follow_credit(service, run->follow, run->owed);
	run->owed = 0;
}

void code_interrupt(struct service *service, slot_handle handle)
{
	struct code_job *job = code_job_get(service, handle);
	struct sandbox *sandbox = job ? sandbox_get(service, job->sandbox) : NULL;
	struct err err;

	if (sandbox && sandbox->link && job->run->follow &&
	    process_stdin(sandbox, job->context.process_id, code_line_interrupt, false, NULL, NULL,
			  &err) < 0)
		log_debug("%s: %s", sandbox->id, err.message);
}

/* Hooks of an execution whose caller has left. It continues, because completions may still be
 * pending. */
static bool no_event(void *arg, const struct code_event *event)
{
	(void)arg;
	(void)event;
	return true;
}

static void no_end(void *arg, const struct code_end *end, const struct err *err)
{
	(void)arg;
	(void)end;
	(void)err;
}

void code_leave(struct service *service, slot_handle handle)
{
	struct code_job *job = code_job_get(service, handle);

	if (!job || !job->run)
		return;
	job->run->hooks = (struct code_hooks){ .on_event = no_event, .on_end = no_end };
	code_more(service, handle);
}
