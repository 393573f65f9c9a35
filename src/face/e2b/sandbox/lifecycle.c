/* SPDX-License-Identifier: Apache-2.0 */
/* Connect, resume, pause, fork. */
#include "base/time.h"
#include "face/e2b/call.h"
#include "service/copy/snapshot.h"

static void answer_session(struct e2b_call *call, int status, const struct sandbox *sandbox)
{
	struct json_writer w = e2b_answer_begin(call->e2b);

	sandbox_view_write(call->e2b, sandbox, &w, NULL);
	e2b_answer_send(call, status, &w);
}

static void on_resumed(void *arg, struct sandbox *sandbox, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;

	if (e2b_pending_done(pending, err))
		answer_session(call, 201, sandbox);
}

/* memory: false discards the memory of a hibernated sandbox. A frozen sandbox keeps it. */
static void resume(struct e2b_call *call, struct sandbox *sandbox, int64_t sec, bool memory)
{
	struct e2b_pending *pending = e2b_pending_new(call);
	struct err err;
	int r;

	if (!pending)
		return;
	r = memory ? sandbox_resume(sandbox, sec, on_resumed, pending, &err)
		   : sandbox_resume_files(sandbox, sec, on_resumed, pending, &err);
	if (r <= 0) {
		e2b_pending_begun(pending, r, &err);
		return;
	}
	(void)e2b_pending_end(pending);
	answer_session(call, 200, sandbox);
}

struct life_body {
	int64_t timeout_sec, count;
	bool memory;
};
#define AT(member) offsetof(struct life_body, member)
#define TIMEOUT_ROW(usual)                                                       \
	{                                                                        \
		.name = "timeout", .type = FIELD_INT, .offset = AT(timeout_sec), \
		.limit = FIELD_LIMIT_TIMEOUT, .fallback = (usual)                \
	}
#define MEMORY_ROW                                                                           \
	{                                                                                    \
		.name = "memory", .type = FIELD_BOOL, .offset = AT(memory), .fallback = true \
	}
static const struct field connect_fields[] = { TIMEOUT_ROW(E2B_TIMEOUT_SEC),
					       MEMORY_ROW,
					       { .type = FIELD_END } };
static const struct field resume_fields[] = { TIMEOUT_ROW(E2B_TIMEOUT_V1_SEC),
					      MEMORY_ROW,
					      { .type = FIELD_END } };
static const struct field pause_fields[] = { MEMORY_ROW, { .type = FIELD_END } };
static const struct field fork_fields[] = { { .name = "count",
					      .type = FIELD_INT,
					      .offset = AT(count),
					      .min = 1,
					      .max = BATCH_MAX,
					      .fallback = 1 },
					    TIMEOUT_ROW(E2B_TIMEOUT_SEC),
					    { .type = FIELD_END } };
#undef AT

/* The memory of a frozen sandbox cannot be discarded here. */
static int check_memory(const struct sandbox *sandbox, bool memory, struct err *err)
{
	struct sandbox_view view;

	sandbox_view(sandbox, &view);
	if (!memory && view.state == SANDBOX_PAUSED && view.pause_kind == PAUSE_FREEZE)
		return err_set(err, ERR_UNSUPPORTED,
			       "this sandbox was paused with its memory and resumes with it");
	return 0;
}

/* The end of a running sandbox is only postponed, never brought forward. */
static int extend(struct sandbox *sandbox, int64_t sec, struct err *err)
{
	int64_t end_ms = sandbox_expires_ms(sandbox);

	if (!end_ms || end_ms >= time_real_ms() + sec * 1000)
		return 0;
	return sandbox_extend(sandbox, sec, err);
}

/* The sandbox is running, and no state transition is pending. */
static bool is_steady(const struct sandbox *sandbox)
{
	struct sandbox_view view;

	sandbox_view(sandbox, &view);
	return view.state == SANDBOX_RUNNING && !view.in_transition;
}

void e2b_life_connect(struct e2b_call *call)
{
	struct sandbox *sandbox = call_sandbox(call);
	struct life_body body = { .count = 1 };
	int64_t sec;
	struct err err;
	int r;

	if (!sandbox || !call_decode(call, connect_fields, &body))
		return;
	sec = MAX(body.timeout_sec, 1);
	r = check_memory(sandbox, body.memory, &err);
	if (r == 0 && is_steady(sandbox))
		r = extend(sandbox, sec, &err);
	if (r < 0)
		e2b_answer_error(call, &err);
	else if (is_steady(sandbox))
		answer_session(call, 200, sandbox);
	else
		resume(call, sandbox, sec, body.memory);
}

void e2b_life_resume(struct e2b_call *call)
{
	struct sandbox *sandbox = call_sandbox(call);
	struct life_body body = { .count = 1 };
	struct err err;

	if (!sandbox || !call_decode(call, resume_fields, &body))
		return;
	if (sandbox_state(sandbox) == SANDBOX_RUNNING) {
		e2b_answer_status(call, 409, "sandbox %s is running already", sandbox_id(sandbox));
		return;
	}
	if (check_memory(sandbox, body.memory, &err) < 0)
		e2b_answer_error(call, &err);
	else
		resume(call, sandbox, MAX(body.timeout_sec, 1), body.memory);
}

static void on_paused(void *arg, struct sandbox *sandbox, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;

	(void)sandbox;
	if (e2b_pending_done(pending, err))
		e2b_answer_empty(call, 204);
}

void e2b_life_pause(struct e2b_call *call)
{
	struct sandbox *sandbox = call_sandbox(call);
	struct life_body body = { .count = 1 };
	struct e2b_pending *pending;
	struct err err;
	int r;

	if (!sandbox || !call_decode(call, pause_fields, &body))
		return;
	if (sandbox_state(sandbox) == SANDBOX_PAUSED) {
		e2b_answer_status(call, 409, "sandbox %s is paused already", sandbox_id(sandbox));
		return;
	}
	pending = e2b_pending_new(call);
	if (!pending)
		return;
	r = body.memory ? sandbox_pause(sandbox, PAUSE_FREEZE, on_paused, pending, &err)
			: sandbox_pause_files(sandbox, on_paused, pending, &err);
	if (r <= 0) {
		e2b_pending_begun(pending, r, &err);
		return;
	}
	(void)e2b_pending_end(pending);
	e2b_answer_status(call, 409, "sandbox %s is paused already", sandbox_id(sandbox));
}

/* ---- fork ---- */

static void write_failure(struct json_writer *w, const struct err *err)
{
	json_begin_object(w, "error");
	json_put_int(w, "code", err ? e2b_error_status(err) : 500);
	json_put_text(w, "message", err ? err->message : "the fork failed");
	json_end_object(w);
}

/* A child grants the same access to its ports as the source. */
static void on_child(void *arg, int64_t index, const struct sandbox *child, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct err own;

	(void)index;
	if (child && session_open_ports(pending->e2b, child, pending->ports, &own) < 0) {
		child = NULL;
		err = &own;
	}
	json_begin_object(&pending->w, NULL);
	if (child)
		sandbox_view_write(pending->e2b, child, &pending->w, "sandbox");
	else
		write_failure(&pending->w, err);
	json_end_object(&pending->w);
}

static void on_forked(void *arg, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;
	struct json_writer w = pending->w;
	struct buf text = pending->list; /* it outlives the call that waited for it */
	struct http_req *req;

	buf_init(&pending->list, 1);
	req = e2b_pending_end(pending);
	w.out = &text;
	json_end_array(&w);
	if (req && err)
		e2b_answer_error(call, err);
	else if (req)
		e2b_answer_send(call, 201, &w);
	buf_done(&text);
}

void e2b_life_fork(struct e2b_call *call)
{
	static const struct batch_hooks hooks = { .item = on_child, .done = on_forked };
	struct sandbox *sandbox = call_sandbox(call);
	struct fork_spec spec = { .count = 1, .memory_if_can = true };
	struct life_body body = { .count = 1 };
	struct e2b_pending *pending;
	struct err err;

	if (!sandbox || !call_decode(call, fork_fields, &body))
		return;
	spec.count = body.count;
	spec.timeout_sec = MAX(body.timeout_sec, 1);
	pending = e2b_pending_new(call);
	if (!pending)
		return;
	pending->ports = session_ports(sandbox);
	json_begin_array(&pending->w, NULL);
	e2b_pending_begun(pending,
			  sandbox_fork(sandbox, call->key, &spec, NULL, &hooks, pending, &err),
			  &err);
}
