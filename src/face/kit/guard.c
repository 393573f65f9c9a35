/* SPDX-License-Identifier: Apache-2.0 */
/* What every call must pass before a handler sees it: host, origin, key, media type. */
#include "face/kit/key.h"
#include "face/rest/call.h"

/* Browsers name the page that asks; programs do not. Only our own page and those of cors_origins
 * may change things, and open WebSockets: those are bound by no other rule of the browser. */
int guard_origin(const struct rest *rest, const struct http_req *req, bool socket, struct err *err)
{
	const struct str *origin = http_req_header(req, "origin");
	const struct str *host = http_req_header(req, "host");
	struct str rest_of;

	if (!origin || (!socket && (req->method == HTTP_GET || req->method == HTTP_HEAD)))
		return 0;
	rest_of = *origin;
	if (str_starts(rest_of, "http://"))
		rest_of = (struct str){ rest_of.p + 7, rest_of.n - 7 };
	else if (str_starts(rest_of, "https://"))
		rest_of = (struct str){ rest_of.p + 8, rest_of.n - 8 };
	if ((host && rest_of.p != origin->p && str_eq(rest_of, *host)) ||
	    cors_allows(&rest->cors, *origin))
		return 0;
	return err_set(err, ERR_ORIGIN_NOT_ALLOWED, "a page of '%.*s' may not change anything here",
		       (int)MIN(origin->n, 128), origin->p);
}

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

int guard_media_type(struct rest_call *call, struct err *err)
{
	const struct http_req *req = call->req;
	const struct str *type = http_req_header(req, "content-type");
	const struct str *encoding = http_req_header(req, "content-encoding");
	struct str media, parameters = { "", 0 };

	if (!req->has_body && !call->route->raw)
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
		call->raw = call->route->raw &&
			    str_eq_nocase(str_trim(media, " \t"), "application/octet-stream");
		if (call->raw)
			return 0;
	}
	if (!req->has_body)
		return 0;
	return err_set(err, ERR_UNSUPPORTED_MEDIA_TYPE,
		       "the body must be application/json (in UTF-8)%s",
		       call->route->raw ? " or application/octet-stream" : "");
}

struct key *guard_key(const struct rest *rest, const struct http_req *req, struct err *err)
{
	struct str text;
	struct key *key;

	if (face_key_read(req, FACE_KEY_BEARER_FIRST, &text) < 0) {
		(void)err_set(err, ERR_UNAUTHENTICATED, "more than one API key was sent");
		return NULL;
	}
	if (!text.p) {
		(void)err_set(err, ERR_UNAUTHENTICATED, "no API key was sent");
		return NULL;
	}
	key = auth_find(rest->service, text);
	if (!key)
		(void)err_set(err, ERR_UNAUTHENTICATED, "the API key is not valid");
	return key;
}

struct key *guard_again(const struct rest *rest, const char *key_id, struct err *err)
{
	struct key *key = auth_by_id(rest->service, key_id);

	if (!key)
		(void)err_set(err, ERR_UNAUTHENTICATED, "the API key is not valid");
	return key;
}
