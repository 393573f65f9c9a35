/* SPDX-License-Identifier: Apache-2.0 */
/* Runs between the guards and the handler: finds the sandbox, waits for its link, and resolves
 * the process in the path to its number. A waiting call keeps its document. The handler runs
 * once, with a sandbox that can be used. */
#include "face/rest/call.h"
#include "service/run/process.h"

static void finish(struct rest_call *call)
{
	json_free(TAKE_PTR(call->doc));
}

static void run(struct rest_call *call)
{
	call->route->handle(call);
	finish(call);
}

static void refuse(struct rest_call *call, const struct err *err)
{
	answer_error(call->rest, call->req, err);
	finish(call);
}

/* During the wait the key or the sandbox may have been deleted, so both are looked up again. */
int steps_again(struct rest_call *call, struct err *err)
{
	call->key = guard_again(call->rest->service, call->key_id, err);
	if (!call->key)
		return -1;
	call->sandbox = sandbox_find(call->rest->service, call->key, call->args[0], err);
	return call->sandbox ? sandbox_check_running(call->sandbox, err) : -1;
}

/* ---- the process ---- */

/* The document is freed even if the client disconnects. */
static void on_resolve_gone(void *arg)
{
	finish(arg);
}

static void on_found(void *arg, const struct process_info *info, const struct err *error)
{
	struct rest_pending *pending = arg;
	struct rest_call *call = pending->call;
	struct err err;

	if (!pending_end(pending))
		return; /* the call has been freed with its client's request */
	http_req_on_gone(call->req, NULL, NULL);
	if (!error && steps_again(call, &err) < 0)
		error = &err;
	if (error) {
		refuse(call, error);
		return;
	}
	call->process_id = info->process_id;
	run(call);
}

static void resolve(struct rest_call *call)
{
	struct err err = { .code = ERR_UNAVAILABLE, .message = "out of memory" };
	struct rest_pending *pending;

	if (!call->route->process || process_id_parse(call->args[1], &call->process_id) ||
	    (call->route->by_pid && process_pid_parse(call->args[1], &call->pid))) {
		run(call);
		return;
	}
	pending = pending_new(call);
	if (!pending || process_find(call->sandbox, call->args[1], on_found, pending, &err) < 0) {
		if (pending)
			(void)pending_end(pending);
		refuse(call, &err);
		return;
	}
	http_req_on_gone(call->req, on_resolve_gone, call);
}

/* ---- the link ---- */

static void on_wait_gone(void *arg)
{
	struct rest_call *call = arg;

	sandbox_wait_cancel(call->wait);
	finish(call);
}

static void on_ready(void *arg, const struct err *error)
{
	struct rest_call *call = arg;
	struct err err;

	http_req_on_gone(call->req, NULL, NULL);
	if (!error && steps_again(call, &err) < 0)
		error = &err;
	if (error)
		refuse(call, error);
	else
		resolve(call);
}

void steps_begin(struct rest_call *call)
{
	struct err err;
	int r;

	if (!call->route->ready) {
		run(call);
		return;
	}
	call->sandbox = sandbox_find(call->rest->service, call->key, call->args[0], &err);
	/* In all faces, a call that needs the inside resumes a paused sandbox with auto_resume. */
	r = call->sandbox
		    ? sandbox_when_ready(call->sandbox, true, on_ready, call, &call->wait, &err)
		    : -1;
	if (r > 0)
		resolve(call);
	else if (r == 0)
		http_req_on_gone(call->req, on_wait_gone, call);
	else
		refuse(call, &err);
}
