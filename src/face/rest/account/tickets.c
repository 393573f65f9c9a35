/* SPDX-License-Identifier: Apache-2.0 */
/* POST /v1/tickets, and the check of a ticket. */
#include "service/account/ticket.h"

#include "face/rest/call.h"

struct ticket_body {
	struct str method, path, scope;
	int64_t ttl_sec;
};
#define AT(member) offsetof(struct ticket_body, member)
const struct field ticket_fields[] = {
	{ .name = "path",
	  .type = FIELD_STR,
	  .offset = AT(path),
	  .min = 1,
	  .max = TICKET_PATH_MAX,
	  .required = true,
	  .doc = "the path that it opens, without a query: a WebSocket or an event stream" },
	{ .name = "method",
	  .type = FIELD_STR,
	  .offset = AT(method),
	  .min = 1,
	  .max = 7,
	  .fallback_text = "GET",
	  .doc = "streams and WebSockets use GET" },
	{ .name = "scope",
	  .type = FIELD_STR,
	  .offset = AT(scope),
	  .min = 1,
	  .max = 32,
	  .doc = "if sent, it must be the scope that the path needs" },
	{ .name = "ttl_sec",
	  .type = FIELD_INT,
	  .offset = AT(ttl_sec),
	  .min = 1,
	  .max = TICKET_TTL_MAX_SEC,
	  .fallback = TICKET_TTL_SEC },
	{ .type = FIELD_END }
};
#undef AT

bool ticket_opens(const struct rest_route *route)
{
	return route->handle && route->row.method == HTTP_GET &&
	       ((route->row.flags & ROUTE_SOCKET) ||
		(route->media && strcmp(route->media, "text/event-stream") == 0));
}

/* The target must exist and belong to this key. */
static int check(struct rest_call *call, const struct ticket_body *body, struct err *err)
{
	const struct rest_route *route;
	struct route_match match;

	if (!str_is(body->method, "GET"))
		return err_set(err, ERR_INVALID_REQUEST, "method must be GET");
	route = rest_route_find(HTTP_GET, body->path, &match, err);
	if (!route || !ticket_opens(route))
		return err_set(
			err, ERR_INVALID_REQUEST,
			"path must be that of a WebSocket or an event stream, without a query");
	if (!key_may(call->key, route->row.scope))
		return err_set(err, ERR_FORBIDDEN, "this key may not open '%.*s'",
			       (int)MIN(body->path.n, 128), body->path.p);
	for (int i = 0; body->scope.n && i < AUTH_SCOPE_COUNT; i++)
		if ((route->row.scope >> i & 1) && !str_is(body->scope, auth_scope_names[i]))
			return err_set(err, ERR_INVALID_REQUEST, "scope: this path needs '%s'",
				       auth_scope_names[i]);
	return 0;
}

void tickets_create(struct rest_call *call)
{
	struct ticket_body body = { .ttl_sec = 0 };
	struct ticket_spec spec;
	char text[TICKET_TEXT_SIZE];
	int64_t expires_ms = 0;
	struct json_writer w;
	struct err err;

	if (field_decode(ticket_fields, call->doc, "", call->req->arena, &body, &err) < 0 ||
	    check(call, &body, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	spec = (struct ticket_spec){ body.method, body.path, body.ttl_sec };
	if (ticket_new(call->rest->service, call->key, &spec, text, &expires_ms, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	w = answer_begin(call->rest);
	json_begin_object(&w, NULL);
	json_put_text(&w, "ticket", text);
	json_put_str(&w, "method", body.method);
	json_put_str(&w, "path", body.path);
	json_put_time(&w, "expires_at", expires_ms);
	json_end_object(&w);
	answer_send(call->rest, call->req, 201, &w);
}

/* A key in a header as well would make the caller ambiguous. */
struct key *ticket_key(struct rest_call *call, struct err *err)
{
	struct str text = { NULL, 0 };

	if (!call->route || !ticket_opens(call->route) || call->req->method != HTTP_GET ||
	    http_req_header(call->req, "authorization") || http_req_header(call->req, "x-api-key"))
		return NULL;
	if (query_text(call->req, "ticket", &text, err) < 0 || !text.p)
		return NULL;
	return ticket_use(call->rest->service, text, STR_LIT("GET"), call->req->path, err);
}
