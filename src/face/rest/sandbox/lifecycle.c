/* SPDX-License-Identifier: Apache-2.0 */
/* Pause and resume: the reply is the sandbox in its new state. */
#include "face/rest/call.h"
#include "service/copy/snapshot.h"

struct pause_body {
	int kind;
};
const struct field pause_fields[] = {
	{ .name = "kind",
	  .type = FIELD_ENUM,
	  .names = pause_kind_names,
	  .offset = offsetof(struct pause_body, kind),
	  .doc = "freeze: it stays in memory without CPU time; hibernate: its files, and its "
		 "memory if possible, are on disk and nothing runs" },
	{ .type = FIELD_END }
};

struct resume_body {
	int64_t timeout_sec;
	bool memory;
};
const struct field resume_fields[] = {
	{ .name = "timeout_sec",
	  .type = FIELD_INT,
	  .min = 1,
	  .limit = FIELD_LIMIT_TIMEOUT,
	  .offset = offsetof(struct resume_body, timeout_sec),
	  .doc = "a new timeout; by default the remaining time" },
	{ .name = "memory",
	  .type = FIELD_BOOL,
	  .offset = offsetof(struct resume_body, memory),
	  .fallback = true,
	  .doc = "false: discard the stored memory and start with the files only" },
	{ .type = FIELD_END }
};

static void answer_sandbox(struct rest *rest, struct http_req *req, const struct sandbox *sandbox)
{
	struct json_writer w = answer_begin(rest);

	sandbox_write(sandbox, &w, NULL);
	answer_send(rest, req, 200, &w);
}

void life_moved(void *arg, struct sandbox *sandbox, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct rest *rest = pending->rest;
	struct http_req *req = pending_done(pending, err);

	if (req)
		answer_sandbox(rest, req, sandbox);
}

/* r: 1 it is already in this state, 0 the reply follows, -1 rejected. */
void life_begun(struct rest_pending *pending, int r, const struct sandbox *sandbox,
		const struct err *err)
{
	struct rest *rest = pending->rest;
	struct http_req *req;

	if (r == 0)
		return;
	req = pending_end(pending);
	if (req && r > 0)
		answer_sandbox(rest, req, sandbox);
	else if (req)
		answer_error(rest, req, err);
}

struct sandbox *life_find(struct rest_call *call, const struct field *fields, void *body)
{
	struct sandbox *sandbox;
	struct err err;

	sandbox = sandbox_find(call->rest->service, call->key, call->args[0], &err);
	if (sandbox && field_decode(fields, call->doc, "", call->req->arena, body, &err) == 0)
		return sandbox;
	answer_error(call->rest, call->req, &err);
	return NULL;
}

void life_pause(struct rest_call *call)
{
	struct pause_body body = { .kind = 0 };
	struct sandbox *sandbox = life_find(call, pause_fields, &body);
	struct rest_pending *pending = sandbox ? pending_for(call) : NULL;
	struct err err;

	if (pending)
		life_begun(pending,
			   sandbox_pause(sandbox, (enum pause_kind)body.kind, life_moved, pending,
					 &err),
			   sandbox, &err);
}

void life_resume(struct rest_call *call)
{
	struct resume_body body = { .timeout_sec = 0, .memory = true };
	struct sandbox *sandbox = life_find(call, resume_fields, &body);
	struct rest_pending *pending = sandbox ? pending_for(call) : NULL;
	struct err err;

	if (pending)
		life_begun(pending,
			   body.memory ? sandbox_resume(sandbox, body.timeout_sec, life_moved,
							pending, &err)
				       : sandbox_resume_files(sandbox, body.timeout_sec, life_moved,
							      pending, &err),
			   sandbox, &err);
}
