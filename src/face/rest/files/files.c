/* SPDX-License-Identifier: Apache-2.0 */
/* File operations that are answered with one object. */
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

static int status_of(const struct rest_route *route, const struct files_result *result)
{
	bool makes = route->op == FILES_WRITE || route->op == FILES_MKDIR;

	return makes ? (result->created ? 201 : 200) : route->status;
}

static void on_end(void *arg, const struct files_result *result, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct rest *rest = pending->rest;
	const struct rest_route *route = pending->call->route;
	struct http_req *req = pending_end(pending);

	if (!req)
		return;
	http_req_on_gone(req, NULL, NULL);
	if (err)
		answer_error(rest, req, err);
	else if (result->json.n)
		answer_text(rest, req, status_of(route, result), STR_LIT("application/json"),
			    result->json);
	else
		answer_empty(rest, req, 204);
}

static void on_gone(void *arg)
{
	struct rest_pending *pending = arg;

	files_cancel(pending->rest->service, pending->base.work);
	(void)pending_end(pending);
}

static void start(struct rest_call *call, const struct files_spec *spec)
{
	static const struct files_hooks hooks = { .on_end = on_end };
	struct rest_pending *pending = pending_for(call);
	struct err err;
	int r;

	if (!pending)
		return;
	r = files_start(call->sandbox, call->route->op, spec, &hooks, pending, &pending->base.work,
			&err);
	if (r == 0)
		http_req_on_gone(call->req, on_gone, pending);
	answer_later(pending, r, &err);
}

void files_call(struct rest_call *call)
{
	struct files_spec spec;
	struct err err;

	if (files_spec_read(call, &spec, &err) < 0)
		answer_error(call->rest, call->req, &err);
	else
		start(call, &spec);
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
