/* SPDX-License-Identifier: Apache-2.0 */
#include "face/rest/run/stream.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "net/loop.h"

struct stream {
	struct stream *prev, *next;
	struct rest *rest;
	slot_handle req; /* 0: the client has disconnected */
	slot_handle follow;
	char key_id[AUTH_KEY_ID_SIZE];
	bool raw;
	bool begun;		 /* the head was sent */
	bool blocked;		 /* the client reads slowly: credit waits for on_drain */
	uint32_t owed;		 /* credit not yet given back */
	uint64_t next_cursor[2]; /* after the bytes sent; held bytes are not included */
	uint8_t held_n[2];
	char held[2][4];
	struct heartbeat heartbeat;
};

static struct http_req *request(const struct stream *stream)
{
	struct rest *rest = stream->rest;

	return rest->server && stream->req ? http_req_get(rest->server, stream->req) : NULL;
}

bool stream_is_gone(const struct stream *stream)
{
	return stream->req == 0;
}

/* ---- lifetime ---- */

static void on_heartbeat(void *arg);

static void unlink_stream(struct stream *stream)
{
	struct rest *rest = stream->rest;

	if (stream->prev)
		stream->prev->next = stream->next;
	else
		rest->streams = stream->next;
	if (stream->next)
		stream->next->prev = stream->prev;
	heartbeat_stop(&stream->heartbeat);
	free(stream);
}

void stream_free(struct stream *stream)
{
	if (stream->req)
		stream_end(stream->rest->service, stream->key_id);
	unlink_stream(stream);
}

void stream_drop(struct stream *stream, slot_handle follow)
{
	follow_close(stream->rest->service, follow);
	stream_free(stream);
}

void streams_done(struct rest *rest)
{
	while (rest->streams)
		unlink_stream(rest->streams);
}

/*
 * The client has disconnected; the process continues. Without a follow its start is still in
 * progress, and its completion finds the stream gone.
 */
static void on_gone(void *arg)
{
	struct stream *stream = arg;
	struct service *service = stream->rest->service;

	stream->req = 0;
	stream_end(service, stream->key_id);
	if (!stream->follow)
		return;
	follow_close(service, stream->follow);
	stream_free(stream);
}

static void give_back(struct stream *stream)
{
	uint32_t bytes = stream->owed;

	stream->owed = 0;
	follow_credit(stream->rest->service, stream->follow, bytes);
}

static void on_drain(void *arg)
{
	struct stream *stream = arg;

	stream->blocked = false;
	give_back(stream);
}

struct stream *stream_new(struct rest_call *call, bool raw, struct err *err)
{
	struct rest *rest = call->rest;
	struct stream *stream;

	if (stream_admit(rest->service, call->key, err) < 0)
		return NULL;
	stream = calloc(1, sizeof(*stream));
	if (!stream) {
		stream_end(rest->service, call->key->id);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	stream->rest = rest;
	stream->req = call->req->handle;
	stream->raw = raw;
	memcpy(stream->key_id, call->key->id, sizeof(stream->key_id));
	heartbeat_start(&stream->heartbeat, rest, on_heartbeat, stream);
	stream->next = rest->streams;
	if (stream->next)
		stream->next->prev = stream;
	rest->streams = stream;
	http_req_on_gone(call->req, on_gone, stream);
	http_reply_on_drain(call->req, on_drain, stream);
	http_reply_patience(call->req, STREAM_PATIENCE_MS);
	return stream;
}

void stream_refuse(struct stream *stream, const struct err *err)
{
	struct rest *rest = stream->rest;
	struct http_req *req = request(stream);

	if (req)
		http_req_on_gone(req, NULL, NULL);
	stream_free(stream);
	if (req)
		answer_error(rest, req, err);
}

void stream_set_cursors(struct stream *stream, uint64_t out, uint64_t err)
{
	stream->next_cursor[0] = out;
	stream->next_cursor[1] = err;
}

void stream_set_follow(struct stream *stream, slot_handle follow)
{
	stream->follow = follow;
}

/* ---- sending ---- */

static void send_bytes(struct stream *stream, struct str bytes)
{
	struct http_req *req = request(stream);

	if (req && http_reply_write(req, bytes.p, bytes.n) == -EAGAIN)
		stream->blocked = true; /* if it is lost, on_gone is called */
}

/* One event is assembled in rest->out and written to the socket without a copy. */
static struct json_writer event_begin(struct stream *stream, const char *name)
{
	struct buf *out = &stream->rest->out;
	struct json_writer w;

	buf_clear(out);
	json_writer_init(&w, out);
	w.error = buf_printf(out, "event: %s\nid: %llu:%llu\ndata: ", name,
			     (unsigned long long)stream->next_cursor[0],
			     (unsigned long long)stream->next_cursor[1]);
	json_begin_object(&w, NULL);
	return w;
}

static void event_send(struct stream *stream, struct json_writer *w)
{
	struct buf *out = &stream->rest->out;

	json_end_object(w);
	if (json_writer_end(w) == 0 && buf_puts(out, "\n\n") == 0)
		send_bytes(stream, buf_str(out));
	else
		log_warn("an event could not be written");
}

static void tell_piece(struct stream *stream, int i, struct str piece)
{
	struct json_writer w;

	stream->next_cursor[i] += piece.n;
	w = event_begin(stream, i ? "stderr" : "stdout");
	text_put(&w, "data", "data_b64", piece);
	json_put_int(&w, "cursor", (int64_t)stream->next_cursor[i]);
	event_send(stream, &w);
}

static void tell_held(struct stream *stream, int i)
{
	struct str held = { stream->held[i], stream->held_n[i] };

	stream->held_n[i] = 0;
	if (held.n)
		tell_piece(stream, i, held);
}

static void tell_gap(struct stream *stream, int i, uint64_t cursor)
{
	uint64_t bytes = cursor - stream->next_cursor[i];
	struct json_writer w;

	stream->next_cursor[i] = cursor;
	w = event_begin(stream, "gap");
	json_put_text(&w, "stream", i ? "stderr" : "stdout");
	json_put_int(&w, "bytes", (int64_t)bytes);
	json_put_int(&w, "cursor", (int64_t)cursor);
	event_send(stream, &w);
}

/* The held bytes precede the new ones. */
static struct str join_held(struct stream *stream, int i, struct str bytes)
{
	struct buf *scratch = &stream->rest->scratch;

	if (!stream->held_n[i])
		return bytes;
	buf_clear(scratch);
	if (buf_append(scratch, stream->held[i], stream->held_n[i]) < 0 ||
	    buf_append(scratch, bytes.p, bytes.n) < 0) {
		tell_held(stream, i); /* split, but nothing is lost */
		return bytes;
	}
	stream->held_n[i] = 0;
	return buf_str(scratch);
}

static void tell_output(struct stream *stream, int i, uint64_t cursor, struct str bytes)
{
	size_t whole;

	if (cursor > stream->next_cursor[i] + stream->held_n[i]) {
		tell_held(stream, i);
		tell_gap(stream, i, cursor);
	}
	bytes = join_held(stream, i, bytes);
	whole = text_whole(bytes);
	stream->held_n[i] = (uint8_t)(bytes.n - whole);
	memcpy(stream->held[i], bytes.p + whole, bytes.n - whole);
	if (whole)
		tell_piece(stream, i, (struct str){ bytes.p, whole });
}

/* ---- the head ---- */

void stream_begin(struct stream *stream)
{
	struct http_req *req = request(stream);
	char cursor[24];
	struct http_header headers[] = {
		{ STR_LIT("Content-Type"), stream->raw ? STR_LIT("application/octet-stream")
						       : STR_LIT("text/event-stream") },
		{ STR_LIT("Cache-Control"), STR_LIT("no-store") },
		{ STR_LIT("X-Content-Type-Options"), STR_LIT("nosniff") },
		{ STR_LIT("X-Accel-Buffering"), STR_LIT("no") },
		{ STR_LIT("Cay-Cursor"), { cursor, 0 } },
	};
	int n = snprintf(cursor, sizeof(cursor), "%llu",
			 (unsigned long long)(stream->next_cursor[0] + stream->next_cursor[1]));

	headers[4].value.n = (size_t)n;
	stream->begun = true;
	if (!req)
		return;
	stream->rest->counters.requests++;
	stream->rest->counters.by_class[2]++;
	if (http_reply_start(req, 200, headers, stream->raw ? 5 : 4) < 0)
		log_debug("%s: the client disconnected", req->id);
}

void stream_tell_started(struct stream *stream, uint32_t process_id, uint32_t pid)
{
	struct json_writer w = event_begin(stream, "started");

	json_put_int(&w, "process_id", process_id);
	json_put_int(&w, "pid", pid);
	event_send(stream, &w);
}

/* ---- callbacks of the service ---- */

/* A gap must be visible: the connection is reset. */
static void cut(struct stream *stream)
{
	struct http_req *req = request(stream);

	follow_close(stream->rest->service, stream->follow);
	stream_free(stream);
	if (req)
		http_reply_abort(req);
}

/* False: the stream was freed. */
static bool raw_output(struct stream *stream, int i, uint64_t cursor, struct str bytes)
{

	if (!stream->begun) {
		/*
		 * The first byte that still exists may be a later one: the head has its position.
		 */
		stream_set_cursors(stream, i ? 0 : cursor, i ? cursor : 0);
		stream_begin(stream);
	} else if (cursor != stream->next_cursor[i]) {
		cut(stream);
		return false;
	}
	stream->next_cursor[i] = cursor + bytes.n;
	send_bytes(stream, bytes);
	return true;
}

static void on_output(void *arg, int which, uint64_t cursor, struct str bytes)
{
	struct stream *stream = arg;
	int i = which == PROCESS_ERR;

	if (!stream->raw)
		tell_output(stream, i, cursor, bytes);
	else if (!raw_output(stream, i, cursor, bytes))
		return;
	stream->owed += (uint32_t)bytes.n;
	if (!stream->blocked &&
	    stream->owed >= (stream->raw ? STREAM_RAW_CREDIT : STREAM_CREDIT) / 4)
		give_back(stream);
}

static void tell_end(struct stream *stream, const struct process_status *status,
		     const struct err *err)
{
	struct json_writer w;

	for (int i = 0; i < 2; i++)
		tell_held(stream, i);
	if (!status->reason && !err)
		return; /* it continues, and only existing output was requested */
	w = event_begin(stream, status->reason ? "exit" : "error");
	if (status->reason)
		process_write_end(status, &w);
	else
		json_put_text(&w, "code", err_name(err->code));
	if (err)
		json_put_text(&w, "message", err->message);
	event_send(stream, &w);
}

static void on_end(void *arg, const struct process_status *status, const struct err *err)
{
	struct stream *stream = arg;
	struct http_req *req = request(stream);
	bool raw = stream->raw;

	if (!stream->begun && err && err->code != ERR_SANDBOX_GONE) {
		stream_refuse(stream, err);
		return;
	}
	if (!stream->begun)
		stream_begin(stream);
	if (!stream->raw)
		tell_end(stream, status, err);
	stream_free(stream);
	if (!req)
		return;
	http_req_on_gone(req, NULL, NULL);
	http_reply_on_drain(req, NULL, NULL);
	if (err && raw)
		http_reply_abort(req); /* there is no other way to show that there would be more */
	else
		http_reply_end(req);
}

const struct follow_hooks stream_hooks = { .on_output = on_output, .on_end = on_end };

static void on_heartbeat(void *arg)
{
	struct stream *stream = arg;

	/* A slow reader has unread bytes anyway. */
	if (stream->begun && !stream->raw && !stream->blocked)
		send_bytes(stream, STR_LIT(": beat\n\n"));
}
