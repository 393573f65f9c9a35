/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "base/time.h"
#include "face/e2b/envd/connect.h"
#include "face/kit/error.h"

#define ANSWER_KEEP (256 * 1024) /* Beyond this size the buffer is freed after the reply. */
#define EXTRA_MAX 2

/* ---- replies that come later ---- */

struct e2b_pending *e2b_pending_new(struct e2b_call *call)
{
	struct e2b_pending *pending =
		pending_alloc(&call->e2b->pendings, call->req, sizeof(*pending));
	struct err err;

	if (!pending) {
		(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
		e2b_answer_error(call, &err);
		return NULL;
	}
	pending->e2b = call->e2b;
	pending->call = call;
	pending->status = 200;
	pending->sandbox = call->sandbox ? sandbox_handle(call->sandbox) : 0;
	/* It has a buffer of its own, because other calls use e2b->out while this one waits. */
	buf_init(&pending->list, E2B_ANSWER_LIMIT);
	json_writer_init(&pending->w, &pending->list);
	return pending;
}

struct http_req *e2b_pending_end(struct e2b_pending *pending)
{
	return pending_free(&pending->base);
}

void e2b_pending_release(struct pending *base)
{
	buf_done(&((struct e2b_pending *)(void *)base)->list);
}

bool e2b_pending_done(struct e2b_pending *pending, const struct err *err)
{
	struct e2b_call *call = pending->call;

	if (!e2b_pending_end(pending))
		return false;
	if (err)
		e2b_answer_error(call, err);
	return !err;
}

void e2b_pending_begun(struct e2b_pending *pending, int r, const struct err *err)
{
	struct e2b_call *call = pending->call;

	if (r >= 0)
		return;
	if (e2b_pending_end(pending))
		e2b_answer_error(call, err);
}

/* ---- immediate replies ---- */

struct json_writer e2b_answer_begin(struct e2b *e2b)
{
	struct json_writer w;

	buf_clear(&e2b->out);
	json_writer_init(&w, &e2b->out);
	return w;
}

static void send(struct e2b_call *call, int status, struct str type, struct str body,
		 const struct http_header *extra, size_t extra_count)
{
	struct http_req *req = call->req;
	struct http_header headers[3 + EXTRA_MAX] = {
		{ STR_LIT("Content-Type"), type },
		{ STR_LIT("Cache-Control"), STR_LIT("no-store") },
	};
	size_t n = 2;

	if (call->sandbox_handle) /* Pages of other origins may use envd: they need its token. */
		headers[n++] = (struct http_header){ STR_LIT("Access-Control-Allow-Origin"),
						     STR_LIT("*") };
	for (size_t i = 0; i < MIN(extra_count, EXTRA_MAX); i++)
		headers[n++] = extra[i];
	log_debug("%s %.*s %.*s %d %lld us", req->id, (int)req->method_name.n, req->method_name.p,
		  (int)MIN(req->path.n, 200), req->path.p, status,
		  (long long)(time_mono_us() - req->started_us));
	if (type.n)
		http_reply(req, status, headers, n, body);
	else
		http_reply(req, status, headers + 1, n - 1, body);
	if (call->e2b->out.capacity > ANSWER_KEEP)
		buf_done(&call->e2b->out);
}

void e2b_answer_text(struct e2b_call *call, int status, struct str json)
{
	send(call, status, STR_LIT("application/json"), json, NULL, 0);
}

/* A client must see that there is no content: http_reply() sends length 0. */
void e2b_answer_empty(struct e2b_call *call, int status)
{
	send(call, status, (struct str){ "", 0 }, (struct str){ "", 0 }, NULL, 0);
}

void e2b_answer_send_with(struct e2b_call *call, int status, struct json_writer *w,
			  const struct http_header *extra, size_t count)
{
	int r = json_writer_end(w);
	struct err err;

	if (r < 0) {
		(void)err_set_errno(&err, ERR_INTERNAL, r, "the reply could not be written");
		e2b_answer_error(call, &err);
		return;
	}
	send(call, status, STR_LIT("application/json"), buf_str(w->out), extra, count);
}

void e2b_answer_send(struct e2b_call *call, int status, struct json_writer *w)
{
	e2b_answer_send_with(call, status, w, NULL, 0);
}

/* ---- errors ---- */

static bool e2b_error_is_about(const struct err *err, const char *field)
{
	size_t n = strlen(field);

	return err->code == ERR_INVALID_REQUEST && strncmp(err->message, field, n) == 0 &&
	       err->message[n] == ':';
}

static bool unknown_user(const struct err *err)
{
	return e2b_error_is_about(err, "user") || e2b_error_is_about(err, "owner");
}

int e2b_error_status(const struct err *err)
{
	int status = error_status(err->code);

	if (unknown_user(err))
		return 401;
	switch ((int)err->code) {
	case ERR_SANDBOX_GONE:
		return 502;
	case ERR_NOT_A_FILE:
	case ERR_NOT_A_DIRECTORY:
	case ERR_UNSUPPORTED_BY_ENGINE:
		return 400;
	case ERR_UNSUPPORTED:
		return 501;
	default:
		return status;
	}
}

const char *e2b_error_rpc_code(const struct err *err)
{
	static const struct {
		int status;
		const char *code;
	} table[] = {
		{ 400, "invalid_argument" },	{ 401, "unauthenticated" },
		{ 403, "permission_denied" },	{ 404, "not_found" },
		{ 409, "failed_precondition" }, { 413, "resource_exhausted" },
		{ 429, "resource_exhausted" },	{ 501, "unimplemented" },
		{ 502, "unavailable" },		{ 503, "unavailable" },
		{ 504, "deadline_exceeded" },	{ 507, "resource_exhausted" },
	};
	int status = e2b_error_status(err);

	if (err->code == ERR_FILE_EXISTS)
		return "already_exists";
	if (err->code == ERR_OUTPUT_LOST)
		return "data_loss";
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (table[i].status == status)
			return table[i].code;
	return status < 500 ? "invalid_argument" : "internal";
}

void e2b_error_message(const struct err *err, const char *user, char *dst, size_t size)
{
	const char *at = strrchr(err->message, ':');

	if (unknown_user(err) && user)
		(void)snprintf(dst, size, "invalid username: '%s'", user);
	else if (e2b_error_is_about(err, "cwd") && err->errno_value == ENOENT && at)
		(void)snprintf(dst, size, "cwd '%s' does not exist", at + 2);
	else
		(void)snprintf(dst, size, "%s", err->message);
}

/* The HTTP status of an error code in a unary call. */
static int rpc_status(const char *code, int status)
{
	if (strcmp(code, "failed_precondition") == 0)
		return 400;
	if (strcmp(code, "already_exists") == 0)
		return 409;
	if (strcmp(code, "resource_exhausted") == 0)
		return 429;
	return status;
}

static void answer_plain(struct e2b_call *call, int status, const char *message)
{
	static const struct http_header soon = { STR_LIT("Retry-After"), STR_LIT("1") };
	struct json_writer w = e2b_answer_begin(call->e2b);

	json_begin_object(&w, NULL);
	json_put_int(&w, "code", status);
	json_put_text(&w, "message", message);
	json_end_object(&w);
	if (json_writer_end(&w) < 0)
		e2b_answer_empty(call, status);
	else
		send(call, status, STR_LIT("application/json"), buf_str(&call->e2b->out), &soon,
		     status == 429 || status == 503);
}

static void answer_rpc(struct e2b_call *call, int status, const char *code, const char *message)
{
	struct json_writer w = e2b_answer_begin(call->e2b);

	json_begin_object(&w, NULL);
	json_put_text(&w, "code", code);
	json_put_text(&w, "message", message);
	json_end_object(&w);
	e2b_answer_send(call, rpc_status(code, status), &w);
}

/* The stream has not begun: send its head, and the error in its only envelope. */
static void answer_stream(struct e2b_call *call, const char *code, const char *message)
{
	static const struct http_header headers[] = {
		{ STR_LIT("Content-Type"), STR_LIT("application/connect+json") },
		{ STR_LIT("Cache-Control"), STR_LIT("no-store") },
		{ STR_LIT("Access-Control-Allow-Origin"), STR_LIT("*") },
	};
	struct buf *out = &call->e2b->out;

	buf_clear(out);
	if (envelope_end(out, code, message) < 0)
		buf_clear(out);
	http_reply(call->req, 200, headers, ARRAY_LEN(headers), buf_str(out));
}

void e2b_answer_error(struct e2b_call *call, const struct err *err)
{
	const char *user = call->user[0] ? call->user : NULL;
	char message[ERR_MESSAGE_MAX + 128];
	int status = e2b_error_status(err);

	e2b_error_message(err, user, message, sizeof(message));
	if (status >= 500 && status != 501 && status != 507)
		log_warn("%s %.*s: %s: %s", call->req->id, (int)MIN(call->req->path.n, 200),
			 call->req->path.p, err_name(err->code), err->message);
	if (call->style == E2B_STREAM)
		answer_stream(call, e2b_error_rpc_code(err), message);
	else if (call->style == E2B_UNARY)
		answer_rpc(call, status, e2b_error_rpc_code(err), message);
	else
		answer_plain(call, status, message);
}

void e2b_answer_status(struct e2b_call *call, int status, const char *fmt, ...)
{
	char message[ERR_MESSAGE_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	answer_plain(call, status, message);
}

void e2b_answer_no_sandbox(struct e2b_call *call, struct str id, const char *message)
{
	struct json_writer w = e2b_answer_begin(call->e2b);

	json_begin_object(&w, NULL);
	json_put_str(&w, "sandboxId", id);
	json_put_text(&w, "message", message);
	json_put_int(&w, "code", 502);
	json_end_object(&w);
	e2b_answer_send(call, 502, &w);
}
