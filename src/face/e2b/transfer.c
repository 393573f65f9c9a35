/* SPDX-License-Identifier: Apache-2.0 */
/* GET /files, and what it shares with POST /files. */
#include "face/e2b/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/time.h"
#include "face/range.h"
#include "service/process.h"

/* ---- signatures ---- */

static int read_claim(struct e2b_call *call, struct access_claim *claim, struct str *signature)
{
	struct http_req *req = call->req;

	*claim = (struct access_claim){ .path = { "", 0 },
					.user = { "", 0 },
					.operation = req->method == HTTP_POST ? "write" : "read" };
	*signature = (struct str){ NULL, 0 };
	if (http_req_query(req, "path", &claim->path) < 0 ||
	    http_req_query(req, "username", &claim->user) < 0 ||
	    http_req_query(req, "signature_expiration", &claim->expiration) < 0 ||
	    http_req_query(req, "signature", signature) < 0)
		return -EINVAL;
	return 0;
}

struct sandbox *signature_find(struct e2b_call *call)
{
	struct access_claim claim;
	struct str signature;

	if (read_claim(call, &claim, &signature) < 0 || !signature.p)
		return NULL;
	return access_find_signed(call->e2b->service, &claim, signature);
}

int signature_check(struct e2b_call *call, const struct sandbox *sandbox, struct err *err)
{
	struct access_claim claim;
	struct str signature;
	uint64_t until;

	if (read_claim(call, &claim, &signature) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "the query is malformed");
	if (!signature.p)
		return err_set(err, ERR_UNAUTHENTICATED, "missing signature query parameter");
	if (!access_signature_is(sandbox, &claim, signature))
		return err_set(err, ERR_UNAUTHENTICATED, "invalid signature");
	if (claim.expiration.p && (str_to_u64(claim.expiration, INT64_MAX / 1000, &until) < 0 ||
				   (int64_t)until < time_real_ms() / 1000))
		return err_set(err, ERR_UNAUTHENTICATED, "signature is already expired");
	return 0;
}

/* ---- life ---- */

static void unlink_free(struct transfer *t)
{
	struct e2b *e2b = t->e2b;

	if (t->prev)
		t->prev->next = t->next;
	else
		e2b->transfers = t->next;
	if (t->next)
		t->next->prev = t->prev;
	upload_free(t->upload);
	free(t);
}

struct http_req *e2b_transfer_req(const struct transfer *t)
{
	return t->e2b->server ? http_req_get(t->e2b->server, t->req) : NULL;
}

struct http_req *e2b_transfer_end(struct transfer *t)
{
	struct http_req *req = e2b_transfer_req(t);

	if (req) {
		http_req_on_gone(req, NULL, NULL);
		http_reply_on_drain(req, NULL, NULL);
	}
	stream_end(t->e2b->service, t->key_id);
	unlink_free(t);
	return req;
}

static void on_gone(void *arg)
{
	struct transfer *t = arg;

	if (t->run)
		files_cancel(t->e2b->service, t->run);
	stream_end(t->e2b->service, t->key_id);
	unlink_free(t);
}

struct transfer *e2b_transfer_new(struct e2b_call *call, struct err *err)
{
	struct e2b *e2b = call->e2b;
	struct transfer *t;

	if (stream_admit(e2b->service, call->key, err) < 0)
		return NULL;
	t = calloc(1, sizeof(*t));
	if (!t) {
		stream_end(e2b->service, call->key->id);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	t->e2b = e2b;
	t->call = call;
	t->req = call->req->handle;
	memcpy(t->key_id, call->key->id, sizeof(t->key_id));
	t->next = e2b->transfers;
	if (t->next)
		t->next->prev = t;
	e2b->transfers = t;
	http_req_on_gone(call->req, on_gone, t);
	return t;
}

/* The service has ended before: its streams are counted no more. */
void e2b_transfers_done(struct e2b *e2b)
{
	while (e2b->transfers)
		unlink_free(e2b->transfers);
}

void e2b_transfer_error(const struct err *err, const char *path, struct err *ret)
{
	*ret = *err;
	if (err->code == ERR_FILE_NOT_FOUND)
		(void)err_set(ret, err->code, "path '%s' does not exist", path);
	else if (err->code == ERR_NOT_A_FILE && strstr(err->message, "is a directory"))
		(void)err_set(ret, err->code, "path '%s' is a directory", path);
}

/* ---- download ---- */

static int begin(struct transfer *t, struct http_req *req)
{
	char length[24], range[80], date[40] = "";
	struct http_header headers[7] = {
		{ STR_LIT("Content-Type"), STR_LIT("application/octet-stream") },
		{ STR_LIT("Content-Length"), { length, 0 } },
		{ STR_LIT("Accept-Ranges"), STR_LIT("bytes") },
		{ STR_LIT("Access-Control-Allow-Origin"), STR_LIT("*") },
		{ STR_LIT("Last-Modified"), { date, 0 } },
		{ STR_LIT("Content-Range"), { range, 0 } },
	};
	time_t seconds = (time_t)(t->head.modified_ms / 1000);
	size_t count = 5;
	struct tm tm;

	t->begun = true;
	headers[1].value.n = (size_t)snprintf(length, sizeof(length), "%llu",
					      (unsigned long long)t->head.length);
	if (gmtime_r(&seconds, &tm))
		headers[4].value.n = strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &tm);
	if (t->spec.has_range && t->head.length) {
		headers[5].value.n =
			(size_t)snprintf(range, sizeof(range), "bytes %llu-%llu/%llu",
					 (unsigned long long)t->head.begin,
					 (unsigned long long)(t->head.begin + t->head.length - 1),
					 (unsigned long long)t->head.size);
		count = 6;
	}
	if (t->head.length == 0) { /* clients want to see the length of nothing */
		http_reply(req, 200, headers, 1, (struct str){ "", 0 });
		return 0;
	}
	return http_reply_start(req, count == 6 ? 206 : 200, headers, count);
}

static void on_head(void *arg, const struct files_head *head)
{
	struct transfer *t = arg;

	t->head = *head;
	t->head.etag = NULL; /* it lives for this call only */
}

static void on_data(void *arg, struct str bytes)
{
	struct transfer *t = arg;
	struct http_req *req = e2b_transfer_req(t);

	if (!req || (!t->begun && begin(t, req) < 0))
		return;
	if (http_reply_write(req, bytes.p, bytes.n) == -EAGAIN)
		t->blocked = true;
	t->owed += bytes.n;
	if (t->blocked)
		return;
	files_release(t->e2b->service, t->run, t->owed);
	t->owed = 0;
}

static void on_drain(void *arg)
{
	struct transfer *t = arg;
	size_t bytes = t->owed;

	t->blocked = false;
	t->owed = 0;
	files_release(t->e2b->service, t->run, bytes);
}

static void on_end(void *arg, const struct files_result *result, const struct err *error)
{
	struct transfer *t = arg, copy = *t;
	struct e2b_call *call = t->call;
	char path[160] = "";
	struct http_req *req;
	struct err err;

	(void)result;
	if (error)
		(void)snprintf(path, sizeof(path), "%.*s", (int)MIN(t->spec.path.n, 150),
			       t->spec.path.p);
	req = e2b_transfer_end(t);
	if (!req)
		return;
	if (error && !copy.begun) {
		e2b_transfer_error(error, path, &err);
		e2b_answer_error(call, &err);
	} else if (error) {
		http_reply_abort(req); /* nothing else tells that there would be more */
	} else if (!copy.begun) {
		copy.upload = NULL;
		copy.head.length = 0;
		(void)!begin(&copy, req);
	} else {
		http_reply_end(req);
	}
}

void e2b_files_get(struct e2b_call *call)
{
	static const struct files_hooks hooks = { .on_head = on_head,
						  .on_data = on_data,
						  .on_end = on_end };
	bool ok = true;
	struct str path = call_query(call, "path", &ok);
	const char *full = ok ? envd_path(call, path) : NULL;
	struct err err = { .code = ERR_UNAVAILABLE, .message = "out of memory" };
	struct transfer *t;

	if (!ok)
		return;
	t = full ? e2b_transfer_new(call, &err) : NULL;
	if (t) {
		t->spec.path = str_of(full);
		t->spec.follow = true;
		envd_actor(call, &t->spec);
		if (face_range_read(call->req, &t->spec, &err) < 0 ||
		    files_start(call->sandbox, FILES_READ, &t->spec, NULL, 0, &hooks, t, &t->run,
				&err) < 0) {
			(void)e2b_transfer_end(t);
			t = NULL;
		}
	}
	if (!t)
		e2b_answer_error(call, &err);
	else
		http_reply_on_drain(call->req, on_drain, t);
}
