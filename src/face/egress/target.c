/* SPDX-License-Identifier: Apache-2.0 */
#include "face/egress/target.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "face/egress/sniff.h"
#include "http/message/head.h"

#define SOCKS_VERSION 5
#define SOCKS_CONNECT 1
#define SOCKS_FAILED 1
#define SOCKS_BAD_COMMAND 7
#define SOCKS_BAD_ADDRESS 8

enum { SOCKS_IPV4 = 1, SOCKS_NAME = 3, SOCKS_IPV6 = 4 };

static void refuse(struct target *t, const char *why, uint8_t socks_code)
{
	t->kind = TARGET_BAD;
	t->why = why;
	t->socks_code = socks_code;
}

static struct str rest_of(struct str s, size_t n)
{
	return (struct str){ s.p + n, s.n - n };
}

/* A name or an IPv4 address, without a port. */
static bool set_host(struct target *t, struct str host)
{
	struct sniff said = { .odd = false };
	char text[INET_ADDRSTRLEN];
	struct in_addr four;

	if (str_copy(text, sizeof(text), host) == 0 && inet_pton(AF_INET, text, &four) == 1) {
		t->address = ntohl(four.s_addr);
		return true;
	}
	if (!host.n || memchr(host.p, ':', host.n))
		return false;
	sniff_host(host, &said);
	if (said.odd || !said.name[0])
		return false;
	memcpy(t->name, said.name, sizeof(t->name));
	return true;
}

/* "HOST" or "HOST:PORT". port 0: it is required. */
static bool set_authority(struct target *t, struct str authority, uint16_t port)
{
	struct str host = authority, text;
	uint64_t number = port;

	if (str_cut(authority, ':', &host, &text) &&
	    (str_to_u64(text, UINT16_MAX, &number) < 0 || number == 0))
		return false;
	t->port = (uint16_t)number;
	return number && set_host(t, host);
}

/* ---- SOCKS5 ---- */

static void read_greeting(struct str bytes, struct target *t)
{
	const unsigned char *p = (const unsigned char *)bytes.p;

	if (bytes.n < 2 || bytes.n < 2U + p[1])
		return;
	t->used = 2U + p[1];
	if (!memchr(p + 2, 0, p[1]))
		refuse(t, "the proxy does not support passwords", 0xff);
	else
		t->kind = TARGET_SOCKS_HELLO;
}

static void read_socks(struct str bytes, struct target *t)
{
	const unsigned char *p = (const unsigned char *)bytes.p;
	size_t size;

	if (bytes.n < 5)
		return;
	if (p[0] != SOCKS_VERSION || p[1] != SOCKS_CONNECT) {
		refuse(t, "only CONNECT is supported", SOCKS_BAD_COMMAND);
		return;
	}
	size = p[3] == SOCKS_IPV4 ? 10 : p[3] == SOCKS_NAME ? 7U + p[4] : 0;
	if (!size) {
		refuse(t, "only IPv4 addresses and names are supported", SOCKS_BAD_ADDRESS);
		return;
	}
	if (bytes.n < size)
		return;
	t->used = size;
	t->port = (uint16_t)(p[size - 2] << 8 | p[size - 1]);
	t->kind = TARGET_SOCKS;
	if (p[3] == SOCKS_IPV4)
		t->address =
			(uint32_t)p[4] << 24 | (uint32_t)p[5] << 16 | (uint32_t)p[6] << 8 | p[7];
	else if (!set_host(t, (struct str){ bytes.p + 5, p[4] }))
		refuse(t, "the name is not valid", SOCKS_FAILED);
	if (t->port == 0)
		refuse(t, "port 0 cannot be reached", SOCKS_FAILED);
}

/* ---- HTTP ---- */

/* The line before the next CRLF; the rest stays in *rest. false: there is none. */
static bool next_line(struct str *rest, struct str *ret)
{
	const char *end = memmem(rest->p, rest->n, "\r\n", 2);

	if (!end)
		return false;
	*ret = (struct str){ rest->p, (size_t)(end - rest->p) };
	*rest = rest_of(*rest, ret->n + 2);
	return http_is_field_value(*ret); /* no CR, LF or NUL on its own */
}

struct request_line {
	struct str method, target, version;
	struct str path; /* of an absolute target; may be empty */
};

static bool cut_line(struct str line, struct request_line *ret)
{
	return str_cut(line, ' ', &ret->method, &line) &&
	       str_cut(line, ' ', &ret->target, &ret->version) && http_is_token(ret->method) &&
	       (str_is(ret->version, "HTTP/1.1") || str_is(ret->version, "HTTP/1.0"));
}

static bool read_absolute(struct request_line *line, struct target *t)
{
	struct str rest = line->target;
	size_t n = 0;

	if (rest.n < 7 || !str_eq_nocase((struct str){ rest.p, 7 }, "http://"))
		return false;
	rest = rest_of(rest, 7);
	while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?' && rest.p[n] != '#')
		n++;
	line->path = rest_of(rest, n);
	return set_authority(t, (struct str){ rest.p, n }, 80);
}

static void read_http(struct str bytes, struct target *t)
{
	const char *end = memmem(bytes.p, bytes.n, "\r\n\r\n", 4);
	struct request_line line;
	struct str first;

	if (!end) {
		if (bytes.n >= TARGET_HEAD_MAX)
			refuse(t, "the head of the request is too long", 0);
		return;
	}
	t->used = (size_t)(end - bytes.p) + 4;
	if (!next_line(&bytes, &first) || !cut_line(first, &line)) {
		refuse(t, "the request is malformed", 0);
	} else if (str_is(line.method, "CONNECT")) {
		t->kind = TARGET_CONNECT;
		if (!set_authority(t, line.target, 0))
			refuse(t, "CONNECT needs HOST:PORT", 0);
	} else {
		t->kind = TARGET_FORWARD;
		if (!read_absolute(&line, t))
			refuse(t, "this is a proxy: the target must be http://HOST[:PORT]/PATH", 0);
	}
}

void target_read(struct str bytes, bool greeted, struct target *ret)
{
	*ret = (struct target){ .kind = TARGET_MORE };
	if (bytes.n == 0)
		return;
	if (greeted)
		read_socks(bytes, ret);
	else if (bytes.p[0] == SOCKS_VERSION)
		read_greeting(bytes, ret);
	else if (bytes.p[0] >= 'A' && bytes.p[0] <= 'Z')
		read_http(bytes, ret);
	else
		refuse(ret, "neither HTTP nor SOCKS5", 0);
}

/* ---- the request for the server ---- */

static bool is_for_proxies(struct str name)
{
	static const char *const names[] = { "host",
					     "connection",
					     "keep-alive",
					     "proxy-connection",
					     "proxy-authorization",
					     "proxy-authenticate" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq_nocase(name, names[i]))
			return true;
	return false;
}

static int put_host(const struct target *t, struct buf *out)
{
	char text[INET_ADDRSTRLEN];
	struct in_addr four = { .s_addr = htonl(t->address) };
	const char *host = t->name[0] ? t->name : inet_ntop(AF_INET, &four, text, sizeof(text));

	if (t->port == 80)
		return buf_printf(out, "Host: %s\r\n", host);
	return buf_printf(out, "Host: %s:%u\r\n", host, t->port);
}

static int put_headers(struct str rest, bool *ret_upgrade, struct buf *out)
{
	struct str line, name, value;
	int r = 0;

	*ret_upgrade = false;
	while (r == 0 && rest.n > 2) {
		if (!next_line(&rest, &line) || !str_cut(line, ':', &name, &value) ||
		    !http_is_token(name))
			return -EINVAL;
		*ret_upgrade = *ret_upgrade || str_eq_nocase(name, "upgrade");
		if (!is_for_proxies(name))
			r = buf_printf(out, "%.*s\r\n", (int)line.n, line.p);
	}
	return r;
}

int target_rewrite(struct str head, const struct target *target, struct buf *out)
{
	struct request_line line;
	struct target again = { .kind = TARGET_FORWARD };
	struct str first;
	bool upgrade = false;
	int r;

	if (!next_line(&head, &first) || !cut_line(first, &line) || !read_absolute(&line, &again))
		return -EINVAL;
	if (line.path.n && memchr(line.path.p, '#', line.path.n))
		return -EINVAL;
	r = buf_printf(out, "%.*s %s%.*s %.*s\r\n", (int)line.method.n, line.method.p,
		       line.path.n && line.path.p[0] == '/' ? "" : "/", (int)line.path.n,
		       line.path.p, (int)line.version.n, line.version.p);
	if (r == 0)
		r = put_host(target, out);
	if (r == 0)
		r = put_headers(head, &upgrade, out);
	return r < 0 ? r : buf_printf(out, "Connection: %s\r\n\r\n", upgrade ? "Upgrade" : "close");
}
