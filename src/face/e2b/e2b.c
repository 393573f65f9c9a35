/* SPDX-License-Identifier: Apache-2.0 */
#include "face/e2b/e2b.h"

#include <errno.h>

#include "face/e2b/envd/envd.h"
#include "face/kit/json/body.h"

/* The texts that E2B's server sends. No page may change anything through the control plane, not
 * even one that this host serves. */
static const struct guard_texts guard_texts = {
	.key_repeated = "More than one API key was sent",
	.key_missing = "API key is missing: set X-API-KEY",
	.key_invalid = "Invalid API key",
	.scope = "this key lacks a scope for this call",
	.origin = "web pages may not change anything here",
};

int e2b_new(const struct e2b_config *config, struct e2b **ret)
{
	const struct guard_config guard = {
		.allowed_hosts = config->allowed_hosts,
		.port = config->port,
		.key_order = FACE_KEY_X_API_KEY_FIRST,
		.texts = &guard_texts,
	};
	struct e2b *e2b = calloc(1, sizeof(*e2b));
	int r;

	if (!e2b)
		return -ENOMEM;
	e2b->config = *config;
	e2b->service = config->service;
	e2b->transfers.service = &e2b->service;
	e2b->transfers.server = &e2b->server;
	buf_init(&e2b->out, E2B_ANSWER_LIMIT);
	field_limits_set(service_config(config->service));
	e2b->pendings.server = &e2b->server;
	e2b->pendings.done = e2b_pending_release;
	r = guard_init(&e2b->guard, &guard);
	if (r < 0) {
		e2b_free(e2b);
		return r;
	}
	*ret = e2b;
	return 0;
}

void e2b_free(struct e2b *e2b)
{
	if (!e2b)
		return;
	e2b->server = NULL;
	e2b->service = NULL; /* the service has been closed before */
	flows_done(e2b);
	transfers_done(&e2b->transfers);
	watchers_done(e2b);
	pendings_done(&e2b->pendings);
	guard_done(&e2b->guard);
	buf_done(&e2b->out);
	free(e2b);
}

void e2b_set_server(struct e2b *e2b, struct http_server *server)
{
	e2b->server = server;
}

/* ---- bodies and queries ---- */

bool call_decode(struct e2b_call *call, const struct field *fields, void *base)
{
	struct err err;

	if (field_decode_open(fields, call->doc, call->req->arena, base, &err) == 0)
		return true;
	e2b_answer_error(call, &err);
	return false;
}

struct str call_query(struct e2b_call *call, const char *key, bool *ok)
{
	struct str value = { NULL, 0 };

	if (*ok && http_req_query(call->req, key, &value) < 0) {
		e2b_answer_status(call, 400, "%s: is malformed", key);
		*ok = false;
	}
	return value;
}

struct sandbox *call_sandbox(struct e2b_call *call)
{
	struct err err;
	struct sandbox *sandbox = sandbox_find(call->e2b->service, call->key, call->args[0], &err);

	if (!sandbox)
		e2b_answer_error(call, &err);
	return sandbox;
}

/* ---- routing ---- */

static bool cut_segment(struct str *rest, struct str *ret)
{
	struct str tail = { "", 0 };

	if (rest->n == 0 || rest->p[0] != '/')
		return false;
	*rest = (struct str){ rest->p + 1, rest->n - 1 };
	if (str_cut(*rest, '/', ret, &tail)) {
		*rest = (struct str){ ret->p + ret->n, rest->n - ret->n };
		return true;
	}
	*ret = *rest;
	*rest = (struct str){ "", 0 };
	return true;
}

/* The first segments of the control plane's paths. No path of the REST face starts with one of
 * them. */
static bool is_control_path(struct str path)
{
	static const char *const first[] = { "sandboxes", "templates", "snapshots",    "secrets",
					     "volumes",	  "teams",     "volumecontent" };
	struct str segment = { "", 0 };

	if (!cut_segment(&path, &segment))
		return false;
	if ((str_is(segment, "v2") || str_is(segment, "v3")) && !cut_segment(&path, &segment))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(first); i++)
		if (str_is(segment, first[i]))
			return true;
	return false;
}

/* A browser that opens a page sends no API call: it gets the page of the preview face. */
static bool is_browser(const struct http_req *req)
{
	const struct str *accept = http_req_header(req, "accept");

	return req->method == HTTP_GET && accept && str_starts(*accept, "text/html");
}

bool e2b_takes_port(void *face, const struct http_req *req)
{
	const struct e2b *e2b = face;
	struct str label;
	bool preview = e2b->config.preview_domain &&
		       face_host_below(req->host, e2b->config.preview_domain, &label);

	return envd_takes_host(req) || (!preview && envd_takes_headers(req));
}

bool e2b_takes(void *face, const struct http_req *req)
{
	(void)face;
	return envd_takes(req) || (is_control_path(req->path) && !is_browser(req));
}

/* ---- the control plane ---- */

int e2b_refuse_credentials(struct e2b_call *call, uint32_t most, struct err *err)
{
	return attempts_refuse(&call->e2b->attempts, call->req->client, most, err);
}

static int check_key(struct e2b_call *call, struct err *err)
{
	const struct guard *guard = &call->e2b->guard;

	call->key = guard_key(guard, call->e2b->service, call->req, err);
	if (!call->key)
		return e2b_refuse_credentials(call, ATTEMPTS_KEY, err);
	attempts_right(&call->e2b->attempts, call->req->client);
	return call->route ? guard_scope(guard, call->key, &call->route->row, err) : 0;
}

static void run(struct e2b_call *call)
{
	call->route->handle(call);
	json_free(TAKE_PTR(call->doc));
}

static void on_body(void *arg, struct http_req *req, int status, struct str body)
{
	struct e2b_call *call = arg;
	struct err err;

	(void)req;
	if (call_body(call, status, body, E2B_BODY_LIMIT, &err) < 0 ||
	    check_key(call, &err) < 0) { /* it may have been deleted while the body arrived */
		json_free(TAKE_PTR(call->doc));
		e2b_answer_error(call, &err);
		return;
	}
	run(call);
}

int call_body(struct e2b_call *call, int status, struct str body, size_t limit, struct err *err)
{
	if (body_check(status, limit, err) < 0)
		return -1;
	call->body = body;
	call->doc = body_object(body, err);
	return call->doc ? 0 : -1;
}

static int decode_args(struct e2b_call *call, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(call->args); i++)
		if (call->args[i].p &&
		    http_decode(call->req->arena, call->args[i], false, &call->args[i]) < 0)
			return err_set(err, ERR_INVALID_REQUEST, "the path is malformed");
	return 0;
}

static void control(struct e2b_call *call)
{
	struct http_req *req = call->req;
	struct err err;
	bool known;

	call->route = e2b_route_find(&e2b_control_table, call, &known);
	if (guard_host(&call->e2b->guard, req, &err) < 0 || check_key(call, &err) < 0 ||
	    auth_count_request(call->e2b->service, call->key, &err) < 0 ||
	    decode_args(call, &err) < 0) {
		e2b_answer_error(call, &err);
		return;
	}
	if (!call->route) {
		e2b_answer_status(call, known ? 405 : 404,
				  known ? "method not allowed" : "no such path");
		return;
	}
	if (guard_origin(&call->e2b->guard, req, &call->route->row, &err) < 0) {
		e2b_answer_error(call, &err);
		return;
	}
	if (req->has_body && http_req_read_body(req, E2B_BODY_LIMIT, on_body, call) == 0)
		return;
	if (call_body(call, 0, (struct str){ "", 0 }, E2B_BODY_LIMIT, &err) < 0)
		e2b_answer_error(call, &err);
	else
		run(call);
}

void e2b_handle(void *face, struct http_req *req)
{
	struct e2b_call *call = arena_alloc(req->arena, sizeof(*call));

	if (!call) {
		http_reply(req, 503, NULL, 0, (struct str){ "", 0 });
		return;
	}
	call->e2b = face;
	call->req = req;
	if (envd_takes(req))
		envd_handle(call);
	else
		control(call);
}
