/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many connections each address holds. One address gets three quarters of them at most: the
 * rest is a reserve, so that a client that opens connections and says nothing does not lock out
 * others. WebSockets do not count here: a connection becomes one only after its key was checked.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "http/server/conn.h"

/* Owner: server->sources, while a connection of the address exists. */
struct http_source {
	uint32_t count;
	char address[INET6_ADDRSTRLEN];
};

static uint32_t most(const struct http_server *server)
{
	return MAX(server->limits.connections * 3 / 4, 1);
}

/* A host has a whole /64 of IPv6 addresses: they count as one. */
static struct str name_of(const char *address, char dst[INET6_ADDRSTRLEN])
{
	struct in6_addr v6;

	if (inet_pton(AF_INET6, address, &v6) != 1)
		return str_of(address);
	if (!IN6_IS_ADDR_V4MAPPED(&v6))
		memset(v6.s6_addr + 8, 0, 8);
	return inet_ntop(AF_INET6, &v6, dst, INET6_ADDRSTRLEN) ? str_of(dst) : str_of(address);
}

int http_source_take(struct http_server *server, struct http_peer *peer)
{
	char buffer[INET6_ADDRSTRLEN];
	struct str name = name_of(peer->address, buffer);
	struct http_source *source;
	int r;

	peer->source = NULL;
	if (!name.n) /* a Unix socket: only local users reach it */
		return 0;
	source = map_get(&server->sources, name);
	if (source && source->count >= most(server))
		return -EBUSY;
	if (!source) {
		source = calloc(1, sizeof(*source));
		r = source ? str_copy(source->address, sizeof(source->address), name) : -ENOMEM;
		if (r == 0)
			r = map_put(&server->sources, name, source);
		if (r < 0) {
			free(source);
			return r;
		}
	}
	source->count++;
	peer->source = source;
	return 0;
}

void http_source_release(struct http_server *server, struct http_peer *peer)
{
	struct http_source *source = TAKE_PTR(peer->source);

	if (!source || --source->count)
		return;
	(void)map_take(&server->sources, str_of(source->address));
	free(source);
}
