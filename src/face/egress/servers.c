/* SPDX-License-Identifier: Apache-2.0 */
/* The servers that the resolver asks: the setting, or the host's own. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "face/egress/private.h"

static int add_server(struct egress_face *face, struct str text)
{
	struct str host, port;
	char address[INET_ADDRSTRLEN];
	uint64_t number = 53;
	struct in_addr in;

	if (!str_cut(text, ':', &host, &port))
		host = text;
	else if (str_to_u64(port, 65535, &number) < 0 || !number)
		return -EINVAL;
	if (str_copy(address, sizeof(address), host) < 0 || inet_pton(AF_INET, address, &in) != 1)
		return -EINVAL;
	if (face->server_count < SERVERS_MAX)
		face->servers[face->server_count++] =
			egress_sockaddr(ntohl(in.s_addr), (uint16_t)number);
	return 0;
}

/* As the C library reads it; IPv6 servers are left out. */
static void read_resolv_conf(struct egress_face *face)
{
	FILE *file = fopen("/etc/resolv.conf", "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		struct str s = str_trim(str_of(line), " \t\r\n");

		if (str_starts(s, "nameserver") && s.n > 10 && (s.p[10] == ' ' || s.p[10] == '\t'))
			(void)add_server(face, str_trim((struct str){ s.p + 10, s.n - 10 }, " \t"));
	}
	if (file)
		(void)fclose(file);
}

int resolver_servers(struct egress_face *face, struct err *err)
{
	struct str rest = str_trim(str_of(face->config.dns_upstream), " ,"), one;

	if (!rest.n)
		read_resolv_conf(face);
	while (rest.n) {
		size_t n = 0;

		while (n < rest.n && rest.p[n] != ' ' && rest.p[n] != ',')
			n++;
		one = (struct str){ rest.p, n };
		if (add_server(face, one) < 0)
			return err_set(err, ERR_INVALID_REQUEST,
				       "dns_upstream: '%.*s' is not IP or IP:PORT", (int)one.n,
				       one.p);
		rest = str_trim((struct str){ rest.p + n, rest.n - n }, " ,");
	}
	return 0;
}
