/* SPDX-License-Identifier: Apache-2.0 */
/* Changes in a tree as server-sent events. */
#include <errno.h>

#include "base/log.h"
#include "face/kit/error.h"
#include "face/rest/files/files.h"
#include "http/message/sse.h"

/* A slow reader blocks the tool. The kernel's queue then fills, and the tool reports an
 * overflow. */
static void send_bytes(struct rest_transfer *t, struct str bytes)
{
	struct http_req *req = transfer_req(&t->base);

	if (!req || http_reply_write(req, bytes.p, bytes.n) != -EAGAIN || t->base.blocked)
		return;
	t->base.blocked = true;
	files_pause(t->rest->service, t->base.run, true);
}

static void send_event(struct rest_transfer *t, const char *name, struct str json)
{
	struct buf *out = &t->rest->out;

	buf_clear(out);
	if (sse_event(out, str_of(name), (struct str){ "", 0 }, json) < 0)
		log_warn("an event could not be written");
	else
		send_bytes(t, buf_str(out));
}

static void on_event(void *arg, const struct files_event *event)
{
	struct rest_transfer *t = arg;
	struct buf *scratch = &t->rest->scratch;
	struct json_writer w;

	buf_clear(scratch);
	json_writer_init(&w, scratch);
	files_event_write(event, &w);
	if (json_writer_end(&w) < 0)
		log_warn("an event could not be written");
	else
		send_event(t, files_event_name(event->change), buf_str(scratch));
}

static void on_drain(void *arg)
{
	struct rest_transfer *t = arg;

	t->base.blocked = false;
	files_pause(t->rest->service, t->base.run, false);
}

static void on_heartbeat(void *arg)
{
	struct rest_transfer *t = arg;

	if (!t->base.blocked)
		send_bytes(t, STR_LIT(": beat\n\n"));
}

static void on_ready(void *arg)
{
	struct rest_transfer *t = arg;
	struct http_req *req = transfer_req(&t->base);

	if (!req || t->base.begun)
		return;
	t->base.begun = true;
	if (events_begin(t->rest, req) < 0)
		return; /* on_gone follows */
	heartbeat_start(&t->heartbeat, t->rest, on_heartbeat, t);
	send_event(t, "started", STR_LIT("{}"));
}

static struct str error_json(struct rest *rest, const struct err *err)
{
	struct json_writer w;

	buf_clear(&rest->scratch);
	json_writer_init(&w, &rest->scratch);
	json_begin_object(&w, NULL);
	json_put_text(&w, "code", err_name(err->code));
	json_put_text(&w, "message", err->message);
	json_put_text(&w, "hint", error_hint(err->code));
	json_end_object(&w);
	return json_writer_end(&w) < 0 ? STR_LIT("{}") : buf_str(&rest->scratch);
}

static void on_end(void *arg, const struct files_result *result, const struct err *err)
{
	struct rest_transfer *t = arg;
	struct rest *rest = t->rest;
	bool begun = t->base.begun;
	struct http_req *req;

	(void)result;
	if (err && begun)
		send_event(t, "error", error_json(rest, err));
	req = transfer_end(&t->base);
	if (req && begun)
		http_reply_end(req);
	else if (req && err)
		answer_error(rest, req, err);
	else if (req)
		answer_empty(rest, req, 204);
}

void files_watch(struct rest_call *call)
{
	static const struct files_hooks hooks = { .on_ready = on_ready,
						  .on_event = on_event,
						  .on_end = on_end };
	struct err err;
	struct rest_transfer *t = rest_transfer_new(call, &err);

	if (t && (files_spec_read(call, &t->base.spec, &err) < 0 ||
		  rest_transfer_start(t, &hooks, &err) < 0)) {
		(void)transfer_end(&t->base);
		t = NULL;
	}
	if (!t)
		answer_error(call->rest, call->req, &err);
	else
		http_reply_on_drain(call->req, on_drain, t);
}
