/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that create something, once even if the call is repeated; and calls that create several
 * objects. */
#include "face/rest/call.h"
#include "service/account/idempotency.h"

/* The same body sent to another path is another call. */
static int begin(struct rest_call *call, struct idempotency **idem)
{
	size_t n = call->req->path.n + call->body.n + 1;
	char *what = arena_alloc(call->req->arena, n);
	struct err err;
	int r;

	if (!what) {
		r = err_set(&err, ERR_UNAVAILABLE, "out of memory");
	} else {
		memcpy(what, call->req->path.p, call->req->path.n);
		what[call->req->path.n] = '\n';
		if (call->body.n)
			memcpy(what + call->req->path.n + 1, call->body.p, call->body.n);
		r = idem_begin(call, (struct str){ what, n }, idem, &err);
	}
	if (r < 0)
		answer_error(call->rest, call->req, &err);
	return r;
}

struct rest_pending *once_begin(struct rest_call *call)
{
	struct idempotency *idem = NULL;
	struct rest_pending *pending;
	struct err err;

	if (begin(call, &idem) != 0)
		return NULL;
	pending = pending_new(call);
	if (pending) {
		pending->idem = idem;
		return pending;
	}
	(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
	idem_answer_error(call->rest, call->req, idem, &err);
	return NULL;
}

void once_refuse(struct rest_pending *pending, const struct err *err)
{
	struct rest *rest = pending->rest;
	struct idempotency *idem = pending->idem;

	listing_free(TAKE_PTR(pending->list));
	idem_answer_error(rest, pending_end(pending), idem, err);
}

void once_end(struct rest_pending *pending, int status, struct json_writer *w)
{
	struct rest *rest = pending->rest;
	struct idempotency *idem = pending->idem;

	idem_answer(rest, pending_end(pending), idem, status, w);
}

/* ---- immediately ---- */

int once_open(struct rest_call *call, struct idempotency **idem)
{
	struct err err;
	int r;

	*idem = NULL;
	if (begin(call, idem) != 0)
		return 1;
	r = *idem ? idempotency_open(call->rest->service) : 0;
	if (r == 0)
		return 0;
	(void)err_set_errno(&err, ERR_INTERNAL, r, "the call cannot be recorded");
	idem_answer_error(call->rest, call->req, *idem, &err);
	return 1;
}

void once_fail(struct rest_call *call, struct idempotency *idem, const struct err *err)
{
	if (idem)
		idempotency_abandon(call->rest->service);
	idem_answer_error(call->rest, call->req, idem, err);
}

int once_answer(struct rest_call *call, struct idempotency *idem, int status, struct json_writer *w)
{
	struct rest *rest = call->rest;
	struct err err;
	int r = 0;

	if (idem) {
		r = json_writer_end(w);
		if (r == 0)
			r = idempotency_close(rest->service, idem, status, buf_str(&rest->out));
		else
			idempotency_abandon(rest->service);
	}
	if (r < 0) {
		(void)err_set_errno(&err, ERR_INTERNAL, r, "the call could not be recorded");
		idem_answer_error(rest, call->req, idem, &err);
		return -1;
	}
	idem_answer(rest, call->req, idem, status, w);
	return 0;
}

/* ---- several objects ---- */

struct rest_pending *many_begin(struct rest_call *call)
{
	struct rest_pending *pending = once_begin(call);
	struct err err;

	if (!pending)
		return NULL;
	pending->list = listing_new();
	if (pending->list)
		return pending;
	(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
	once_refuse(pending, &err);
	return NULL;
}

static void on_item(void *arg, int64_t index, const struct sandbox *sandbox, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct json_writer *w = &pending->list->w;

	(void)index; /* they arrive in their order */
	if (sandbox) {
		sandbox_write(sandbox, w, NULL);
		return;
	}
	json_begin_object(w, NULL);
	answer_write_error(w, NULL, err);
	json_end_object(w);
}

static int on_seal(void *arg, struct str *ret)
{
	struct rest_pending *pending = arg;
	struct listing *list = pending->list;
	int r;

	if (!list->sealed) {
		list->sealed = true;
		json_end_array(&list->w);
		json_put_null(&list->w, "next_cursor");
		json_end_object(&list->w);
	}
	r = json_writer_end(&list->w);
	if (r == 0)
		*ret = buf_str(&list->out);
	return r;
}

static void on_done(void *arg, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct rest *rest = pending->rest;
	struct idempotency *idem = pending->idem;
	struct str body;
	struct listing *list;
	struct err own;

	if (!err && on_seal(pending, &body) < 0) {
		(void)err_set(&own, ERR_INTERNAL, "the reply could not be written");
		err = &own;
	}
	if (err) {
		once_refuse(pending, err);
		return;
	}
	list = TAKE_PTR(pending->list);
	idem_answer_text(rest, pending_end(pending), idem, 201, body);
	listing_free(list);
}

const struct batch_hooks batch_hooks = { on_item, on_seal, on_done };
