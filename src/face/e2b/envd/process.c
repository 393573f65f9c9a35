/* SPDX-License-Identifier: Apache-2.0 */
/* Start and Connect: a process as a stream of events. The process continues when a client
 * disconnects. */
#include "service/run/process.h"

#include <stdio.h>

#include "face/e2b/envd/envelope_stream.h"
#include "face/e2b/envd/process.h"
#include "service/run/time_limit.h"
#include "service/template/template.h"

#define KEEPALIVE "{\"event\":{\"keepalive\":{}}}"

/* ---- messages ---- */

static struct json_writer event_begin(struct flow *flow, const char *name)
{
	struct json_writer w = flow_message(flow);

	json_begin_object(&w, NULL);
	json_begin_object(&w, "event");
	json_begin_object(&w, name);
	return w;
}

static void event_send(struct flow *flow, struct json_writer *w)
{
	json_end_object(w);
	json_end_object(w);
	json_end_object(w);
	flow_send(flow, w);
}

static void send_start(struct flow *flow)
{
	struct json_writer w;

	flow_begin(flow);
	w = event_begin(flow, "start");
	json_put_int(&w, "pid", flow->pid);
	event_send(flow, &w);
}

/* "exit status 3", "signal: killed" */
static void describe(const struct process_status *status, char *dst, size_t size)
{
	const char *name = status->signal ? sigdescr_np(status->signal) : NULL;

	if (!status->signal)
		(void)snprintf(dst, size, "exit status %d", status->exit_code);
	else
		(void)snprintf(dst, size, "signal: %s", name ? name : "unknown");
	for (char *p = dst; status->signal && *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
}

static void send_end(struct flow *flow, const struct process_status *status)
{
	struct json_writer w = event_begin(flow, "end");
	char text[64];

	describe(status, text, sizeof(text));
	json_put_int(&w, "exitCode", status->signal ? -1 : status->exit_code);
	json_put_bool(&w, "exited", !status->signal);
	json_put_text(&w, "status", text);
	if (status->signal || status->exit_code)
		json_put_text(&w, "error", text);
	event_send(flow, &w);
}

/* ---- callbacks of the service ---- */

static void give_back(struct flow *flow)
{
	uint32_t bytes = flow->owed;

	flow->owed = 0;
	follow_credit(flow->e2b->service, flow->follow, bytes);
}

/* The protocol has no event for a gap, and without an error the client would take the output for
 * complete. The process continues. */
static void lose(struct flow *flow, int stream, uint64_t bytes, uint64_t at)
{
	struct err err;

	(void)err_set(&err, ERR_OUTPUT_LOST,
		      "output lost: %llu bytes were overwritten before they were read (pid %u, %s, "
		      "offset %llu)",
		      (unsigned long long)bytes, flow->pid,
		      stream == PROCESS_ERR ? "stderr" : "stdout", (unsigned long long)at);
	follow_close(flow->e2b->service, flow->follow);
	flow_end(flow, &err);
}

static void on_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct flow *flow = arg;
	uint64_t *next = &flow->next_cursor[stream == PROCESS_ERR];
	struct json_writer w;

	if (cursor != *next) {
		lose(flow, stream, cursor - *next, *next);
		return;
	}
	*next += bytes.n;
	w = event_begin(flow, "data");
	json_put_b64(&w, flow->tty ? "pty" : stream == PROCESS_ERR ? "stderr" : "stdout", bytes);
	event_send(flow, &w);
	flow->owed += (uint32_t)bytes.n;
	if (!flow->blocked && flow->owed >= FLOW_CREDIT / 4)
		give_back(flow);
}

static void on_end(void *arg, const struct process_status *status, const struct err *err)
{
	struct flow *flow = arg;
	struct err late;

	if (err && err->code == ERR_SANDBOX_GONE) {
		flow_cut(flow);
		return;
	}
	if (!flow->begun && !err)
		send_start(flow);
	if (!err && status->reason && strcmp(status->reason, "timeout") == 0) {
		/* The client has a timer, too. Both report the same error, whichever fires
		 * first. */
		(void)err_set(&late, ERR_TIMEOUT, "the command reached its time limit");
		err = &late;
	} else if (!err && status->reason) {
		send_end(flow, status);
	}
	flow_end(flow, err);
}

static const struct follow_hooks hooks = { .on_output = on_output, .on_end = on_end };

/* Without a follow, the process is still being started. The completion then finds that the
 * client is gone. */
static void on_flow_gone(struct flow *flow)
{
	if (!flow->follow)
		return;
	follow_close(flow->e2b->service, flow->follow);
	flow_free(flow);
}

static struct flow *process_flow(struct e2b_call *call, struct err *err)
{
	struct flow *flow = flow_new(call, KEEPALIVE, err);

	if (!flow)
		return NULL;
	flow->on_gone = on_flow_gone;
	flow->on_drain = give_back;
	return flow;
}

/* ---- start ---- */

static void on_started(void *arg, uint32_t process_id, uint32_t pid, slot_handle follow,
		       const struct err *err)
{
	struct flow *flow = arg;

	(void)process_id;
	if (!flow->req) {
		if (follow)
			follow_close(flow->e2b->service, follow);
		flow_free(flow);
		return;
	}
	if (err && err->code == ERR_SANDBOX_GONE) {
		flow_cut(flow);
		return;
	}
	if (err) {
		flow_end(flow, err);
		return;
	}
	flow->follow = follow;
	flow->pid = pid;
	send_start(flow);
}

/* The client's timeout also limits the run time of the process. */
static int64_t life_ms(const struct e2b_call *call)
{
	const struct str *header = http_req_header(call->req, "connect-timeout-ms");
	uint64_t ms = 0;

	if (!header || str_to_u64(*header, INT64_MAX / 1000, &ms) < 0)
		return 0;
	return MIN((int64_t)ms, command_time_max_sec(service_config(call->e2b->service)) * 1000);
}

static int read_start(struct e2b_call *call, struct exec_spec *ret, struct err *err)
{
	struct process_origin origin;
	struct sandbox_view view;
	const char *path;

	sandbox_view(call->sandbox, &view);
	origin = (struct process_origin){ str_of(view.id), str_of(view.template->name) };
	if (process_start_read(call->doc, &origin, call->req->arena, ret, err) < 0)
		return -1;
	path = envd_path(call, ret->cwd);
	if (!path)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	ret->cwd = path[0] == '/' ? str_of(path) : (struct str){ NULL, 0 };
	ret->user = str_of(call->user);
	ret->timeout_ms = life_ms(call);
	ret->hold = true;
	return 0;
}

void process_start_call(struct e2b_call *call)
{
	struct exec_spec spec;
	struct flow *flow = NULL;
	struct err err;

	if (read_start(call, &spec, &err) == 0)
		flow = process_flow(call, &err);
	if (!flow) {
		e2b_answer_error(call, &err);
		return;
	}
	flow->tty = spec.tty;
	if (process_start(call->sandbox, &spec, on_started, flow,
			  &(struct process_reader){ &hooks, flow, FLOW_CREDIT }, &err) < 0)
		flow_end(flow, &err);
}

/* ---- connect ---- */

/* From the current position on: earlier output is not repeated. */
static void on_found(struct e2b_call *call, const struct process_info *info)
{
	struct follow_spec spec = { .credit = FLOW_CREDIT,
				    .streams = PROCESS_OUT | PROCESS_ERR,
				    .out_cursor = info->status.out_total,
				    .err_cursor = info->status.err_total,
				    .live = true };
	struct err err;
	struct flow *flow = process_flow(call, &err);

	if (!flow) {
		e2b_answer_error(call, &err);
		return;
	}
	flow->pid = info->pid;
	flow->tty = info->tty;
	flow->next_cursor[0] = spec.out_cursor;
	flow->next_cursor[1] = spec.err_cursor;
	if (follow_open(call->sandbox, info->process_id, &spec, &hooks, flow, &flow->follow, &err) <
	    0) {
		flow_end(flow, &err);
		return;
	}
	send_start(flow);
}

void process_connect_call(struct e2b_call *call)
{
	process_select(call, true, on_found);
}
