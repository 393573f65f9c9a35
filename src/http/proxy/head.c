/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewriting of heads: each is parsed once and serialized again. Headers of one connection are not
 * forwarded.
 */
#include <errno.h>

#include "http/proxy/state.h"

static const struct {
	size_t n;
	const char *name;
} hops[] = {
	{ 2, "te" },
	{ 7, "upgrade" },
	{ 10, "connection" },
	{ 10, "keep-alive" },
	{ 16, "proxy-connection" },
	{ 17, "transfer-encoding" },
	{ 18, "proxy-authenticate" },
	{ 19, "proxy-authorization" },
	{ 14, "http2-settings" },
	{ 7, "alt-svc" }, /* would direct the client's next request around us */
};

bool proxy_is_hop(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(hops); i++)
		if (name.n == hops[i].n && str_eq_nocase(name, hops[i].name))
			return true;
	return false;
}

static bool next_token(struct str *rest, struct str *ret)
{
	struct str token, left = { "", 0 };

	while (rest->n) {
		if (!str_cut(*rest, ',', &token, &left)) {
			token = *rest;
			left.n = 0;
		}
		*rest = left;
		*ret = str_trim(token, " \t");
		if (ret->n)
			return true;
	}
	return false;
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static bool same_nocase(struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++)
		if (lower(a.p[i]) != lower(b.p[i]))
			return false;
	return true;
}

/* Whether Connection names it: then it is meant for us. */
static bool is_named(const struct http_header *headers, size_t count, struct str name)
{
	for (size_t i = 0; i < count; i++) {
		struct str rest = headers[i].value, token;

		if (headers[i].name.n != 10 || !str_eq_nocase(headers[i].name, "connection"))
			continue;
		while (next_token(&rest, &token))
			if (same_nocase(token, name))
				return true;
	}
	return false;
}

/* Usually it names nothing special, and no header has to be looked up. */
static bool names_others(const struct http_header *headers, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct str rest = headers[i].value, token;

		if (headers[i].name.n != 10 || !str_eq_nocase(headers[i].name, "connection"))
			continue;
		while (next_token(&rest, &token))
			if (!str_eq_nocase(token, "close") && !str_eq_nocase(token, "keep-alive") &&
			    !str_eq_nocase(token, "upgrade"))
				return true;
	}
	return false;
}

/* ---- requests ---- */

static int put(struct buf *out, struct str s)
{
	return buf_append(out, s.p, s.n);
}

/* Written by us; the client's are dropped. */
static bool is_ours(struct str name)
{
	return (name.n == 4 && str_eq_nocase(name, "host")) ||
	       (name.n == 6 && str_eq_nocase(name, "expect")) ||
	       (name.n == 14 && str_eq_nocase(name, "content-length"));
}

/* "name" or "name/version". HTTP/2 over this connection is not supported. */
static bool is_protocol(struct str text)
{
	struct str name = text, version = STR_LIT("1");

	(void)str_cut(text, '/', &name, &version);
	return http_is_token(name) && http_is_token(version) && !str_eq_nocase(name, "h2c");
}

bool proxy_can_upgrade(const struct http_req *req)
{
	const struct str *to = http_req_header(req, "upgrade");
	struct str rest, one;

	if (!req->upgrade || req->has_body || !to || to->n == 0)
		return false;
	rest = *to;
	while (next_token(&rest, &one))
		if (!is_protocol(one))
			return false;
	return true;
}

static int put_framing(struct buf *out, const struct http_req *req, bool expects)
{
	char digits[24];
	size_t at = sizeof(digits);
	uint64_t n = req->content_length > 0 ? (uint64_t)req->content_length : 0;
	int r = 0;

	if (req->has_body && req->content_length < 0) {
		r = put(out, STR_LIT("Transfer-Encoding: chunked\r\n"));
	} else if (req->has_body || req->content_length == 0) {
		do {
			digits[--at] = (char)('0' + n % 10);
			n /= 10;
		} while (n);
		r = http_field_put(out, STR_LIT("Content-Length"),
				   (struct str){ digits + at, sizeof(digits) - at });
	}
	if (r == 0 && expects)
		r = put(out, STR_LIT("Expect: 100-continue\r\n"));
	return r;
}

static int put_client_fields(struct buf *out, const struct http_req *req,
			     const struct proxy_spec *spec)
{
	bool look = names_others(req->headers, req->header_count);
	int r = 0;

	for (size_t i = 0; r == 0 && i < req->header_count; i++) {
		const struct http_header *h = &req->headers[i];
		struct str value = h->value;

		if (is_ours(h->name) || proxy_is_hop(h->name) ||
		    (look && is_named(req->headers, req->header_count, h->name)))
			continue;
		if (!spec->pass || spec->pass(spec->pass_arg, h, &value))
			r = http_field_put(out, h->name, value);
	}
	return r;
}

/* The only value of TE that matters to the server. */
static bool wants_trailers(const struct http_req *req)
{
	for (size_t i = 0; i < req->header_count; i++) {
		struct str rest = req->headers[i].value, token;

		if (req->headers[i].name.n != 2 || !str_eq_nocase(req->headers[i].name, "te"))
			continue;
		while (next_token(&rest, &token))
			if (str_eq_nocase(token, "trailers"))
				return true;
	}
	return false;
}

static int put_connection(struct buf *out, const struct http_req *req)
{
	const struct str *to = http_req_header(req, "upgrade");
	int r;

	if (proxy_can_upgrade(req)) {
		r = put(out, STR_LIT("Connection: upgrade\r\n"));
		return r < 0 ? r : http_field_put(out, STR_LIT("Upgrade"), *to);
	}
	if (wants_trailers(req))
		return put(out, STR_LIT("Connection: TE\r\nTE: trailers\r\n"));
	return 0;
}

int proxy_put_request(struct buf *out, const struct http_req *req, const struct proxy_spec *spec,
		      bool expects)
{
	int r = put(out, req->method_name);

	if (r == 0)
		r = put(out, STR_LIT(" "));
	if (r == 0)
		r = put(out, spec->path);
	if (r == 0)
		r = put(out, STR_LIT(" HTTP/1.1\r\n"));
	if (r == 0)
		r = http_field_put(out, STR_LIT("Host"), spec->host);
	if (r == 0)
		r = put_client_fields(out, req, spec);
	for (size_t i = 0; r == 0 && i < spec->extra_count; i++)
		r = http_field_put(out, spec->extra[i].name, spec->extra[i].value);
	if (r == 0)
		r = put_framing(out, req, expects);
	if (r == 0)
		r = put_connection(out, req);
	return r < 0 ? r : put(out, STR_LIT("\r\n"));
}

/* ---- replies ---- */

/*
 * Headers that a server inside must not send to a browser, because they concern more than its own
 * host: cookies and storage of the whole domain, how the domain is reached from now on, and service
 * workers above the path that they came from.
 */
static bool is_wider(struct str name)
{
	return (name.n == 15 && str_eq_nocase(name, "clear-site-data")) ||
	       (name.n == 22 && str_eq_nocase(name, "service-worker-allowed")) ||
	       (name.n == 25 && str_eq_nocase(name, "strict-transport-security"));
}

/* With or without the prefix that browsers give a meaning to. */
static bool is_own_cookie(struct str name, struct str own)
{
	static const char prefix[] = "__Host-";
	size_t n = sizeof(prefix) - 1;

	if (name.n > n && str_eq_nocase((struct str){ name.p, n }, prefix))
		name = (struct str){ name.p + n, name.n - n };
	return own.n && str_eq(name, own);
}

/*
 * A cookie for a whole domain would be sent to other previews, so every cookie is restricted to the
 * host that set it. ret.n == 0: the cookie is dropped.
 */
static int pass_cookie(struct str value, struct str own, struct arena *arena, struct str *ret)
{
	struct str rest = value, part, left = { "", 0 }, name;
	char *text = arena_alloc(arena, value.n + 1);
	size_t n = 0;
	bool first = true;

	if (!text)
		return -ENOMEM;
	*ret = (struct str){ "", 0 };
	while (rest.n || first) {
		if (!str_cut(rest, ';', &part, &left)) {
			part = rest;
			left.n = 0;
		}
		rest = left;
		if (!str_cut(part, '=', &name, &left))
			name = part;
		name = str_trim(name, " \t");
		if (first && is_own_cookie(name, own))
			return 0;
		if (!first && str_eq_nocase(name, "domain"))
			continue;
		if (!first)
			text[n++] = ';';
		memcpy(text + n, part.p, part.n);
		n += part.n;
		first = false;
	}
	*ret = (struct str){ text, n };
	return 0;
}

static int pass_one(const struct http_header *h, const struct proxy_spec *spec, struct arena *arena,
		    struct http_header *dst)
{
	int r = 1;

	*dst = *h;
	if (h->name.n == 10 && str_eq_nocase(h->name, "set-cookie")) {
		r = pass_cookie(h->value, spec->own_cookie, arena, &dst->value);
		if (r == 0)
			r = dst->value.n > 0;
	}
	return r;
}

int proxy_pass_response(const struct http_head *head, const struct proxy_spec *spec, bool upgrade,
			struct arena *arena, struct http_header *dst, size_t max)
{
	bool look = names_others(head->headers, head->header_count);
	size_t count = 0;

	if (max < head->header_count + spec->reply_extra_count + 1)
		return -ENOMEM;
	for (size_t i = 0; i < head->header_count; i++) {
		const struct http_header *h = &head->headers[i];
		bool upgrades = upgrade && h->name.n == 7 && str_eq_nocase(h->name, "upgrade");
		int r;

		if (!upgrades && (proxy_is_hop(h->name) || is_wider(h->name) ||
				  (look && is_named(head->headers, head->header_count, h->name))))
			continue;
		r = pass_one(h, spec, arena, &dst[count]);
		if (r < 0)
			return r;
		count += (size_t)r;
	}
	for (size_t i = 0; i < spec->reply_extra_count; i++)
		dst[count++] = spec->reply_extra[i];
	if (upgrade)
		dst[count++] = (struct http_header){ STR_LIT("Connection"), STR_LIT("upgrade") };
	return (int)count;
}

/* ---- trailers ---- */

/* Trailers that are forwarded: none that frames, routes or authorizes. */
static bool is_safe_trailer(struct str name)
{
	static const char *const unsafe[] = {
		"content-length",
		"content-encoding",
		"content-type",
		"content-range",
		"host",
		"trailer",
		"set-cookie",
		"cookie",
		"authorization",
		"www-authenticate",
		"cache-control",
		"expect",
		"max-forwards",
		"range",
		"location",
		"vary",
		"age",
		"date",
		"expires",
		"retry-after",
		"forwarded",
		"x-real-ip",
		"x-request-id",
		"strict-transport-security",
	};

	if (!http_is_token(name) || proxy_is_hop(name) ||
	    (name.n > 12 && str_eq_nocase((struct str){ name.p, 12 }, "x-forwarded-")) ||
	    (name.n > 4 && str_eq_nocase((struct str){ name.p, 4 }, "cay-")))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(unsafe); i++)
		if (str_eq_nocase(name, unsafe[i]))
			return false;
	return true;
}

int proxy_pass_trailers(struct str raw, struct buf *out)
{
	struct str line, name, value;
	int r = 0;

	while (r == 0 && str_cut(raw, '\r', &line, &raw)) {
		if (!str_cut(line, ':', &name, &value) || !is_safe_trailer(name))
			continue;
		value = str_trim(value, " \t");
		if (!http_is_field_value(value))
			continue;
		if (buf_len(out))
			r = put(out, STR_LIT("\r\n"));
		if (r == 0)
			r = put(out, name);
		if (r == 0)
			r = put(out, STR_LIT(": "));
		if (r == 0)
			r = put(out, value);
	}
	return r;
}
