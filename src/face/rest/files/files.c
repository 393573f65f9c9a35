/* SPDX-License-Identifier: Apache-2.0 */
/* File operations whose reply is one object. */
#include "face/rest/files/files.h"

#include <stdio.h>

int files_spec_read(struct rest_call *call, struct files_spec *spec, struct err *err)
{
	const struct rest_route *route = call->route;

	*spec = (struct files_spec){ .parents = true };
	if (route->body)
		return field_decode(route->body, call->doc, "", call->req->arena, spec, err);
	return query_decode(call->req, route->query, spec, err);
}

/* An operation in progress. Owner: its request, until on_end or until the client disconnects. */
struct file_call {
	struct rest *rest;
	slot_handle req;
	slot_handle run;
	const struct rest_route *route;
	struct files_answer answer;
};

static void call_free(struct file_call *c)
{
	files_answer_done(&c->answer);
	free(c);
}

static bool on_entry(void *arg, const struct files_entry *entry)
{
	struct file_call *c = arg;

	return files_answer_entry(&c->answer, entry);
}

static bool on_match(void *arg, const struct files_match *match)
{
	struct file_call *c = arg;

	return files_answer_match(&c->answer, match);
}

static bool on_after(void *arg, struct str line)
{
	struct file_call *c = arg;

	return files_answer_after(&c->answer, line);
}

static bool on_outcome(void *arg, const struct files_outcome *outcome)
{
	struct file_call *c = arg;

	return files_answer_outcome(&c->answer, outcome);
}

static int status_of(const struct rest_route *route, const struct files_result *result)
{
	bool makes = route->op == FILES_WRITE || route->op == FILES_MKDIR;

	return makes ? (result->created ? 201 : 200) : route->status;
}

static void answer(struct file_call *c, struct http_req *req, const struct files_result *result)
{
	struct err err;

	if (c->route->op == FILES_REMOVE)
		answer_empty(c->rest, req, 204);
	else if (files_answer_end(&c->answer, result, &err) < 0)
		answer_error(c->rest, req, &err);
	else
		answer_text(c->rest, req, status_of(c->route, result), STR_LIT("application/json"),
			    buf_str(&c->answer.out));
}

static void on_end(void *arg, const struct files_result *result, const struct err *err)
{
	struct file_call *c = arg;
	struct http_req *req = c->rest->server ? http_req_get(c->rest->server, c->req) : NULL;

	if (req) {
		http_req_on_gone(req, NULL, NULL);
		if (err)
			answer_error(c->rest, req, err);
		else
			answer(c, req, result);
	}
	call_free(c);
}

static void on_gone(void *arg)
{
	struct file_call *c = arg;

	files_cancel(c->rest->service, c->run);
	call_free(c);
}

static int start(struct rest_call *call, const struct files_spec *spec, struct err *err)
{
	static const struct files_hooks hooks = { .on_entry = on_entry,
						  .on_match = on_match,
						  .on_after = on_after,
						  .on_outcome = on_outcome,
						  .on_end = on_end };
	struct file_call *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	c->rest = call->rest;
	c->req = call->req->handle;
	c->route = call->route;
	files_answer_init(&c->answer, call->route->op);
	if (files_start(call->sandbox, call->route->op, spec, &hooks, c, &c->run, err) < 0) {
		call_free(c);
		return -1;
	}
	http_req_on_gone(call->req, on_gone, c);
	return 0;
}

void files_call(struct rest_call *call)
{
	struct files_spec spec;
	struct err err;

	if (files_spec_read(call, &spec, &err) < 0 || start(call, &spec, &err) < 0)
		answer_error(call->rest, call->req, &err);
}

int files_items_decode(const struct json *array, struct arena *arena, void *ret, struct err *err)
{
	struct files_item *items = arena_alloc(arena, (json_size(array) + 1) * sizeof(*items));
	struct files_items *list = ret;

	if (!items)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	for (size_t i = 0; i < json_size(array); i++) {
		char path[32];

		(void)snprintf(path, sizeof(path), "files[%zu].", i);
		if (field_decode(files_item_fields, json_at(array, i), path, arena, &items[i],
				 err) < 0)
			return -1;
	}
	*list = (struct files_items){ items, json_size(array) };
	return 0;
}
