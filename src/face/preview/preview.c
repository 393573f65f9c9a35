/* SPDX-License-Identifier: Apache-2.0 */
#include "face/preview/preview.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "face/preview/visit.h"

#define PAGE_LIMIT 16384

static const struct proxy_hooks hooks;

static struct http_req *req_of(const struct visit *visit)
{
	struct preview_face *face = visit->face;

	return face->server ? http_req_get(face->server, visit->req) : NULL;
}

/* ---- visits ---- */

static struct visit *visit_new(struct preview_face *face, struct http_req *req)
{
	struct visit *visit = calloc(1, sizeof(*visit));

	if (!visit)
		return NULL;
	visit->face = face;
	visit->req = req->handle;
	visit->next = face->visits;
	if (visit->next)
		visit->next->prev = visit;
	face->visits = visit;
	return visit;
}

static void count(struct visit *visit, const struct preview_traffic *traffic)
{
	if (visit->face->service)
		preview_count(visit->face->service, &visit->grant, traffic);
}

static void visit_free(struct visit *visit)
{
	struct preview_face *face = visit->face;

	if (visit->counted)
		count(visit, &(struct preview_traffic){ .open = -1 });
	if (visit->prev)
		visit->prev->next = visit->next;
	else
		face->visits = visit->next;
	if (visit->next)
		visit->next->prev = visit->prev;
	free(visit);
}

static void visit_refuse(struct visit *visit, struct http_req *req, const struct err *err)
{
	page_error(visit->face, req, err);
	visit_free(visit);
}

/* ---- the connection ---- */

static void on_dialed(void *arg, int fd, const struct err *err)
{
	struct visit *visit = arg;
	struct proxy *proxy = visit->face->proxy;
	struct http_req *req = req_of(visit);
	struct err own;

	visit->dial = NULL;
	if (!err) {
		count(visit, &(struct preview_traffic){ .connections = 1 });
		proxy_connected(proxy, visit->exchange, fd);
		return;
	}
	own = *err;
	if (own.code == ERR_PORT_CLOSED)
		(void)err_set(&own, ERR_PORT_CLOSED, "nothing listens on port %u of this sandbox",
			      visit->port);
	proxy_cancel(proxy, visit->exchange);
	if (req)
		page_error(visit->face, req, &own);
	visit_free(visit);
}

static int dial(void *arg)
{
	struct visit *visit = arg;
	struct preview_face *face = visit->face;
	struct sandbox *sandbox = sandbox_get(face->service, visit->grant.sandbox);
	struct http_req *req = req_of(visit);
	struct err err;

	if (!sandbox)
		(void)err_set(&err, ERR_SANDBOX_GONE, "the sandbox has ended");
	else if (port_dial(sandbox, visit->port, on_dialed, visit, &visit->dial, &err) == 0)
		return 0;
	if (req)
		page_error(face, req, &err);
	return -1;
}

static void undial(void *arg)
{
	struct visit *visit = arg;

	if (visit->dial && visit->face->service)
		port_dial_cancel(TAKE_PTR(visit->dial));
}

static void failed(void *arg, struct http_req *req, enum proxy_failure why)
{
	static const struct {
		enum err_code code;
		const char *text;
	} words[] = {
		[PROXY_REFUSED] = { ERR_INVALID_REQUEST, "the request could not be forwarded" },
		[PROXY_BUSY] = { ERR_CAPACITY_EXCEEDED, "too many requests are under way" },
		[PROXY_NOT_TAKEN] = { ERR_UPSTREAM_TIMEOUT, "the server takes no connection" },
		[PROXY_CLOSED] = { ERR_UPSTREAM_FAILED, "the server closed without an answer" },
		[PROXY_BAD_ANSWER] = { ERR_UPSTREAM_FAILED, "what the server sent is no HTTP" },
		[PROXY_LATE_ANSWER] = { ERR_UPSTREAM_TIMEOUT, "the server did not answer" },
	};
	struct visit *visit = arg;
	struct err err;

	(void)err_set(&err, words[why].code, "%s", words[why].text);
	page_error(visit->face, req, &err);
}

static void moved(void *arg, const struct proxy_traffic *traffic)
{
	count(arg, &(struct preview_traffic){ .bytes_in = traffic->bytes_in,
					      .bytes_out = traffic->bytes_out });
}

static void ended(void *arg)
{
	visit_free(arg);
}

static const struct proxy_hooks hooks = {
	.dial = dial, .undial = undial, .failed = failed, .moved = moved, .ended = ended
};

/* ---- forwarding ---- */

static struct str text_of(char *text)
{
	return (struct str){ text ? text : "", text ? strlen(text) : 0 };
}

static struct str scheme_of(const struct http_req *req)
{
	return req->secure ? STR_LIT("https") : STR_LIT("http");
}

/* The port a browser would use for this address. */
static struct str port_of(bool secure, struct str host)
{
	size_t i = host.n;

	while (i && host.p[i - 1] >= '0' && host.p[i - 1] <= '9')
		i--;
	if (i && i < host.n && host.p[i - 1] == ':')
		return (struct str){ host.p + i, host.n - i };
	return secure ? STR_LIT("443") : STR_LIT("80");
}

static void add_extra(struct visit *visit, size_t *n, struct str name, struct str value)
{
	if (value.n)
		visit->extra[(*n)++] = (struct http_header){ name, value };
}

static size_t fill_extra(struct visit *visit, struct http_req *req, struct str host)
{
	const struct preview_face *face = visit->face;
	bool v6 = memchr(req->client.p, ':', req->client.n);
	size_t n = 0;

	add_extra(visit, &n, STR_LIT("X-Forwarded-For"), req->client);
	add_extra(visit, &n, STR_LIT("X-Real-IP"), req->client);
	add_extra(visit, &n, STR_LIT("X-Forwarded-Proto"), scheme_of(req));
	add_extra(visit, &n, STR_LIT("X-Forwarded-Host"), host);
	add_extra(visit, &n, STR_LIT("X-Forwarded-Port"), port_of(req->secure, host));
	if (req->client.n)
		add_extra(visit, &n, STR_LIT("Forwarded"),
			  text_of(arena_printf(req->arena,
					       v6 ? "for=\"[%.*s]\";host=\"%.*s\";proto=%s"
						  : "for=%.*s;host=\"%.*s\";proto=%s",
					       (int)req->client.n, req->client.p, (int)host.n,
					       host.p, scheme_of(req).p)));
	add_extra(visit, &n, STR_LIT("Cay-Hop"), str_of(face->hop));
	return n;
}

/* With host_header localhost the server inside sees itself as it is called inside. */
static struct str host_for(struct visit *visit, struct http_req *req, struct str host)
{
	char *own = arena_printf(req->arena, "http://localhost:%u", visit->port);
	char *theirs = arena_printf(req->arena, "%s://%.*s", scheme_of(req).p, (int)host.n, host.p);

	if (visit->grant.host != PREVIEW_HOST_LOCALHOST || !own || !theirs)
		return host;
	visit->own_origin = text_of(own);
	visit->origin_host = text_of(theirs);
	return text_of(own + strlen("http://"));
}

/* The name the client used; one that came by header has none of ours. */
static struct str public_host(struct visit *visit, struct http_req *req,
			      const struct sandbox *sandbox, bool by_header)
{
	const struct str *raw = http_req_header(req, "host");

	if (!by_header && raw)
		return *raw;
	return text_of(arena_printf(req->arena, "%u-%s%s", visit->port, sandbox->id,
				    visit->face->config.suffix));
}

static void forward(struct visit *visit, struct http_req *req, struct sandbox *sandbox)
{
	struct preview_face *face = visit->face;
	struct address address;
	enum address_kind kind = address_find(face->config.domain, req, &address);
	struct str host = public_host(visit, req, sandbox, kind == ADDRESS_OK && address.by_header);
	struct proxy_spec spec = { .target = { sandbox->handle, visit->port },
				   .path = text_of(address_path(req, visit->by_query)),
				   .host = host_for(visit, req, host),
				   .extra = visit->extra,
				   .extra_count = fill_extra(visit, req, host),
				   .pass = visit_pass,
				   .pass_arg = visit,
				   .own_cookie = STR_LIT(TOKEN_COOKIE) };
	struct err err;

	if (spec.path.n == 0) {
		(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
		visit_refuse(visit, req, &err);
		return;
	}
	visit->counted = true;
	count(visit, &(struct preview_traffic){ .requests = 1, .open = 1 });
	if (proxy_start(face->proxy, req, &spec, &hooks, visit, &visit->exchange) < 0)
		visit_free(visit);
}

/* ---- waiting for the sandbox ---- */

static void on_wait_gone(void *arg)
{
	struct visit *visit = arg;

	sandbox_wait_cancel(visit->wait);
	visit_free(visit);
}

static void on_ready(void *arg, const struct err *error)
{
	struct visit *visit = arg;
	struct http_req *req = req_of(visit);
	struct sandbox *sandbox = sandbox_get(visit->face->service, visit->grant.sandbox);
	struct err err;

	visit->wait = NULL;
	if (!req) {
		visit_free(visit);
		return;
	}
	http_req_on_gone(req, NULL, NULL);
	if (!sandbox && !error) {
		(void)err_set(&err, ERR_SANDBOX_GONE, "the sandbox has ended");
		error = &err;
	}
	if (error)
		visit_refuse(visit, req, error);
	else
		forward(visit, req, sandbox);
}

static void begin(struct visit *visit, struct http_req *req)
{
	struct sandbox *sandbox = sandbox_get(visit->face->service, visit->grant.sandbox);
	struct err err = { .code = ERR_SANDBOX_GONE, .message = "the sandbox has ended" };
	int r = -1;

	if (sandbox)
		r = sandbox_when_ready(sandbox, true, on_ready, visit, &visit->wait, &err);
	if (r > 0)
		forward(visit, req, sandbox);
	else if (r == 0)
		http_req_on_gone(req, on_wait_gone, visit);
	else
		visit_refuse(visit, req, &err);
}

/* ---- admission ---- */

/* The token leaves the address bar and the history, and stays as a cookie of this host only. */
static bool try_redirect(struct http_req *req, const char *token, const struct preview_grant *grant)
{
	const struct str *accept = http_req_header(req, "accept");
	int64_t left_ms = grant->token_expires_ms - time_real_ms();
	struct http_header headers[3] = {
		{ STR_LIT("Location"), text_of(address_path(req, true)) },
		{ STR_LIT("Set-Cookie"),
		  text_of(arena_printf(req->arena,
				       TOKEN_COOKIE "=%s; Path=/; Max-Age=%lld; HttpOnly; "
						    "SameSite=Lax%s",
				       token, (long long)MAX(left_ms / 1000, 0),
				       req->secure ? "; Secure" : "")) },
		{ STR_LIT("Cache-Control"), STR_LIT("no-store") },
	};

	if (!grant->token_expires_ms || req->upgrade ||
	    (req->method != HTTP_GET && req->method != HTTP_HEAD) || !accept ||
	    !memmem(accept->p, accept->n, "text/html", 9) || !headers[0].value.n)
		return false;
	/* "//host/" would lead elsewhere. */
	if (headers[0].value.n > 1 && headers[0].value.p[1] == '/')
		return false;
	http_reply(req, 302, headers, 3, (struct str){ "", 0 });
	return true;
}

static int admit(struct preview_face *face, struct http_req *req, struct credentials *credentials,
		 uint16_t *ret_port, struct preview_grant *ret, struct err *err)
{
	struct address address;
	enum address_kind kind = address_find(face->config.domain, req, &address);
	struct preview_ask ask = { .token = credentials->token };
	const struct sandbox *sandbox;
	bool guess = false;
	int r;

	if (kind != ADDRESS_OK)
		return err_set(err, ERR_PREVIEW_NOT_FOUND, "previews are at PORT-ID%s",
			       face->config.suffix);
	/* A page whose name was made to point here may send our headers, but with its own name. */
	if (address.by_header && face_hosts_check(&face->hosts, req, err) < 0)
		return -1;
	ask.id = address.id;
	ask.port = *ret_port = address.port;
	ask.key = credentials->key.n ? auth_find(face->service, credentials->key) : NULL;
	if ((credentials->token.n || credentials->key.n) && !ask.key &&
	    !guess_allowed(face, req->client))
		return err_set(err, ERR_RATE_LIMITED, "too many wrong tokens; wait a minute");
	/* Who has a key may say the name. */
	sandbox = ask.key && address.by_header
			  ? sandbox_find(face->service, ask.key, address.id, err)
			  : NULL;
	if (sandbox)
		ask.id = str_of(sandbox->id);
	r = preview_open(face->service, &ask, ret, &guess, err);
	if (guess) {
		bool allowed = guess_allowed(face, req->client);

		guess_wrong(face, req->client);
		if (!allowed)
			return err_set(err, ERR_RATE_LIMITED, "too many wrong addresses");
	}
	return r;
}

static bool is_loop(const struct preview_face *face, const struct http_req *req)
{
	const struct str *hop = http_req_header(req, "cay-hop");

	return hop && str_is(*hop, face->hop);
}

void preview_handle(void *ctx, struct http_req *req)
{
	struct preview_face *face = ctx;
	struct credentials credentials;
	struct preview_grant grant;
	struct visit *visit;
	struct err err;
	uint16_t port = 0;
	int r = 0;

	face->requests++;
	if (is_loop(face, req))
		r = err_set(&err, ERR_PREVIEW_LOOP, "this preview leads back to this daemon");
	else if (req->method == HTTP_OTHER && (str_eq_nocase(req->method_name, "trace") ||
					       str_eq_nocase(req->method_name, "connect")))
		r = err_set(&err, ERR_METHOD_NOT_ALLOWED, "this method is not forwarded");
	else if (credentials_find(req, &credentials) < 0 ||
		 admit(face, req, &credentials, &port, &grant, &err) < 0)
		r = -1;
	if (r < 0) {
		page_error(face, req, &err);
		return;
	}
	if (credentials.by_query) {
		char *token = arena_dup(req->arena, credentials.token.p, credentials.token.n);

		if (token && try_redirect(req, token, &grant))
			return;
	}
	visit = visit_new(face, req);
	if (!visit) {
		(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
		page_error(face, req, &err);
		return;
	}
	visit->grant = grant;
	visit->port = port;
	visit->by_query = credentials.by_query;
	begin(visit, req);
}

static bool is_foreign(const struct preview_face *face, uint16_t port)
{
	const uint16_t *at = face->config.foreign_ports;

	while (at && *at && *at != port)
		at++;
	return at && *at;
}

bool preview_takes(void *ctx, const struct http_req *req)
{
	const struct preview_face *face = ctx;
	struct address address;

	enum address_kind kind = address_find(face->config.domain, req, &address);

	if (kind == ADDRESS_OK)
		return !is_foreign(face, address.port);
	/* One that cannot be right is explained here, but not to clients of the other face. */
	return kind == ADDRESS_BAD && !http_req_header(req, "e2b-sandbox-id");
}

/* ---- life ---- */

int preview_new(const struct preview_config *config, struct preview_face **ret)
{
	struct preview_face *face = calloc(1, sizeof(*face));
	int r = -ENOMEM;

	if (face) {
		face->config = *config;
		face->service = config->service;
		buf_init(&face->out, PAGE_LIMIT);
		rand_label(face->hop, sizeof(face->hop) - 1);
		r = face_hosts_init(&face->hosts, config->allowed_hosts, 0);
		if (r == 0)
			r = proxy_new(config->loop, NULL, &face->proxy);
	}
	if (r < 0) {
		if (face)
			face_hosts_done(&face->hosts);
		free(face);
		return r;
	}
	*ret = face;
	return 0;
}

void preview_set_server(struct preview_face *face, struct http_server *server)
{
	face->server = server;
	proxy_set_server(face->proxy, server);
}

void preview_free(struct preview_face *face)
{
	if (!face)
		return;
	proxy_free(face->proxy);
	while (face->visits) {
		struct visit *visit = face->visits;

		if (visit->wait)
			sandbox_wait_cancel(visit->wait);
		undial(visit);
		visit_free(visit);
	}
	face_hosts_done(&face->hosts);
	buf_done(&face->out);
	free(face);
}

void preview_figures(const struct preview_face *face, struct preview_figures *ret)
{
	const struct proxy_counters *counters = proxy_counters(face->proxy);

	*ret = (struct preview_figures){ .requests = face->requests,
					 .failures = face->failures,
					 .reused = counters->reused,
					 .retried = counters->retried,
					 .tunnels = counters->tunnels,
					 .idle_connections = counters->idle,
					 .open_tunnels = counters->open_tunnels };
}
