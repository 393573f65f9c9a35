/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"
#include "service/event/event_internal.h"
#include "service/run/exec.h"
#include "service/run/exec_private.h"
#include "service/run/process_internal.h"
#include "service/secret/secret.h"
#include "service/run/process_spec_private.h"
#include "service/template/template.h"
#include "service/run/run_private.h"

static void exec_free(struct exec_call *call)
{
	exec_reattach_free(TAKE_PTR(call->again));
	if (call->service)
		(void)slot_take(&call->service->runs->execs, call->handle);
	if (call->kept)
		spec_done(&call->build);
	free(call->veiled[0]);
	free(call->veiled[1]);
	free(call);
}

/* Replaces text by a scrubbed copy. Without memory for a copy the text becomes empty. */
static void veil(char **copy, struct str *text, const struct scrub *scrub, uint64_t total)
{
	bool cut = total > text->n;

	if (!text->n)
		return;
	*copy = malloc(text->n);
	if (*copy) {
		memcpy(*copy, text->p, text->n);
		(void)scrub_text(scrub, *copy, text->n, cut);
	}
	*text = (struct str){ *copy ? *copy : "", *copy ? text->n : 0 };
}

static void deliver(struct exec_call *call, const struct exec_result *result, const struct err *err)
{
	exec_done_fn done = call->done;
	void *arg = call->arg;
	bool tell = done && call->service;

	if (tell)
		done(arg, result, err);
	exec_free(call);
}

/* ---- completion ---- */

/* A request to the engine: how the sandbox ended. */
struct oom_ask {
	struct op op;
	struct exec_call *call;
};

static void on_oom_stat(void *arg, const struct engine_stat *stat, const struct err *err)
{
	struct oom_ask *ask = arg;
	struct exec_call *call = ask->call;
	const struct sandbox *sandbox = op_end_sandbox(&ask->op);

	if (!err && sandbox && stat->oom_killed)
		(void)err_set(&call->gone, ERR_SANDBOX_GONE,
			      "the sandbox ended: oom (memory_mb is %u)", sandbox->attrs.memory_mb);
	deliver(call, NULL, &call->gone);
}

/* The agent has ended: only the engine knows whether the memory limit was the reason. */
static int ask_oom(struct exec_call *call, struct sandbox *sandbox)
{
	struct service_engine *engine = sandbox->engine;
	struct err err;
	struct oom_ask *ask = OP_NEW(struct oom_ask, call->service, sandbox->handle, &err);

	if (!ask)
		return -1;
	ask->call = call;
	if (instance_stat(&engine->instance, sandbox->id, on_oom_stat, ask, &err) == 0)
		return 0;
	(void)op_end(&ask->op);
	return -1;
}

static void on_gone(struct exec_call *call, struct sandbox *sandbox)
{
	if (sandbox && sandbox_up(sandbox))
		(void)err_set(&call->gone, ERR_SANDBOX_GONE,
			      "the connection to the sandbox's agent ended");
	else
		(void)sandbox_gone(sandbox, &call->gone);
	if (sandbox && sandbox->engine->instance.ready && ask_oom(call, sandbox) == 0)
		return;
	deliver(call, NULL, &call->gone);
}

static void leave_sandbox(struct sandbox *sandbox)
{
	if (sandbox->execs)
		sandbox->execs--;
	sandbox_touch(sandbox);
}

static void tell_end(const struct exec_call *call, const struct sandbox *sandbox,
		     const struct link_result *from, const struct process_status *status,
		     const struct err *error)
{
	struct event_process process = { .process_id = call->process_id, .kind = "exec" };

	if (from->status.end == LINK_END_REFUSED)
		event_process_refused(sandbox, &process, error);
	else if (from->status.end !=
		 LINK_END_GONE) /* otherwise the sandbox's own events report it */
		event_process_ended(sandbox, &process, status);
}

/* Whether the link was closed only to copy the memory: the sandbox and its commands continue. */
static bool lets_go(const struct sandbox *sandbox)
{
	return !sandbox->link &&
	       (sandbox->phase == PHASE_SNAPSHOTTING || sandbox->phase == PHASE_FORKING);
}

void exec_followed(struct exec_call *call, const struct process_status *status, struct str out,
		   struct str err, const struct err *error)
{
	struct sandbox *sandbox = sandbox_get(call->service, call->sandbox);
	struct event_process process = { .process_id = call->process_id, .kind = "exec" };
	struct exec_result result = { .process_id = call->process_id, .out = out, .err = err };

	if (sandbox)
		leave_sandbox(sandbox);
	if (error) { /* never started, or ended so long ago that its output was dropped */
		if (error->code == ERR_PROCESS_NOT_FOUND)
			(void)err_set(&call->gone, ERR_SANDBOX_GONE,
				      "the connection to the sandbox's agent ended");
		else
			call->gone = *error;
		deliver(call, NULL, &call->gone);
		return;
	}
	result.status = *status;
	if (sandbox)
		event_process_ended(sandbox, &process, status);
	histogram_add(&call->service->upkeep.counters.exec_duration, status->duration_us);
	deliver(call, &result, NULL);
}

static void on_exec(void *arg, const struct link_result *from, const struct err *error)
{
	struct exec_call *call = arg;
	struct service *service = call->service;
	struct sandbox *sandbox = service ? sandbox_get(service, call->sandbox) : NULL;
	struct exec_result result = { .process_id = call->process_id,
				      .out = from->out,
				      .err = from->err,
				      .full_output = from->full_output,
				      .full_output_complete = from->full_output_complete };

	if (!service) {
		exec_free(call);
		return;
	}
	if (from->status.end == LINK_END_GONE && call->done && sandbox && lets_go(sandbox) &&
	    exec_reattach_start(call, sandbox) == 0)
		return;
	status_from_link(&result.status, &from->status);
	if (sandbox && sandbox_scrub(sandbox)) {
		struct scrub *scrub = sandbox_scrub(sandbox);

		veil(&call->veiled[0], &result.out, scrub, result.status.out_total);
		veil(&call->veiled[1], &result.err, scrub, result.status.err_total);
	}
	if (sandbox) {
		leave_sandbox(sandbox);
		admit_ended(sandbox);
		tell_end(call, sandbox, from, &result.status, error);
	}
	if (from->status.end != LINK_END_GONE) /* otherwise on_gone() asks how it ended */
		histogram_add(&service->upkeep.counters.exec_duration, from->status.duration_us);
	if (from->status.end == LINK_END_GONE) {
		on_gone(call, sandbox);
	} else if (from->status.end == LINK_END_REFUSED) {
		service->upkeep.counters.exec_refusals++;
		deliver(call, NULL, error);
	} else {
		deliver(call, &result, NULL);
	}
}

/* ---- start ---- */

static int launch(struct exec_call *call, struct sandbox *sandbox, const struct link_exec *exec,
		  struct err *err)
{
	if (link_exec(sandbox->link, exec, on_exec, call, &call->process_id, err) < 0) {
		admit_ended(sandbox);
		return -1;
	}
	sandbox->execs++;
	sandbox_touch(sandbox);
	sandbox->service->upkeep.counters.execs++;
	event_process_started(
		sandbox, &(struct event_process){ .process_id = call->process_id, .kind = "exec" });
	return 0;
}

static void on_admitted(void *arg, struct sandbox *sandbox, const struct err *error)
{
	struct exec_call *call = arg;
	struct err err;

	if (sandbox && !call->done) {
		admit_ended(sandbox);
		exec_free(call);
		return;
	}
	if (sandbox && launch(call, sandbox, &call->build.exec, &err) == 0) {
		call->kept = false;
		spec_done(&call->build);
		return;
	}
	deliver(call, NULL, sandbox ? &err : error);
}

static struct exec_call *exec_new(struct sandbox *sandbox, exec_done_fn done, void *arg,
				  struct err *err)
{
	struct exec_call *call = calloc(1, sizeof(*call));

	if (!call || slot_put(&sandbox->service->runs->execs, call, &call->handle) < 0) {
		free(call);
		(void)err_set(err, ERR_CAPACITY_EXCEEDED, "too many commands on this host");
		return NULL;
	}
	call->service = sandbox->service;
	call->sandbox = sandbox->handle;
	call->done = done;
	call->arg = arg;
	return call;
}

int exec_start(struct sandbox *sandbox, const struct exec_spec *spec, exec_done_fn done, void *arg,
	       slot_handle *ret_call, struct err *err)
{
	struct exec_call *call = exec_new(sandbox, done, arg, err);
	int r;

	if (!call)
		return -1;
	if (spec_build(&call->build, sandbox, spec, err) < 0) {
		exec_free(call);
		return -1;
	}
	call->kept = true;
	call->build.exec.save = true;
	call->output_max_bytes = call->build.exec.output_max_bytes;
	r = admit_process(sandbox, NULL, on_admitted, call, err);
	if (r > 0) {
		r = launch(call, sandbox, &call->build.exec, err);
		call->kept = false;
		spec_done(&call->build);
	} else if (r == 0 && spec_keep(&call->build, err) < 0) {
		call->done = NULL; /* freed when the agent has answered */
		return -1;
	}
	if (r < 0) {
		exec_free(call);
		return -1;
	}
	*ret_call = call->handle;
	return 0;
}

void exec_detach(struct service *service, slot_handle handle)
{
	struct exec_call *call = slot_get(&service->runs->execs, handle);
	struct sandbox *sandbox = call ? sandbox_get(service, call->sandbox) : NULL;

	if (!call)
		return;
	call->done = NULL;
	if (call->again) {
		if (sandbox)
			leave_sandbox(sandbox);
		exec_free(call);
		return;
	}
	/* A command that was not admitted yet does not start any more. If the link is gone, the end
	 * of the command is about to be reported. */
	if (!call->process_id || !sandbox || !sandbox->link || !link_ready(sandbox->link))
		return;
	link_detach(sandbox->link, call->process_id);
	leave_sandbox(sandbox);
	exec_free(call);
}

/* The service closes. The links complete the remaining calls on later iterations of the loop. */
void exec_stop_all(struct service *service)
{
	struct exec_call *call;
	uint32_t cursor = 0;

	while ((call = slot_next(&service->runs->execs, &cursor))) {
		if (call->again)
			exec_free(call); /* no link knows it */
		else
			call->service = NULL;
	}
}
