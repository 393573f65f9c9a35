/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vault's side of the broker: finds the placeholders that are bound to a host, and replaces
 * them by their values.
 */
#include <errno.h>
#include <sodium.h>

#include "service/secret/secret_internal.h"
#include "service/service_internal.h"
#include "service/secret/vault.h"
#include "service/network/trust_internal.h"

bool broker_any(const struct grants *grants)
{
	for (size_t i = 0; grants && i < grants->count; i++)
		if (grants->list[i].way == GRANT_BROKER && !grants->list[i].secret->deleted_ms)
			return true;
	return false;
}

/* ---- hosts and values ---- */

static bool host_matches(struct str entry, struct str host, uint16_t port)
{
	struct str name = entry, port_text;
	uint64_t wanted = 443;

	if (str_cut(entry, ':', &name, &port_text) &&
	    str_to_u64(port_text, UINT16_MAX, &wanted) < 0)
		return false;
	if (wanted != port)
		return false;
	if (!str_starts(name, "*."))
		return str_eq(name, host);
	name = (struct str){ name.p + 1, name.n - 1 }; /* including its dot */
	return host.n > name.n && memcmp(host.p + host.n - name.n, name.p, name.n) == 0;
}

static bool is_bound(const struct grant *g, struct str host, uint16_t port)
{
	struct str rest = str_of(g->hosts), one;
	bool more = rest.n > 0;

	if (g->way != GRANT_BROKER || g->secret->deleted_ms || !g->secret->version_count)
		return false;
	while (more) {
		more = str_cut(rest, ',', &one, &rest);
		if (host_matches(more ? one : rest, host, port))
			return true;
	}
	return false;
}

bool broker_has(const struct sandbox *sandbox, struct str host, uint16_t port)
{
	const struct grants *grants = sandbox->attrs.grants;

	for (size_t i = 0; grants && i < grants->count; i++)
		if (is_bound(&grants->list[i], host, port))
			return true;
	return false;
}

static int put_secret(const struct service *service, const struct secret *secret, struct buf *out)
{
	char *plain;
	size_t n;
	int r = secret_open(service, secret, &secret->versions[secret->version_count - 1], &plain,
			    &n);

	if (r < 0)
		return r;
	r = buf_append(out, plain, n);
	vault_wipe(plain, n);
	return r;
}

/* The first placeholder in text that is bound to this host. */
static const struct grant *find_first(const struct grants *grants, struct str text, struct str host,
				      uint16_t port, size_t *ret_at)
{
	const struct grant *found = NULL;

	for (size_t i = 0; i < grants->count; i++) {
		const struct grant *g = &grants->list[i];
		const char *at;

		if (!is_bound(g, host, port))
			continue;
		at = memmem(text.p, text.n, g->placeholder, strlen(g->placeholder));
		if (at && (!found || (size_t)(at - text.p) < *ret_at)) {
			found = g;
			*ret_at = (size_t)(at - text.p);
		}
	}
	return found;
}

int broker_replace(const struct sandbox *sandbox, struct str host, uint16_t port, struct str text,
		   struct buf *out)
{
	const struct grants *grants = sandbox->attrs.grants;
	const struct grant *g;
	int replaced = 0, r = 0;
	size_t at = 0;

	while (r == 0 && grants && text.n && (g = find_first(grants, text, host, port, &at))) {
		size_t used = at + strlen(g->placeholder);

		r = buf_append(out, text.p, at);
		if (r == 0)
			r = put_secret(sandbox->service, g->secret, out);
		text = (struct str){ text.p + used, text.n - used };
		replaced = 1;
	}
	if (r == 0)
		r = buf_append(out, text.p, text.n);
	return r < 0 ? r : replaced;
}

int broker_replace_basic(const struct sandbox *sandbox, struct str host, uint16_t port,
			 struct str base64, struct buf *out)
{
	unsigned char plain[4096];
	size_t n = 0, encoded;
	struct buf both;
	char *at;
	int r;

	if (sodium_base642bin(plain, sizeof(plain), base64.p, base64.n, NULL, &n, NULL,
			      sodium_base64_VARIANT_ORIGINAL) != 0)
		return buf_append(out, base64.p, base64.n);
	buf_init(&both, SECRET_VALUE_MAX + sizeof(plain));
	r = broker_replace(sandbox, host, port, (struct str){ (const char *)plain, n }, &both);
	encoded = sodium_base64_encoded_len(buf_len(&both), sodium_base64_VARIANT_ORIGINAL);
	if (r >= 0 && buf_reserve(out, encoded, &at) < 0)
		r = -ENOBUFS;
	if (r >= 0) {
		(void)sodium_bin2base64(at, encoded, (const unsigned char *)buf_str(&both).p,
					buf_len(&both), sodium_base64_VARIANT_ORIGINAL);
		buf_commit(out, encoded - 1);
	}
	if (both.base)
		explicit_bzero(both.base, both.capacity);
	buf_done(&both);
	return r;
}
