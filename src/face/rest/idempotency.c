/* SPDX-License-Identifier: Apache-2.0 */
/* Idempotency-Key: a repeated call creates nothing again and gets the recorded reply. */
#include "service/account/idempotency.h"

#include "face/kit/error.h"
#include "face/rest/call.h"

static void on_first_done(void *arg, int status, struct str body)
{
	struct rest_pending *pending = arg;
	struct rest *rest = pending->rest;
	struct http_req *req = pending_end(pending);

	if (req)
		answer_text(rest, req, status, STR_LIT("application/json"), body);
}

static int write_again(const struct sandbox *sandbox, struct buf *out)
{
	struct json_writer w;

	json_writer_init(&w, out);
	sandbox_write(sandbox, &w, NULL);
	return json_writer_end(&w);
}

int idem_begin(struct rest_call *call, struct str what, struct idempotency **idem, struct err *err)
{
	const struct str *key = http_req_header(call->req, "idempotency-key");
	struct rest_pending *pending;
	struct idempotency_ask ask;
	struct idempotency_reply reply;
	int r;

	if (!key)
		return 0;
	pending = pending_new(call);
	if (!pending)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	ask = (struct idempotency_ask){ .owner = call->key,
					.key = *key,
					.body = what,
					.secret = call->route->secret,
					.wait = on_first_done,
					.arg = pending,
					.again = write_again,
					.again_status = 201 };
	r = idempotency_begin(call->rest->service, &ask, idem, &reply, err);
	if (r == IDEMPOTENCY_WAIT)
		return 1;
	(void)pending_end(pending);
	if (r == IDEMPOTENCY_REPLAY) {
		answer_text(call->rest, call->req, reply.status, STR_LIT("application/json"),
			    reply.body);
		free((void *)(uintptr_t)reply.body.p);
		return 1;
	}
	return r < 0 ? -1 : 0;
}

static void finish(struct rest *rest, struct http_req *req, struct idempotency *idem, int status,
		   struct str body)
{
	struct err err;
	char *copy;
	int r = status < 300 ? idempotency_keep(rest->service, idem, status, body) : 0;

	if (r < 0) {
		(void)err_set_errno(&err, ERR_UNAVAILABLE, r, "the reply could not be recorded");
		status = error_status(err.code);
		body = answer_error_text(rest, req ? req->id : "", &err);
	}
	/* A copy, because each reply to a waiting call may free the memory of rest->out. */
	copy = strndup(body.p, body.n);
	if (copy)
		body.p = copy;
	idempotency_finish(rest->service, idem, status, body);
	if (req)
		answer_text(rest, req, status, STR_LIT("application/json"), body);
	free(copy);
}

void idem_answer(struct rest *rest, struct http_req *req, struct idempotency *idem, int status,
		 struct json_writer *w)
{
	if (!idem) {
		if (req)
			answer_send(rest, req, status, w);
		return;
	}
	(void)!json_writer_end(w);
	finish(rest, req, idem, status, buf_str(&rest->out));
}

void idem_answer_text(struct rest *rest, struct http_req *req, struct idempotency *idem, int status,
		      struct str body)
{
	if (idem)
		finish(rest, req, idem, status, body);
	else if (req)
		answer_text(rest, req, status, STR_LIT("application/json"), body);
}

void idem_answer_error(struct rest *rest, struct http_req *req, struct idempotency *idem,
		       const struct err *err)
{
	if (idem)
		finish(rest, NULL, idem, error_status(err->code),
		       answer_error_text(rest, req ? req->id : "", err));
	if (req)
		answer_error(rest, req, err);
}
