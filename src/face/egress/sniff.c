/* SPDX-License-Identifier: Apache-2.0 */
#include "face/egress/sniff.h"

#include "http/message/head.h"

#define HEADERS_MAX 100

enum { RECORD_HANDSHAKE = 22, HELLO_CLIENT = 1, EXTENSION_NAME = 0, NAME_HOST = 0 };

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
		s->odd = true;
		return;
	}
	if (body.n == 0)
		return;
	if (!take_vector(&body, 2, &extensions) || body.n) {
		s->odd = true;
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

/* The hello may lie in several records: their content is put together first. */
static bool sniff_tls(const uint8_t *p, size_t n, struct sniff *s)
{
	static uint8_t whole[SNIFF_MAX]; /* one thread, nothing survives the call */
	struct cursor c = { p, n }, record, hello;
	size_t have = 0, type, version, length;

	s->protocol = EGRESS_TLS;
	while (take_number(&c, 1, &type)) {
		if (type != RECORD_HANDSHAKE || !take_number(&c, 2, &version))
			break;
		if (version >> 8 != 3) {
			s->odd = true;
			return true;
		}
		if (!take_number(&c, 2, &length))
			return false;
		if (!take(&c, MIN(length, c.n), &record))
			return false;
		memcpy(whole + have, record.p, record.n);
		have += record.n;
		hello = (struct cursor){ whole, have };
		if (take_number(&hello, 1, &type) && type != HELLO_CLIENT) {
			s->odd = true;
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
	if (c.n) {
		s->odd = true;
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

static bool starts_as_request(const uint8_t *p, size_t n)
{
	size_t i = 0;

	while (i < n && i < HTTP_METHOD_MAX && p[i] >= 'A' && p[i] <= 'Z')
		i++;
	return i == n || (i > 0 && p[i] == ' ');
}

static bool sniff_http(const uint8_t *p, size_t n, struct sniff *s)
{
	struct http_header headers[HEADERS_MAX];
	struct http_head head = { .headers = headers, .header_max = HEADERS_MAX };
	struct http_scan scan = { 0 };
	size_t length;
	enum http_verdict verdict =
		http_head_scan(&scan, true, (const char *)p, n, SNIFF_MAX, &length);

	s->protocol = EGRESS_HTTP;
	if (verdict == HTTP_MORE)
		return false;
	if (verdict == HTTP_OK)
		verdict = http_head_parse_request(&head, (const char *)p, length);
	if (verdict == HTTP_OK)
		sniff_host(head.host, s);
	else if (memmem(p, n, "HTTP/", 5))
		s->odd = true;
	else
		s->protocol = EGRESS_TCP; /* another protocol of words */
	return true;
}

bool sniff(const void *bytes, size_t size, bool all, struct sniff *ret)
{
	const uint8_t *p = bytes;
	bool done;

	*ret = (struct sniff){ .protocol = EGRESS_TCP };
	if (size == 0)
		return all;
	all = all || size >= SNIFF_MAX;
	if (p[0] == RECORD_HANDSHAKE)
		done = sniff_tls(p, MIN(size, SNIFF_MAX), ret);
	else if (starts_as_request(p, size))
		done = sniff_http(p, MIN(size, SNIFF_MAX), ret);
	else
		return true;
	if (!done && all)
		ret->odd = true;
	return done || all;
}
