/* SPDX-License-Identifier: Apache-2.0 */
/* Create, list, get and delete sandboxes. */
#include <errno.h>
#include <stdio.h>

#include "base/time.h"
#include "face/e2b/call.h"
#include "service/copy/snapshot.h"
#include "service/network/egress.h"
#include "service/template/template.h"

/* ---- create ---- */

/* The name of a template, or the id or name of a snapshot. */
static int read_origin(struct e2b_call *call, struct str id, struct sandbox_spec *spec,
		       struct err *err)
{
	struct str name = template_name_of(id);
	struct snapshot *snapshot;

	spec->template = name;
	spec->has_template = true;
	if (template_find(call->e2b->service, name, err))
		return 0;
	snapshot = snapshot_of(call, id);
	if (!snapshot)
		return err_set(err, ERR_TEMPLATE_NOT_FOUND, "template '%.*s' not found",
			       (int)MIN(id.n, 100), id.p);
	spec->template = (struct str){ "", 0 };
	spec->has_template = false;
	spec->snapshot_id = str_of(snapshot->id);
	return 0;
}

static void answer_made(struct e2b_call *call, const struct sandbox *sandbox)
{
	struct json_writer w;
	struct err err;

	if (session_open_ports(call->e2b, sandbox, call->ports, &err) < 0) {
		e2b_answer_error(call, &err);
		return;
	}
	w = e2b_answer_begin(call->e2b);
	sandbox_view_write(call->e2b, sandbox, &w, NULL);
	e2b_answer_send(call, 201, &w);
}

static void on_made(void *arg, const struct sandbox *sandbox, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;

	if (e2b_pending_done(pending, err))
		answer_made(call, sandbox);
}

/*
 * E2B's sandboxes reach the internet unless the request says otherwise; on an engine without a
 * network, requests without the field get none.
 */
static void start_create(struct e2b_call *call, struct sandbox_spec *spec, bool network_sent)
{
	struct service *service = call->e2b->service;
	const struct sandbox *now = NULL;
	struct e2b_pending *pending = e2b_pending_new(call);
	struct err err;
	int r;

	if (!pending)
		return;
	r = sandbox_create(service, call->key, spec, on_made, pending, &now, &err);
	if (r < 0 && err.code == ERR_UNSUPPORTED_BY_ENGINE && !network_sent) {
		spec->network = (struct egress_want){ .has_mode = false };
		r = sandbox_create(service, call->key, spec, on_made, pending, &now, &err);
	}
	if (r == 0)
		return;
	(void)e2b_pending_end(pending);
	if (r > 0)
		answer_made(call, now);
	else
		e2b_answer_error(call, &err);
}

void e2b_sandboxes_create(struct e2b_call *call)
{
	int64_t usual_sec = call->route->arg == 1 ? E2B_TIMEOUT_V1_SEC : E2B_TIMEOUT_SEC;
	struct e2b_create create;
	struct err err;

	if (create_read(call->doc, service_config(call->e2b->service), usual_sec, call->req->arena,
			&create, &err) < 0 ||
	    read_origin(call, create.template, &create.spec, &err) < 0) {
		e2b_answer_error(call, &err);
		return;
	}
	call->ports = create.ports;
	start_create(call, &create.spec, create.network_sent);
}

/* ---- list ---- */

#define METADATA_MAX 64

struct list_query {
	struct str keys[METADATA_MAX], values[METADATA_MAX];
	size_t pairs;
	bool running, paused;
	int64_t started_after_ms;
	struct str template;
	bool oldest_first;
	int64_t limit, cursor;
};

/* Clients encode the metadata filter repeatedly; the query decoder has removed one level. */
static int read_metadata(struct e2b_call *call, struct str text, struct list_query *q,
			 struct err *err)
{
	struct arena *arena = call->req->arena;
	struct str name, value;

	while (http_query_next(&text, &name, &value)) {
		if (q->pairs == METADATA_MAX)
			return err_set(err, ERR_INVALID_REQUEST, "metadata: more than %d pairs",
				       METADATA_MAX);
		if (http_decode(arena, name, true, &name) < 0 ||
		    http_decode(arena, value, true, &value) < 0 ||
		    http_decode(arena, name, false, &name) < 0 ||
		    http_decode(arena, value, false, &value) < 0)
			return err_set(err, ERR_INVALID_REQUEST, "metadata: is malformed");
		q->keys[q->pairs] = name;
		q->values[q->pairs++] = value;
	}
	return 0;
}

static int read_states(struct str text, struct list_query *q, struct err *err)
{
	struct str one, rest;

	while (text.n) {
		if (!str_cut(text, ',', &one, &rest)) {
			one = text;
			rest = (struct str){ "", 0 };
		}
		text = rest;
		if (str_is(one, "running"))
			q->running = true;
		else if (str_is(one, "paused"))
			q->paused = true;
		else
			return err_set(err, ERR_INVALID_REQUEST,
				       "state: must be running, paused or both");
	}
	return 0;
}

static int read_page(struct str limit, struct str token, struct str order, struct list_query *q,
		     struct err *err)
{
	if (order.n && !str_is(order, "asc") && !str_is(order, "desc"))
		return err_set(err, ERR_INVALID_REQUEST, "order: must be asc or desc");
	q->oldest_first = str_is(order, "asc");
	q->limit = PAGE_LIMIT;
	if (page_limit_parse(limit, &q->limit) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "limit: must be from 1 to %d",
			       PAGE_LIMIT_MAX);
	q->cursor = q->oldest_first ? 0 : INT64_MAX;
	if (page_cursor_parse(token, &q->cursor) < 0)
		return err_set(err, ERR_INVALID_REQUEST,
			       "nextToken: must be the x-next-token of an earlier reply");
	return 0;
}

static int read_list(struct e2b_call *call, struct list_query *q, struct err *err)
{
	bool ok = true;
	struct str metadata = call_query(call, "metadata", &ok);
	struct str state = call_query(call, "state", &ok);
	struct str after = call_query(call, "startedAfter", &ok);
	struct str limit = call_query(call, "limit", &ok);
	struct str token = call_query(call, "nextToken", &ok);
	struct str order = call_query(call, "order", &ok);

	q->template = template_name_of(call_query(call, "template", &ok));
	if (!ok)
		return 1;
	if (after.n && time_from_rfc3339(after, &q->started_after_ms) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "startedAfter: must be a time");
	if (read_metadata(call, metadata, q, err) < 0 || read_states(state, q, err) < 0 ||
	    read_page(limit, token, order, q, err) < 0)
		return -1;
	if (call->route->arg == 1) { /* the older call does not list paused sandboxes */
		q->running = true;
		q->paused = false;
	} else if (!q->running && !q->paused) {
		q->running = q->paused = true;
	}
	return 0;
}

static bool is_listed(const struct sandbox *sandbox, const struct list_query *q)
{
	struct sandbox_view view;

	sandbox_view(sandbox, &view);
	if (view.state == SANDBOX_PAUSED ? !q->paused
					 : !q->running || view.state != SANDBOX_RUNNING)
		return false;
	if (view.started_ms < q->started_after_ms)
		return false;
	for (size_t i = 0; i < q->pairs; i++)
		if (!pairs_has(view.metadata, q->keys[i], q->values[i]))
			return false;
	return true;
}

static uint64_t count_running(struct e2b_call *call)
{
	struct sandbox_filter filter = { .state = SANDBOX_RUNNING };
	int64_t cursor = INT64_MAX;
	uint64_t n = 0;

	while (sandbox_list_next(call->e2b->service, call->key, &filter, &cursor))
		n++;
	return n;
}

void e2b_sandboxes_list(struct e2b_call *call)
{
	struct list_query *q = arena_alloc(call->req->arena, sizeof(*q));
	char next[24] = "", total[24];
	struct http_header headers[2] = { { STR_LIT("X-Total-Running"), { total, 0 } },
					  { STR_LIT("X-Next-Token"), { next, 0 } } };
	struct sandbox_filter filter = { .state = -1 };
	struct err err = { .code = ERR_UNAVAILABLE, .message = "out of memory" };
	const struct sandbox *sandbox;
	int64_t cursor, count = 0;
	struct json_writer w;
	int r = q ? read_list(call, q, &err) : -1;

	if (r < 0)
		e2b_answer_error(call, &err);
	if (r != 0)
		return;
	filter.template = q->template;
	filter.oldest_first = q->oldest_first;
	cursor = q->cursor;
	w = e2b_answer_begin(call->e2b);
	json_begin_array(&w, NULL);
	while ((sandbox = sandbox_list_next(call->e2b->service, call->key, &filter, &cursor))) {
		if (!is_listed(sandbox, q))
			continue;
		if (count == q->limit) { /* there is one more: the page ends before it */
			(void)snprintf(next, sizeof(next), "%lld", (long long)q->cursor);
			break;
		}
		count++;
		q->cursor = cursor;
		sandbox_view_write_listed(sandbox, &w);
	}
	json_end_array(&w);
	(void)snprintf(total, sizeof(total), "%llu", (unsigned long long)count_running(call));
	headers[0].value.n = strlen(total);
	headers[1].value.n = strlen(next);
	e2b_answer_send_with(call, 200, &w, headers, next[0] ? 2 : 1);
}

/* ---- one sandbox ---- */

void e2b_sandboxes_get(struct e2b_call *call)
{
	const struct sandbox *sandbox = call_sandbox(call);
	struct json_writer w;

	if (!sandbox)
		return;
	w = e2b_answer_begin(call->e2b);
	sandbox_view_write_detail(call, sandbox, &w);
	e2b_answer_send(call, 200, &w);
}

static void on_killed(void *arg, const struct err *err)
{
	struct e2b_pending *pending = arg;
	struct e2b_call *call = pending->call;

	if (e2b_pending_done(pending, err))
		e2b_answer_empty(call, 204);
}

void e2b_sandboxes_kill(struct e2b_call *call)
{
	struct err err;
	struct sandbox *sandbox =
		sandbox_find_to_end(call->e2b->service, call->key, call->args[0], &err);
	struct e2b_pending *pending;

	if (!sandbox) {
		e2b_answer_error(call, &err);
		return;
	}
	pending = e2b_pending_new(call);
	if (pending)
		e2b_pending_begun(pending,
				  sandbox_end(sandbox, REASON_REQUESTED, on_killed, pending, &err),
				  &err);
}

struct time_body {
	int64_t sec;
};
static const struct field timeout_fields[] = { { .name = "timeout",
						 .type = FIELD_INT,
						 .offset = offsetof(struct time_body, sec),
						 .limit = FIELD_LIMIT_TIMEOUT,
						 .required = true },
					       { .type = FIELD_END } };
static const struct field refresh_fields[] = { { .name = "duration",
						 .type = FIELD_INT,
						 .offset = offsetof(struct time_body, sec),
						 .max = E2B_REFRESH_MAX_SEC,
						 .fallback = E2B_REFRESH_SEC },
					       { .type = FIELD_END } };

/* timeout: the sandbox ends this long from now. refreshes: not earlier than this long from now. */
void e2b_sandboxes_timeout(struct e2b_call *call)
{
	bool refresh = call->route->arg == 1;
	struct sandbox *sandbox = call_sandbox(call);
	struct time_body body = { .sec = 0 };
	int64_t sec;
	struct err err;

	if (!sandbox || !call_decode(call, refresh ? refresh_fields : timeout_fields, &body))
		return;
	sec = MAX(body.sec, 1);
	if (!(refresh && sandbox_expires_ms(sandbox) > time_real_ms() + sec * 1000) &&
	    sandbox_extend(sandbox, sec, &err) < 0)
		e2b_answer_error(call, &err);
	else
		e2b_answer_empty(call, 204);
}
