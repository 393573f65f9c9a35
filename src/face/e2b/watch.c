/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of a directory: as a stream, or kept until somebody asks for them. */
#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/rand.h"
#include "face/e2b/flow.h"
#include "service/files.h"

#define KEEPALIVE "{\"keepalive\":{}}"
#define WATCHERS_MAX 1000		    /* of all sandboxes; more are refused */
#define WATCHER_BYTES ((size_t)1024 * 1024) /* of events; beyond it the newest are dropped */

/* ---- events ---- */

/* Relative to the watched directory. */
static struct str strip(struct str path, size_t n)
{
	path = path.n > n ? (struct str){ path.p + n, path.n - n } : (struct str){ "", 0 };
	return str_trim(path, "/");
}

static void put_event(struct json_writer *w, const char *key, struct str name, const char *type)
{
	json_begin_object(w, key);
	json_put_str(w, "name", name);
	json_put_text(w, "type", type);
	json_end_object(w);
}

typedef void (*tell_fn)(void *arg, struct str name, const char *type);

/* A rename is what left and what came. */
static void each_event(const char *name, struct str json, size_t n, tell_fn tell, void *arg)
{
	struct err err;
	_cleanup_json_ struct json *doc = json_parse(json, &err);
	struct str path = json_get_str(doc, "path"), from = json_get_str(doc, "from");
	const struct json *attributes = json_get(doc, "attributes");

	if (!doc)
		return;
	if (strcmp(name, "created") == 0) {
		tell(arg, strip(path, n), "EVENT_TYPE_CREATE");
	} else if (strcmp(name, "modified") == 0) {
		tell(arg, strip(path, n),
		     attributes && json_bool(attributes) ? "EVENT_TYPE_CHMOD" : "EVENT_TYPE_WRITE");
	} else if (strcmp(name, "deleted") == 0) {
		tell(arg, strip(path, n), "EVENT_TYPE_REMOVE");
	} else if (strcmp(name, "renamed") == 0) {
		tell(arg, strip(from, n), "EVENT_TYPE_RENAME");
		tell(arg, strip(path, n), "EVENT_TYPE_CREATE");
	}
}

/* The slash at its end makes a file in its place a mistake. */
static int read_watch(struct e2b_call *call, struct files_spec *spec, bool *ret_entries,
		      struct err *err)
{
	bool ok = true;
	struct str path = call_str(call, "path", &ok);
	const char *full = ok ? envd_path(call, path) : NULL;

	spec->recursive = call_bool(call, "recursive", false, &ok);
	*ret_entries = call_bool(call, "includeEntry", false, &ok);
	if (!ok)
		return 1;
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

/* ---- the stream ---- */

static void tell_flow(void *arg, struct str name, const char *type)
{
	struct flow *flow = arg;
	struct json_writer w = flow_message(flow);

	json_begin_object(&w, NULL);
	put_event(&w, "filesystem", name, type);
	json_end_object(&w);
	flow_send(flow, &w);
	if (flow->blocked)
		files_pause(flow->e2b->service, flow->run, true);
}

static void on_event(void *arg, const char *name, struct str json)
{
	struct flow *flow = arg;

	each_event(name, json, flow->strip, tell_flow, flow);
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
	if (error && error->code == ERR_SANDBOX_GONE) {
		flow_cut(flow);
		return;
	}
	if (error) {
		explain(error, flow->path, &err);
		error = &err;
	}
	flow_end(flow, error);
}

static void on_flow_gone(struct flow *flow)
{
	if (flow->run)
		files_cancel(flow->e2b->service, flow->run);
	flow_free(flow);
}

static void on_flow_drain(struct flow *flow)
{
	if (flow->run)
		files_pause(flow->e2b->service, flow->run, false);
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
	flow->strip = spec.path.n;
	flow->entries = entries;
	flow->path = strndup(spec.path.p, spec.path.n);
	if (!flow->path)
		(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
	if (!flow->path || files_start(call->sandbox, FILES_WATCH, &spec, NULL, 0, &hooks, flow,
				       &flow->run, &err) < 0)
		flow_end(flow, &err);
}

/* ---- kept until asked for ---- */

/* Owner: e2b->watchers until it is removed, its sandbox ends, or the face does. */
struct watcher {
	struct watcher *prev, *next;
	struct e2b *e2b;
	char id[21];
	slot_handle sandbox;
	slot_handle run;	 /* 0: it has ended */
	struct pending *pending; /* who waits for it to be set */
	size_t strip;
	struct buf events;
	struct json_writer w;
	char path[160];
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
	buf_done(&watcher->events);
	free(watcher);
}

void watchers_done(struct e2b *e2b)
{
	while (e2b->watchers)
		watcher_free(e2b->watchers);
}

static void tell_watcher(void *arg, struct str name, const char *type)
{
	struct watcher *watcher = arg;

	if (buf_len(&watcher->events) + name.n * 6 + 128 > WATCHER_BYTES)
		return;
	put_event(&watcher->w, NULL, name, type);
}

static void on_watcher_event(void *arg, const char *name, struct str json)
{
	struct watcher *watcher = arg;

	each_event(name, json, watcher->strip, tell_watcher, watcher);
}

static void on_watcher_ready(void *arg)
{
	struct watcher *watcher = arg;
	struct pending *pending = TAKE_PTR(watcher->pending);
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
	struct pending *pending = TAKE_PTR(watcher->pending);
	struct e2b_call *call = pending ? pending->call : NULL;
	struct err err = { .code = ERR_TOOL_FAILED, .message = "the watch ended" };

	(void)result;
	if (error)
		explain(error, watcher->path, &err);
	watcher_free(watcher);
	if (pending && e2b_pending_end(pending))
		e2b_answer_error(call, &err);
}

static struct watcher *watcher_new(struct e2b_call *call, const struct files_spec *spec,
				   struct err *err)
{
	struct e2b *e2b = call->e2b;
	struct watcher *watcher;

	if (e2b->watcher_count >= WATCHERS_MAX) {
		(void)err_set(err, ERR_TOO_MANY_WATCHES, "%d watchers are there already",
			      WATCHERS_MAX);
		return NULL;
	}
	watcher = calloc(1, sizeof(*watcher));
	if (!watcher) {
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	watcher->e2b = e2b;
	watcher->sandbox = call->sandbox_handle;
	watcher->strip = spec->path.n;
	rand_label(watcher->id, sizeof(watcher->id) - 1);
	(void)snprintf(watcher->path, sizeof(watcher->path), "%.*s", (int)MIN(spec->path.n, 150),
		       spec->path.p);
	buf_init(&watcher->events, WATCHER_BYTES + 4096);
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
	struct pending *pending;
	bool entries = false;
	struct err err;
	int r = read_watch(call, &spec, &entries, &err);

	if (r > 0)
		return;
	watcher = r == 0 ? watcher_new(call, &spec, &err) : NULL;
	if (!watcher) {
		e2b_answer_error(call, &err);
		return;
	}
	pending = e2b_pending_new(call);
	r = pending ? files_start(call->sandbox, FILES_WATCH, &spec, NULL, 0, &hooks, watcher,
				  &watcher->run, &err)
		    : 0;
	if (!pending || r < 0)
		watcher_free(watcher);
	else
		watcher->pending = pending;
	if (pending)
		e2b_pending_begun(pending, r, &err);
}

/* Of the call's sandbox only; NULL: answered. */
static struct watcher *find_watcher(struct e2b_call *call)
{
	bool ok = true;
	struct str id = call_str(call, "watcherId", &ok);
	struct err err;

	if (!ok)
		return NULL;
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
	struct pending *pending = watcher ? TAKE_PTR(watcher->pending) : NULL;

	if (!watcher)
		return;
	files_cancel(call->e2b->service, watcher->run);
	watcher_free(watcher);
	if (pending) /* who made it was never told its id: nobody can ask for this */
		(void)e2b_pending_end(pending);
	e2b_answer_text(call, 200, STR_LIT("{}"));
}
