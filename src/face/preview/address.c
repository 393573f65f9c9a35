/* SPDX-License-Identifier: Apache-2.0 */
/* Which sandbox and port a request names, its credentials, and what is not forwarded. */
#include <errno.h>
#include <stdio.h>

#include "face/kit/key.h"
#include "face/preview/visit.h"

#define KEY_DIGITS 40

static bool parse_id(struct str id)
{
	if (id.n == 0 || id.n > 63)
		return false;
	for (size_t i = 0; i < id.n; i++)
		if (!((id.p[i] >= 'a' && id.p[i] <= 'z') || (id.p[i] >= '0' && id.p[i] <= '9')))
			return false;
	return true;
}

static bool parse_port(struct str text, uint16_t *ret)
{
	uint64_t port;

	if (str_to_u64(text, UINT16_MAX, &port) < 0 || port == 0)
		return false;
	*ret = (uint16_t)port;
	return true;
}

/* "PORT-ID" of a host below the domain. */
static enum address_kind by_host(const char *domain, struct str host, struct address *ret)
{
	struct str label, port;

	if (!face_host_below(host, domain, &label))
		return ADDRESS_NONE;
	if (!str_cut(label, '-', &port, &ret->id) || !parse_port(port, &ret->port) ||
	    !parse_id(ret->id))
		return ADDRESS_BAD;
	return ADDRESS_OK;
}

static enum address_kind by_header(const struct http_req *req, const char *id_name,
				   const char *port_name, struct address *ret)
{
	const struct str *id = http_req_header(req, id_name);
	const struct str *port = http_req_header(req, port_name);

	if (!id)
		return ADDRESS_NONE;
	ret->by_header = true;
	ret->id = *id;
	if (!port || !parse_port(*port, &ret->port) || id->n == 0 || id->n > 63)
		return ADDRESS_BAD;
	return ADDRESS_OK;
}

enum address_kind address_find(const char *domain, const struct http_req *req, struct address *ret)
{
	enum address_kind kind;

	*ret = (struct address){ 0 };
	kind = by_host(domain, req->host, ret);
	if (kind == ADDRESS_NONE)
		kind = by_header(req, "cay-sandbox-id", "cay-sandbox-port", ret);
	if (kind == ADDRESS_NONE) {
		kind = by_header(req, "e2b-sandbox-id", "e2b-sandbox-port", ret);
		ret->e2b = kind != ADDRESS_NONE;
	}
	return kind;
}

/* ---- credentials ---- */

bool address_is_key(struct str text)
{
	if (text.n != 4 + KEY_DIGITS || (!str_starts(text, "cay_") && !str_starts(text, "e2b_")))
		return false;
	for (size_t i = 4; i < text.n; i++)
		if (!((text.p[i] >= '0' && text.p[i] <= '9') ||
		      (text.p[i] >= 'a' && text.p[i] <= 'f')))
			return false;
	return true;
}

/* The key in "Bearer <key>", or empty. */
static struct str bearer(struct str value)
{
	struct str text = { "", 0 };

	if (value.n > 7 && str_eq_nocase((struct str){ value.p, 7 }, "bearer "))
		text = str_trim((struct str){ value.p + 7, value.n - 7 }, " ");
	return address_is_key(text) ? text : (struct str){ "", 0 };
}

static bool next_cookie(struct str *rest, struct str *ret_whole, struct str *ret_name,
			struct str *ret_value)
{
	struct str part, left = { "", 0 };

	if (rest->n == 0)
		return false;
	if (!str_cut(*rest, ';', &part, &left)) {
		part = *rest;
		left.n = 0;
	}
	*rest = left;
	*ret_whole = str_trim(part, " \t");
	if (!str_cut(*ret_whole, '=', ret_name, ret_value)) {
		*ret_name = *ret_whole;
		*ret_value = (struct str){ "", 0 };
	}
	return true;
}

static bool is_token_cookie(struct str name)
{
	return str_is(name, TOKEN_COOKIE) || str_is(name, TOKEN_COOKIE_SECURE);
}

/* Over TLS only the one that no other host can have set. */
static struct str token_cookie(struct str cookies, bool secure)
{
	struct str whole, name, value;

	while (next_cookie(&cookies, &whole, &name, &value))
		if (secure ? str_is(name, TOKEN_COOKIE_SECURE) : is_token_cookie(name))
			return value;
	return (struct str){ "", 0 };
}

/* An empty one is skipped: a token after it would be forwarded as if it were none. */
static struct str token_query(struct str query)
{
	struct str name, value;

	while (http_query_next(&query, &name, &value))
		if (str_is(name, TOKEN_QUERY) && value.n)
			return value;
	return (struct str){ "", 0 };
}

void credentials_find(const struct http_req *req, struct credentials *ret)
{
	const struct str *header = http_req_header(req, "authorization");
	const struct str *key = http_req_header(req, "x-api-key");
	const struct str *token = http_req_header(req, "cay-preview-token");
	const struct str *traffic = http_req_header(req, TRAFFIC_HEADER);
	struct str any;

	*ret = (struct credentials){ .key = { "", 0 },
				     .token = token_query(req->query),
				     .traffic = { "", 0 } };
	ret->by_query = ret->token.n > 0;
	/* otherwise it has no key of ours */
	if (face_key_read(req, FACE_KEY_BEARER_FIRST, &any) == 0) {
		if (header)
			ret->key = bearer(*header);
		if (!ret->key.n && key && address_is_key(*key))
			ret->key = *key;
	}
	if (!ret->token.n && token)
		ret->token = *token;
	for (size_t i = 0; !ret->token.n && i < req->header_count; i++)
		if (str_eq_nocase(req->headers[i].name, "cookie"))
			ret->token = token_cookie(req->headers[i].value, req->secure);
	if (traffic)
		ret->traffic = *traffic;
}

/* ---- what is forwarded ---- */

/* Copies the query without our token to text[n]. */
static size_t copy_query(char *text, size_t n, struct str query)
{
	struct str part, rest = { "", 0 }, name, value;
	char mark = '?';

	for (; query.n; query = rest) {
		if (!str_cut(query, '&', &part, &rest)) {
			part = query;
			rest.n = 0;
		}
		if (!str_cut(part, '=', &name, &value))
			name = part;
		if (str_is(name, TOKEN_QUERY))
			continue;
		text[n++] = mark;
		mark = '&';
		memcpy(text + n, part.p, part.n);
		n += part.n;
	}
	return n;
}

char *address_path(const struct http_req *req, bool by_query)
{
	char *text = arena_alloc(req->arena, req->path.n + req->query.n + 3);
	size_t n = req->path.n;

	if (!text)
		return NULL;
	memcpy(text, req->path.p, n);
	if (by_query) {
		n = copy_query(text, n, req->query);
	} else if (memchr(req->target.p, '?', req->target.n)) {
		/* Also if nothing follows: "/x?" is not "/x" for every server. */
		text[n++] = '?';
		memcpy(text + n, req->query.p, req->query.n);
		n += req->query.n;
	}
	text[n] = '\0';
	return text;
}

/* The cookies except ours; empty: there are none. */
static struct str other_cookies(struct arena *arena, struct str cookies)
{
	struct str rest = cookies, whole, name, value;
	char *text;
	size_t n = 0;

	if (!token_cookie(cookies, false).n &&
	    !memmem(cookies.p, cookies.n, TOKEN_COOKIE, sizeof(TOKEN_COOKIE) - 1))
		return cookies;
	text = arena_alloc(arena, cookies.n + 2);
	while (text && next_cookie(&rest, &whole, &name, &value)) {
		if (whole.n == 0 || is_token_cookie(name))
			continue;
		if (n) {
			memcpy(text + n, "; ", 2);
			n += 2;
		}
		memcpy(text + n, whole.p, whole.n);
		n += whole.n;
	}
	return (struct str){ text ? text : "", n };
}

static bool starts_nocase(struct str s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.n >= n && str_eq_nocase((struct str){ s.p, n }, prefix);
}

/* Only we know where a request came from, and our own headers are not forwarded. */
static bool is_ours(struct str name)
{
	return starts_nocase(name, "x-forwarded-") || starts_nocase(name, "cay-") ||
	       starts_nocase(name, "e2b-sandbox-") || str_eq_nocase(name, TRAFFIC_HEADER) ||
	       str_eq_nocase(name, "x-access-token") || str_eq_nocase(name, "forwarded") ||
	       str_eq_nocase(name, "x-real-ip");
}

bool visit_pass(void *arg, const struct http_header *header, struct str *value)
{
	struct visit *visit = arg;
	struct http_req *req = http_req_get(visit->face->server, visit->req);
	struct str name = header->name;

	if (!req || is_ours(name))
		return false;
	switch (name.n) {
	case 6:
		if (str_eq_nocase(name, "cookie")) {
			*value = other_cookies(req->arena, *value);
			return value->n > 0;
		}
		if (str_eq_nocase(name, "origin") && visit->own_origin.n &&
		    str_eq(*value, visit->origin_host))
			*value = visit->own_origin;
		return true;
	case 7:
		return !str_eq_nocase(name, "referer") ||
		       !memmem(value->p, value->n, TOKEN_QUERY "=", sizeof(TOKEN_QUERY));
	case 9:
		return !str_eq_nocase(name, "x-api-key") || !address_is_key(*value);
	case 13:
		return !str_eq_nocase(name, "authorization") || !bearer(*value).n;
	default:
		return true;
	}
}
