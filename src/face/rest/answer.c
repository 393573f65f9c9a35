/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"
#include "base/time.h"
#include "face/kit/error.h"
#include "face/rest/call.h"
#include "http/websocket/websocket.h"

#define EXTRA_MAX 3

struct json_writer answer_begin(struct rest *rest)
{
	struct json_writer w;

	buf_clear(&rest->out);
	json_writer_init(&w, &rest->out);
	return w;
}

static void count(struct rest *rest, const struct http_req *req, int status)
{
	int64_t us = time_mono_us() - req->started_us;

	rest->counters.requests++;
	rest->counters.by_class[MIN(status / 100, 5)]++;
	histogram_add(&rest->counters.duration, us);
	log_debug("%s %.*s %.*s %d %lld us", req->id, (int)req->method_name.n, req->method_name.p,
		  (int)MIN(req->path.n, 200), req->path.p, status, (long long)us);
}

static void send(struct rest *rest, struct http_req *req, int status, struct str type,
		 struct str body, const struct http_header *extra, size_t extra_count)
{
	struct http_header headers[3 + EXTRA_MAX] = {
		{ STR_LIT("Content-Type"), type },
		{ STR_LIT("Cache-Control"), STR_LIT("no-store") },
		{ STR_LIT("X-Content-Type-Options"), STR_LIT("nosniff") },
	};
	size_t n = 3;

	for (size_t i = 0; i < MIN(extra_count, EXTRA_MAX); i++)
		headers[n++] = extra[i];
	count(rest, req, status);
	if (body.n || type.n)
		http_reply(req, status, headers, n, body);
	else
		http_reply(req, status, headers + 1, n - 1, body);
	if (rest->out.capacity > ANSWER_KEEP)
		buf_done(&rest->out);
}

void answer_text(struct rest *rest, struct http_req *req, int status, struct str type,
		 struct str body)
{
	send(rest, req, status, type, body, NULL, 0);
}

void answer_empty(struct rest *rest, struct http_req *req, int status)
{
	send(rest, req, status, (struct str){ "", 0 }, (struct str){ "", 0 }, NULL, 0);
}

void answer_send(struct rest *rest, struct http_req *req, int status, struct json_writer *w)
{
	struct err err;
	int r = json_writer_end(w);

	if (r < 0) {
		(void)err_set_errno(&err, ERR_INTERNAL, r, "the reply could not be written");
		answer_error(rest, req, &err);
		return;
	}
	send(rest, req, status, STR_LIT("application/json"), buf_str(&rest->out), NULL, 0);
}

void answer_write_error(struct json_writer *w, const char *request_id, const struct err *err)
{
	json_begin_object(w, "error");
	json_put_text(w, "code", err_name(err->code));
	json_put_text(w, "message", err->message);
	json_put_text(w, "hint", error_hint(err->code));
	if (request_id)
		json_put_text(w, "request_id", request_id);
	json_put_bool(w, "retryable", err_retryable(err->code));
	if (err->field) {
		json_put_text(w, "field", err->field);
		json_put_int(w, "limit", err->limit);
		json_put_int(w, "used", err->used);
	}
	json_end_object(w);
}

struct str answer_error_text(struct rest *rest, const char *request_id, const struct err *err)
{
	struct json_writer w = answer_begin(rest);

	json_begin_object(&w, NULL);
	answer_write_error(&w, request_id, err);
	json_end_object(&w);
	if (json_writer_end(&w) < 0)
		return STR_LIT("{\"error\":{\"code\":\"internal\"}}");
	return buf_str(&rest->out);
}

void answer_error(struct rest *rest, struct http_req *req, const struct err *err)
{
	static const struct http_header soon = { STR_LIT("Retry-After"), STR_LIT("1") };
	static const struct http_header later = { STR_LIT("Retry-After"), STR_LIT("5") };
	static const struct http_header auth = { STR_LIT("WWW-Authenticate"),
						 STR_LIT("Bearer realm=\"cay\"") };
	int status = error_status(err->code);
	const struct http_header *extra = NULL;

	if (status == 401)
		extra = &auth;
	else if (status == 429 || status == 503)
		extra = err->code == ERR_UNAVAILABLE ? &later : &soon;
	if (status >= 500)
		log_warn("%s %.*s %.*s: %s: %s", req->id, (int)req->method_name.n,
			 req->method_name.p, (int)MIN(req->path.n, 200), req->path.p,
			 err_name(err->code), err->message);
	send(rest, req, status, STR_LIT("application/json"), answer_error_text(rest, req->id, err),
	     extra, extra ? 1 : 0);
}

void answer_upgrade_error(struct rest *rest, struct http_req *req, const struct err *err)
{
	size_t n = err->code == ERR_UPGRADE_REQUIRED ? WEBSOCKET_REFUSAL_HEADER_COUNT : 0;

	send(rest, req, error_status(err->code), STR_LIT("application/json"),
	     answer_error_text(rest, req->id, err), websocket_refusal_headers, n);
}

void answer_not_allowed(struct rest *rest, struct http_req *req, const char *allow)
{
	struct http_header extra = { STR_LIT("Allow"), str_of(allow) };
	struct err err;

	(void)err_set(&err, ERR_METHOD_NOT_ALLOWED, "%.*s is not allowed here; allowed: %s",
		      (int)MIN(req->method_name.n, 32), req->method_name.p, allow);
	send(rest, req, 405, STR_LIT("application/json"), answer_error_text(rest, req->id, &err),
	     &extra, 1);
}

struct sandbox *answer_find(struct rest_call *call)
{
	struct err err;
	struct sandbox *sandbox = sandbox_find(call->rest->service, call->key, call->args[0], &err);

	if (!sandbox)
		answer_error(call->rest, call->req, &err);
	return sandbox;
}
