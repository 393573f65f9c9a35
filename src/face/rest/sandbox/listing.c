/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/sandboxes: filters, pages, and the query parameters that lists have in common. */
#include "face/rest/call.h"
#include "service/sandbox/sandbox.h"

const struct field page_query[] = { { .name = "limit",
				      .type = FIELD_INT,
				      .min = 1,
				      .max = PAGE_LIMIT_MAX,
				      .fallback = PAGE_LIMIT },
				    { .name = "cursor", .type = FIELD_STR },
				    { .type = FIELD_END } };
const struct field cursor_query[] = { { .name = "cursor", .type = FIELD_INT },
				      { .type = FIELD_END } };
const struct field sandbox_list_query[] = {
	{ .name = "limit",
	  .type = FIELD_INT,
	  .min = 1,
	  .max = PAGE_LIMIT_MAX,
	  .fallback = PAGE_LIMIT },
	{ .name = "cursor", .type = FIELD_STR },
	{ .name = "state", .type = FIELD_ENUM, .names = sandbox_state_names, .fallback = -1 },
	{ .name = "template", .type = FIELD_STR },
	{ .name = "engine", .type = FIELD_STR },
	{ .name = "external_workspace_id", .type = FIELD_STR },
	{ .name = "metadata.", .type = FIELD_STR, .doc = "metadata.KEY=VALUE" },
	{ .type = FIELD_END }
};

static int read_state(struct http_req *req, int *ret, struct err *err)
{
	struct str text = { NULL, 0 };

	if (query_text(req, "state", &text, err) < 0)
		return -1;
	if (!text.p)
		return 0;
	for (int i = 0; sandbox_state_names[i]; i++) {
		if (str_is(text, sandbox_state_names[i])) {
			*ret = i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID_REQUEST,
		       "state must be one of provisioning, running, paused, destroyed, error");
}

static int read_metadata(struct http_req *req, struct sandbox_filter *filter, struct err *err)
{
	struct str rest = req->query, name, value, key;

	while (http_query_next(&rest, &name, &value)) {
		if (http_decode(req->arena, name, true, &key) < 0 || !str_starts(key, "metadata."))
			continue;
		if (filter->metadata_key.p)
			return err_set(err, ERR_INVALID_REQUEST,
				       "one metadata.KEY filter can be given");
		filter->metadata_key = (struct str){ key.p + 9, key.n - 9 };
		if (http_decode(req->arena, value, true, &filter->metadata_value) < 0)
			return err_set(err, ERR_INVALID_REQUEST, "the query is malformed");
	}
	return 0;
}

static int read_filter(struct http_req *req, struct sandbox_filter *filter, int64_t *limit,
		       int64_t *cursor, struct err *err)
{
	*filter = (struct sandbox_filter){ .state = -1 };
	if (read_state(req, &filter->state, err) < 0 ||
	    query_text(req, "template", &filter->template, err) < 0 ||
	    query_text(req, "engine", &filter->engine, err) < 0 ||
	    query_text(req, "external_workspace_id", &filter->external_workspace_id, err) < 0 ||
	    read_metadata(req, filter, err) < 0 ||
	    query_int(req, "limit", 1, PAGE_LIMIT_MAX, limit, err) < 0)
		return -1;
	return query_int(req, "cursor", 1, INT64_MAX, cursor, err);
}

void sandboxes_list(struct rest_call *call)
{
	struct service *service = call->rest->service;
	int64_t limit = 100, cursor = INT64_MAX, last;
	struct sandbox_filter filter;
	const struct sandbox *sandbox;
	struct json_writer w;
	struct err err;
	char next[PAGE_NUMBER_SIZE];

	if (read_filter(call->req, &filter, &limit, &cursor, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	w = page_begin(call);
	while (limit-- > 0 && (sandbox = sandbox_list_next(service, call->key, &filter, &cursor)))
		sandbox_write(sandbox, &w, NULL);
	last = cursor;
	page_send(call, &w,
		  limit < 0 && sandbox_list_next(service, call->key, &filter, &cursor)
			  ? page_number(next, last)
			  : NULL);
}
