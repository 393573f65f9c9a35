/* SPDX-License-Identifier: Apache-2.0 */
/* Unmodified content of any size in both directions: files and archives. */
#include <errno.h>
#include <stdio.h>
#include <strings.h>

#include "face/kit/range.h"
#include "face/rest/files/files.h"

/* ---- conditions ---- */

/* Whether a list of entity tags ("*", or W/"a", "b") contains this one. */
static bool names_etag(struct str list, const char *etag)
{
	while (list.n) {
		struct str one = list, rest = { "", 0 };

		if (!str_cut(list, ',', &one, &rest))
			rest = (struct str){ "", 0 };
		list = rest;
		one = str_trim(one, " \t");
		if (str_starts(one, "W/"))
			one = (struct str){ one.p + 2, one.n - 2 };
		if (str_is(one, "*") || str_is(one, etag))
			return true;
	}
	return false;
}

/* ---- download ---- */

#define HEADERS_MAX 8

struct download_head {
	struct http_header headers[HEADERS_MAX];
	size_t count;
	struct transfer_words words;
	char name[96];
};

static void add_header(struct download_head *h, const char *name, const char *value)
{
	h->headers[h->count++] = (struct http_header){ str_of(name), str_of(value) };
}

static void add_file_headers(struct download_head *h, const struct rest_transfer *t)
{
	transfer_words(&t->base, &h->words);
	if (h->words.modified[0])
		add_header(h, "Last-Modified", h->words.modified);
	add_header(h, "ETag", t->etag);
	add_header(h, "Accept-Ranges", "bytes");
	add_header(h, "Cache-Control", "no-cache");
}

/* The last component of the path, as far as a header can contain it. */
static void add_archive_headers(struct download_head *h, const struct rest_transfer *t)
{
	static const char *const types[] = { [FILES_TAR_ZST] = "application/zstd",
					     [FILES_TAR] = "application/x-tar",
					     [FILES_ZIP] = "application/zip" };
	struct str path = str_trim(t->base.spec.path, "/");
	char name[33];
	size_t n = 0;

	for (size_t i = path.n; i && path.p[i - 1] != '/'; i--)
		n++;
	path = (struct str){ path.p + path.n - n, n };
	n = 0;
	for (size_t i = 0; i < path.n && n < sizeof(name) - 1; i++) {
		char c = path.p[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || c == '-' || c == '_' || (c == '.' && n);

		if (plain)
			name[n++] = c;
	}
	name[n] = '\0';
	(void)snprintf(h->name, sizeof(h->name), "attachment; filename=\"%s.%s\"",
		       n ? name : "archive", files_format_names[t->base.spec.format]);
	add_header(h, "Content-Type", types[t->base.spec.format]);
	add_header(h, "Content-Disposition", h->name);
	add_header(h, "Cache-Control", "no-store");
	add_header(h, "Trailer", "Cay-Failed");
}

static int download_head(struct rest_transfer *t, struct download_head *h)
{
	h->count = 0;
	add_header(h, "X-Content-Type-Options", "nosniff");
	if (t->call->route->op == FILES_ARCHIVE_OUT) {
		add_archive_headers(h, t);
		return 200;
	}
	add_header(h, "Content-Type", "application/octet-stream");
	add_file_headers(h, t);
	add_header(h, "Content-Length", h->words.length);
	if (!h->words.range[0])
		return 200;
	add_header(h, "Content-Range", h->words.range);
	return 206;
}

static void count(struct rest *rest, int status)
{
	rest->counters.requests++;
	rest->counters.by_class[status / 100]++;
}

/* -EPIPE: the client is lost; on_gone follows. */
static int download_begin(struct rest_transfer *t, struct http_req *req)
{
	struct download_head h;
	int status = download_head(t, &h);

	t->base.begun = true;
	count(t->rest, status);
	return http_reply_start(req, status, h.headers, h.count);
}

static int download_start(struct rest_transfer *t, struct err *err);

/* If-Range does not match: the file has changed, and all of it is sent. */
static void start_over(struct rest_transfer *t)
{
	struct rest *rest = t->rest;
	struct http_req *req;
	struct err err;

	files_cancel(rest->service, t->base.run);
	t->conditional = false;
	t->base.spec.has_range = t->base.spec.has_length = t->base.spec.has_suffix = false;
	if (steps_again(t->call, &err) == 0 && download_start(t, &err) == 0)
		return;
	req = transfer_end(&t->base);
	if (req)
		answer_error(rest, req, &err);
}

static void answer_unchanged(struct rest_transfer *t)
{
	struct rest *rest = t->rest;
	struct rest_transfer copy = *t; /* its texts are used after its end */
	struct download_head h = { .count = 0 };
	struct http_req *req;

	add_file_headers(&h, &copy);
	files_cancel(rest->service, t->base.run);
	req = transfer_end(&t->base);
	if (!req)
		return;
	count(rest, 304);
	http_reply(req, 304, h.headers, h.count, (struct str){ "", 0 });
}

static void on_head(void *arg, const struct files_head *head)
{
	struct rest_transfer *t = arg;
	struct http_req *req = transfer_req(&t->base);
	const struct str *none, *range;

	transfer_note_head(&t->base, head);
	(void)snprintf(t->etag, sizeof(t->etag), "\"%s\"", head->etag);
	if (!req || !head->is_file)
		return;
	none = http_req_header(req, "if-none-match");
	range = http_req_header(req, "if-range");
	if (none && names_etag(*none, t->etag))
		answer_unchanged(t);
	else if (t->conditional && range && !names_etag(*range, t->etag))
		start_over(t);
}

static void on_data(void *arg, struct str bytes)
{
	struct rest_transfer *t = arg;
	struct http_req *req = transfer_req(&t->base);

	if (!req || (!t->base.begun && download_begin(t, req) < 0))
		return;
	transfer_pass(&t->base, req, bytes);
}

static void answer_bad_range(struct rest *rest, struct http_req *req, const struct files_head *head,
			     const struct err *err)
{
	char range[40];
	struct http_header headers[] = {
		{ STR_LIT("Content-Type"), STR_LIT("application/json") },
		{ STR_LIT("Content-Range"), { range, 0 } },
	};

	headers[1].value.n = (size_t)snprintf(range, sizeof(range), "bytes */%llu",
					      (unsigned long long)head->size);
	count(rest, 416);
	http_reply(req, 416, headers, 2, answer_error_text(rest, req->id, err));
}

/* HEAD requests and empty files have no body. */
static void answer_head(struct rest_transfer *t)
{
	struct rest *rest = t->rest;
	struct files_head head = t->base.head;
	struct download_head h;
	struct rest_transfer copy = *t; /* its texts are used after its end */
	int status = download_head(&copy, &h);
	struct http_req *req = transfer_end(&t->base);
	struct err err;

	if (!req)
		return;
	if (!head.is_file) {
		(void)err_set(&err, ERR_NOT_A_FILE, "the path is not a regular file");
		answer_error(rest, req, &err);
		return;
	}
	count(rest, status);
	http_reply(req, status, h.headers, h.count, (struct str){ "", 0 });
}

static void on_download_end(void *arg, const struct files_result *result, const struct err *err)
{
	struct rest_transfer *t = arg;
	struct rest *rest = t->rest;
	struct files_head head = t->base.head;
	bool begun = t->base.begun, archive = t->call->route->op == FILES_ARCHIVE_OUT;
	struct http_req *req = transfer_req(&t->base);
	uint64_t failed = result ? result->failed : 0;

	if (!err && !begun && !archive) {
		answer_head(t);
		return;
	}
	if (!err && !begun && req && download_begin(t, req) < 0)
		return; /* an empty archive, and on_gone follows */
	req = transfer_end(&t->base);
	if (!req)
		return;
	if (!err && archive) {
		char left_out[48];
		int n = snprintf(left_out, sizeof(left_out), "Cay-Failed: %llu",
				 (unsigned long long)failed);

		http_reply_end_with(req, (struct str){ left_out, (size_t)n });
	} else if (!err)
		http_reply_end(req);
	else if (begun)
		http_reply_abort(req); /* only a reset shows the client that content is missing */
	else if (err->code == ERR_RANGE_NOT_SATISFIABLE)
		answer_bad_range(rest, req, &head, err);
	else
		answer_error(rest, req, err);
}

static int download_start(struct rest_transfer *t, struct err *err)
{
	static const struct files_hooks hooks = { .on_head = on_head,
						  .on_data = on_data,
						  .on_end = on_download_end };

	return rest_transfer_start(t, &hooks, err);
}

void files_download(struct rest_call *call)
{
	struct http_req *req = call->req;
	struct err err;
	struct rest_transfer *t;

	if (req->method == HTTP_HEAD && call->route->op == FILES_ARCHIVE_OUT) {
		answer_not_allowed(call->rest, req, "GET, PUT");
		return;
	}
	t = rest_transfer_new(call, &err);
	if (t && (files_spec_read(call, &t->base.spec, &err) < 0 ||
		  (call->route->op == FILES_READ && req->method == HTTP_GET &&
		   face_range_read(req, &t->base.spec, &err) < 0))) {
		(void)transfer_end(&t->base);
		t = NULL;
	}
	if (t) {
		t->conditional = t->base.spec.has_range && http_req_header(req, "if-range");
		t->base.spec.follow = true;
		if (download_start(t, &err) < 0) {
			(void)transfer_end(&t->base);
			t = NULL;
		}
	}
	if (!t)
		answer_error(call->rest, req, &err);
	else
		http_reply_on_drain(req, transfer_on_drain, &t->base);
}

/* ---- upload ---- */

static void break_off(struct rest_transfer *t, int status)
{
	struct rest *rest = t->rest;
	struct http_req *req;
	struct err err;

	if (status == -ETIMEDOUT)
		(void)err_set(&err, ERR_REQUEST_TIMEOUT, "the body did not arrive in time");
	else
		(void)err_set(&err, ERR_INVALID_REQUEST, "the body is malformed");
	files_cancel(rest->service, t->base.run);
	t->call->transfer = NULL;
	req = transfer_end(&t->base);
	if (req)
		answer_error(rest, req, &err);
}

static void on_body(void *arg, struct http_req *req, int status, const char *p, size_t n)
{
	struct rest_call *call = arg;
	struct rest_transfer *t = call->transfer;

	if (!t)
		return; /* a reply was sent before the whole body arrived */
	if (status < 0)
		break_off(t, status);
	else if (n == 0)
		files_commit(t->rest->service, t->base.run);
	else if (files_feed(t->rest->service, t->base.run, (struct str){ p, n }) != 1)
		http_req_pause_body(req, true); /* until the tool accepts content again, or ends */
}

static void on_ready(void *arg)
{
	struct rest_transfer *t = arg;
	struct http_req *req = transfer_req(&t->base);

	if (!req || t->reading)
		return;
	t->reading = true;
	if (http_req_stream_body(req, on_body, t->call) < 0)
		break_off(t, -EPROTO);
}

static void on_room(void *arg)
{
	struct rest_transfer *t = arg;
	struct http_req *req = transfer_req(&t->base);

	if (req)
		http_req_pause_body(req, false);
}

static bool on_outcome(void *arg, const struct files_outcome *outcome)
{
	struct rest_transfer *t = arg;

	return files_answer_outcome(&t->answer, outcome);
}

static void on_upload_end(void *arg, const struct files_result *result, const struct err *error)
{
	struct rest_transfer *t = arg;
	struct rest *rest = t->rest;
	struct rest_call *call = t->call;
	struct http_req *req;
	struct buf out;
	struct err err;

	if (!error && files_answer_end(&t->answer, result, &err) < 0)
		error = &err;
	out = t->answer.out; /* it is sent after the end of the transfer */
	buf_init(&t->answer.out, 0);
	req = transfer_end(&t->base);
	if (req)
		call->transfer = NULL;
	if (req && error)
		answer_error(rest, req, error);
	else if (req)
		answer_text(rest, req,
			    call->route->op == FILES_WRITE && result->created ? 201 : 200,
			    STR_LIT("application/json"), buf_str(&out));
	buf_done(&out);
}

/* If-Match and If-None-Match mean the same as the query's if_match. */
static void read_conditions(struct http_req *req, struct files_spec *spec)
{
	const struct str *match = http_req_header(req, "if-match");
	const struct str *none = http_req_header(req, "if-none-match");

	if (match && !spec->if_match.p && !str_is(*match, "*"))
		spec->if_match = *match;
	if (none && str_is(*none, "*"))
		spec->exclusive = true;
}

void files_upload(struct rest_call *call)
{
	static const struct files_hooks hooks = { .on_ready = on_ready,
						  .on_room = on_room,
						  .on_outcome = on_outcome,
						  .on_end = on_upload_end };
	struct err err;
	struct rest_transfer *t = rest_transfer_new(call, &err);

	if (t && files_spec_read(call, &t->base.spec, &err) == 0) {
		read_conditions(call->req, &t->base.spec);
		call->transfer = t;
		if (rest_transfer_start(t, &hooks, &err) == 0)
			return;
	}
	call->transfer = NULL;
	if (t)
		(void)transfer_end(&t->base);
	answer_error(call->rest, call->req, &err);
}
