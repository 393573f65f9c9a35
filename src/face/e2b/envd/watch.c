/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a directory, as a stream or kept until the client requests them. */
#include <errno.h>

#include "base/rand.h"
#include "face/e2b/envd/envelope_stream.h"
#include "face/e2b/envd/watch_event.h"
#include "service/files/files.h"

#define KEEPALIVE "{\"keepalive\":{}}"
#define WATCHERS_MAX 1000 /* of all sandboxes; further ones are rejected */
#define WATCHER_BYTES                                                              \
	((size_t)1024 * 1024) /* bytes of events; beyond it the newest are dropped \
			       */

struct watch_body {
	struct str path, watcher_id;
	bool recursive, entries;
};
#define AT(member) offsetof(struct watch_body, member)
static const struct field watch_fields[] = {
	{ .name = "path", .type = FIELD_STR, .offset = AT(path), .max = E2B_RPC_LIMIT },
	{ .name = "recursive", .type = FIELD_BOOL, .offset = AT(recursive) },
	{ .name = "includeEntry", .type = FIELD_BOOL, .offset = AT(entries) },
	{ .type = FIELD_END }
};
static const struct field watcher_fields[] = {
	{ .name = "watcherId", .type = FIELD_STR, .offset = AT(watcher_id), .max = E2B_RPC_LIMIT },
	{ .type = FIELD_END }
};
#undef AT

/* With a trailing slash, a path that is not a directory is an error. */
static int read_watch(struct e2b_call *call, struct files_spec *spec, bool *ret_entries,
		      struct err *err)
{
	struct watch_body body = { .recursive = false };
	const char *full;

	if (!call_decode(call, watch_fields, &body))
		return 1;
	full = envd_path(call, body.path);
	spec->recursive = body.recursive;
	*ret_entries = body.entries;
	if (full && strcmp(full, "/") != 0)
		full = arena_printf(call->req->arena, "%s/", full);
	if (!full)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	spec->path = str_of(full);
	envd_actor(call, spec);
	return 0;
}

static void explain(const struct err *error, const char *path, struct err *ret)
{
	*ret = *error;
	if (error->code == ERR_FILE_NOT_FOUND)
		(void)err_set(ret, error->code, "path not found: %.200s", path);
	else if (error->code == ERR_NOT_A_DIRECTORY)
		(void)err_set(ret, error->code, "path is not a directory: %.200s", path);
}

/* ---- as a stream ---- */

/* A watch whose events are streamed. Owner: its flow. */
struct watch {
	struct flow *flow;
	struct watch_writer writer;
};

static struct json_writer event_begin(void *arg)
{
	const struct watch *watch = arg;
	struct json_writer w = flow_message(watch->flow);

	json_begin_object(&w, NULL);
	json_begin_object(&w, "filesystem");
	return w;
}

static void event_end(void *arg, struct json_writer *w)
{
	const struct watch *watch = arg;
	struct flow *flow = watch->flow;

	json_end_object(w);
	json_end_object(w);
	flow_send(flow, w);
	if (flow->blocked && flow->run)
		files_pause(flow->e2b->service, flow->run, true);
}

static void on_event(void *arg, const struct files_event *event)
{
	struct flow *flow = arg;

	watch_writer_take(&flow->watch->writer, event);
}

void watch_free(struct flow *flow)
{
	struct watch *watch = TAKE_PTR(flow->watch);

	if (watch)
		watch_writer_done(&watch->writer);
	free(watch);
}

static void on_ready(void *arg)
{
	struct flow *flow = arg;
	struct json_writer w;

	if (flow->begun)
		return;
	flow_begin(flow);
	w = flow_message(flow);
	json_put_raw(&w, NULL, STR_LIT("{\"start\":{}}"));
	flow_send(flow, &w);
}

static void on_end(void *arg, const struct files_result *result, const struct err *error)
{
	struct flow *flow = arg;
	struct err err;

	(void)result;
	flow->run = 0;
	if (error)
		explain(error, flow->watch->writer.path, &err);
	watch_free(flow);
	if (error && error->code == ERR_SANDBOX_GONE)
		flow_cut(flow);
	else
		flow_end(flow, error ? &err : NULL);
}

static void on_flow_gone(struct flow *flow)
{
	if (flow->run)
		files_cancel(flow->e2b->service, flow->run);
	watch_free(flow);
	flow_free(flow);
}

static void on_flow_drain(struct flow *flow)
{
	if (flow->run)
		files_pause(flow->e2b->service, flow->run, false);
}

static struct watch *watch_new(struct flow *flow, const struct e2b_call *call, struct str path,
			       bool entries)
{
	struct watch *watch = calloc(1, sizeof(*watch));

	if (!watch || watch_writer_init(&watch->writer, call, path, entries) < 0) {
		free(watch);
		return NULL;
	}
	watch->flow = flow;
	watch->writer.begin = event_begin;
	watch->writer.end = event_end;
	watch->writer.arg = watch;
	return watch;
}

void watch_dir(struct e2b_call *call)
{
	static const struct files_hooks hooks = { .on_ready = on_ready,
						  .on_event = on_event,
						  .on_end = on_end };
	struct files_spec spec = { .recursive = false };
	struct flow *flow;
	bool entries = false;
	struct err err;
	int r = read_watch(call, &spec, &entries, &err);

	if (r > 0)
		return;
	flow = r == 0 ? flow_new(call, KEEPALIVE, &err) : NULL;
	if (!flow) {
		e2b_answer_error(call, &err);
		return;
	}
	flow->on_gone = on_flow_gone;
	flow->on_drain = on_flow_drain;
	flow->watch = watch_new(flow, call, spec.path, entries);
	if (!flow->watch)
		(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
	if (flow->watch &&
	    files_start(call->sandbox, FILES_WATCH, &spec, &hooks, flow, &flow->run, &err) == 0)
		return;
	watch_free(flow);
	flow_end(flow, &err);
}

/* ---- kept until requested ---- */

/* Owner: e2b->watchers until it is removed, its sandbox ends, or the face does. */
struct watcher {
	struct watcher *prev, *next;
	struct e2b *e2b;
	char id[21];
	slot_handle sandbox;
	slot_handle run;	     /* 0: it has ended */
	struct e2b_pending *pending; /* calls that wait until the watch is ready */
	struct watch_writer writer;
	struct buf events;
	struct json_writer w;
};

static void watcher_begin(struct watcher *watcher)
{
	buf_clear(&watcher->events);
	json_writer_init(&watcher->w, &watcher->events);
	json_begin_object(&watcher->w, NULL);
	json_begin_array(&watcher->w, "events");
}

static void watcher_free(struct watcher *watcher)
{
	struct e2b *e2b = watcher->e2b;

	if (watcher->prev)
		watcher->prev->next = watcher->next;
	else
		e2b->watchers = watcher->next;
	if (watcher->next)
		watcher->next->prev = watcher->prev;
	e2b->watcher_count--;
	watch_writer_done(&watcher->writer);
	buf_done(&watcher->events);
	free(watcher);
}

void watchers_done(struct e2b *e2b)
{
	while (e2b->watchers)
		watcher_free(e2b->watchers);
}

static struct json_writer kept_begin(void *arg)
{
	struct watcher *watcher = arg;

	json_begin_object(&watcher->w, NULL);
	return watcher->w;
}

static void kept_end(void *arg, struct json_writer *w)
{
	struct watcher *watcher = arg;

	json_end_object(w);
	watcher->w = *w;
}

/* One event may add a path and an entry; beyond the limit the newest are dropped. */
static void on_watcher_event(void *arg, const struct files_event *event)
{
	struct watcher *watcher = arg;

	if (buf_len(&watcher->events) < WATCHER_BYTES)
		watch_writer_take(&watcher->writer, event);
}

static void on_watcher_ready(void *arg)
{
	struct watcher *watcher = arg;
	struct e2b_pending *pending = TAKE_PTR(watcher->pending);
	struct e2b_call *call = pending ? pending->call : NULL;
	struct json_writer w;

	if (!pending || !e2b_pending_end(pending))
		return;
	w = e2b_answer_begin(call->e2b);
	json_begin_object(&w, NULL);
	json_put_text(&w, "watcherId", watcher->id);
	json_end_object(&w);
	e2b_answer_send(call, 200, &w);
}

static void on_watcher_end(void *arg, const struct files_result *result, const struct err *error)
{
	struct watcher *watcher = arg;
	struct e2b_pending *pending = TAKE_PTR(watcher->pending);
	struct e2b_call *call = pending ? pending->call : NULL;
	struct err err = { .code = ERR_TOOL_FAILED, .message = "the watch ended" };

	(void)result;
	if (error)
		explain(error, watcher->writer.path, &err);
	watcher_free(watcher);
	if (pending && e2b_pending_end(pending))
		e2b_answer_error(call, &err);
}

static struct watcher *watcher_new(struct e2b_call *call, struct str path, bool entries,
				   struct err *err)
{
	struct e2b *e2b = call->e2b;
	struct watcher *watcher;

	if (e2b->watcher_count >= WATCHERS_MAX) {
		(void)err_set(err, ERR_TOO_MANY_WATCHES, "the limit of %d watchers is reached",
			      WATCHERS_MAX);
		return NULL;
	}
	watcher = calloc(1, sizeof(*watcher));
	if (!watcher || watch_writer_init(&watcher->writer, call, path, entries) < 0) {
		free(watcher);
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	watcher->e2b = e2b;
	watcher->sandbox = call->sandbox_handle;
	rand_label(watcher->id, sizeof(watcher->id) - 1);
	watcher->writer.begin = kept_begin;
	watcher->writer.end = kept_end;
	watcher->writer.arg = watcher;
	buf_init(&watcher->events, 2 * WATCHER_BYTES);
	watcher_begin(watcher);
	watcher->next = e2b->watchers;
	if (watcher->next)
		watcher->next->prev = watcher;
	e2b->watchers = watcher;
	e2b->watcher_count++;
	return watcher;
}

void watcher_create(struct e2b_call *call)
{
	static const struct files_hooks hooks = { .on_ready = on_watcher_ready,
						  .on_event = on_watcher_event,
						  .on_end = on_watcher_end };
	struct files_spec spec = { .recursive = false };
	struct watcher *watcher;
	struct e2b_pending *pending;
	bool entries = false;
	struct err err;
	int r = read_watch(call, &spec, &entries, &err);

	if (r > 0)
		return;
	watcher = r == 0 ? watcher_new(call, spec.path, entries, &err) : NULL;
	if (!watcher) {
		e2b_answer_error(call, &err);
		return;
	}
	pending = e2b_pending_new(call);
	r = pending ? files_start(call->sandbox, FILES_WATCH, &spec, &hooks, watcher, &watcher->run,
				  &err)
		    : 0;
	if (!pending || r < 0)
		watcher_free(watcher);
	else
		watcher->pending = pending;
	if (pending)
		e2b_pending_begun(pending, r, &err);
}

/* Only of the call's sandbox; NULL: an error was sent. */
static struct watcher *find_watcher(struct e2b_call *call)
{
	struct watch_body body = { .recursive = false };
	struct str id;
	struct err err;

	if (!call_decode(call, watcher_fields, &body))
		return NULL;
	id = body.watcher_id;
	for (struct watcher *at = call->e2b->watchers; at; at = at->next)
		if (at->sandbox == call->sandbox_handle && str_is(id, at->id))
			return at;
	(void)err_set(&err, ERR_FILE_NOT_FOUND, "watcher with id %.*s not found",
		      (int)MIN(id.n, 64), id.p ? id.p : "");
	e2b_answer_error(call, &err);
	return NULL;
}

void watcher_events(struct e2b_call *call)
{
	struct watcher *watcher = find_watcher(call);

	if (!watcher)
		return;
	json_end_array(&watcher->w);
	json_end_object(&watcher->w);
	e2b_answer_send(call, 200, &watcher->w);
	watcher_begin(watcher);
}

void watcher_remove(struct e2b_call *call)
{
	struct watcher *watcher = find_watcher(call);
	struct e2b_pending *pending = watcher ? TAKE_PTR(watcher->pending) : NULL;

	if (!watcher)
		return;
	files_cancel(call->e2b->service, watcher->run);
	watcher_free(watcher);
	if (pending) /* the client never received its id, so no request can name it */
		(void)e2b_pending_end(pending);
	e2b_answer_text(call, 200, STR_LIT("{}"));
}
