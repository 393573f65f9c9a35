/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose content flows: uploads, downloads, watches. */
#include "face/rest/files.h"
#include "service/process.h"

static void unlink_free(struct transfer *t)
{
	struct rest *rest = t->rest;

	if (t->prev)
		t->prev->next = t->next;
	else
		rest->transfers = t->next;
	if (t->next)
		t->next->prev = t->prev;
	beat_stop(&t->beat);
	free(t);
}

struct http_req *transfer_req(const struct transfer *t)
{
	return t->rest->server ? http_req_get(t->rest->server, t->req) : NULL;
}

struct http_req *transfer_end(struct transfer *t)
{
	struct http_req *req = transfer_req(t);

	if (req) {
		http_req_on_gone(req, NULL, NULL);
		http_reply_on_drain(req, NULL, NULL);
	}
	stream_end(t->rest->service, t->key_id);
	unlink_free(t);
	return req;
}

static void on_gone(void *arg)
{
	struct transfer *t = arg;

	files_cancel(t->rest->service, t->run);
	stream_end(t->rest->service, t->key_id);
	unlink_free(t);
}

struct transfer *transfer_new(struct rest_call *call, struct err *err)
{
	struct rest *rest = call->rest;
	struct transfer *t;

	if (stream_admit(rest->service, call->key, err) < 0)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t) {
		stream_end(rest->service, call->key->id);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	t->rest = rest;
	t->call = call;
	t->req = call->req->handle;
	memcpy(t->key_id, call->key->id, sizeof(t->key_id));
	t->next = rest->transfers;
	if (t->next)
		t->next->prev = t;
	rest->transfers = t;
	http_req_on_gone(call->req, on_gone, t);
	return t;
}

int transfer_start(struct transfer *t, const struct files_hooks *hooks, struct err *err)
{
	enum files_op op = t->call->route->op;

	if (t->call->req->method == HTTP_HEAD)
		op = FILES_STAT;
	return files_start(t->call->sandbox, op, &t->spec, NULL, 0, hooks, t, &t->run, err);
}

/* The service has ended before: its streams are counted no more. */
void transfers_done(struct rest *rest)
{
	while (rest->transfers)
		unlink_free(rest->transfers);
}
