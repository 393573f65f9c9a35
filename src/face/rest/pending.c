/* SPDX-License-Identifier: Apache-2.0 */
/* Replies that come later: without content, or as a list that is written in pieces; and pages of
 * lists. */
#include "face/rest/call.h"

#define LIST_LIMIT (8 * 1024 * 1024)

struct rest_pending *pending_new(struct rest_call *call)
{
	struct rest_pending *pending =
		pending_alloc(&call->rest->pendings, call->req, sizeof(*pending));

	if (!pending)
		return NULL;
	pending->rest = call->rest;
	pending->call = call;
	return pending;
}

struct http_req *pending_end(struct rest_pending *pending)
{
	return pending_free(&pending->base);
}

void pending_release(struct pending *base)
{
	listing_free(((struct rest_pending *)(void *)base)->list);
}

struct http_req *pending_done(struct rest_pending *pending, const struct err *err)
{
	struct rest *rest = pending->rest;
	struct http_req *req = pending_end(pending);

	if (!req || !err)
		return req;
	answer_error(rest, req, err);
	return NULL;
}

bool reply_begin(struct rest_pending *pending, const struct err *err, struct reply *ret)
{
	ret->rest = pending->rest;
	ret->req = pending_done(pending, err);
	if (!ret->req)
		return false;
	ret->w = answer_begin(ret->rest);
	json_begin_object(&ret->w, NULL);
	return true;
}

void reply_send(struct reply *reply)
{
	json_end_object(&reply->w);
	answer_send(reply->rest, reply->req, 200, &reply->w);
}

struct rest_pending *pending_for(struct rest_call *call)
{
	struct rest_pending *pending = pending_new(call);
	struct err err;

	if (!pending) {
		(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
		answer_error(call->rest, call->req, &err);
	}
	return pending;
}

void answer_later(struct rest_pending *pending, int r, const struct err *err)
{
	struct rest *rest = pending->rest;
	struct http_req *req;

	if (r == 0)
		return;
	req = pending_end(pending);
	if (req)
		answer_error(rest, req, err);
}

void answer_done(void *arg, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct rest *rest = pending->rest;
	struct http_req *req = pending_done(pending, err);

	if (req)
		answer_empty(rest, req, 204);
}

void answer_named(struct rest_call *call, named_fn fn)
{
	struct rest_pending *pending = pending_for(call);
	struct err err;

	if (pending)
		answer_later(pending, fn(call->sandbox, call->args[1], answer_done, pending, &err),
			     &err);
}

/* ---- lists ---- */

static int page_sent(struct rest_call *call, int r, const struct err *err)
{
	if (r < 0)
		answer_error(call->rest, call->req, err);
	return r;
}

int page_after_number(struct rest_call *call, int64_t *limit, int64_t *cursor)
{
	struct err err;
	int r = query_int(call->req, "limit", 1, PAGE_LIMIT_MAX, limit, &err);

	if (r == 0)
		r = query_int(call->req, "cursor", 1, INT64_MAX, cursor, &err);
	return page_sent(call, r, &err);
}

int page_after_text(struct rest_call *call, int64_t *limit, struct str *cursor)
{
	struct err err;
	int r = query_int(call->req, "limit", 1, PAGE_LIMIT_MAX, limit, &err);

	if (r == 0)
		r = query_text(call->req, "cursor", cursor, &err);
	return page_sent(call, r, &err);
}

struct json_writer page_begin(struct rest_call *call)
{
	struct json_writer w = answer_begin(call->rest);

	json_begin_object(&w, NULL);
	json_begin_array(&w, "data");
	return w;
}

void page_send(struct rest_call *call, struct json_writer *w, const char *next)
{
	json_end_array(w);
	json_put_text(w, "next_cursor", next);
	json_end_object(w);
	answer_send(call->rest, call->req, 200, w);
}

struct listing *listing_new(void)
{
	struct listing *list = calloc(1, sizeof(*list));

	if (!list)
		return NULL;
	/* It has a buffer of its own, because other calls use rest->out while this one waits. */
	buf_init(&list->out, LIST_LIMIT);
	json_writer_init(&list->w, &list->out);
	json_begin_object(&list->w, NULL);
	json_begin_array(&list->w, "data");
	return list;
}

struct rest_pending *list_begin(struct rest_call *call)
{
	struct rest_pending *pending = pending_for(call);
	struct listing *list = pending ? listing_new() : NULL;
	struct err err = { .code = ERR_UNAVAILABLE, .message = "out of memory" };

	if (!pending)
		return NULL;
	if (!list) {
		answer_later(pending, -1, &err);
		return NULL;
	}
	pending->list = list;
	return pending;
}

void list_answer(struct rest_pending *pending, const struct err *err)
{
	struct listing *list = TAKE_PTR(pending->list);
	struct rest *rest = pending->rest;
	struct http_req *req = pending_end(pending);
	struct err own;
	int r;

	json_end_array(&list->w);
	json_put_null(&list->w, "next_cursor");
	json_end_object(&list->w);
	r = json_writer_end(&list->w);
	if (r < 0 && !err) {
		(void)err_set_errno(&own, ERR_INTERNAL, r, "the reply could not be written");
		err = &own;
	}
	if (req && err)
		answer_error(rest, req, err);
	else if (req)
		answer_text(rest, req, 200, STR_LIT("application/json"), buf_str(&list->out));
	listing_free(list);
}

void listing_free(struct listing *list)
{
	if (!list)
		return;
	buf_done(&list->out);
	free(list);
}
