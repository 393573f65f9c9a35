/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One admitted request: the sandbox is resumed if necessary, the port dialled, the request
 * forwarded.
 */
#include <errno.h>
#include <stdio.h>

#include "face/preview/visit.h"

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

static void tell(const struct visit *visit, struct http_req *req, const struct err *err)
{
	struct page_subject of = { .id = str_of(visit->grant.sandbox_id),
				   .port = visit->port,
				   .e2b = visit->e2b };

	page_error(visit->face, req, &of, err);
}

static void visit_refuse(struct visit *visit, struct http_req *req, const struct err *err)
{
	tell(visit, req, err);
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
		tell(visit, req, &own);
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
		tell(visit, req, &err);
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
		[PROXY_BUSY] = { ERR_CAPACITY_EXCEEDED, "too many requests are in progress" },
		[PROXY_NOT_TAKEN] = { ERR_UPSTREAM_TIMEOUT,
				      "the server does not accept connections" },
		[PROXY_CLOSED] = { ERR_UPSTREAM_FAILED,
				   "the server closed the connection without a reply" },
		[PROXY_BAD_ANSWER] = { ERR_UPSTREAM_FAILED, "the reply of the server is not HTTP" },
		[PROXY_LATE_ANSWER] = { ERR_UPSTREAM_TIMEOUT, "the server did not answer" },
	};
	struct visit *visit = arg;
	struct err err;

	(void)err_set(&err, words[why].code, "%s", words[why].text);
	tell(visit, req, &err);
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
			  visit_text(arena_printf(req->arena,
						  v6 ? "for=\"[%.*s]\";host=\"%.*s\";proto=%s"
						     : "for=%.*s;host=\"%.*s\";proto=%s",
						  (int)req->client.n, req->client.p, (int)host.n,
						  host.p, scheme_of(req).p)));
	add_extra(visit, &n, STR_LIT("Cay-Hop"), str_of(face->hop));
	return n;
}

/* With host_header localhost, the server inside sees its own local name. */
static struct str host_for(struct visit *visit, struct http_req *req, struct str host)
{
	char *own = arena_printf(req->arena, "http://localhost:%u", visit->port);
	char *theirs = arena_printf(req->arena, "%s://%.*s", scheme_of(req).p, (int)host.n, host.p);

	if (visit->grant.host != PREVIEW_HOST_LOCALHOST || !own || !theirs)
		return host;
	visit->own_origin = visit_text(own);
	visit->origin_host = visit_text(theirs);
	return visit_text(own + strlen("http://"));
}

/* The name that the client used; a request routed by header has none of ours. */
static struct str public_host(struct visit *visit, struct http_req *req,
			      const struct sandbox *sandbox, bool by_header)
{
	const struct str *raw = http_req_header(req, "host");

	if (!by_header && raw)
		return *raw;
	return visit_text(arena_printf(req->arena, "%u-%s%s", visit->port, sandbox_id(sandbox),
				       visit->face->config.suffix));
}

static void forward(struct visit *visit, struct http_req *req, struct sandbox *sandbox)
{
	struct preview_face *face = visit->face;
	struct str host = public_host(visit, req, sandbox, visit->by_header);
	struct proxy_spec spec = { .target = { sandbox_handle(sandbox), visit->port },
				   .path = visit_text(address_path(req, visit->by_query)),
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

void visit_start(struct preview_face *face, struct http_req *req, const struct admission *admission)
{
	struct visit *visit = visit_new(face, req);
	struct err err;

	if (!visit) {
		(void)err_set(&err, ERR_UNAVAILABLE, "out of memory");
		page_error(face, req, NULL, &err);
		return;
	}
	visit->grant = admission->grant;
	visit->port = admission->port;
	visit->e2b = admission->e2b;
	visit->by_query = admission->by_query;
	visit->by_header = admission->by_header;
	begin(visit, req);
}

void visit_abort(struct visit *visit)
{
	if (visit->wait)
		sandbox_wait_cancel(visit->wait);
	undial(visit);
	visit_free(visit);
}
