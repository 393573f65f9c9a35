/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/hosts.h"

#include <errno.h>

#include "http/server/server.h"

int face_hosts_init(struct face_hosts *hosts, const char *allowed, uint16_t port)
{
	const char *at = allowed ? allowed : "";

	*hosts = (struct face_hosts){ .port = port };
	while (*at) {
		size_t n = strcspn(at, " ,\t");
		char **names;

		if (n == 0) {
			at++;
			continue;
		}
		names = realloc(hosts->names, (hosts->count + 1) * sizeof(*names));
		if (!names)
			return -ENOMEM;
		hosts->names = names;
		names[hosts->count] = strndup(at, n);
		if (!names[hosts->count])
			return -ENOMEM;
		hosts->count++;
		at += n;
	}
	return 0;
}

void face_hosts_done(struct face_hosts *hosts)
{
	for (size_t i = 0; i < hosts->count; i++)
		free(hosts->names[i]);
	free(hosts->names);
	*hosts = (struct face_hosts){ .port = hosts->port };
}

/*
 * Whether a Host header is that name, with our port or none. A name with its own port is compared
 * as it is.
 */
static bool host_is(const struct face_hosts *hosts, const struct http_req *req, const char *name)
{
	const struct str *raw = http_req_header(req, "host");
	size_t n = strlen(name);
	struct str port;
	uint64_t number = 0;

	if (raw && str_eq_nocase(*raw, name))
		return true;
	if (!str_eq_nocase(req->host, name))
		return false;
	if (!raw || raw->n <= n || !hosts->port)
		return true;
	port = (struct str){ raw->p + n + 1, raw->n - n - 1 };
	return raw->p[n] == ':' && str_to_u64(port, UINT16_MAX, &number) == 0 &&
	       number == hosts->port;
}

int face_hosts_check(const struct face_hosts *hosts, const struct http_req *req, struct err *err)
{
	static const char *const own[] = { "127.0.0.1", "localhost", "[::1]" };
	const struct str *raw = http_req_header(req, "host");

	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		if (host_is(hosts, req, own[i]))
			return 0;
	for (size_t i = 0; i < hosts->count; i++)
		if (host_is(hosts, req, hosts->names[i]))
			return 0;
	return err_set(err, ERR_HOST_NOT_ALLOWED, "host '%.*s' is not served here",
		       raw ? (int)MIN(raw->n, 128) : 0, raw ? raw->p : "");
}

bool face_host_below(struct str host, const char *domain, struct str *ret_label)
{
	size_t n = strlen(domain);

	if (host.n && host.p[host.n - 1] == '.')
		host.n--;
	if (host.n <= n + 1 || host.p[host.n - n - 1] != '.' ||
	    memcmp(host.p + host.n - n, domain, n) != 0)
		return false;
	*ret_label = (struct str){ host.p, host.n - n - 1 };
	return true;
}
