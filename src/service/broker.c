/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What brokering needs of the vault: which hosts a sandbox's placeholders are for, their values,
 * and the sandbox's own certificate authority, whose key never leaves the daemon. Its certificate
 * is put into the sandbox's trust store before the first call on the inside is let through.
 */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>

#include "base/log.h"
#include "service/private.h"
#include "service/vault.h"

#define INSTALL_MS 20000

/* The certificate is its standard input. What the template trusts is kept; a copy of a snapshot may
 * bring another sandbox's certificate, which goes. */
static const char install_script[] =
	"set -e; umask 022; b=/etc/ssl/certs/ca-certificates.crt; "
	"d=/usr/local/share/ca-certificates;"
	" mkdir -p $d /etc/ssl/certs /etc/ssl/cay; cat > $d/cay.crt;"
	" if [ ! -e /etc/ssl/cay/before.pem ]; then"
	"  if [ -e $b ]; then cp $b /etc/ssl/cay/before.pem; else : > /etc/ssl/cay/before.pem; fi;"
	" fi; cat /etc/ssl/cay/before.pem $d/cay.crt > $b.cay; mv $b.cay $b";

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
	name = (struct str){ name.p + 1, name.n - 1 }; /* with its dot */
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

/* The placeholder that comes first in text, of those that are for this host. */
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

/* ---- the authority ---- */

static int load_authority(struct sandbox *sandbox, char saved[SECRET_AUTHORITY_BYTES])
{
	struct service *service = sandbox->service;
	char *sealed = NULL, *plain;
	size_t n, plain_len;
	int r = store_authority_get(service->store, sandbox->id, &sealed, &n);

	if (r <= 0)
		return r;
	r = vault_open(service->vault, "authority", sandbox->id, 1, (struct str){ sealed, n },
		       &plain, &plain_len);
	free(sealed);
	if (r < 0)
		return r;
	r = str_copy(saved, SECRET_AUTHORITY_BYTES, (struct str){ plain, plain_len });
	vault_wipe(plain, plain_len);
	return r < 0 ? r : 1;
}

static int make_authority(struct sandbox *sandbox, char saved[SECRET_AUTHORITY_BYTES])
{
	struct service *service = sandbox->service;
	uint8_t *sealed;
	char name[64];
	size_t n;
	int r;

	if (!service->config.authority_new)
		return -EOPNOTSUPP;
	(void)snprintf(name, sizeof(name), "cay sandbox %s", sandbox->id);
	r = service->config.authority_new(name, saved);
	if (r < 0)
		return r;
	r = vault_seal(service->vault, "authority", sandbox->id, 1, str_of(saved), &sealed, &n);
	if (r < 0)
		return r;
	r = store_authority_put(service->store, sandbox->id,
				(struct str){ (const char *)sealed, n });
	free(sealed);
	service_wrote(service);
	return r;
}

int broker_authority(struct sandbox *sandbox, char saved[SECRET_AUTHORITY_BYTES])
{
	int r = sandbox->service->vault ? load_authority(sandbox, saved) : -ENOKEY;

	if (r == 0)
		r = make_authority(sandbox, saved);
	return MIN(r, 0);
}

/* ---- in the sandbox's trust store ---- */

bool broker_due(const struct sandbox *sandbox)
{
	const struct grants *grants = sandbox->attrs.grants;

	return grants && !grants->installed && broker_any(grants) &&
	       sandbox->service->config.authority_new;
}

static void on_installed(void *arg, const struct link_result *result, const struct err *error)
{
	struct call *call = arg;
	slot_handle handle = call->sandbox;
	struct service *service = call_end(call);
	struct sandbox *sandbox = service ? sandbox_get(service, handle) : NULL;
	bool lost = result->status.end == LINK_END_GONE;

	if (!sandbox || !sandbox->attrs.grants)
		return;
	sandbox->attrs.grants->installing = false;
	if (!lost && (error || result->status.exit_code != 0))
		log_warn("sandbox %s does not trust its own authority (%s): brokered requests fail "
			 "there",
			 sandbox->id, error ? error->message : "its script failed");
	sandbox->attrs.grants->installed = !lost; /* made again with the next link */
	initialize_go_on(sandbox);
	ready_there(sandbox);
}

static int install(struct sandbox *sandbox, struct err *err)
{
	static const char *const argv[] = { "/bin/sh", "-c", install_script, NULL };
	static const char *const env[] = { "PATH=/usr/sbin:/usr/bin:/sbin:/bin", NULL };
	char saved[SECRET_AUTHORITY_BYTES], cert[SECRET_AUTHORITY_BYTES];
	struct link_exec exec = { .argv = argv,
				  .env = env,
				  .cwd = "/",
				  .user = "root",
				  .timeout_ms = INSTALL_MS,
				  .output_max_bytes = 4096 };
	struct call *call;
	uint32_t process_id;
	int r = broker_authority(sandbox, saved);

	if (r == 0)
		r = sandbox->service->config.authority_certificate(saved, cert);
	sodium_memzero(saved, sizeof(saved));
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "no certificate authority");
	exec.stdin_bytes = str_of(cert);
	if (!(sandbox->engine->capabilities & ENGINE_CAN_ISOLATE))
		return err_set(err, ERR_UNSUPPORTED_BY_ENGINE, "no trust store of its own");
	call = call_new(sandbox->service, sandbox->handle, err);
	if (!call)
		return -1;
	if (link_exec(sandbox->link, &exec, on_installed, call, &process_id, err) == 0)
		return 0;
	(void)call_end(call);
	return -1;
}

void broker_install(struct sandbox *sandbox)
{
	struct grants *grants = sandbox->attrs.grants;
	struct err err;

	if (grants->installing)
		return;
	grants->installing = true;
	if (install(sandbox, &err) == 0)
		return;
	log_warn("sandbox %s: brokered requests will fail: %s", sandbox->id, err.message);
	grants->installing = false;
	grants->installed = true; /* nobody waits for what cannot be */
}
