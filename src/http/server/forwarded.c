/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client's address and scheme behind a proxy. Any client can send X-Forwarded-*: the headers
 * count only if the connection comes from a proxy that the operator has named.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include "http/server/conn.h"

/* All addresses are IPv6 here; IPv4 addresses are in ::ffff:0:0/96. */
static bool parse_address(struct str text, uint8_t ret[16], bool *ret_v4)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	char copy[INET6_ADDRSTRLEN];

	if (text.n > 1 && text.p[0] == '[' && text.p[text.n - 1] == ']')
		text = (struct str){ text.p + 1, text.n - 2 };
	if (str_copy(copy, sizeof(copy), text) < 0)
		return false;
	*ret_v4 = inet_pton(AF_INET, copy, ret + 12) == 1;
	if (*ret_v4)
		memcpy(ret, mapped, sizeof(mapped));
	return *ret_v4 || inet_pton(AF_INET6, copy, ret) == 1;
}

static int parse_network(struct str text, struct http_network *ret)
{
	struct str address = text, length = { NULL, 0 };
	uint64_t bits = 128;
	bool v4 = false;

	if (str_cut(text, '/', &address, &length) && str_to_u64(length, 128, &bits) < 0)
		return -EINVAL;
	if (!parse_address(address, ret->address, &v4))
		return -EINVAL;
	if (v4 && length.p && bits > 32)
		return -EINVAL;
	ret->bits = (unsigned)(v4 && length.p ? bits + 96 : bits);
	return 0;
}

int http_server_trust(struct http_server *server, const char *list)
{
	struct http_trust trust = { .count = 0 };

	while (list && *list) {
		size_t n = strcspn(list, " ,\t");

		if (n == 0) {
			list++;
			continue;
		}
		if (trust.count == HTTP_TRUST_MAX)
			return -ENOBUFS;
		if (parse_network((struct str){ list, n }, &trust.networks[trust.count++]) < 0)
			return -EINVAL;
		list += n;
	}
	server->trust = trust;
	return 0;
}

static bool in_network(const struct http_network *network, const uint8_t address[16])
{
	unsigned whole = network->bits / 8, rest = network->bits % 8;

	if (memcmp(network->address, address, whole) != 0)
		return false;
	return rest == 0 || ((network->address[whole] ^ address[whole]) >> (8 - rest)) == 0;
}

static bool is_trusted(const struct http_trust *trust, struct str text)
{
	uint8_t address[16];
	bool v4;

	if (trust->count == 0 || !parse_address(text, address, &v4))
		return false;
	for (size_t i = 0; i < trust->count; i++)
		if (in_network(&trust->networks[i], address))
			return true;
	return false;
}

/* The last one, which the proxy nearest to us wrote. */
static struct str last_header(const struct http_req *req, const char *name)
{
	for (size_t i = req->header_count; i > 0; i--)
		if (str_eq_nocase(req->headers[i - 1].name, name))
			return req->headers[i - 1].value;
	return (struct str){ NULL, 0 };
}

static struct str last_item(struct str *list)
{
	size_t at = list->n;
	struct str item;

	while (at > 0 && list->p[at - 1] != ',')
		at--;
	item = str_trim((struct str){ list->p + at, list->n - at }, " \t");
	list->n = at > 0 ? at - 1 : 0;
	return item;
}

void http_forwarded_read(const struct http_conn *conn, struct http_req *req)
{
	const struct http_trust *trust = &conn->server->trust;
	struct str list, proto;
	uint8_t address[16];
	bool v4;

	req->secure = conn->peer.secure;
	req->client = str_of(conn->peer.address);
	if (!is_trusted(trust, req->client))
		return;
	list = last_header(req, "x-forwarded-proto");
	proto = last_item(&list);
	if (proto.n)
		req->secure = str_eq_nocase(proto, "https");
	/* From the right: each trusted proxy vouches only for the address to its left. */
	list = last_header(req, "x-forwarded-for");
	while (list.n && is_trusted(trust, req->client)) {
		struct str item = last_item(&list);

		if (!parse_address(item, address, &v4))
			break;
		req->client = item;
	}
}
