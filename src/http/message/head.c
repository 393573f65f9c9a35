/* SPDX-License-Identifier: Apache-2.0 */
#include "http/message/head.h"

#include <errno.h>

/* Bit 0: token byte (RFC 9110 5.6.2). Bit 1: field value byte. Bit 2: byte of a request target. */
enum { TOKEN = 1, VALUE = 2, TARGET = 4 };

static unsigned char byte_class(unsigned char c)
{
	unsigned char k = 0;

	if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	    (c && strchr("!#$%&'*+-.^_`|~", c)))
		k |= TOKEN;
	if (c == '\t' || (c >= 0x20 && c != 0x7f))
		k |= VALUE;
	if (c > 0x20 && c < 0x7f && !strchr("#\"<>\\", c))
		k |= TARGET;
	return k;
}

static unsigned char classes[256];

__attribute__((constructor)) static void classes_init(void)
{
	for (unsigned c = 0; c < 256; c++)
		classes[c] = byte_class((unsigned char)c);
}

static bool all_of(struct str s, unsigned char class)
{
	for (size_t i = 0; i < s.n; i++)
		if (!(classes[(unsigned char)s.p[i]] & class))
			return false;
	return true;
}

bool http_is_token(struct str s)
{
	return s.n > 0 && all_of(s, TOKEN);
}

bool http_is_field_value(struct str s)
{
	return all_of(s, VALUE);
}

static enum http_verdict refuse(struct http_head *head, enum http_verdict verdict, const char *why)
{
	head->why = why;
	return verdict;
}

static const struct {
	const char *name;
	enum http_method method;
} methods[] = {
	{ "GET", HTTP_GET },	     { "HEAD", HTTP_HEAD },   { "POST", HTTP_POST },
	{ "PUT", HTTP_PUT },	     { "PATCH", HTTP_PATCH }, { "DELETE", HTTP_DELETE },
	{ "OPTIONS", HTTP_OPTIONS },
};

static enum http_method method_of(struct str name)
{
	for (size_t i = 0; i < ARRAY_LEN(methods); i++)
		if (str_is(name, methods[i].name))
			return methods[i].method;
	return HTTP_OTHER;
}

/* Exactly "HTTP/1.0" or "HTTP/1.1". */
static enum http_verdict parse_version(struct http_head *head, struct str s)
{
	if (s.n != 8 || memcmp(s.p, "HTTP/", 5) != 0 || s.p[6] != '.' || s.p[5] < '0' ||
	    s.p[5] > '9' || s.p[7] < '0' || s.p[7] > '9')
		return refuse(head, HTTP_BAD, "The HTTP version is missing or malformed.");
	if (s.p[5] != '1' || s.p[7] > '1')
		return refuse(head, HTTP_VERSION_UNKNOWN,
			      "Only HTTP/1.1 and HTTP/1.0 are spoken here.");
	head->minor = s.p[7] - '0';
	return HTTP_OK;
}

static enum http_verdict parse_request_line(struct http_head *head, struct str line)
{
	struct str rest;

	if (!str_cut(line, ' ', &head->method_name, &rest))
		return refuse(head, HTTP_BAD, "The request line is malformed.");
	if (!http_is_token(head->method_name))
		return refuse(head, HTTP_BAD, "The method is not a token.");
	if (head->method_name.n > HTTP_METHOD_MAX)
		return refuse(head, HTTP_METHOD_UNKNOWN, "The method is unknown.");
	if (!str_cut(rest, ' ', &head->target, &rest))
		return refuse(head, HTTP_BAD, "The HTTP version is missing.");
	if (head->target.n == 0 || !all_of(head->target, TARGET))
		return refuse(head, HTTP_BAD, "The request target holds bytes that no URL holds.");
	if (head->target.n > HTTP_TARGET_MAX)
		return refuse(head, HTTP_TARGET_TOO_LONG, "The request target is too long.");
	head->method = method_of(head->method_name);
	return parse_version(head, rest);
}

enum http_verdict http_head_scan(struct http_scan *scan, bool request, const char *p, size_t n,
				 size_t limit_bytes, size_t *ret_len)
{
	size_t first = scan->seen;

	if (n && first == 0 && !(classes[(unsigned char)p[0]] & TOKEN))
		return HTTP_BAD;
	while (scan->seen < n) {
		const char *lf = memchr(p + scan->seen, '\n', n - scan->seen);
		size_t at;

		if (!lf) {
			scan->seen = n;
			break;
		}
		at = (size_t)(lf - p);
		if (at == 0 || p[at - 1] != '\r')
			return HTTP_BAD;
		if (at - 1 == scan->line) {
			if (at + 1 > limit_bytes)
				return HTTP_HEAD_TOO_LARGE;
			*ret_len = at + 1;
			return HTTP_OK;
		}
		scan->line = scan->seen = at + 1;
	}
	if (n >= limit_bytes)
		return request && scan->line == 0 ? HTTP_TARGET_TOO_LONG : HTTP_HEAD_TOO_LARGE;
	if (request && scan->line && !scan->first_ok) {
		const char *cr = memchr(p, '\r', scan->line);
		struct http_head head = { 0 };
		enum http_verdict v;

		/*
		 * The line is not complete, but an HTTP/0.9 client would wait for ever: reject it
		 * now.
		 */
		v = parse_request_line(&head, (struct str){ p, (size_t)(cr - p) });
		if (v != HTTP_OK)
			return v;
		scan->first_ok = true;
	}
	return HTTP_MORE;
}

bool http_host_split(struct str value, struct str *ret_host)
{
	size_t i = 0;
	uint64_t port;

	if (value.n == 0 || value.n > HTTP_HOST_MAX)
		return false;
	if (value.p[0] == '[') {
		for (i = 1; i < value.n && value.p[i] != ']'; i++)
			if (!strchr("0123456789abcdefABCDEF:.", value.p[i]) || !value.p[i])
				return false;
		if (i < 3 || i >= value.n)
			return false;
		i++;
	} else {
		for (; i < value.n && value.p[i] != ':'; i++) {
			char c = value.p[i];

			if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
			      (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_'))
				return false;
		}
		if (i == 0)
			return false;
	}
	if (i < value.n) {
		struct str digits = { value.p + i + 1, value.n - i - 1 };

		if (value.p[i] != ':' || str_to_u64(digits, UINT16_MAX, &port) < 0)
			return false;
	}
	*ret_host = (struct str){ value.p, i };
	return true;
}

static bool same_nocase(struct str a, struct str b)
{
	if (a.n != b.n)
		return false;
	for (size_t i = 0; i < a.n; i++) {
		char x = a.p[i], y = b.p[i];

		x = x >= 'A' && x <= 'Z' ? (char)(x + 32) : x;
		y = y >= 'A' && y <= 'Z' ? (char)(y + 32) : y;
		if (x != y)
			return false;
	}
	return true;
}

/* scheme://authority/path is allowed in requests, but must name the same host as Host does. */
static enum http_verdict parse_absolute(struct http_head *head)
{
	struct str rest = head->target;
	size_t skip = rest.n > 7 && str_eq_nocase((struct str){ rest.p, 7 }, "http://")	   ? 7
		      : rest.n > 8 && str_eq_nocase((struct str){ rest.p, 8 }, "https://") ? 8
											   : 0;
	struct str authority;
	size_t i;

	if (!skip)
		return refuse(head, HTTP_BAD, "The request target must start with '/'.");
	rest = (struct str){ rest.p + skip, rest.n - skip };
	for (i = 0; i < rest.n && rest.p[i] != '/' && rest.p[i] != '?'; i++)
		;
	authority = (struct str){ rest.p, i };
	if (!same_nocase(authority, head->host))
		return refuse(head, HTTP_BAD, "The request target and Host disagree.");
	rest = (struct str){ rest.p + i, rest.n - i };
	if (!str_cut(rest, '?', &head->path, &head->query)) {
		head->path = rest;
		head->query = (struct str){ "", 0 };
	}
	if (head->path.n == 0)
		head->path = STR_LIT("/");
	return HTTP_OK;
}

static enum http_verdict parse_target(struct http_head *head)
{
	struct str target = head->target;

	if (target.p[0] == '/') {
		if (!str_cut(target, '?', &head->path, &head->query)) {
			head->path = target;
			head->query = (struct str){ "", 0 };
		}
		return HTTP_OK;
	}
	head->query = (struct str){ "", 0 };
	if (str_is(target, "*")) {
		if (head->method != HTTP_OPTIONS)
			return refuse(head, HTTP_BAD, "The target '*' belongs to OPTIONS only.");
		head->path = target;
		return HTTP_OK;
	}
	return parse_absolute(head);
}

struct fields {
	bool host;
	bool upgrade_named; /* Upgrade is present */
	bool upgrade_asked; /* Connection names it */
	bool close;
	bool keep;
};

static enum http_verdict on_length(struct http_head *head, struct str value)
{
	uint64_t length;

	if (head->content_length >= 0)
		return refuse(head, HTTP_BAD, "Content-Length is given twice.");
	if (str_to_u64(value, INT64_MAX, &length) < 0)
		return refuse(head, HTTP_BAD, "Content-Length is not a number.");
	head->content_length = (int64_t)length;
	return HTTP_OK;
}

static enum http_verdict on_encoding(struct http_head *head, struct str value)
{
	if (head->chunked)
		return refuse(head, HTTP_BAD, "Transfer-Encoding is given twice.");
	/* value is a view after the colon: at most one space before it, and nothing after it. */
	if (!str_eq_nocase(value, "chunked") || value.p[value.n] != '\r' ||
	    !(value.p[-1] == ':' || (value.p[-1] == ' ' && value.p[-2] == ':')))
		return refuse(head, HTTP_BAD, "The only Transfer-Encoding spoken is 'chunked'.");
	if (head->minor == 0)
		return refuse(head, HTTP_BAD, "HTTP/1.0 has no Transfer-Encoding.");
	head->chunked = true;
	return HTTP_OK;
}

static void on_connection(struct fields *seen, struct str value)
{
	while (value.n) {
		struct str token, rest = { "", 0 };

		if (!str_cut(value, ',', &token, &rest)) {
			token = value;
			rest.n = 0;
		}
		token = str_trim(token, " \t");
		if (str_eq_nocase(token, "close"))
			seen->close = true;
		else if (str_eq_nocase(token, "keep-alive"))
			seen->keep = true;
		else if (str_eq_nocase(token, "upgrade"))
			seen->upgrade_asked = true;
		value = rest;
	}
}

static enum http_verdict on_host(struct http_head *head, struct fields *seen, struct str value)
{
	struct str name;

	if (seen->host)
		return refuse(head, HTTP_BAD, "Host is given twice.");
	if (!http_host_split(value, &name))
		return refuse(head, HTTP_BAD, "Host is not a host name with an optional port.");
	seen->host = true;
	head->host = value;
	return HTTP_OK;
}

/* Handles the headers that frame the message; the caller handles all others. */
static enum http_verdict on_field(struct http_head *head, struct fields *seen, bool request,
				  const struct http_header *h)
{
	switch (h->name.n) {
	case 4:
		if (request && str_eq_nocase(h->name, "host"))
			return on_host(head, seen, h->value);
		break;
	case 6:
		if (request && str_eq_nocase(h->name, "expect")) {
			if (!str_eq_nocase(h->value, "100-continue"))
				return refuse(head, HTTP_EXPECT_UNKNOWN,
					      "The only expectation met is '100-continue'.");
			head->expect_continue = true;
		}
		break;
	case 7:
		if (str_eq_nocase(h->name, "upgrade"))
			seen->upgrade_named = true;
		break;
	case 10:
		if (str_eq_nocase(h->name, "connection"))
			on_connection(seen, h->value);
		break;
	case 14:
		if (str_eq_nocase(h->name, "content-length"))
			return on_length(head, h->value);
		break;
	case 17:
		if (str_eq_nocase(h->name, "transfer-encoding"))
			return on_encoding(head, h->value);
		break;
	default:
		break;
	}
	return HTTP_OK;
}

static enum http_verdict parse_field(struct http_head *head, struct fields *seen, bool request,
				     struct str line)
{
	struct http_header *h;
	struct str name, value;

	if (line.p[0] == ' ' || line.p[0] == '\t')
		return refuse(head, HTTP_BAD, "A header is folded over two lines.");
	if (!str_cut(line, ':', &name, &value))
		return refuse(head, HTTP_BAD, "A header line has no colon.");
	if (!http_is_token(name))
		return refuse(head, HTTP_BAD, "A header name is not a token.");
	if (!http_is_field_value(value))
		return refuse(head, HTTP_BAD, "A header value holds control bytes.");
	if (head->header_count == head->header_max)
		return refuse(head, HTTP_HEAD_TOO_LARGE, "Too many headers.");
	h = &head->headers[head->header_count++];
	h->name = name;
	h->value = str_trim(value, " \t");
	return on_field(head, seen, request, h);
}

/* Parses everything after the first line. The scan has checked that every LF follows a CR. */
static enum http_verdict parse_fields(struct http_head *head, struct fields *seen, bool request,
				      const char *p, size_t n)
{
	while (n > 2) {
		const char *lf = memchr(p, '\n', n);
		struct str line;
		enum http_verdict v;

		if (!lf || lf == p || lf[-1] != '\r')
			return refuse(head, HTTP_BAD, "A line does not end with CR LF.");
		line = (struct str){ p, (size_t)(lf - p) - 1 };
		if (line.n == 0)
			return refuse(head, HTTP_BAD, "Bytes follow the end of the head.");
		v = parse_field(head, seen, request, line);
		if (v != HTTP_OK)
			return v;
		n -= (size_t)(lf + 1 - p);
		p = lf + 1;
	}
	if (n != 2 || memcmp(p, "\r\n", 2) != 0)
		return refuse(head, HTTP_BAD, "The head does not end with an empty line.");
	if (head->chunked && head->content_length >= 0)
		return refuse(head, HTTP_BAD,
			      "Content-Length and Transfer-Encoding exclude each other.");
	head->keep_alive = head->minor == 1 ? !seen->close : seen->keep && !seen->close;
	head->upgrade = head->minor == 1 && seen->upgrade_named && seen->upgrade_asked;
	return HTTP_OK;
}

static bool first_line(const char *p, size_t n, struct str *ret_line, size_t *ret_next)
{
	const char *lf = memchr(p, '\n', n);

	if (!lf || lf == p || lf[-1] != '\r')
		return false;
	*ret_line = (struct str){ p, (size_t)(lf - p) - 1 };
	*ret_next = (size_t)(lf + 1 - p);
	return true;
}

static void head_clear(struct http_head *head)
{
	*head = (struct http_head){ .headers = head->headers,
				    .header_max = head->header_max,
				    .content_length = -1,
				    .host = { "", 0 } };
}

enum http_verdict http_head_parse_request(struct http_head *head, const char *p, size_t n)
{
	struct fields seen = { 0 };
	enum http_verdict v;
	struct str line;
	size_t next;

	head_clear(head);
	if (!first_line(p, n, &line, &next))
		return refuse(head, HTTP_BAD, "A line does not end with CR LF.");
	v = parse_request_line(head, line);
	if (v != HTTP_OK)
		return v;
	v = parse_fields(head, &seen, true, p + next, n - next);
	if (v != HTTP_OK)
		return v;
	if (head->minor == 1 && !seen.host)
		return refuse(head, HTTP_BAD, "Host is missing.");
	if (head->minor == 0)
		head->expect_continue = false;
	return parse_target(head);
}

enum http_verdict http_head_parse_response(struct http_head *head, const char *p, size_t n)
{
	struct fields seen = { 0 };
	enum http_verdict v;
	struct str line;
	size_t next;

	head_clear(head);
	/* Some servers omit the space before an empty reason. */
	if (!first_line(p, n, &line, &next) || line.n < 12 || line.p[8] != ' ' ||
	    (line.n > 12 && line.p[12] != ' ') || !http_is_field_value(line))
		return refuse(head, HTTP_BAD, "The status line is malformed.");
	v = parse_version(head, (struct str){ line.p, 8 });
	if (v != HTTP_OK)
		return v;
	for (int i = 9; i < 12; i++) {
		if (line.p[i] < '0' || line.p[i] > '9')
			return refuse(head, HTTP_BAD, "The status is not a number.");
		head->status = head->status * 10 + (line.p[i] - '0');
	}
	if (head->status < 100 || head->status > 599)
		return refuse(head, HTTP_BAD, "The status is out of range.");
	return parse_fields(head, &seen, false, p + next, n - next);
}

int http_field_put(struct buf *out, struct str name, struct str value)
{
	char *p;
	int r;

	if (!http_is_token(name) || !http_is_field_value(value))
		return -EINVAL;
	r = buf_reserve(out, name.n + value.n + 4, &p);
	if (r < 0)
		return r;
	memcpy(p, name.p, name.n);
	memcpy(p + name.n, ": ", 2);
	if (value.n)
		memcpy(p + name.n + 2, value.p, value.n);
	memcpy(p + name.n + 2 + value.n, "\r\n", 2);
	buf_commit(out, name.n + value.n + 4);
	return 0;
}
