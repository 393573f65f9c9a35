/* SPDX-License-Identifier: Apache-2.0 */
#include "face/rest/rest.h"

#include <errno.h>

#include "base/time.h"
#include "face/kit/json/body.h"
#include "face/rest/call.h"
#include "face/rest/files/files.h"
#include "face/rest/run/stream.h"

int rest_new(const struct rest_config *config, struct rest **ret)
{
	const struct guard_config guard = {
		.allowed_hosts = config->allowed_hosts,
		.port = config->port,
		.cors_origins = config->cors_origins,
		.own_pages = true,
		.key_order = FACE_KEY_BEARER_FIRST,
	};
	struct rest *rest = calloc(1, sizeof(*rest));
	int r;

	if (!rest)
		return -ENOMEM;
	rest->config = *config;
	rest->service = config->service;
	rest->transfers.service = &rest->service;
	rest->transfers.server = &rest->server;
	rest->pendings.server = &rest->server;
	rest->pendings.done = pending_release;
	rest->started_us = time_mono_us();
	buf_init(&rest->out, ANSWER_LIMIT);
	rest->attempts.open_most = config->open_per_min;
	buf_init(&rest->openapi, 1024 * 1024);
	buf_init(&rest->scratch, 1024 * 1024);
	field_limits_set(service_config(config->service));
	r = guard_init(&rest->guard, &guard);
	if (r == 0)
		r = openapi_write(&rest->openapi);
	if (r < 0) {
		rest_free(rest);
		return r;
	}
	*ret = rest;
	return 0;
}

void rest_free(struct rest *rest)
{
	if (!rest)
		return;
	rest->server = NULL;
	rest->service = NULL; /* the service has been closed before */
	streams_done(rest);
	terminals_done(rest);
	transfers_done(&rest->transfers);
	events_done(rest);
	heartbeats_done(rest);
	pendings_done(&rest->pendings);
	guard_done(&rest->guard);
	buf_done(&rest->out);
	buf_done(&rest->openapi);
	buf_done(&rest->scratch);
	free(rest);
}

void rest_set_server(struct rest *rest, struct http_server *server)
{
	rest->server = server;
}

static size_t body_limit(const struct rest_route *route)
{
	return route->body_limit ? route->body_limit : BODY_LIMIT;
}

static void on_body(void *arg, struct http_req *req, int status, struct str body)
{
	struct rest_call *call = arg;
	struct err err;

	/* The key may have been deleted while the body arrived. */
	call->key = guard_again(call->rest->service, call->key_id, &err);
	if (!call->key || body_check(status, body_limit(call->route), &err) < 0) {
		answer_error(call->rest, req, &err);
		return;
	}
	call->body = body;
	if (call->raw || (call->doc = body_object(body, &err)))
		steps_begin(call);
	else
		answer_error(call->rest, req, &err);
}

static int check(struct rest_call *call, struct err *err)
{
	const struct rest_route *route = call->route;
	const struct guard *guard = &call->rest->guard;

	if (guard_scope(guard, call->key, &route->row, err) < 0 ||
	    guard_origin(guard, call->req, &route->row, err) < 0)
		return -1;
	if (!route->handle)
		return err_set(err, ERR_UNSUPPORTED, "%s is not supported yet", route->row.pattern);
	if (query_check(call->req, route->query, ticket_opens(route) ? "ticket" : NULL, err) < 0)
		return -1;
	return route->body ? guard_media_type(call->req, &route->row, &call->raw, err) : 0;
}

static int start(struct rest_call *call, struct err *err)
{
	const struct rest_route *route = call->route;
	int r;

	if (!route->body) {
		steps_begin(call);
		return 0;
	}
	r = http_req_read_body(call->req, body_limit(route), on_body, call);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "the body cannot be read") : 0;
}

static bool needs_no_key(const struct rest_call *call)
{
	return call->req->method == HTTP_OPTIONS ||
	       (call->route && (call->route->row.flags & ROUTE_OPEN));
}

void rest_handle(void *ctx, struct http_req *req)
{
	struct rest *rest = ctx;
	struct rest_call *call = arena_alloc(req->arena, sizeof(*call));
	struct err err = { .code = ERR_INTERNAL };
	struct route_match match;

	if (!call) {
		answer_empty(rest, req, 503);
		return;
	}
	call->rest = rest;
	call->req = req;
	if (guard_host(&rest->guard, req, &err) < 0) {
		answer_error(rest, req, &err);
		return;
	}
	cors_mark(&rest->guard.cors, req);
	call->route = rest_route_find(req->method, req->path, &match, &err);
	memcpy(call->args, match.args, sizeof(call->args));
	if (needs_no_key(call) && attempts_open(&rest->attempts, req->client, &err) < 0) {
		answer_error(rest, req, &err);
		return;
	}
	if (cors_preflight(&rest->guard.cors, req))
		return;
	if (call->route && (call->route->row.flags & ROUTE_OPEN)) {
		call->route->handle(call);
		return;
	}
	/* Without a key, a client cannot learn which routes exist. */
	struct err auth_err = { .code = ERR_OK };

	call->key = ticket_key(call, &auth_err);
	if (!call->key && auth_err.code == ERR_OK)
		call->key = guard_key(&rest->guard, rest->service, req, &auth_err);
	if (call->key)
		memcpy(call->key_id, call->key->id, sizeof(call->key_id));
	if (!call->key)
		(void)attempts_refuse(&rest->attempts, req->client, ATTEMPTS_KEY, &auth_err);
	if (!call->key || auth_count_request(rest->service, call->key, &auth_err) < 0)
		answer_error(rest, req, &auth_err);
	else if (!call->route && match.allow[0])
		answer_not_allowed(rest, req, match.allow);
	else if (!call->route || check(call, &err) < 0 || start(call, &err) < 0)
		answer_error(rest, req, &err);
}
