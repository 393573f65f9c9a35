/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/events and .../sandboxes/{id}/events: a stream with replay, or a page of JSON. */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "face/rest/run/stream.h"
#include "http/message/sse.h"
#include "net/loop.h"
#include "service/event/bus.h"

static const char *const format_names[] = { "json", "sse", NULL };
enum { FORMAT_NONE = -1, FORMAT_JSON, FORMAT_SSE };

struct events_query {
	int64_t after; /* BUS_NOW - 1: not given */
	int64_t limit;
	int format; /* FORMAT_NONE: not given */
	bool follow, has_follow;
	struct str type, sandbox, external_workspace_id;
};
#define NOT_SENT (BUS_NOW - 1)
#define AT(member) offsetof(struct events_query, member)
/* Lists use the name "cursor" for it. */
#define COMMON_QUERY                                                                           \
	{ .name = "after",                                                                     \
	  .type = FIELD_INT,                                                                   \
	  .offset = AT(after),                                                                 \
	  .max = INT64_MAX,                                                                    \
	  .fallback = NOT_SENT,                                                                \
	  .doc = "the id of the last event received; 0: all that are stored. Without it (and " \
		 "Last-Event-ID) a stream starts with new events, a page with the oldest" },   \
		{ .name = "cursor",                                                            \
		  .type = FIELD_INT,                                                           \
		  .offset = AT(after),                                                         \
		  .max = INT64_MAX,                                                            \
		  .fallback = NOT_SENT,                                                        \
		  .doc = "the same as after" },                                                \
		{ .name = "format",                                                            \
		  .type = FIELD_ENUM,                                                          \
		  .offset = AT(format),                                                        \
		  .names = format_names,                                                       \
		  .fallback = FORMAT_NONE,                                                     \
		  .doc = "default: sse with follow or Accept: text/event-stream, otherwise "   \
			 "json" },                                                             \
		{ .name = "follow",                                                            \
		  .type = FIELD_BOOL,                                                          \
		  .offset = AT(follow),                                                        \
		  .doc = "continue with new events; false: end after the last stored event" }, \
		{ .name = "limit",                                                             \
		  .type = FIELD_INT,                                                           \
		  .offset = AT(limit),                                                         \
		  .min = 1,                                                                    \
		  .max = PAGE_LIMIT_MAX,                                                       \
		  .fallback = PAGE_LIMIT,                                                      \
		  .doc = "of a page" },                                                        \
	{                                                                                      \
		.name = "type", .type = FIELD_STR, .offset = AT(type), .min = 1, .max = 512,   \
		.doc = "names separated by commas: process,sandbox.error"                      \
	}
const struct field events_query[] = { COMMON_QUERY,
				      { .name = "sandbox",
					.type = FIELD_STR,
					.offset = AT(sandbox),
					.min = 1,
					.max = 64,
					.doc = "id or name" },
				      { .name = "external_workspace_id",
					.type = FIELD_STR,
					.offset = AT(external_workspace_id),
					.min = 1,
					.max = SANDBOX_WORKSPACE_MAX },
				      { .type = FIELD_END } };
const struct field sandbox_events_query[] = { COMMON_QUERY, { .type = FIELD_END } };
#undef AT

/* Owner: rest->event_readers, until the stream ends or the client disconnects. */
struct event_reader {
	struct event_reader *prev, *next;
	struct rest *rest;
	slot_handle req;
	struct bus_reader *reader;
	struct heartbeat heartbeat;
	char key_id[AUTH_KEY_ID_SIZE];
	bool sse;
	bool one;     /* of one sandbox: the stream ends with it */
	bool blocked; /* the client reads slowly */
	int64_t left; /* of a page */
	int64_t last; /* id of the last event sent */
	struct listing *list;
};

static struct http_req *request(const struct event_reader *e)
{
	return e->rest->server ? http_req_get(e->rest->server, e->req) : NULL;
}

static void unlink_reader(struct event_reader *e)
{
	if (e->prev)
		e->prev->next = e->next;
	else
		e->rest->event_readers = e->next;
	if (e->next)
		e->next->prev = e->prev;
	heartbeat_stop(&e->heartbeat);
	listing_free(e->list);
	free(e);
}

/* The request if its client is still connected. */
static struct http_req *finish(struct event_reader *e)
{
	struct http_req *req = request(e);

	if (e->sse)
		stream_end(e->rest->service, e->key_id);
	unlink_reader(e);
	if (req) {
		http_req_on_gone(req, NULL, NULL);
		http_reply_on_drain(req, NULL, NULL);
	}
	return req;
}

void events_done(struct rest *rest)
{
	while (rest->event_readers)
		unlink_reader(rest->event_readers);
}

static void on_gone(void *arg)
{
	struct event_reader *e = arg;

	bus_reader_close(e->reader);
	(void)finish(e);
}

/* ---- the stream ---- */

static enum bus_answer send_bytes(struct event_reader *e, struct str bytes)
{
	struct http_req *req = request(e);

	if (!req || http_reply_write(req, bytes.p, bytes.n) != -EAGAIN)
		return BUS_MORE; /* on_gone reports a lost client */
	e->blocked = true;
	return BUS_WAIT;
}

static enum bus_answer send_event(struct event_reader *e, const char *name, int64_t id,
				  struct str json)
{
	struct buf *out = &e->rest->out;
	char text[24];

	(void)snprintf(text, sizeof(text), "%lld", (long long)id);
	buf_clear(out);
	if (sse_event(out, str_of(name), str_of(text), json) == 0)
		return send_bytes(e, buf_str(out));
	log_warn("an event could not be written");
	return BUS_MORE;
}

static enum bus_answer tell_event(struct event_reader *e, const struct event *event)
{
	struct buf *scratch = &e->rest->scratch;
	enum bus_answer answer;
	struct json_writer w;

	buf_clear(scratch);
	json_writer_init(&w, scratch);
	event_write(event, &w, NULL);
	if (json_writer_end(&w) < 0)
		return BUS_MORE;
	answer = send_event(e, event->type, event->id, buf_str(scratch));
	return e->one && strcmp(event->type, event_names[EVENT_SANDBOX_DESTROYED]) == 0 ? BUS_END
											: answer;
}

static enum bus_answer on_event(void *arg, const struct event *event)
{
	struct event_reader *e = arg;

	e->last = event->id;
	if (e->sse)
		return tell_event(e, event);
	event_write(event, &e->list->w, NULL);
	return --e->left > 0 ? BUS_MORE : BUS_END;
}

static void write_gap(const struct bus_gap *gap, struct json_writer *w, const char *key)
{
	json_begin_object(w, key);
	json_put_int(w, "events", gap->events);
	json_put_bool(w, "exact", gap->exact);
	json_put_int(w, "last", gap->last);
	json_end_object(w);
}

static enum bus_answer on_gap(void *arg, const struct bus_gap *gap)
{
	struct event_reader *e = arg;
	struct buf *scratch = &e->rest->scratch;
	struct json_writer w;

	e->last = gap->last;
	if (!e->sse)
		return BUS_MORE; /* a page needs no gap event: its first id shows what is missing */
	buf_clear(scratch);
	json_writer_init(&w, scratch);
	write_gap(gap, &w, NULL);
	return json_writer_end(&w) < 0 ? BUS_MORE
				       : send_event(e, "gap", gap->last, buf_str(scratch));
}

static void answer_page(struct event_reader *e, bool more)
{
	struct rest *rest = e->rest;
	struct listing *list = TAKE_PTR(e->list);
	struct json_writer *w = &list->w;
	char next[24];
	struct http_req *req;
	struct err err;
	int r;

	json_end_array(w);
	(void)snprintf(next, sizeof(next), "%lld", (long long)e->last);
	json_put_text(w, "next_cursor", more ? next : NULL);
	json_end_object(w);
	r = json_writer_end(w);
	req = finish(e);
	if (req && r < 0) {
		(void)err_set_errno(&err, ERR_INTERNAL, r, "the reply could not be written");
		answer_error(rest, req, &err);
	} else if (req) {
		answer_text(rest, req, 200, STR_LIT("application/json"), buf_str(&list->out));
	}
	listing_free(list);
}

static void on_end(void *arg, bool more)
{
	struct event_reader *e = arg;
	struct http_req *req;

	if (!e->sse) {
		answer_page(e, more);
		return;
	}
	req = finish(e);
	if (req)
		http_reply_end(req);
}

static const struct bus_hooks hooks = { .on_event = on_event, .on_gap = on_gap, .on_end = on_end };

static void on_drain(void *arg)
{
	struct event_reader *e = arg;

	if (!e->blocked)
		return;
	e->blocked = false;
	bus_reader_go_on(e->reader);
}

/* Also checks whether the key still exists. */
static void on_heartbeat(void *arg)
{
	struct event_reader *e = arg;
	struct http_req *req = request(e);
	struct err err;

	if (!req || e->blocked)
		return;
	if (guard_again(e->rest->service, e->key_id, &err)) {
		(void)send_bytes(e, STR_LIT(": beat\n\n"));
		return;
	}
	bus_reader_close(e->reader);
	(void)finish(e);
	http_reply_end(req);
}

static void begin_stream(struct event_reader *e, struct http_req *req)
{
	http_reply_on_drain(req, on_drain, e);
	http_reply_patience(req, STREAM_PATIENCE_MS);
	if (events_begin(e->rest, req) < 0)
		return;				      /* on_gone follows */
	(void)send_bytes(e, STR_LIT(": events\n\n")); /* the head is sent immediately */
	heartbeat_start(&e->heartbeat, e->rest, on_heartbeat, e);
}

/* ---- the call ---- */

static int read_after(struct rest_call *call, struct events_query *query, bool live,
		      struct err *err)
{
	const struct str *last = http_req_header(call->req, "last-event-id");
	uint64_t value = 0;

	if (query->after == NOT_SENT && last && query->format == FORMAT_SSE) {
		if (str_to_u64(*last, INT64_MAX, &value) < 0)
			return err_set(err, ERR_INVALID_REQUEST,
				       "Last-Event-ID must be the id of an event");
		query->after = (int64_t)value;
	}
	if (query->after == NOT_SENT)
		query->after = query->format == FORMAT_SSE && live ? BUS_NOW : 0;
	return 0;
}

static int read_filter(struct rest_call *call, const struct events_query *query,
		       struct bus_filter *filter, bool *live, struct err *err)
{
	struct service *service = call->rest->service;
	struct str id = call->args[0].n ? call->args[0] : query->sandbox;
	bool alive = true;

	*filter = (struct bus_filter){ .types = EVENT_ALL };
	if (!key_is_admin(call->key))
		memcpy(filter->owner, call->key->id, sizeof(filter->owner));
	if (query->type.n && bus_types_parse(query->type, &filter->types, err) < 0)
		return -1;
	if (str_copy(filter->external_workspace_id, sizeof(filter->external_workspace_id),
		     query->external_workspace_id) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "external_workspace_id is too long");
	if (!id.n)
		return 0;
	if (bus_find_sandbox(service, call->key, id, filter->sandbox_id, &alive, err) < 0)
		return -1;
	*live = *live && alive;
	return 0;
}

static int start(struct rest_call *call, const struct events_query *query,
		 const struct bus_filter *filter, bool live, struct err *err)
{
	struct rest *rest = call->rest;
	bool sse = query->format == FORMAT_SSE;
	struct event_reader *e;

	if (sse && stream_admit(rest->service, call->key, err) < 0)
		return -1;
	e = calloc(1, sizeof(*e));
	if (e && !sse)
		e->list = listing_new();
	if (!e || (!sse && !e->list)) {
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
	} else {
		e->rest = rest;
		e->req = call->req->handle;
		e->sse = sse;
		e->one = filter->sandbox_id[0] != '\0';
		e->left = query->limit;
		memcpy(e->key_id, call->key->id, sizeof(e->key_id));
		if (bus_read(rest->service, &(struct bus_ask){ filter, query->after, sse && live },
			     &hooks, e, &e->reader, err) == 0) {
			e->next = rest->event_readers;
			if (e->next)
				e->next->prev = e;
			rest->event_readers = e;
			http_req_on_gone(call->req, on_gone, e);
			if (sse)
				begin_stream(e, call->req);
			return 0;
		}
		listing_free(e->list);
	}
	if (sse)
		stream_end(rest->service, call->key->id);
	free(e);
	return -1;
}

/* The media type may be one of several, in any case and with parameters. */
static bool accepts_stream(const struct rest_call *call)
{
	const struct str *accept = http_req_header(call->req, "accept");
	struct str rest = accept ? *accept : (struct str){ "", 0 }, one, media, parameters;

	while (rest.n) {
		if (!str_cut(rest, ',', &one, &rest)) {
			one = rest;
			rest = (struct str){ "", 0 };
		}
		media = one;
		(void)str_cut(one, ';', &media, &parameters);
		if (str_eq_nocase(str_trim(media, " \t"), "text/event-stream"))
			return true;
	}
	return false;
}

/* A page unless the client requests a stream: a client without support for streams would wait
 * forever. */
static int choose_format(struct rest_call *call, struct events_query *query, struct err *err)
{
	struct str follow = { NULL, 0 };

	if (query_text(call->req, "follow", &follow, err) < 0)
		return -1;
	query->has_follow = follow.p != NULL;
	if (query->format == FORMAT_JSON && query->follow)
		return err_set(err, ERR_INVALID_REQUEST,
			       "follow needs a stream: leave format out, or use format=sse");
	if (query->format == FORMAT_NONE)
		query->format = query->follow || accepts_stream(call) ? FORMAT_SSE : FORMAT_JSON;
	return 0;
}

void events_read(struct rest_call *call)
{
	struct events_query query = { .after = 0 };
	struct bus_filter filter;
	bool live = true;
	struct err err;

	if (query_decode(call->req, events_query, &query, &err) < 0 ||
	    choose_format(call, &query, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	if (call->req->method == HTTP_HEAD || (query.has_follow && !query.follow))
		live = false; /* the client does not want to wait for new events */
	if (read_after(call, &query, live, &err) < 0 ||
	    read_filter(call, &query, &filter, &live, &err) < 0 ||
	    start(call, &query, &filter, live, &err) < 0)
		answer_error(call->rest, call->req, &err);
}
