/* SPDX-License-Identifier: Apache-2.0 */
/* What clients of the E2B code interpreter find at a sandbox's port 49999: the service's code
 * contexts in their words. */
#include <errno.h>

#include "base/log.h"
#include "face/e2b/envd/envd.h"
#include "face/kit/code_event.h"
#include "service/run/code.h"

#define HOME "/home/" E2B_USER
#define PATIENCE_MS (5 * 60 * 1000)

/* One execution. Owner: its request until on_end or the client's going. */
struct execution {
	struct e2b_call *call; /* good as long as the request is */
	struct e2b *e2b;
	slot_handle req;
	slot_handle run;
	bool begun;
};

static struct http_req *request(const struct execution *x)
{
	return x->e2b->server ? http_req_get(x->e2b->server, x->req) : NULL;
}

/* ---- what is asked for ---- */

static bool read_language(struct e2b_call *call, int *ret)
{
	bool ok = true;
	struct str name = call_str(call, "language", &ok);

	if (!ok)
		return false;
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
	bool ok = true;

	if (!read_language(call, &spec->language))
		return false;
	spec->code = call_str(call, "code", &ok);
	spec->context_id = call_str(call, "context_id", &ok);
	spec->cwd = call_str(call, "cwd", &ok);
	call_texts(call, "env_vars", "env_vars", &spec->env, &ok);
	spec->user = str_of(call->user);
	if (!spec->cwd.n && sandbox_has_users(call->sandbox))
		spec->cwd = STR_LIT(HOME);
	return ok;
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
		log_debug("%s: the client is lost", req->id);
}

/* False: the reader is behind. */
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
			http_reply_abort(req); /* the client looks for itself */
		else
			e2b_answer_error(x->call, err);
	}
	free(x);
}

static const struct code_hooks hooks = { .on_event = on_event, .on_end = on_end };

/* Clients end what takes too long by going away. */
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
	struct pending *pending = arg;
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
	struct pending *pending = arg;
	struct e2b_call *call = pending->call;

	if (e2b_pending_done(pending, err))
		e2b_answer_empty(call, 204);
}

static void create(struct e2b_call *call)
{
	struct code_spec spec = { .timeout_sec = 0 };
	struct pending *pending;
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
	struct pending *pending = arg;
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
	struct pending *pending = e2b_pending_new(call);
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
	struct pending *pending = e2b_pending_new(call);
	struct err err;

	if (pending)
		e2b_pending_begun(pending,
				  code_context_delete(call->sandbox, call->args[0], on_deleted,
						      pending, &err),
				  &err);
}

static void restart(struct e2b_call *call)
{
	struct pending *pending = e2b_pending_new(call);
	struct err err;

	if (pending)
		e2b_pending_begun(pending,
				  code_context_restart(call->sandbox, call->args[0], on_context,
						       pending, &err),
				  &err);
}

/* ---- paths ---- */

static bool is_below(struct str path, const char *tail, struct str *ret_id)
{
	static const struct str contexts = { "/contexts/", 10 };
	size_t n = strlen(tail);

	if (!str_starts(path, contexts.p) || path.n <= contexts.n + n ||
	    memcmp(path.p + path.n - n, tail, n) != 0)
		return false;
	*ret_id = (struct str){ path.p + contexts.n, path.n - contexts.n - n };
	return !memchr(ret_id->p, '/', ret_id->n);
}

void interpreter_handle(struct e2b_call *call)
{
	const struct http_req *req = call->req;

	if (req->method == HTTP_POST && str_is(req->path, "/execute"))
		envd_read_body(call, execute);
	else if (req->method == HTTP_POST && str_is(req->path, "/contexts"))
		envd_read_body(call, create);
	else if (req->method == HTTP_GET && str_is(req->path, "/contexts"))
		envd_when_ready(call, list);
	else if (req->method == HTTP_POST && is_below(req->path, "/restart", &call->args[0]))
		envd_read_body(call, restart);
	else if (req->method == HTTP_DELETE && is_below(req->path, "", &call->args[0]))
		envd_when_ready(call, delete);
	else
		e2b_answer_status(call, 404, "no such path");
}
