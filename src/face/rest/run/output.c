/* SPDX-License-Identifier: Apache-2.0 */
/* GET .../processes/{pid}/output: events, one JSON document, or raw bytes. */
#include <stdio.h>

#include "face/rest/run/stream.h"
#include "service/run/output_buffer.h"

#define JSON_BYTES_MAX \
	(1024 * 1024) /* bytes of each stream in one document; the next call continues */

enum { FORMAT_SSE, FORMAT_JSON, FORMAT_RAW };
static const char *const format_names[] = { "sse", "json", "raw", NULL };
enum { BOTH, ONLY_OUT, ONLY_ERR };
static const char *const stream_names[] = { "both", "stdout", "stderr", NULL };

const struct field output_query[] = {
	{ .name = "cursor",
	  .type = FIELD_STR,
	  .doc = "N, or N:M for stdout and stderr: the first byte to return; default 0" },
	{ .name = "tail", .type = FIELD_INT, .doc = "the last N bytes instead" },
	{ .name = "follow", .type = FIELD_BOOL, .doc = "continue until the process ends" },
	{ .name = "hold",
	  .type = FIELD_BOOL,
	  .doc = "with follow: the process blocks rather than overwrite what was not read" },
	{ .name = "stream", .type = FIELD_ENUM, .names = stream_names },
	{ .name = "format",
	  .type = FIELD_ENUM,
	  .names = format_names,
	  .doc = "sse; json (also by Accept), without follow; raw, of one stream" },
	{ .type = FIELD_END }
};

struct output_ask {
	uint64_t cursor[2];
	int64_t tail; /* -1: none */
	bool follow, hold;
	int format, stream;
};

/* ---- the query ---- */

static int one_of(struct http_req *req, const char *name, const char *const *names, int *ret,
		  struct err *err)
{
	struct str text = { NULL, 0 };

	if (query_text(req, name, &text, err) < 0)
		return -1;
	for (int i = 0; text.p && names[i]; i++) {
		if (str_is(text, names[i])) {
			*ret = i;
			return 0;
		}
	}
	return text.p ? err_set(err, ERR_INVALID_REQUEST, "%s must be %s, %s or %s", name, names[0],
				names[1], names[2])
		      : 0;
}

int cursor_parse(struct str text, const char *what, uint64_t ret[2], struct err *err)
{
	struct str out = text, err_part = { "0", 1 };

	(void)str_cut(text, ':', &out, &err_part);
	if (str_to_u64(out, INT64_MAX, &ret[0]) == 0 &&
	    str_to_u64(err_part, INT64_MAX, &ret[1]) == 0)
		return 0;
	return err_set(err, ERR_INVALID_REQUEST, "%s must be a byte position N, or N:M", what);
}

static int read_cursor(struct http_req *req, struct output_ask *ask, struct err *err)
{
	const struct str *last = http_req_header(req, "last-event-id");
	struct str text = { NULL, 0 };

	if (query_text(req, "cursor", &text, err) < 0 ||
	    query_int(req, "tail", 0, INT64_MAX, &ask->tail, err) < 0)
		return -1;
	if (text.p && ask->tail >= 0)
		return err_set(err, ERR_INVALID_REQUEST, "cursor or tail, not both");
	/* EventSource reconnects with the old address: the Last-Event-ID that it sends takes
	 * precedence. */
	if (last && last->n) {
		ask->tail = -1;
		return cursor_parse(*last, "Last-Event-ID", ask->cursor, err);
	}
	return text.p ? cursor_parse(text, "cursor", ask->cursor, err) : 0;
}

static bool wants_json(const struct http_req *req)
{
	const struct str *accept = http_req_header(req, "accept");

	return accept && str_starts(*accept, "application/json");
}

static int read_ask(struct rest_call *call, struct output_ask *ask, struct err *err)
{
	struct http_req *req = call->req;

	*ask = (struct output_ask){ .tail = -1,
				    .format = wants_json(req) ? FORMAT_JSON : FORMAT_SSE };
	if (one_of(req, "format", format_names, &ask->format, err) < 0)
		return -1;
	if (ask->format == FORMAT_RAW)
		ask->stream = ONLY_OUT;
	if (one_of(req, "stream", stream_names, &ask->stream, err) < 0 ||
	    query_bool(req, "follow", &ask->follow, err) < 0 ||
	    query_bool(req, "hold", &ask->hold, err) < 0 || read_cursor(req, ask, err) < 0)
		return -1;
	if (req->method == HTTP_HEAD)
		ask->follow = ask->hold =
			false; /* the process has ended, so there is nothing to wait for */
	if (ask->format == FORMAT_RAW && ask->stream == BOTH)
		return err_set(err, ERR_INVALID_REQUEST,
			       "stream must be stdout or stderr when format is raw");
	if (ask->hold && !ask->follow)
		return err_set(err, ERR_INVALID_REQUEST, "hold needs follow");
	if (ask->format == FORMAT_JSON && ask->follow)
		return err_set(err, ERR_INVALID_REQUEST, "follow needs format sse or raw");
	return 0;
}

/* The requested bytes, as cursors that exist. A single cursor belongs to the one requested
 * stream. */
static int settle(struct output_ask *ask, const struct process_info *info, struct err *err)
{
	const uint64_t total[2] = { info->status.out_total, info->status.err_total };

	if (ask->stream == ONLY_ERR && ask->cursor[0] && !ask->cursor[1])
		ask->cursor[1] = ask->cursor[0];
	if (ask->stream == ONLY_ERR)
		ask->cursor[0] = 0;
	else if (ask->stream == ONLY_OUT)
		ask->cursor[1] = 0;
	for (int i = 0; i < 2; i++) {
		if (ask->tail >= 0)
			ask->cursor[i] = total[i] - MIN(total[i], (uint64_t)ask->tail);
		if (ask->cursor[i] > total[i])
			return err_set(err, ERR_INVALID_REQUEST,
				       "cursor is in the future: %s has %llu bytes so far",
				       i ? "stderr" : "stdout", (unsigned long long)total[i]);
	}
	return 0;
}

static struct follow_spec follow_of(const struct output_ask *ask, uint32_t credit)
{
	return (struct follow_spec){ .out_cursor = ask->cursor[0],
				     .err_cursor = ask->cursor[1],
				     .credit = credit,
				     .live = ask->follow,
				     .hold = ask->hold,
				     .waited = ask->follow && ask->hold,
				     .streams = ask->stream == ONLY_OUT ? PROCESS_OUT
						: ask->stream == ONLY_ERR
							? PROCESS_ERR
							: PROCESS_OUT | PROCESS_ERR };
}

/* ---- one document ---- */

/* Owner: its follow. */
struct document {
	struct rest *rest;
	struct rest_pending *pending;
	slot_handle follow;
	struct output_buffer parts[2];
	int64_t age_us; /* of the process, when it was requested */
};

static void document_free(struct document *d)
{
	output_buffer_done(&d->parts[0]);
	output_buffer_done(&d->parts[1]);
	free(d);
}

static void write_document(const struct document *d, const struct process_status *status,
			   struct json_writer *w)
{
	const struct output_buffer *out = &d->parts[0], *err = &d->parts[1];
	struct process_status known = *status;

	if (!known.reason)
		known.duration_us = d->age_us;
	json_begin_object(w, NULL);
	json_put_text(w, "state", status->reason ? "exited" : "running");
	text_put(w, "stdout", "stdout_b64", buf_str(&out->bytes));
	text_put(w, "stderr", "stderr_b64", buf_str(&err->bytes));
	json_put_int(w, "stdout_cursor", (int64_t)out->next);
	json_put_int(w, "stderr_cursor", (int64_t)err->next);
	json_put_int(w, "stdout_gap_bytes", (int64_t)out->gap_bytes);
	json_put_int(w, "stderr_gap_bytes", (int64_t)err->gap_bytes);
	json_put_bool(w, "more", out->cut || err->cut);
	process_write_end(&known, w);
	json_end_object(w);
}

/* A sequence that is incomplete at the current end is left for the next call. */
static void trim(struct output_buffer *g)
{
	struct str all = buf_str(&g->bytes);
	size_t n = all.n - text_whole(all);

	g->bytes.tail -= n;
	g->next -= n;
}

static void document_end(struct document *d, const struct process_status *status,
			 const struct err *err)
{
	struct rest *rest = d->rest;
	struct http_req *req = pending_end(d->pending);
	struct json_writer w;

	for (int i = 0; i < 2; i++)
		if (!status->reason || d->parts[i].cut)
			trim(&d->parts[i]);
	if (req && err) {
		answer_error(rest, req, err);
	} else if (req) {
		w = answer_begin(rest);
		write_document(d, status, &w);
		answer_send(rest, req, 200, &w);
	}
	document_free(d);
}

static void on_document_output(void *arg, int stream, uint64_t cursor, struct str bytes)
{
	struct document *d = arg;

	output_buffer_add(&d->parts[stream == PROCESS_ERR], cursor, bytes);
	follow_credit(d->rest->service, d->follow, (uint32_t)bytes.n);
}

static void on_document_end(void *arg, const struct process_status *status, const struct err *err)
{
	document_end(arg, status, err);
}

static void on_document_drop(void *arg)
{
	document_free(arg); /* its pending is freed with the face */
}

static const struct follow_hooks document_hooks = { .on_output = on_document_output,
						    .on_end = on_document_end,
						    .on_drop = on_document_drop };

static int start_document(struct rest_call *call, const struct output_ask *ask,
			  const struct process_info *info, struct err *err)
{
	struct follow_spec spec = follow_of(ask, STREAM_CREDIT);
	struct document *d = calloc(1, sizeof(*d));

	if (d)
		d->pending = pending_new(call);
	if (!d || !d->pending) {
		free(d);
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	}
	d->rest = call->rest;
	d->age_us = info->status.duration_us;
	output_buffer_init(&d->parts[0], JSON_BYTES_MAX, ask->cursor[0]);
	output_buffer_init(&d->parts[1], JSON_BYTES_MAX, ask->cursor[1]);
	if (follow_open(call->sandbox, call->process_id, &spec, &document_hooks, d, &d->follow,
			err) == 0)
		return 0;
	(void)pending_end(d->pending);
	document_free(d);
	return -1;
}

/* ---- streams ---- */

static int start_stream(struct rest_call *call, const struct output_ask *ask,
			const struct process_info *info, struct err *err)
{
	bool raw = ask->format == FORMAT_RAW;
	struct follow_spec spec = follow_of(ask, raw ? STREAM_RAW_CREDIT : STREAM_CREDIT);
	uint64_t total = ask->stream == ONLY_ERR ? info->status.err_total : info->status.out_total;
	struct stream *stream = stream_new(call, raw, err);
	slot_handle follow;

	if (!stream)
		return -1;
	if (follow_open(call->sandbox, call->process_id, &spec, &stream_hooks, stream, &follow,
			err) < 0) {
		http_req_on_gone(call->req, NULL, NULL);
		stream_free(stream);
		return -1;
	}
	stream_set_follow(stream, follow);
	stream_set_cursors(stream, ask->cursor[0], ask->cursor[1]);
	/* Raw bytes have no event for a gap before the first byte. The head therefore waits for
	 * that byte, unless there is nothing to replay. */
	if (!raw || ask->cursor[ask->stream == ONLY_ERR] == total)
		stream_begin(stream);
	return 0;
}

static void on_found(void *arg, const struct process_info *info, const struct err *error)
{
	struct rest_pending *pending = arg;
	struct rest_call *call = pending->call;
	struct output_ask ask;
	struct err err;

	if (!pending_end(pending))
		return;
	if (!error && (steps_again(call, &err) < 0 || read_ask(call, &ask, &err) < 0 ||
		       settle(&ask, info, &err) < 0))
		error = &err;
	if (!error) {
		call->process_id = info->process_id;
		if ((ask.format == FORMAT_JSON ? start_document(call, &ask, info, &err)
					       : start_stream(call, &ask, info, &err)) < 0)
			error = &err;
	}
	if (error)
		answer_error(call->rest, call->req, error);
}

void output_read(struct rest_call *call)
{
	struct output_ask ask;
	struct rest_pending *pending;
	struct err err;

	/* An invalid query is rejected before the process is looked up. */
	if (read_ask(call, &ask, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	pending = pending_for(call);
	if (pending)
		answer_later(pending,
			     process_find(call->sandbox, call->args[1], on_found, pending, &err),
			     &err);
}
