/* SPDX-License-Identifier: Apache-2.0 */
/* Made, listed, looked at, ended. */
#include <errno.h>
#include <stdio.h>

#include "base/time.h"
#include "face/e2b/call.h"
#include "service/copy/snapshot.h"
#include "service/network/egress.h"
#include "service/template/template.h"

/* ---- create ---- */

struct str template_name_of(struct str id)
{
	struct str head, rest;

	if (str_cut(id, '/', &head, &rest))
		id = rest;
	if (str_cut(id, ':', &head, &rest))
		id = head;
	return id;
}

struct create_body {
	struct network_body network; /* the first: its rows count from here */
	struct str template;
	int64_t timeout_sec;
	bool has_timeout;
	struct text_map env, metadata;
	bool auto_pause, auto_pause_memory, auto_resume;
};
static_assert(offsetof(struct create_body, network) == 0, "network rows count from the beginning");
#define AT(member) offsetof(struct create_body, member)
static const struct field network_fields[] = { NETWORK_ROWS,
					       { .name = "allowPublicTraffic",
						 .type = FIELD_BOOL,
						 .offset = NETWORK_AT(public_ports),
						 .fallback = true },
					       { .type = FIELD_END } };
static const struct field resume_fields[] = {
	{ .name = "enabled", .type = FIELD_BOOL, .offset = AT(auto_resume) }, { .type = FIELD_END }
};
static const struct field create_fields[] = {
	{ .name = "templateID",
	  .type = FIELD_STR,
	  .offset = AT(template),
	  .min = 1,
	  .max = E2B_BODY_LIMIT,
	  .required = true },
	{ .name = "timeout",
	  .type = FIELD_INT,
	  .offset = AT(timeout_sec),
	  .sent = FIELD_SENT(AT(has_timeout)),
	  .limit = FIELD_LIMIT_TIMEOUT },
	{ .name = "envVars", .type = FIELD_MAP, .offset = AT(env) },
	{ .name = "metadata", .type = FIELD_MAP, .offset = AT(metadata) },
	{ .name = "autoPause", .type = FIELD_BOOL, .offset = AT(auto_pause) },
	{ .name = "autoPauseMemory",
	  .type = FIELD_BOOL,
	  .offset = AT(auto_pause_memory),
	  .fallback = true },
	{ .name = "autoResume", .type = FIELD_OBJECT, .fields = resume_fields },
	{ .name = "network", .type = FIELD_OBJECT, .fields = network_fields },
	NETWORK_INTERNET_ROW,
	{ .name = "iam", .type = FIELD_LATER },
	{ .name = "mcp", .type = FIELD_LATER },
	{ .name = "volumeMounts", .type = FIELD_LATER },
	{ .type = FIELD_END }
};
#undef AT

/* What the client chose with flags of its own is one choice of ours. */
static int read_life(const struct create_body *body, struct sandbox_spec *spec, struct err *err)
{
	spec->auto_resume = body->auto_resume;
	if (body->auto_resume && !body->auto_pause_memory)
		return err_set(err, ERR_INVALID_REQUEST,
			       "autoResume: needs the memory, autoPauseMemory must not be false");
	if (body->auto_pause)
		spec->on_timeout =
			body->auto_pause_memory ? ON_TIMEOUT_PAUSE : ON_TIMEOUT_HIBERNATE;
	return 0;
}

/* A template's name, or a snapshot's id or name. */
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
static void start_create(struct e2b_call *call, struct sandbox_spec *spec, bool network_told)
{
	struct service *service = call->e2b->service;
	const struct sandbox *now = NULL;
	struct e2b_pending *pending = e2b_pending_new(call);
	struct err err;
	int r;

	if (!pending)
		return;
	r = sandbox_create(service, call->key, spec, on_made, pending, &now, &err);
	if (r < 0 && err.code == ERR_UNSUPPORTED_BY_ENGINE && !network_told) {
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
	const struct service_config *config = service_config(call->e2b->service);
	int64_t usual_sec = call->route->arg == 1 ? E2B_TIMEOUT_V1_SEC : E2B_TIMEOUT_SEC;
	struct create_body body = { .timeout_sec = 0 };
	struct sandbox_spec spec = {
		.cpu_milli = MIN(SANDBOX_CPU_MILLI, config->max_cpu_milli),
		.memory_mb = MIN(SANDBOX_MEMORY_MB, config->max_memory_mb),
		.disk_size_mb = MIN(SANDBOX_DISK_MB, config->max_disk_size_mb),
		.memory = true,
	};
	bool network_told;
	struct err err;

	if (!call_decode(call, create_fields, &body))
		return;
	spec.timeout_sec = MAX(body.has_timeout ? body.timeout_sec : usual_sec, 1);
	spec.env = body.env;
	spec.metadata = body.metadata;
	network_told = network_want(&body.network, &spec.network);
	call->ports = body.network.public_ports ? E2B_PORTS_OPEN : E2B_PORTS_TOKEN;
	if (read_life(&body, &spec, &err) < 0 || read_origin(call, body.template, &spec, &err) < 0)
		e2b_answer_error(call, &err);
	else
		start_create(call, &spec, network_told);
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

/* What the client encoded three times; the query's own was the first. */
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
		return err_set(err, ERR_INVALID_REQUEST, "nextToken: is not one of ours");
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
	if (call->route->arg == 1) { /* the old call knows no paused ones */
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

/* ---- one ---- */

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

/* timeout: the end is so far from now. refreshes: at least so far. */
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
