/* SPDX-License-Identifier: Apache-2.0 */
/* GET /files, and the parts that POST /files shares with it. */
#include "face/e2b/envd/transfer.h"

#include <errno.h>
#include <stdio.h>

#include "base/time.h"
#include "face/kit/range.h"

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

/* Without a host or a header that names the sandbox, the signature is compared with those of all
 * sandboxes. The number of such requests is therefore limited, per client and in total. */
struct sandbox *signature_find(struct e2b_call *call, struct err *err)
{
	struct access_claim claim;
	struct sandbox *sandbox = NULL;
	struct str signature;

	if (!attempts_allowed(&call->e2b->attempts, call->req->client, ATTEMPTS_TOKEN)) {
		(void)e2b_refuse_credentials(call, ATTEMPTS_TOKEN, err);
		return NULL;
	}
	(void)err_set(err, ERR_UNAUTHENTICATED, "invalid signature");
	if (read_claim(call, &claim, &signature) == 0 && signature.p)
		sandbox = access_find_signed(
			call->e2b->service, &claim, signature,
			attempts_known(&call->e2b->attempts, call->req->client), err);
	if (!sandbox && err->code == ERR_UNAUTHENTICATED)
		(void)e2b_refuse_credentials(call, ATTEMPTS_TOKEN, err);
	return sandbox;
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

/* ---- lifetime ---- */

static void on_done(struct transfer *t)
{
	upload_free(((struct e2b_transfer *)t)->upload);
}

struct e2b_transfer *e2b_transfer_new(struct e2b_call *call, struct err *err)
{
	struct e2b_transfer *t =
		transfer_new(&call->e2b->transfers, call->req, call->key, sizeof(*t), on_done, err);

	if (t) {
		t->e2b = call->e2b;
		t->call = call;
	}
	return t;
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

static int begin(struct e2b_transfer *t, struct http_req *req)
{
	struct transfer_words words;
	struct http_header headers[6] = {
		{ STR_LIT("Content-Type"), STR_LIT("application/octet-stream") },
		{ STR_LIT("Accept-Ranges"), STR_LIT("bytes") },
		{ STR_LIT("Access-Control-Allow-Origin"), STR_LIT("*") },
	};
	size_t count = 3;
	int status = 200;

	t->base.begun = true;
	if (t->base.head.length == 0) { /* clients expect the length of an empty file */
		http_reply(req, 200, headers, 1, (struct str){ "", 0 });
		return 0;
	}
	transfer_words(&t->base, &words);
	headers[count++] = (struct http_header){ STR_LIT("Content-Length"), str_of(words.length) };
	headers[count++] = (struct http_header){ STR_LIT("Last-Modified"), str_of(words.modified) };
	if (words.range[0]) {
		status = 206;
		headers[count++] =
			(struct http_header){ STR_LIT("Content-Range"), str_of(words.range) };
	}
	return http_reply_start(req, status, headers, count);
}

static void on_head(void *arg, const struct files_head *head)
{
	struct e2b_transfer *t = arg;

	transfer_note_head(&t->base, head);
}

static void on_data(void *arg, struct str bytes)
{
	struct e2b_transfer *t = arg;
	struct http_req *req = transfer_req(&t->base);

	if (!req || (!t->base.begun && begin(t, req) < 0))
		return;
	transfer_pass(&t->base, req, bytes);
}

static void on_end(void *arg, const struct files_result *result, const struct err *error)
{
	struct e2b_transfer *t = arg, copy = *t;
	struct e2b_call *call = t->call;
	char path[160] = "";
	struct http_req *req;
	struct err err;

	(void)result;
	if (error)
		(void)snprintf(path, sizeof(path), "%.*s", (int)MIN(t->base.spec.path.n, 150),
			       t->base.spec.path.p);
	req = transfer_end(&t->base);
	if (!req)
		return;
	if (error && !copy.base.begun) {
		e2b_transfer_error(error, path, &err);
		e2b_answer_error(call, &err);
	} else if (error) {
		http_reply_abort(req); /* only a reset shows the client that content is missing */
	} else if (!copy.base.begun) {
		copy.upload = NULL;
		copy.base.head.length = 0;
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
	struct e2b_transfer *t;

	if (!ok)
		return;
	t = full ? e2b_transfer_new(call, &err) : NULL;
	if (t) {
		t->base.spec.path = str_of(full);
		t->base.spec.follow = true;
		envd_actor(call, &t->base.spec);
		if (face_range_read(call->req, &t->base.spec, &err) < 0 ||
		    files_start(call->sandbox, FILES_READ, &t->base.spec, &hooks, t, &t->base.run,
				&err) < 0) {
			(void)transfer_end(&t->base);
			t = NULL;
		}
	}
	if (!t)
		e2b_answer_error(call, &err);
	else
		http_reply_on_drain(call->req, transfer_on_drain, &t->base);
}
