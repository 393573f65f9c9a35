/* SPDX-License-Identifier: Apache-2.0 */
/* What every call must pass before a handler sees it: host, origin, key, media type. */
#include <errno.h>

#include "face/rest/call.h"

int guard_hosts_parse(struct rest *rest)
{
	const char *at = rest->config.allowed_hosts ? rest->config.allowed_hosts : "";

	while (*at) {
		size_t n = strcspn(at, " ,\t");
		char **hosts;

		if (n == 0) {
			at++;
			continue;
		}
		hosts = realloc(rest->hosts, (rest->host_count + 1) * sizeof(*hosts));
		if (!hosts)
			return -ENOMEM;
		rest->hosts = hosts;
		hosts[rest->host_count] = strndup(at, n);
		if (!hosts[rest->host_count])
			return -ENOMEM;
		rest->host_count++;
		at += n;
	}
	return 0;
}

/* Whether a Host header is that name, with our port or none. A name that brings its own port is
 * taken as it is. */
static bool host_is(const struct rest *rest, const struct http_req *req, const char *name)
{
	const struct str *raw = http_req_header(req, "host");
	size_t n = strlen(name);
	struct str port;
	uint64_t number = 0;

	if (raw && str_eq_nocase(*raw, name))
		return true;
	if (!str_eq_nocase(req->host, name))
		return false;
	if (!raw || raw->n <= n || !rest->config.port)
		return true;
	port = (struct str){ raw->p + n + 1, raw->n - n - 1 };
	return raw->p[n] == ':' && str_to_u64(port, UINT16_MAX, &number) == 0 &&
	       number == rest->config.port;
}

/* A page of another site whose name was made to point here sends its own name. */
int guard_host(const struct rest *rest, const struct http_req *req, struct err *err)
{
	static const char *const own[] = { "127.0.0.1", "localhost", "[::1]" };
	const struct str *raw = http_req_header(req, "host");

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (host_is(rest, req, own[i]))
			return 0;
	for (size_t i = 0; i < rest->host_count; i++)
		if (host_is(rest, req, rest->hosts[i]))
			return 0;
	return err_set(err, ERR_HOST_NOT_ALLOWED, "host '%.*s' is not served here",
		       raw ? (int)MIN(raw->n, 128) : 0, raw ? raw->p : "");
}

/* Browsers name the page that asks; programs do not. Only our own page may change things, and open
 * WebSockets: those are bound by no other rule of the browser. */
int guard_origin(const struct http_req *req, bool socket, struct err *err)
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
	if (host && rest_of.p != origin->p && str_eq(rest_of, *host))
		return 0;
	return err_set(err, ERR_FORBIDDEN, "a page of '%.*s' may not change anything here",
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
	struct str media, parameters = { "", 0 };

	if (!req->has_body && !call->route->raw)
		return 0;
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
	const struct str *header = http_req_header(req, "authorization");
	struct str text = { NULL, 0 };
	struct key *key;

	if (header && header->n > 7 && str_eq_nocase((struct str){ header->p, 7 }, "bearer "))
		text = str_trim((struct str){ header->p + 7, header->n - 7 }, " ");
	else if (!header && (header = http_req_header(req, "x-api-key")))
		text = *header;
	if (!text.p) {
		(void)err_set(err, ERR_UNAUTHENTICATED, "no API key was sent");
		return NULL;
	}
	key = auth_find(rest->service, text);
	if (!key)
		(void)err_set(err, ERR_UNAUTHENTICATED, "the API key is not valid");
	return key;
}
