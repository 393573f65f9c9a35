/* SPDX-License-Identifier: Apache-2.0 */
/* Code contexts: run code and wait, run code and stream, manage contexts. */
#include "service/run/code.h"

#include <errno.h>

#include "face/kit/json/code_event.h"
#include "face/rest/run/stream.h"
#include "service/account/idempotency.h"

#define TEXT_LIMIT \
	(8 * 1024 * 1024) /* bytes of each stream in one reply; the rest is only counted */
#define RESULT_LIMIT \
	(32 * 1024 * 1024) /* bytes of all results in one reply; further ones are left out */

#define AT(member) offsetof(struct code_spec, member)
#define PLACE_FIELDS                                                             \
	{ .name = "language",                                                    \
	  .type = FIELD_ENUM,                                                    \
	  .offset = AT(language),                                                \
	  .names = code_languages },                                             \
		{ .name = "cwd",                                                 \
		  .type = FIELD_STR,                                             \
		  .offset = AT(cwd),                                             \
		  .min = 1,                                                      \
		  .max = 256,                                                    \
		  .doc = "for a new context; default: the template's workdir" }, \
	{                                                                        \
		.name = "user", .type = FIELD_STR, .offset = AT(user), .min = 1, \
		.max = EXEC_USER_MAX                                             \
	}
const struct field code_fields[] = {
	{ .name = "code",
	  .type = FIELD_STR,
	  .offset = AT(code),
	  .max = CODE_MAX,
	  .required = true },
	{ .name = "context_id",
	  .type = FIELD_STR,
	  .offset = AT(context_id),
	  .min = 1,
	  .max = CODE_ID_MAX,
	  .doc = "default: the language's default context, created on first use" },
	PLACE_FIELDS,
	{ .name = "env",
	  .type = FIELD_MAP,
	  .offset = AT(env),
	  .doc = "variables while this code runs" },
	{ .name = "timeout_sec",
	  .type = FIELD_INT,
	  .offset = AT(timeout_sec),
	  .limit = FIELD_LIMIT_COMMAND,
	  .fallback = CODE_TIMEOUT_DEFAULT_SEC,
	  .doc = "then the code is interrupted, and 5 s later its kernel is ended; 0: never" },
	{ .type = FIELD_END }
};
const struct field code_context_fields[] = { PLACE_FIELDS, { .type = FIELD_END } };
#undef AT

/* One execution. Owner: its request, until on_end or until the client disconnects. */
struct code_call {
	struct rest *rest;
	slot_handle req;
	slot_handle run;
	char key_id[AUTH_KEY_ID_SIZE];
	bool streamed, begun;
	bool blocked; /* the client reads slowly */
	struct heartbeat heartbeat;
	struct buf out, err, results, error; /* the two last: JSON */
	uint64_t cut_bytes;
	uint32_t cut_results;
	int64_t count;
};

static void call_free(struct code_call *c)
{
	if (c->streamed)
		stream_end(c->rest->service, c->key_id);
	heartbeat_stop(&c->heartbeat);
	buf_done(&c->out);
	buf_done(&c->err);
	buf_done(&c->results);
	buf_done(&c->error);
	free(c);
}

static struct http_req *request(const struct code_call *c)
{
	return c->rest->server ? http_req_get(c->rest->server, c->req) : NULL;
}

/* ---- with a waiting client ---- */

static void add_text(struct code_call *c, struct buf *to, struct str text)
{
	if (buf_append(to, text.p, text.n) < 0)
		c->cut_bytes += text.n;
}

/* Appends with a comma; all of it or nothing. */
static int put_object(struct code_call *c, struct buf *to, const struct code_event *event)
{
	struct buf *out = &c->rest->out;
	struct json_writer w;

	buf_clear(out);
	json_writer_init(&w, out);
	if (buf_len(to))
		w.error = buf_puts(out, ",");
	json_begin_object(&w, NULL);
	code_event_write(event, &w);
	json_end_object(&w);
	if (json_writer_end(&w) < 0)
		return -EFBIG;
	return buf_append(to, buf_str(out).p, buf_len(out));
}

static void collect(struct code_call *c, const struct code_event *event)
{
	switch (event->type) {
	case CODE_COUNT:
		c->count = event->execution_count;
		break;
	case CODE_STDOUT:
		add_text(c, &c->out, event->text);
		break;
	case CODE_STDERR:
		add_text(c, &c->err, event->text);
		break;
	case CODE_RESULT:
		if (put_object(c, &c->results, event) < 0)
			c->cut_results++;
		break;
	case CODE_ERROR:
		buf_clear(&c->error);
		(void)!put_object(c, &c->error, event);
		break;
	}
}

static void answer_whole(struct code_call *c, struct http_req *req, const struct code_end *end)
{
	struct json_writer w = answer_begin(c->rest);
	struct buf *out = w.out;

	json_begin_object(&w, NULL);
	json_put_text(&w, "context_id", end->context_id);
	json_put_int(&w, "execution_count", c->count);
	json_put_str(&w, "stdout", buf_str(&c->out));
	json_put_str(&w, "stderr", buf_str(&c->err));
	json_begin_array(&w, "results");
	if (buf_len(&c->results) && w.error == 0)
		w.error = buf_append(out, buf_str(&c->results).p, buf_len(&c->results));
	json_end_array(&w);
	if (buf_len(&c->error))
		json_put_raw(&w, "error", buf_str(&c->error));
	else
		json_put_null(&w, "error");
	json_put_bool(&w, "timed_out", end->timed_out);
	json_put_bool(&w, "truncated", c->cut_bytes || c->cut_results);
	json_put_real(&w, "duration_ms", (double)end->duration_us / 1000);
	json_end_object(&w);
	answer_send(c->rest, req, 200, &w);
}

/* ---- streamed ---- */

static void send_begin(struct code_call *c, struct http_req *req)
{
	c->begun = true;
	(void)!events_begin(c->rest, req);
}

static struct json_writer event_begin(struct code_call *c, const char *type)
{
	struct buf *out = &c->rest->out;
	struct json_writer w;

	buf_clear(out);
	json_writer_init(&w, out);
	w.error = buf_printf(out, "event: %s\ndata: ", type);
	json_begin_object(&w, NULL);
	return w;
}

/* False: the client reads more slowly than the code writes. */
static bool event_send(struct code_call *c, struct http_req *req, struct json_writer *w)
{
	struct buf *out = &c->rest->out;

	json_end_object(w);
	if (json_writer_end(w) < 0 || buf_puts(out, "\n\n") < 0)
		return true;
	c->blocked = http_reply_write(req, buf_str(out).p, buf_len(out)) == -EAGAIN;
	return !c->blocked;
}

/* Code may be silent for a long time, also before its first output. */
static void on_heartbeat(void *arg)
{
	struct code_call *c = arg;
	struct http_req *req = request(c);

	if (!req || c->blocked)
		return;
	if (!c->begun)
		send_begin(c, req);
	c->blocked = http_reply_write(req, ": beat\n\n", 8) == -EAGAIN;
}

static void answer_end(struct code_call *c, struct http_req *req, const struct code_end *end,
		       const struct err *err)
{
	struct json_writer w;

	if (!c->begun)
		send_begin(c, req);
	w = event_begin(c, err ? "failed" : "end");
	json_put_text(&w, "context_id", end->context_id);
	json_put_bool(&w, "timed_out", end->timed_out);
	json_put_real(&w, "duration_ms", (double)end->duration_us / 1000);
	if (err) {
		json_put_text(&w, "code", err_name(err->code));
		json_put_text(&w, "message", err->message);
	}
	(void)event_send(c, req, &w);
	http_reply_end(req);
}

/* ---- callbacks of the service ---- */

static bool on_event(void *arg, const struct code_event *event)
{
	struct code_call *c = arg;
	struct http_req *req = request(c);
	struct json_writer w;

	if (!req)
		return true;
	if (!c->streamed) {
		collect(c, event);
		return true;
	}
	if (!c->begun)
		send_begin(c, req);
	w = event_begin(c, code_event_name(event->type));
	code_event_write(event, &w);
	return event_send(c, req, &w);
}

static void on_end(void *arg, const struct code_end *end, const struct err *err)
{
	struct code_call *c = arg;
	struct http_req *req = request(c);

	if (req) {
		http_req_on_gone(req, NULL, NULL);
		http_reply_on_drain(req, NULL, NULL);
		if (err && !c->begun)
			answer_error(c->rest, req, err);
		else if (c->streamed)
			answer_end(c, req, end, err);
		else
			answer_whole(c, req, end);
	}
	call_free(c);
}

static const struct code_hooks hooks = { .on_event = on_event, .on_end = on_end };

static void on_gone(void *arg)
{
	struct code_call *c = arg;

	code_leave(c->rest->service, c->run);
	call_free(c);
}

static void on_drain(void *arg)
{
	struct code_call *c = arg;

	c->blocked = false;
	code_more(c->rest->service, c->run);
}

/* ---- handlers ---- */

static struct code_call *call_new(struct rest_call *call, bool streamed, struct err *err)
{
	struct code_call *c;

	if (streamed && stream_admit(call->rest->service, call->key, err) < 0)
		return NULL;
	c = calloc(1, sizeof(*c));
	if (!c) {
		if (streamed)
			stream_end(call->rest->service, call->key->id);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	c->rest = call->rest;
	c->req = call->req->handle;
	c->streamed = streamed;
	memcpy(c->key_id, call->key->id, sizeof(c->key_id));
	buf_init(&c->out, TEXT_LIMIT);
	buf_init(&c->err, TEXT_LIMIT);
	buf_init(&c->results, RESULT_LIMIT);
	buf_init(&c->error, TEXT_LIMIT);
	return c;
}

static void run(struct rest_call *call, bool streamed)
{
	struct code_spec spec = { .timeout_sec = 0 };
	struct code_call *c = NULL;
	struct err err;

	if (field_decode(code_fields, call->doc, "", call->req->arena, &spec, &err) == 0)
		c = call_new(call, streamed, &err);
	if (!c) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	if (code_run(call->sandbox, &spec, &hooks, c, &c->run, &err) < 0) {
		call_free(c);
		answer_error(call->rest, call->req, &err);
		return;
	}
	http_req_on_gone(call->req, on_gone, c);
	http_reply_on_drain(call->req, on_drain, c);
	if (!streamed)
		return;
	http_reply_patience(call->req, STREAM_PATIENCE_MS);
	heartbeat_start(&c->heartbeat, call->rest, on_heartbeat, c);
}

void code_execute(struct rest_call *call)
{
	run(call, false);
}

void code_stream(struct rest_call *call)
{
	run(call, true);
}

/* ---- contexts ---- */

static void answer_context(void *arg, const struct code_context *context, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct rest *rest = pending->rest;
	struct idempotency *idem = pending->idem;
	const struct rest_call *call = pending->call;
	struct http_req *req = pending_end(pending);
	struct json_writer w;

	if (!req && !idem)
		return;
	if (err) {
		idem_answer_error(rest, req, idem, err);
		return;
	}
	w = answer_begin(rest);
	code_context_write(context, &w, NULL);
	idem_answer(rest, req, idem, req ? call->route->status : 201, &w);
}

/* A context has no id before it exists. Therefore the call itself is recorded, and it is not
 * repeated if the daemon ended before the reply. */
static int note_context(struct rest_call *call, struct rest_pending *pending, struct err *err)
{
	int r;

	if (!pending->idem)
		return 0;
	if (idempotency_begun(pending->idem)[0])
		return err_set(
			err, ERR_CONFLICT,
			"the daemon ended while this Idempotency-Key created a context: look "
			"for it in the list of contexts");
	r = idempotency_note(call->rest->service, pending->idem, sandbox_id(call->sandbox),
			     "context");
	return r < 0 ? err_set_errno(err, ERR_UNAVAILABLE, r, "the call could not be recorded") : 0;
}

void code_contexts_create(struct rest_call *call)
{
	struct code_spec spec = { .timeout_sec = 0 };
	struct rest_pending *pending;
	struct err err;

	if (field_decode(code_context_fields, call->doc, "", call->req->arena, &spec, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	pending = once_begin(call);
	if (!pending)
		return;
	if (note_context(call, pending, &err) < 0 ||
	    code_context_new(call->sandbox, &spec, answer_context, pending, &err) < 0)
		once_refuse(pending, &err);
}

static void on_each(void *arg, const struct code_context *context, const struct err *err)
{
	struct rest_pending *pending = arg;

	if (context)
		code_context_write(context, &pending->list->w, NULL);
	else
		list_answer(pending, err);
}

void code_contexts_list(struct rest_call *call)
{
	struct rest_pending *pending = list_begin(call);
	struct err err;

	if (pending)
		answer_later(pending, code_context_list(call->sandbox, on_each, pending, &err),
			     &err);
}

void code_contexts_delete(struct rest_call *call)
{
	answer_named(call, code_context_delete);
}

void code_contexts_interrupt(struct rest_call *call)
{
	answer_named(call, code_context_interrupt);
}

void code_contexts_restart(struct rest_call *call)
{
	struct rest_pending *pending = pending_for(call);
	struct err err;

	if (pending)
		answer_later(pending,
			     code_context_restart(call->sandbox, call->args[1], answer_context,
						  pending, &err),
			     &err);
}
