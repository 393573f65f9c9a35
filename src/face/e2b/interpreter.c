/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of E2B's code interpreter at a sandbox's port 49999, on the service's code
 * contexts. */
#include <errno.h>

#include "base/log.h"
#include "face/e2b/envd/envd.h"
#include "face/kit/json/code_event.h"
#include "service/run/code.h"

#define HOME "/home/" E2B_USER
#define PATIENCE_MS (5 * 60 * 1000)

/* One execution. Owner: its request, until on_end or until the client disconnects. */
struct execution {
	struct e2b_call *call; /* valid as long as the request */
	struct e2b *e2b;
	slot_handle req;
	slot_handle run;
	bool begun;
};

static struct http_req *request(const struct execution *x)
{
	return x->e2b->server ? http_req_get(x->e2b->server, x->req) : NULL;
}

/* ---- bodies ---- */

struct code_body {
	struct str language, code, context_id, cwd;
	struct text_map env;
};
#define AT(member) offsetof(struct code_body, member)
#define TEXT_ROW(key, member)                                                                \
	{                                                                                    \
		.name = (key), .type = FIELD_STR, .offset = AT(member), .max = E2B_RPC_LIMIT \
	}
static const struct field fields[] = { TEXT_ROW("language", language),
				       TEXT_ROW("code", code),
				       TEXT_ROW("context_id", context_id),
				       TEXT_ROW("cwd", cwd),
				       { .name = "env_vars", .type = FIELD_MAP, .offset = AT(env) },
				       { .type = FIELD_END } };
#undef AT

static bool read_language(struct e2b_call *call, struct str name, int *ret)
{
	if (str_is(name, "js"))
		name = STR_LIT("javascript");
	for (int i = 0; code_languages[i]; i++)
		if (!name.n || str_is(name, code_languages[i])) {
			*ret = i;
			return true;
		}
	e2b_answer_status(call, 400, "language '%.*s' is not supported by this server",
			  (int)MIN(name.n, 40), name.p);
	return false;
}

static bool read_spec(struct e2b_call *call, struct code_spec *spec)
{
	struct code_body body = { .code = { NULL, 0 } };

	if (!call_decode(call, fields, &body) ||
	    !read_language(call, body.language, &spec->language))
		return false;
	spec->code = body.code;
	spec->context_id = body.context_id;
	spec->cwd = body.cwd;
	spec->env = body.env;
	spec->user = str_of(call->user);
	if (!spec->cwd.n && sandbox_has_users(call->sandbox))
		spec->cwd = STR_LIT(HOME);
	return true;
}

/* ---- executions ---- */

static void begin(struct execution *x, struct http_req *req)
{
	static const struct http_header headers[] = {
		{ STR_LIT("Content-Type"), STR_LIT("application/x-ndjson") },
		{ STR_LIT("Cache-Control"), STR_LIT("no-store") },
		{ STR_LIT("X-Accel-Buffering"), STR_LIT("no") },
		{ STR_LIT("Access-Control-Allow-Origin"), STR_LIT("*") },
	};

	x->begun = true;
	if (http_reply_start(req, 200, headers, ARRAY_LEN(headers)) < 0)
		log_debug("%s: the client disconnected", req->id);
}

/* False: the client reads slowly. */
static bool send_line(struct execution *x, struct http_req *req, struct json_writer *w)
{
	struct buf *out = &x->e2b->out;

	if (json_writer_end(w) < 0 || buf_puts(out, "\n") < 0) {
		log_warn("an event could not be written");
		return true;
	}
	if (!x->begun)
		begin(x, req);
	return http_reply_write(req, buf_str(out).p, buf_len(out)) != -EAGAIN;
}

static bool on_event(void *arg, const struct code_event *event)
{
	struct execution *x = arg;
	struct http_req *req = request(x);
	struct json_writer w;

	if (!req)
		return true;
	w = e2b_answer_begin(x->e2b);
	json_begin_object(&w, NULL);
	json_put_text(&w, "type", code_event_name(event->type));
	code_event_write(event, &w);
	json_end_object(&w);
	return send_line(x, req, &w);
}

static void end_lines(struct execution *x, struct http_req *req)
{
	struct json_writer w = e2b_answer_begin(x->e2b);

	json_begin_object(&w, NULL);
	json_put_text(&w, "type", "end_of_execution");
	json_end_object(&w);
	(void)send_line(x, req, &w);
	http_reply_end(req);
}

static void on_end(void *arg, const struct code_end *end, const struct err *err)
{
	struct execution *x = arg;
	struct http_req *req = request(x);

	(void)end;
	if (req) {
		http_req_on_gone(req, NULL, NULL);
		http_reply_on_drain(req, NULL, NULL);
		if (!err)
			end_lines(x, req);
		else if (x->begun)
			http_reply_abort(req); /* a reset makes the client check the sandbox */
		else
			e2b_answer_error(x->call, err);
	}
	free(x);
}

static const struct code_hooks hooks = { .on_event = on_event, .on_end = on_end };

/* Clients end an execution that takes too long by disconnecting. */
static void on_gone(void *arg)
{
	struct execution *x = arg;

	code_interrupt(x->e2b->service, x->run);
	code_leave(x->e2b->service, x->run);
	free(x);
}

static void on_drain(void *arg)
{
	struct execution *x = arg;

	code_more(x->e2b->service, x->run);
}

static void execute(struct e2b_call *call)
{
	struct code_spec spec = { .timeout_sec = 0 };
	struct execution *x;
	struct err err;

	if (!read_spec(call, &spec))
		return;
	x = calloc(1, sizeof(*x));
	if (!x) {
		e2b_answer_status(call, 503, "out of memory");
		return;
	}
	x->call = call;
	x->e2b = call->e2b;
	x->req = call->req->handle;
	if (code_run(call->sandbox, &spec, &hooks, x, &x->run, &err) < 0) {
		free(x);
		e2b_answer_error(call, &err);
		return;
	}
	http_req_on_gone(call->req, on_gone, x);
	http_reply_on_drain(call->req, on_drain, x);
	http_reply_patience(call->req, PATIENCE_MS);
}

/* ---- contexts ---- */

static void write_context(struct json_writer *w, const struct code_context *context)
{
	json_begin_object(w, NULL);
	json_put_text(w, "id", context->id);
	json_put_text(w, "language", context->language);
	json_put_text(w, "cwd", context->cwd);
	json_end_object(w);
}

static void on_context(void *arg, const struct code_context *context, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;
	struct json_writer w;

	if (!e2b_pending_done(pending, err))
		return;
	w = e2b_answer_begin(call->e2b);
	write_context(&w, context);
	e2b_answer_send(call, 200, &w);
}

static void on_deleted(void *arg, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;

	if (e2b_pending_done(pending, err))
		e2b_answer_empty(call, 204);
}

static void create(struct e2b_call *call)
{
	struct code_spec spec = { .timeout_sec = 0 };
	struct e2b_pending *pending;
	struct err err;

	if (!read_spec(call, &spec))
		return;
	pending = e2b_pending_new(call);
	if (pending)
		e2b_pending_begun(pending,
				  code_context_new(call->sandbox, &spec, on_context, pending, &err),
				  &err);
}

static void on_each(void *arg, const struct code_context *context, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;
	struct buf list;
	int r;

	if (context) {
		write_context(&pending->w, context);
		return;
	}
	json_end_array(&pending->w);
	r = json_writer_end(&pending->w);
	list = pending->list;
	buf_init(&pending->list, 0);
	if (!e2b_pending_end(pending))
		;
	else if (err)
		e2b_answer_error(call, err);
	else if (r < 0)
		e2b_answer_status(call, 500, "the list is too long");
	else
		e2b_answer_text(call, 200, buf_str(&list));
	buf_done(&list);
}

static void list(struct e2b_call *call)
{
	struct e2b_pending *pending = e2b_pending_new(call);
	struct err err;

	if (!pending)
		return;
	buf_init(&pending->list, E2B_BODY_LIMIT);
	json_writer_init(&pending->w, &pending->list);
	json_begin_array(&pending->w, NULL);
	e2b_pending_begun(pending, code_context_list(call->sandbox, on_each, pending, &err), &err);
}

static void delete (struct e2b_call *call)
{
	struct e2b_pending *pending = e2b_pending_new(call);
	struct err err;

	if (pending)
		e2b_pending_begun(pending,
				  code_context_delete(call->sandbox, call->args[0], on_deleted,
						      pending, &err),
				  &err);
}

static void restart(struct e2b_call *call)
{
	struct e2b_pending *pending = e2b_pending_new(call);
	struct err err;

	if (pending)
		e2b_pending_begun(pending,
				  code_context_restart(call->sandbox, call->args[0], on_context,
						       pending, &err),
				  &err);
}

/* ---- paths ---- */

#define TOKEN 0, ROUTE_TOKEN

static const struct e2b_route routes[] = {
	{ ROUTE(POST, "/execute", TOKEN), execute, .body = true },
	{ ROUTE(POST, "/contexts", TOKEN), create, .body = true },
	{ ROUTE(GET, "/contexts", TOKEN), list },
	{ ROUTE(POST, "/contexts/{id}/restart", TOKEN), restart, .body = true },
	{ ROUTE(DELETE, "/contexts/{id}", TOKEN), delete },
};

const struct route_table e2b_code_table = { .face = "code", ROUTE_ROWS(routes) };
