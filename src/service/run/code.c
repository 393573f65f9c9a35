/* SPDX-License-Identifier: Apache-2.0 */
/* Code contexts: finds them among the sandbox's processes, starts and ends them. */
#include "service/run/code.h"

#include <stdio.h>

#include "base/rand.h"
#include "service/run/code_private.h"
#include "service/run/process_internal.h"
#include "service/run/process_spec_private.h"
#include "service/template/template.h"
#include "service/run/run_private.h"

#define PROGRAM "/usr/lib/cay/cay-code"
#define PREFIX "code-"
#define ID_LEN 12

const char *const code_languages[] = { "python", "javascript", "bash", NULL };

static const char *language_of(struct str word)
{
	for (size_t i = 0; code_languages[i]; i++)
		if (str_is(word, code_languages[i]))
			return code_languages[i];
	return NULL;
}

/* The agent reports the command as "PROGRAM LANGUAGE CWD"; it is untrusted input. */
static bool context_of(const struct process_info *info, struct code_context *ret)
{
	const char *rest, *blank;

	if (info->window || info->status.reason ||
	    strncmp(info->name, PREFIX, strlen(PREFIX)) != 0 ||
	    strncmp(info->command, PROGRAM " ", strlen(PROGRAM) + 1) != 0)
		return false;
	rest = info->command + strlen(PROGRAM) + 1;
	blank = strchr(rest, ' ');
	*ret = (struct code_context){
		.id = info->name + strlen(PREFIX),
		.language = language_of(
			(struct str){ rest, blank ? (size_t)(blank - rest) : strlen(rest) }),
		.cwd = blank ? blank + 1 : "",
		.process_id = info->process_id,
		.started_ms = info->started_ms,
	};
	return ret->language && strlen(ret->id) <= CODE_ID_MAX;
}

/* ---- jobs ---- */

struct code_job *code_job_new(struct sandbox *sandbox, struct str id, void *arg, struct err *err)
{
	struct code_job *job;

	if (id.n > CODE_ID_MAX) {
		(void)err_set(err, ERR_CONTEXT_NOT_FOUND, "no code context has an id this long");
		return NULL;
	}
	if (spec_check_name("context_id", id, err) < 0)
		return NULL;
	job = calloc(1, sizeof(*job));
	if (!job || slot_put(&sandbox->service->runs->code_jobs, job, &job->handle) < 0) {
		free(job);
		(void)err_set(err, ERR_CAPACITY_EXCEEDED, "too many executions on this host");
		return NULL;
	}
	job->service = sandbox->service;
	job->sandbox = sandbox->handle;
	job->arg = arg;
	(void)!str_copy(job->id, sizeof(job->id), id);
	job->context.id = job->id;
	job->context.cwd = job->cwd;
	return job;
}

void code_job_free(struct code_job *job)
{
	(void)slot_take(&job->service->runs->code_jobs, job->handle);
	code_run_free(job->run);
	free(job);
}

struct code_job *code_job_get(struct service *service, slot_handle handle)
{
	return slot_get(&service->runs->code_jobs, handle);
}

/* The service closes: no completion will be called any more. */
void code_stop_all(struct service *service)
{
	struct code_job *job;
	uint32_t cursor = 0;

	while ((job = slot_next(&service->runs->code_jobs, &cursor)))
		code_job_free(job);
}

static void fail_job(struct code_job *job, const struct err *err)
{
	job->failed(job, err);
}

/* NULL, after reporting the error, also if the sandbox has ended meanwhile. */
static struct sandbox *sandbox_of(struct code_job *job, const struct err *error)
{
	struct sandbox *sandbox = sandbox_get(job->service, job->sandbox);
	struct err err;

	if (!error && (!sandbox || !sandbox->link)) {
		(void)sandbox_gone(sandbox, &err);
		error = &err;
	}
	if (error)
		fail_job(job, error);
	return error ? NULL : sandbox;
}

static void on_process(void *arg, const struct process_info *info, const struct err *error)
{
	struct code_job *job = arg;
	struct code_context context;
	struct sandbox *sandbox;

	if (!info) {
		sandbox = sandbox_of(job, error);
		if (sandbox)
			job->found(job, sandbox);
		return;
	}
	if (!context_of(info, &context) || strcmp(context.id, job->id) != 0)
		return;
	(void)snprintf(job->cwd, sizeof(job->cwd), "%s", context.cwd);
	(void)snprintf(job->user, sizeof(job->user), "%s", info->user);
	context.id = job->id;
	context.cwd = job->cwd;
	job->context = context;
	job->cursor = info->status.out_total;
}

int code_job_find(struct code_job *job, struct sandbox *sandbox, struct err *err)
{
	return process_list(sandbox, on_process, job, err);
}

/* ---- starting a kernel ---- */

static void on_started(void *arg, uint32_t process_id, uint32_t pid, slot_handle follow,
		       const struct err *error)
{
	struct code_job *job = arg;
	struct sandbox *sandbox = sandbox_get(job->service, job->sandbox);
	struct err err;

	(void)pid;
	(void)follow;
	if (error && sandbox && strstr(error->message, PROGRAM)) {
		(void)err_set(&err, ERR_UNSUPPORTED,
			      "template '%s' has no code kernels; 'code-interpreter-v1' has them",
			      sandbox->template->name);
		error = &err;
	}
	sandbox = sandbox_of(job, error);
	if (!sandbox)
		return;
	job->context.process_id = process_id;
	job->context.started_ms = time_real_ms();
	job->cursor = 0;
	job->started(job, sandbox);
}

int code_job_start(struct code_job *job, struct sandbox *sandbox, struct err *err)
{
	char name[sizeof(PREFIX) + CODE_ID_MAX];
	struct exec_spec exec = { .stdin_open = true, .ring_bytes = CODE_LINE_MAX };
	struct str argv[3];

	if (!job->cwd[0])
		(void)snprintf(job->cwd, sizeof(job->cwd), "%s", sandbox->template->workdir);
	argv[0] = str_of(PROGRAM);
	argv[1] = str_of(job->context.language);
	argv[2] = str_of(job->cwd);
	(void)snprintf(name, sizeof(name), PREFIX "%s", job->id);
	exec.argv = (struct text_list){ argv, ARRAY_LEN(argv) };
	exec.name = str_of(name);
	exec.cwd = str_of(job->cwd);
	if (job->user[0])
		exec.user = str_of(job->user);
	return process_start(sandbox, &exec, on_started, job, NULL, err);
}

/* ---- the calls on contexts ---- */

static void tell_made(struct code_job *job, struct sandbox *sandbox)
{
	(void)sandbox;
	if (job->made)
		job->made(job->arg, &job->context, NULL);
	code_job_free(job);
}

static void tell_failed(struct code_job *job, const struct err *err)
{
	if (job->made)
		job->made(job->arg, NULL, err);
	else if (job->done)
		job->done(job->arg, err);
	code_job_free(job);
}

static int begun(struct code_job *job, int r)
{
	if (r < 0)
		code_job_free(job);
	return r;
}

int code_place(struct code_job *job, const struct code_spec *spec, struct err *err)
{
	if (str_copy(job->cwd, sizeof(job->cwd), spec->cwd) < 0 ||
	    str_copy(job->user, sizeof(job->user), spec->user) < 0)
		return err_set(err, ERR_INVALID_REQUEST,
			       "cwd must be at most %zu bytes, user at most %zu",
			       sizeof(job->cwd) - 1, sizeof(job->user) - 1);
	job->context.language = code_languages[spec->language];
	return 0;
}

int code_context_new(struct sandbox *sandbox, const struct code_spec *spec, code_context_fn done,
		     void *arg, struct err *err)
{
	char id[ID_LEN + 1];
	struct code_job *job;

	rand_label(id, ID_LEN);
	id[0] = (char)('a' + id[0] % 26); /* a number would mean a process id */
	job = code_job_new(sandbox, str_of(id), arg, err);
	if (!job)
		return -1;
	job->made = done;
	job->started = tell_made;
	job->failed = tell_failed;
	if (code_place(job, spec, err) < 0)
		return begun(job, -1);
	return begun(job, code_job_start(job, sandbox, err));
}

/* The listing owns its argument. What is not completed is freed when the service closes. */
static void on_listed(void *arg, const struct process_info *info, const struct err *error)
{
	struct code_job *job = arg;
	struct code_context context;

	if (info) {
		if (context_of(info, &context))
			job->made(job->arg, &context, NULL);
		return;
	}
	job->made(job->arg, NULL, error);
	code_job_free(job);
}

int code_context_list(struct sandbox *sandbox, code_context_fn each, void *arg, struct err *err)
{
	struct code_job *job = code_job_new(sandbox, STR_LIT("all"), arg, err);

	if (!job)
		return -1;
	job->made = each;
	return begun(job, process_list(sandbox, on_listed, job, err));
}

static bool is_missing(struct code_job *job)
{
	struct err err;

	if (job->context.process_id)
		return false;
	(void)err_set(&err, ERR_CONTEXT_NOT_FOUND, "no code context '%s'", job->id);
	fail_job(job, &err);
	return true;
}

static void on_done(void *arg, const struct err *error)
{
	struct code_job *job = arg;

	if (job->done)
		job->done(job->arg, error);
	code_job_free(job);
}

static void delete_found(struct code_job *job, struct sandbox *sandbox)
{
	struct err err;

	if (!is_missing(job) &&
	    process_stop(sandbox, job->context.process_id, on_done, job, &err) < 0)
		fail_job(job, &err);
}

static void interrupt_found(struct code_job *job, struct sandbox *sandbox)
{
	struct err err;

	if (!is_missing(job) && process_stdin(sandbox, job->context.process_id, code_line_interrupt,
					      false, on_done, job, &err) < 0)
		fail_job(job, &err);
}

static void on_stopped(void *arg, const struct err *error)
{
	struct code_job *job = arg;
	struct sandbox *sandbox = sandbox_of(job, error);
	struct err err;

	if (sandbox && code_job_start(job, sandbox, &err) < 0)
		fail_job(job, &err);
}

static void restart_found(struct code_job *job, struct sandbox *sandbox)
{
	struct err err;

	if (!is_missing(job) &&
	    process_stop(sandbox, job->context.process_id, on_stopped, job, &err) < 0)
		fail_job(job, &err);
}

static int act(struct sandbox *sandbox, struct str id,
	       void (*found)(struct code_job *, struct sandbox *), code_context_fn made,
	       process_done_fn done, void *arg, struct err *err)
{
	struct code_job *job = code_job_new(sandbox, id, arg, err);

	if (!job)
		return -1;
	job->found = found;
	job->started = tell_made;
	job->failed = tell_failed;
	job->made = made;
	job->done = done;
	return begun(job, code_job_find(job, sandbox, err));
}

int code_context_delete(struct sandbox *sandbox, struct str id, process_done_fn done, void *arg,
			struct err *err)
{
	return act(sandbox, id, delete_found, NULL, done, arg, err);
}

int code_context_interrupt(struct sandbox *sandbox, struct str id, process_done_fn done, void *arg,
			   struct err *err)
{
	return act(sandbox, id, interrupt_found, NULL, done, arg, err);
}

int code_context_restart(struct sandbox *sandbox, struct str id, code_context_fn done, void *arg,
			 struct err *err)
{
	return act(sandbox, id, restart_found, done, NULL, arg, err);
}
