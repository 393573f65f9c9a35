/* SPDX-License-Identifier: Apache-2.0 */
#include "face/egress/sniff.h"

#include "http/message/head.h"

#define HEADERS_MAX 100

enum {
	RECORD_ALERT = 21,
	RECORD_HANDSHAKE = 22,
	HELLO_CLIENT = 1,
	EXTENSION_NAME = 0,
	NAME_HOST = 0
};
#define RECORD_MAJOR_END 16 /* of the version's first byte: Go's servers accept every one below */

struct cursor {
	const uint8_t *p;
	size_t n;
};

static bool take(struct cursor *c, size_t n, struct cursor *ret)
{
	if (n > c->n)
		return false;
	*ret = (struct cursor){ c->p, n };
	c->p += n;
	c->n -= n;
	return true;
}

static bool take_number(struct cursor *c, size_t bytes, size_t *ret)
{
	struct cursor at;

	*ret = 0;
	if (!take(c, bytes, &at))
		return false;
	for (size_t i = 0; i < bytes; i++)
		*ret = *ret << 8 | at.p[i];
	return true;
}

static bool take_vector(struct cursor *c, size_t length_bytes, struct cursor *ret)
{
	size_t n;

	return take_number(c, length_bytes, &n) && take(c, n, ret);
}

static void set_name(struct sniff *s, struct str name)
{
	if (egress_name_parse(name, s->name) < 0) {
		s->name[0] = '\0';
		s->odd = true;
	}
}

/* ---- TLS ---- */

static void read_server_name(struct cursor extension, struct sniff *s)
{
	struct cursor list, name;
	size_t type;

	/* Exactly one, of the only kind there is. */
	if (!take_vector(&extension, 2, &list) || extension.n || !take_number(&list, 1, &type) ||
	    type != NAME_HOST || !take_vector(&list, 2, &name) || list.n || name.n == 0 ||
	    s->name[0]) {
		s->odd = true;
		return;
	}
	set_name(s, (struct str){ (const char *)name.p, name.n });
}

static void read_hello(struct cursor body, struct sniff *s)
{
	struct cursor skipped, extensions, extension;
	size_t type;

	if (!take(&body, 34, &skipped) || !take_vector(&body, 1, &skipped) ||
	    !take_vector(&body, 2, &skipped) || !take_vector(&body, 1, &skipped)) {
		s->odd = s->broken = true;
		return;
	}
	if (body.n == 0)
		return;
	if (!take_vector(&body, 2, &extensions) || body.n) {
		s->odd = s->broken = true;
		return;
	}
	while (extensions.n) {
		if (!take_number(&extensions, 2, &type) ||
		    !take_vector(&extensions, 2, &extension)) {
			s->odd = true;
			return;
		}
		if (type == EXTENSION_NAME)
			read_server_name(extension, s);
	}
}

/* The hello may lie in several records: their content is put together first. Warnings before it
 * are skipped by OpenSSL and Go, so that a connection may begin with one: never what clients do. */
static bool sniff_tls(const uint8_t *p, size_t n, struct sniff *s)
{
	static uint8_t whole[SNIFF_MAX]; /* one thread, nothing survives the call */
	struct cursor c = { p, n }, record, hello;
	size_t have = 0, type, version, length;

	s->protocol = EGRESS_TLS;
	while (take_number(&c, 1, &type) && type == RECORD_HANDSHAKE) {
		if (!take_number(&c, 2, &version) || !take_number(&c, 2, &length))
			return false;
		s->odd = s->odd || version >> 8 != 3;
		if (!take(&c, MIN(length, c.n), &record))
			return false;
		memcpy(whole + have, record.p, record.n);
		have += record.n;
		hello = (struct cursor){ whole, have };
		if (take_number(&hello, 1, &type) && type != HELLO_CLIENT) {
			s->odd = s->broken = true;
			return true;
		}
		if (take_number(&hello, 3, &length) && hello.n >= length) {
			hello.n = length;
			read_hello(hello, s);
			return true;
		}
		if (c.n == 0)
			return false;
	}
	if (c.n || (n && type != RECORD_HANDSHAKE)) {
		s->odd = s->broken = true;
		return true;
	}
	return false;
}

/* ---- HTTP ---- */

void sniff_host(struct str value, struct sniff *s)
{
	struct str host;
	uint8_t address[16];

	if (!value.n)
		return;
	if (!http_host_split(value, &host)) {
		s->odd = true;
		return;
	}
	/* An address, in whatever form, is no name: only a rule for the address counts. */
	if (host.p[0] == '[' || egress_address_parse(host, address) == 0)
		return;
	set_name(s, host);
}

enum shape {
	SHAPE_OTHER,   /* no server accepts it as a request */
	SHAPE_OPEN,    /* it may become one */
	SHAPE_REQUEST, /* some server may accept it as one */
};

static bool is_token_byte(uint8_t c)
{
	const char byte = (char)c;

	return http_is_token((struct str){ &byte, 1 });
}

static bool is_blank(uint8_t c)
{
	return c == ' ' || c == '\t';
}

static bool names_http(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i + 5 <= n; i++)
		if (str_eq_nocase((struct str){ (const char *)p + i, 5 }, "HTTP/"))
			return true;
	return false;
}

/* Methods of HTTP/0.9 style requests that servers still answer, and what stands before a request
 * where a proxy is in front. */
static bool is_known_method(struct str word)
{
	static const char *const words[] = { "GET",    "HEAD",	"POST",	   "PUT",   "PATCH",
					     "DELETE", "TRACE", "CONNECT", "PROXY", "OPTIONS" };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (str_is(word, words[i]))
			return true;
	return false;
}

/*
 * Servers differ in what they accept: any method (Go), lower case (Apache), several blanks. So
 * every line of a word, a blank and "HTTP/" counts, and the strict parser then decides what it
 * says. Protocols of text lines are recognised by their first line feed, binary ones by a NUL or
 * a byte that no word has. A NUL ends the line as a line feed does, because it ends it for servers
 * that keep the line as a string of C.
 */
static enum shape shape_of(const uint8_t *p, size_t n)
{
	size_t word = 0, at, end;

	while (word < n && is_token_byte(p[word]))
		word++;
	if (word == n)
		return SHAPE_OPEN;
	if (word == 0 || !is_blank(p[word]))
		return SHAPE_OTHER;
	for (at = word; at < n && is_blank(p[at]);)
		at++;
	if (at == n)
		return SHAPE_OPEN;
	if (p[at] < ' ' || p[at] == 0x7f)
		return SHAPE_OTHER;
	for (end = at; end < n && p[end] != '\n' && p[end] != '\0';)
		end++;
	if (names_http(p + at, end - at))
		return SHAPE_REQUEST;
	if (end == n)
		return SHAPE_OPEN;
	return is_known_method((struct str){ (const char *)p, word }) ? SHAPE_REQUEST : SHAPE_OTHER;
}

static bool sniff_request(const char *p, size_t n, struct sniff *s)
{
	struct http_header headers[HEADERS_MAX];
	struct http_head head = { .headers = headers, .header_max = HEADERS_MAX };
	struct http_scan scan = { 0 };
	size_t length;
	enum http_verdict verdict = http_head_scan(&scan, true, p, n, SNIFF_MAX, &length);

	if (verdict == HTTP_MORE)
		return false;
	if (verdict == HTTP_OK)
		verdict = http_head_parse_request(&head, p, length);
	if (verdict == HTTP_OK)
		sniff_host(head.host, s);
	else
		s->odd = true;
	return true;
}

/* Empty lines before a request are skipped, as servers do; so are blanks, which only some do. */
static bool sniff_text(const uint8_t *p, size_t n, bool all, struct sniff *s)
{
	size_t lines = 0, skipped;

	while (lines + 1 < n && p[lines] == '\r' && p[lines + 1] == '\n')
		lines += 2;
	for (skipped = lines;
	     skipped < n && (is_blank(p[skipped]) || p[skipped] == '\r' || p[skipped] == '\n');)
		skipped++;
	s->protocol = EGRESS_HTTP;
	if (skipped == n)
		return false;
	switch (shape_of(p + skipped, n - skipped)) {
	case SHAPE_REQUEST:
		if (skipped == lines)
			return sniff_request((const char *)p + lines, n - lines, s);
		s->odd = true;
		return true;
	case SHAPE_OPEN:
		if (!all)
			return false;
		break;
	case SHAPE_OTHER:
		break;
	}
	/* Nothing but a request is known to begin with an empty line. */
	s->odd = lines > 0;
	s->protocol = s->odd ? EGRESS_HTTP : EGRESS_TCP;
	return true;
}

bool sniff(const void *bytes, size_t size, bool all, struct sniff *ret)
{
	const uint8_t *p = bytes;
	bool full = size >= SNIFF_MAX, done;

	*ret = (struct sniff){ .protocol = EGRESS_TCP };
	if (size == 0)
		return all;
	size = MIN(size, SNIFF_MAX);
	if (p[0] == RECORD_ALERT && size > 1 && p[1] >= RECORD_MAJOR_END)
		return true;
	if (p[0] == RECORD_ALERT && size == 1) {
		*ret = (struct sniff){ .protocol = EGRESS_TLS, .odd = all, .broken = all };
		return all;
	}
	if (p[0] == RECORD_ALERT || p[0] == RECORD_HANDSHAKE)
		done = sniff_tls(p, size, ret);
	else
		done = sniff_text(p, size, all && !full, ret);
	if (!done && (all || full))
		ret->odd = true;
	return done || all || full;
}
