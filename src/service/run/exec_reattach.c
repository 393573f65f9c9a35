/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sandbox whose memory is copied closes its link and continues, and so do its commands. When the
 * link is ready again, the waiting caller of a command gets the output from the first byte that the
 * ring still holds.
 */
#include "service/run/exec_private.h"
#include "service/run/output_buffer.h"
#include "service/run/process_internal.h"

/* Owner: its call. */
struct exec_reattach {
	struct exec_call *call;
	struct sandbox_wait *wait; /* for the link */
	slot_handle follow;	   /* 0: not yet, or ended */
	struct output_buffer streams[2];
};

void exec_reattach_free(struct exec_reattach *again)
{
	if (!again)
		return;
	if (again->wait)
		sandbox_wait_cancel(again->wait);
	if (again->follow)
		follow_close(again->call->service, again->follow);
	output_buffer_done(&again->streams[0]);
	output_buffer_done(&again->streams[1]);
	free(again);
}

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct exec_reattach *again = arg;

	output_buffer_add(&again->streams[stream - 1], cursor, bytes);
	follow_credit(again->call->service, again->follow, (uint32_t)bytes.n);
}

static void on_end(void *arg, const struct process_status *status, const struct err *err)
{
	struct exec_reattach *again = arg;

	again->follow = 0;
	exec_followed(again->call, status, buf_str(&again->streams[0].bytes),
		      buf_str(&again->streams[1].bytes), err);
}

static void on_ready(void *arg, const struct err *error)
{
	static const struct follow_hooks hooks = { .on_output = on_output, .on_end = on_end };
	struct exec_reattach *again = arg;
	struct exec_call *call = again->call;
	struct sandbox *sandbox = sandbox_get(call->service, call->sandbox);
	struct follow_spec spec = { .credit = FOLLOW_CREDIT,
				    .streams = PROCESS_OUT | PROCESS_ERR,
				    .live = true };
	struct err err;

	again->wait = NULL;
	if (!error && !sandbox && sandbox_gone(NULL, &err) < 0)
		error = &err;
	if (!error &&
	    follow_open(sandbox, call->process_id, &spec, &hooks, again, &again->follow, &err) < 0)
		error = &err;
	if (error)
		exec_followed(call, NULL, (struct str){ "", 0 }, (struct str){ "", 0 }, error);
}

int exec_reattach_start(struct exec_call *call, struct sandbox *sandbox)
{
	struct exec_reattach *again = calloc(1, sizeof(*again));
	struct err err;

	if (!again)
		return -1;
	again->call = call;
	output_buffer_init(&again->streams[0], call->output_max_bytes, 0);
	output_buffer_init(&again->streams[1], call->output_max_bytes, 0);
	if (sandbox_when_ready(sandbox, false, on_ready, again, &again->wait, &err) == 0) {
		call->again = again;
		return 0;
	}
	exec_reattach_free(again);
	return -1;
}
