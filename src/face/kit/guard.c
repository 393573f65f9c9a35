/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/guard.h"

static const struct guard_texts kit_texts = {
	.key_repeated = "more than one API key was sent",
	.key_missing = "no API key was sent",
	.key_invalid = "the API key is not valid",
};

int guard_init(struct guard *guard, const struct guard_config *config)
{
	int r;

	*guard = (struct guard){ .own_pages = config->own_pages,
				 .key_order = config->key_order,
				 .texts = config->texts ? config->texts : &kit_texts };
	r = face_hosts_init(&guard->hosts, config->allowed_hosts, config->port);
	return r == 0 ? cors_init(&guard->cors, config->cors_origins) : r;
}

void guard_done(struct guard *guard)
{
	face_hosts_done(&guard->hosts);
	cors_done(&guard->cors);
}

int guard_host(const struct guard *guard, const struct http_req *req, struct err *err)
{
	return face_hosts_check(&guard->hosts, req, err);
}

/* ---- keys ---- */

struct key *guard_key(const struct guard *guard, struct service *service,
		      const struct http_req *req, struct err *err)
{
	struct str text;
	struct key *key;

	if (face_key_read(req, guard->key_order, &text) < 0) {
		(void)err_set(err, ERR_UNAUTHENTICATED, "%s", guard->texts->key_repeated);
		return NULL;
	}
	if (!text.p) {
		(void)err_set(err, ERR_UNAUTHENTICATED, "%s", guard->texts->key_missing);
		return NULL;
	}
	key = auth_find(service, text);
	if (!key)
		(void)err_set(err, ERR_UNAUTHENTICATED, "%s", guard->texts->key_invalid);
	return key;
}

struct key *guard_again(struct service *service, const char *key_id, struct err *err)
{
	struct key *key = auth_by_id(service, key_id);

	if (!key)
		(void)err_set(err, ERR_UNAUTHENTICATED, "%s", kit_texts.key_invalid);
	return key;
}

int guard_scope(const struct guard *guard, const struct key *key, const struct route *route,
		struct err *err)
{
	const char *name = "";

	if (key_may(key, route->scope))
		return 0;
	if (guard->texts->scope)
		return err_set(err, ERR_FORBIDDEN, "%s", guard->texts->scope);
	for (int i = 0; i < AUTH_SCOPE_COUNT; i++)
		if (route->scope >> i & 1)
			name = auth_scope_names[i];
	return err_set(err, ERR_FORBIDDEN, "this key lacks the scope '%s'", name);
}

/* ---- origins ---- */

static bool is_own_page(const struct http_req *req, struct str origin)
{
	const struct str *host = http_req_header(req, "host");
	size_t n = str_starts(origin, "http://") ? 7 : str_starts(origin, "https://") ? 8 : 0;

	return host && n && str_eq((struct str){ origin.p + n, origin.n - n }, *host);
}

/* Browsers name the page that sends a request; programs do not. No other rule of the browser
 * applies to WebSockets, so their GET is checked as well. */
int guard_origin(const struct guard *guard, const struct http_req *req, const struct route *route,
		 struct err *err)
{
	const struct str *origin = http_req_header(req, "origin");
	bool reads = req->method == HTTP_GET || req->method == HTTP_HEAD;

	if (!origin || (reads && !(route->flags & ROUTE_SOCKET)) ||
	    (guard->own_pages && is_own_page(req, *origin)) || cors_allows(&guard->cors, *origin))
		return 0;
	if (guard->texts->origin)
		return err_set(err, ERR_ORIGIN_NOT_ALLOWED, "%s", guard->texts->origin);
	return err_set(err, ERR_ORIGIN_NOT_ALLOWED,
		       "pages of origin '%.*s' may not change anything here",
		       (int)MIN(origin->n, 128), origin->p);
}

/* ---- media types ---- */

/* JSON is UTF-8; another charset would be read as something it is not. */
static bool parameters_ok(struct str text)
{
	struct str name, value;

	text = str_trim(text, " \t");
	if (text.n == 0)
		return true;
	if (!str_cut(text, '=', &name, &value) || !str_eq_nocase(name, "charset"))
		return false;
	return str_eq_nocase(str_trim(value, "\""), "utf-8");
}

int guard_media_type(const struct http_req *req, const struct route *route, bool *ret_raw,
		     struct err *err)
{
	const struct str *type = http_req_header(req, "content-type");
	const struct str *encoding = http_req_header(req, "content-encoding");
	bool raw_ok = route->flags & ROUTE_RAW;
	struct str media, parameters = { "", 0 };

	*ret_raw = false;
	if (!req->has_body && !raw_ok)
		return 0;
	if (req->has_body && encoding && !str_eq_nocase(*encoding, "identity"))
		return err_set(err, ERR_UNSUPPORTED_MEDIA_TYPE,
			       "Content-Encoding is '%.*s': send the body as it is",
			       (int)MIN(encoding->n, 64), encoding->p);
	if (type) {
		media = *type;
		(void)str_cut(*type, ';', &media, &parameters);
		if (str_eq_nocase(str_trim(media, " \t"), "application/json") &&
		    parameters_ok(parameters))
			return 0;
		*ret_raw =
			raw_ok && str_eq_nocase(str_trim(media, " \t"), "application/octet-stream");
		if (*ret_raw)
			return 0;
	}
	if (!req->has_body)
		return 0;
	return err_set(err, ERR_UNSUPPORTED_MEDIA_TYPE,
		       "the body must be application/json (in UTF-8)%s",
		       raw_ok ? " or application/octet-stream" : "");
}
