/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the sandbox of an envd call, checks access, and waits until the sandbox can be used. */
#include "face/e2b/envd/envd.h"

#include <errno.h>

#include "service/run/process.h"

#define UNAUTHORIZED                                                                     \
	"unauthorized access, please provide a valid access token or method signing if " \
	"supported"

/* ---- selecting the sandbox ---- */

bool envd_host_parse(struct str host, uint64_t *ret_port, struct str *ret_id)
{
	struct str label, port, id, rest;

	if (!str_cut(host, '.', &label, &rest) || !str_cut(label, '-', &port, &id))
		return false;
	if (str_cut(id, '-', &label, &rest))
		id = label;
	if (id.n == 0 || str_to_u64(port, UINT16_MAX, ret_port) < 0)
		return false;
	*ret_id = id;
	return true;
}

static bool is_ours(uint64_t port)
{
	return port == E2B_ENVD_PORT || port == E2B_CODE_PORT;
}

static bool is_our_port(struct str port)
{
	uint64_t number;

	return str_to_u64(port, UINT16_MAX, &number) == 0 && is_ours(number);
}

/* Signed links have neither a header nor a host that names the sandbox: the signature identifies
 * it. */
static bool is_signed_link(const struct http_req *req)
{
	struct str rest = req->query, name, value;

	if (!str_is(req->path, "/files"))
		return false;
	while (http_query_next(&rest, &name, &value))
		if (str_is(name, "signature"))
			return true;
	return false;
}

bool envd_takes_host(const struct http_req *req)
{
	struct str id;
	uint64_t port;

	return envd_host_parse(req->host, &port, &id) && is_ours(port);
}

bool envd_takes_headers(const struct http_req *req)
{
	const struct str *id = http_req_header(req, "e2b-sandbox-id");
	const struct str *port = http_req_header(req, "e2b-sandbox-port");

	return id && port && is_our_port(*port);
}

/* Other ports are previews. A request with only one of the two headers is answered here. */
bool envd_takes(const struct http_req *req)
{
	const struct str *id = http_req_header(req, "e2b-sandbox-id");
	const struct str *port = http_req_header(req, "e2b-sandbox-port");

	if (id && port)
		return envd_takes_headers(req);
	return id || port || envd_takes_host(req) || is_signed_link(req);
}

static int find_sandbox(struct e2b_call *call, struct str *ret_id)
{
	const struct http_req *req = call->req;
	const struct str *id = http_req_header(req, "e2b-sandbox-id");
	const struct str *port = http_req_header(req, "e2b-sandbox-port");
	struct err err;

	call->port = E2B_ENVD_PORT;
	if (!id != !port) {
		e2b_answer_status(call, 400, "missing header: %s",
				  id ? "E2b-Sandbox-Port" : "E2b-Sandbox-Id");
		return -1;
	}
	if (id && str_to_u64(*port, UINT16_MAX, &call->port) == 0)
		*ret_id = *id;
	else if (!envd_host_parse(req->host, &call->port, ret_id)) {
		call->sandbox = signature_find(call, &err);
		if (!call->sandbox)
			e2b_answer_error(call, &err);
		return call->sandbox ? 0 : -1;
	}
	call->sandbox = access_sandbox(call->e2b->service, *ret_id);
	if (!call->sandbox && attempts_open(&call->e2b->attempts, req->client, &err) < 0)
		e2b_answer_error(call, &err);
	else if (!call->sandbox)
		e2b_answer_no_sandbox(call, *ret_id, "The sandbox was not found");
	return call->sandbox ? 0 : -1;
}

/* ---- access ---- */

/* For contexts, clients of the code interpreter send only this token. */
static bool may_by_traffic(const struct e2b_call *call)
{
	const struct str *token = http_req_header(call->req, "e2b-traffic-access-token");

	return call->port == E2B_CODE_PORT && str_starts(call->req->path, "/contexts") && token &&
	       access_traffic_token_is(call->sandbox, *token);
}

static bool has_access(struct e2b_call *call, const struct str *token, struct err *err)
{
	if ((token && access_token_is(call->sandbox, *token)) || may_by_traffic(call))
		return true;
	if (!token && str_is(call->req->path, "/files"))
		return signature_check(call, call->sandbox, err) == 0;
	(void)err_set(err, ERR_UNAUTHENTICATED, UNAUTHORIZED);
	return false;
}

static int check_access(struct e2b_call *call, struct err *err)
{
	const struct str *token = http_req_header(call->req, "x-access-token");

	call->key = access_owner(call->sandbox);
	if (!call->key)
		return err_set(err, ERR_UNAUTHENTICATED, UNAUTHORIZED);
	if (!has_access(call, token, err))
		return e2b_refuse_credentials(call, ATTEMPTS_TOKEN, err);
	attempts_right(&call->e2b->attempts, call->req->client);
	return 0;
}

int envd_basic_user(struct arena *arena, struct str header, struct str *ret)
{
	struct str rest, decoded, name;
	struct err err;

	if (header.n < 6 || !str_eq_nocase((struct str){ header.p, 6 }, "basic "))
		return -EINVAL;
	rest = str_trim((struct str){ header.p + 6, header.n - 6 }, " ");
	if (input_decode(arena, "user", rest, &decoded, &err) < 0 ||
	    !str_cut(decoded, ':', &name, &rest))
		return -EINVAL;
	if (name.n == 0 || name.n > E2B_USER_MAX || memchr(name.p, 0, name.n))
		return -EINVAL;
	*ret = name;
	return 0;
}

/* The user comes from the header, from the query (files), or is E2B's default. */
static int read_user(struct e2b_call *call, struct err *err)
{
	const struct str *header = http_req_header(call->req, "authorization");
	struct str user = { NULL, 0 };

	if (header && envd_basic_user(call->req->arena, *header, &user) < 0)
		return err_set(err, ERR_UNAUTHENTICATED, "the Authorization header is malformed");
	if (!user.n && str_is(call->req->path, "/files") &&
	    http_req_query(call->req, "username", &user) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "username: is malformed");
	call->user_sent = user.n > 0;
	if (!user.n && sandbox_has_users(call->sandbox))
		user = STR_LIT(E2B_USER);
	if (str_copy(call->user, sizeof(call->user), user) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "user: is too long");
	return 0;
}

/* Removes "//", "." and "..", because clients expect such a path in the reply. Works in place;
 * the path begins with '/'. */
static void clean_path(char *path)
{
	char *out = path;

	for (const char *at = path; *at;) {
		size_t n = strcspn(at + 1, "/");

		if (n == 2 && at[1] == '.' && at[2] == '.') {
			while (out > path && *--out != '/')
				;
		} else if (n && !(n == 1 && at[1] == '.')) {
			memmove(out, at, n + 1);
			out += n + 1;
		}
		at += n + 1;
	}
	if (out == path)
		*out++ = '/';
	*out = '\0';
}

const char *envd_path(struct e2b_call *call, struct str path)
{
	struct arena *arena = call->req->arena;
	const char *home = strcmp(call->user, "root") == 0 ? "/root" : NULL;
	char *full;

	if (!home)
		home = call->user[0] ? arena_printf(arena, "/home/%s", call->user) : ".";
	if (!home)
		return NULL;
	if (path.n && path.p[0] == '~' && (path.n == 1 || path.p[1] == '/'))
		path = path.n < 3 ? (struct str){ "", 0 } : (struct str){ path.p + 2, path.n - 2 };
	if (path.n && path.p[0] == '/')
		full = arena_dup(arena, path.p, path.n);
	else
		full = arena_printf(arena, "%s/%.*s", home, (int)path.n, path.n ? path.p : "");
	if (full && full[0] == '/')
		clean_path(full);
	return full;
}

/* ---- waiting for the sandbox ---- */

static void refuse(struct e2b_call *call, const struct err *err)
{
	json_free(TAKE_PTR(call->doc));
	e2b_answer_error(call, err);
}

static void go(struct e2b_call *call)
{
	call->route->handle(call);
	json_free(TAKE_PTR(call->doc));
}

/* During the wait the key or the sandbox may have been deleted, so both are looked up again. */
static int look_again(struct e2b_call *call, struct err *err)
{
	call->sandbox = sandbox_get(call->e2b->service, call->sandbox_handle);
	if (!call->sandbox || sandbox_state(call->sandbox) == SANDBOX_DESTROYED)
		return err_set(err, ERR_SANDBOX_GONE, "the sandbox ended");
	call->key = access_owner(call->sandbox);
	if (!call->key)
		return err_set(err, ERR_UNAUTHENTICATED, UNAUTHORIZED);
	return sandbox_check_running(call->sandbox, err);
}

static void on_wait_gone(void *arg)
{
	struct e2b_call *call = arg;

	sandbox_wait_cancel(call->wait);
	json_free(TAKE_PTR(call->doc));
}

static void on_ready(void *arg, const struct err *error)
{
	struct e2b_call *call = arg;
	struct err err;

	http_req_on_gone(call->req, NULL, NULL);
	if (!error && look_again(call, &err) < 0)
		error = &err;
	if (error)
		refuse(call, error);
	else
		go(call);
}

/* Every call resumes a paused sandbox with auto_resume. */
static void when_ready(struct e2b_call *call)
{
	struct str id = str_of(sandbox_id(call->sandbox));
	struct err err;
	int r = sandbox_when_ready(call->sandbox, true, on_ready, call, &call->wait, &err);

	if (r > 0) {
		go(call);
	} else if (r == 0) {
		http_req_on_gone(call->req, on_wait_gone, call);
	} else if (err.code == ERR_WRONG_STATE) {
		json_free(TAKE_PTR(call->doc));
		e2b_answer_no_sandbox(call, id, err.message);
	} else {
		refuse(call, &err);
	}
}

/* ---- procedures ---- */

static int stream_message(struct e2b_call *call, struct str *body, struct err *err)
{
	struct str message;
	size_t used;
	bool end;
	int r = envelope_next(*body, E2B_RPC_LIMIT, &message, &used, &end);

	if (r <= 0 || end || used != body->n)
		return err_set(err, ERR_INVALID_REQUEST,
			       "the body must be one envelope with one message");
	*body = message;
	return 0;
}

static void on_body(void *arg, struct http_req *req, int status, struct str body)
{
	struct e2b_call *call = arg;
	struct err err;

	(void)req;
	call->sandbox = sandbox_get(call->e2b->service, call->sandbox_handle);
	if (!call->sandbox || sandbox_state(call->sandbox) == SANDBOX_DESTROYED) {
		e2b_answer_no_sandbox(call, (struct str){ "", 0 }, "The sandbox was not found");
		return;
	}
	call->key = access_owner(call->sandbox);
	if (!call->key)
		(void)err_set(&err, ERR_UNAUTHENTICATED, UNAUTHORIZED);
	if (!call->key ||
	    (status == 0 && call->style == E2B_STREAM && stream_message(call, &body, &err) < 0) ||
	    call_body(call, status, body, E2B_RPC_LIMIT, &err) < 0)
		refuse(call, &err);
	else
		when_ready(call);
}

static bool is_content_type(const struct http_req *req, const char *wanted)
{
	const struct str *type = http_req_header(req, "content-type");
	struct str media, parameters;

	if (!type)
		return false;
	media = *type;
	(void)str_cut(*type, ';', &media, &parameters);
	return str_eq_nocase(str_trim(media, " \t"), wanted);
}

/* The handler runs when the sandbox can be used, after the body if it needs one. */
static void enter(struct e2b_call *call)
{
	if (!call->route->body)
		when_ready(call);
	else if (http_req_read_body(call->req, E2B_RPC_LIMIT, on_body, call) < 0)
		e2b_answer_status(call, 500, "the body cannot be read");
}

static void rpc_handle(struct e2b_call *call)
{
	bool unary = call->route->style == E2B_UNARY;

	call->style = call->route->style;
	if (is_content_type(call->req, unary ? "application/json" : "application/connect+json"))
		enter(call);
	else
		e2b_answer_status(call, 415, "the content type must be application/%s",
				  unary ? "json" : "connect+json");
}

static void not_found(struct e2b_call *call, bool known)
{
	e2b_answer_status(call, known ? 405 : 404, known ? "method not allowed" : "no such path");
}

/* health shows only whether the sandbox runs. It needs no token and is available on both ports. */
static bool is_open(const struct e2b_route *plain)
{
	return plain && plain->row.flags & ROUTE_OPEN;
}

void envd_handle(struct e2b_call *call)
{
	const struct e2b_route *plain;
	struct str id = { "", 0 };
	bool known, other;
	struct err err;

	plain = e2b_route_find(&e2b_plain_table, call, &known);
	if ((is_open(plain) || call->req->method == HTTP_OPTIONS) &&
	    attempts_open(&call->e2b->attempts, call->req->client, &err) < 0) {
		e2b_answer_error(call, &err);
		return;
	}
	if (call->req->method == HTTP_OPTIONS) {
		plain_preflight(call);
		return;
	}
	if (find_sandbox(call, &id) < 0)
		return;
	call->sandbox_handle = sandbox_handle(call->sandbox);
	if (is_open(plain)) {
		plain->handle(call);
		return;
	}
	if (check_access(call, &err) < 0 ||
	    auth_count_request(call->e2b->service, call->key, &err) < 0 ||
	    read_user(call, &err) < 0) {
		e2b_answer_error(call, &err);
		return;
	}
	call->route = e2b_route_find(
		call->port == E2B_CODE_PORT ? &e2b_code_table : &e2b_procedure_table, call, &other);
	if (call->port == E2B_CODE_PORT) {
		if (call->route)
			enter(call);
		else
			not_found(call, false);
	} else if (call->route) {
		rpc_handle(call);
	} else if (plain) {
		call->route = plain;
		enter(call);
	} else {
		not_found(call, known);
	}
}
