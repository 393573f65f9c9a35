/* SPDX-License-Identifier: Apache-2.0 */
#include "face/preview/preview.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "face/preview/visit.h"

#define PAGE_LIMIT 16384

/* ---- admission ---- */

/* The token leaves the address bar and the history, and stays as a cookie of this host only. */
static bool try_redirect(struct http_req *req, const char *token, const struct preview_grant *grant)
{
	const struct str *accept = http_req_header(req, "accept");
	struct http_header headers[3] = {
		{ STR_LIT("Location"), visit_text(address_path(req, true)) },
		{ STR_LIT("Set-Cookie"),
		  visit_text(arena_printf(req->arena,
					  "%s=%s; Path=/; Max-Age=%lld; HttpOnly; SameSite=Lax%s",
					  req->secure ? TOKEN_COOKIE_SECURE : TOKEN_COOKIE, token,
					  (long long)(grant->token_left_ms / 1000),
					  req->secure ? "; Secure" : "")) },
		{ STR_LIT("Cache-Control"), STR_LIT("no-store") },
	};

	if (!grant->token_left_ms || req->upgrade ||
	    (req->method != HTTP_GET && req->method != HTTP_HEAD) || !accept ||
	    !memmem(accept->p, accept->n, "text/html", 9) || !headers[0].value.n)
		return false;
	/* "//host/" would lead elsewhere. */
	if (headers[0].value.n > 1 && headers[0].value.p[1] == '/')
		return false;
	http_reply(req, 302, headers, 3, (struct str){ "", 0 });
	return true;
}

/* The address of this request, looked up once. */
static enum address_kind take_found(struct preview_face *face, const struct http_req *req,
				    struct address *ret)
{
	bool found = face->found_for && face->found_for == req->handle;

	face->found_for = 0; /* its views are good for this call only */
	if (!found)
		return address_find(face->config.domain, req, ret);
	*ret = face->found;
	return face->found_kind;
}

static int admit(struct preview_face *face, struct http_req *req,
		 const struct credentials *credentials, struct admission *ret, struct err *err)
{
	struct address address;
	enum address_kind kind = take_found(face, req, &address);
	struct preview_ask ask = { .token = credentials->token, .traffic = credentials->traffic };
	struct preview_note note = { .guess = false };
	const struct sandbox *sandbox;
	int r;

	if (kind != ADDRESS_OK)
		return err_set(err, ERR_PREVIEW_NOT_FOUND, "previews are at PORT-ID%s",
			       face->config.suffix);
	/* A page whose name was made to point here may send our headers, but with its own name. */
	if (address.by_header && face_hosts_check(&face->hosts, req, err) < 0)
		return -1;
	ask.id = ret->id = address.id;
	ask.port = ret->port = address.port;
	ret->e2b = address.e2b;
	ret->by_header = address.by_header;
	ask.key = credentials->key.n ? auth_find(face->service, credentials->key) : NULL;
	if ((credentials->token.n || credentials->traffic.n || credentials->key.n) && !ask.key &&
	    !attempts_allowed(&face->attempts, req->client, ATTEMPTS_TOKEN))
		return err_set(err, ERR_RATE_LIMITED, "too many wrong tokens; wait a minute");
	/* Who has a key may say the name. */
	sandbox = ask.key && address.by_header
			  ? sandbox_find(face->service, ask.key, address.id, err)
			  : NULL;
	if (sandbox)
		ask.id = str_of(sandbox_id(sandbox));
	r = preview_open(face->service, &ask, &ret->grant, &note, err);
	ret->e2b |= note.every;
	if (note.guess) {
		bool allowed = attempts_allowed(&face->attempts, req->client, ATTEMPTS_TOKEN);

		attempts_wrong(&face->attempts, req->client);
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

static bool is_refused_method(const struct http_req *req)
{
	return req->method == HTTP_OTHER && (str_eq_nocase(req->method_name, "trace") ||
					     str_eq_nocase(req->method_name, "connect"));
}

void preview_handle(void *ctx, struct http_req *req)
{
	struct preview_face *face = ctx;
	struct credentials credentials;
	struct admission admission = { .port = 0 };
	struct page_subject of;
	struct err err;
	int r = 0;

	credentials_find(req, &credentials);
	if (is_loop(face, req))
		r = err_set(&err, ERR_PREVIEW_LOOP, "this preview leads back to this daemon");
	else if (is_refused_method(req))
		r = err_set(&err, ERR_METHOD_NOT_ALLOWED, "this method is not forwarded");
	else
		r = admit(face, req, &credentials, &admission, &err);
	if (r < 0) {
		of = (struct page_subject){ admission.id, admission.port, admission.e2b };
		page_error(face, req, &of, &err);
		return;
	}
	admission.by_query = credentials.by_query;
	if (credentials.by_query) {
		char *token = arena_dup(req->arena, credentials.token.p, credentials.token.n);

		if (token && try_redirect(req, token, &admission.grant))
			return;
	}
	visit_start(face, req, &admission);
}

/* One that cannot be right is explained here, but not to clients of the other face. */
bool preview_takes(void *ctx, const struct http_req *req)
{
	struct preview_face *face = ctx;

	face->found_for = req->handle;
	face->found_kind = address_find(face->config.domain, req, &face->found);
	return face->found_kind == ADDRESS_OK ||
	       (face->found_kind == ADDRESS_BAD && !face->found.e2b);
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
	while (face->visits)
		visit_abort(face->visits);
	face_hosts_done(&face->hosts);
	buf_done(&face->out);
	free(face);
}
