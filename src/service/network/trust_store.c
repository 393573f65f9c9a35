/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate authority of a sandbox, whose key never leaves the daemon. The egress proxy uses
 * it where it terminates TLS, for a brokered secret or to explain a refusal. The certificate is
 * installed in the sandbox's trust store before the first call into the sandbox proceeds.
 */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>

#include "base/log.h"
#include "service/sandbox/attach_internal.h"
#include "service/create/create_internal.h"
#include "service/network/egress_internal.h"
#include "service/pairs.h"
#include "service/secret/secret_internal.h"
#include "service/secret/vault.h"
#include "service/network/trust_internal.h"

#define INSTALL_MS 20000

/* Reads the certificate from standard input. The template's certificates are kept; that of another
 * sandbox, which a snapshot may contain, is replaced. */
static const char install_script[] =
	"set -e; umask 022; b=/etc/ssl/certs/ca-certificates.crt; "
	"d=/usr/local/share/ca-certificates;"
	" mkdir -p $d /etc/ssl/certs /etc/ssl/cay; cat > $d/cay.crt;"
	" if [ ! -e /etc/ssl/cay/before.pem ]; then"
	"  if [ -e $b ]; then cp $b /etc/ssl/cay/before.pem; else : > /etc/ssl/cay/before.pem; fi;"
	" fi; cat /etc/ssl/cay/before.pem $d/cay.crt > $b.cay; mv $b.cay $b";

/* For programs with a trust store of their own: variables that point them to the sandbox's. */
#define TRUST_STORE "/etc/ssl/certs/ca-certificates.crt"
static char trust_text[] = "SSL_CERT_FILE=" TRUST_STORE "\0REQUESTS_CA_BUNDLE=" TRUST_STORE
			   "\0CURL_CA_BUNDLE=" TRUST_STORE "\0GIT_SSL_CAINFO=" TRUST_STORE
			   "\0NODE_EXTRA_CA_CERTS=/usr/local/share/ca-certificates/cay.crt\0";
static const struct pairs trust_pairs = { trust_text, sizeof(trust_text) - 1, 5 };

static bool is_wanted(const struct sandbox *sandbox)
{
	if (!sandbox->service->config.authority_new)
		return false;
	return broker_any(sandbox->attrs.grants) ||
	       ((egress_link(sandbox) != ENGINE_LINK_NONE || sandbox->pool_network) &&
		instance_can(&sandbox->engine->instance, CAN_OWN_TREE));
}

const struct pairs *trust_env(const struct sandbox *sandbox)
{
	static const struct pairs none = { NULL, 0, 0 };

	return is_wanted(sandbox) ? &trust_pairs : &none;
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
	r = vault_open(vault_of(service), "authority", sandbox->id, 1, (struct str){ sealed, n },
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
	r = vault_seal(vault_of(service), "authority", sandbox->id, 1, str_of(saved), &sealed, &n);
	if (r < 0)
		return r;
	r = store_authority_put(service->store, sandbox->id,
				(struct str){ (const char *)sealed, n });
	free(sealed);
	service_wrote(service);
	return r;
}

int trust_authority(struct sandbox *sandbox, char saved[SECRET_AUTHORITY_BYTES])
{
	struct err err;
	int r = vault_need(sandbox->service, &err) < 0 ? -ENOKEY : load_authority(sandbox, saved);

	if (r == 0)
		r = make_authority(sandbox, saved);
	return MIN(r, 0);
}

/* ---- installation ---- */

bool trust_due(const struct sandbox *sandbox)
{
	return sandbox->trust != TRUST_INSTALLED && is_wanted(sandbox);
}

void trust_note(struct sandbox *sandbox, const struct link_result *result, const struct err *error)
{
	bool lost = result->status.end == LINK_END_GONE;

	if (!lost && (error || result->status.exit_code != 0))
		log_warn("sandbox %s does not trust its own authority (%s): requests whose TLS the "
			 "proxy terminates fail there",
			 sandbox->id, error ? error->message : "its script failed");
	/* After a lost link it is installed again with the next one. */
	sandbox->trust = lost ? TRUST_ABSENT : TRUST_INSTALLED;
}

static void on_installed(void *arg, const struct link_result *result, const struct err *error)
{
	struct op *op = arg;
	struct sandbox *sandbox = op_end_sandbox(op);

	if (!sandbox)
		return;
	trust_note(sandbox, result, error);
	initialize_go_on(sandbox);
	ready_there(sandbox);
}

int trust_start(struct sandbox *sandbox, link_exec_fn done, void *arg, struct err *err)
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
	uint32_t process_id;
	int r = trust_authority(sandbox, saved);

	if (r == 0)
		r = sandbox->service->config.authority_certificate(saved, cert);
	sodium_memzero(saved, sizeof(saved));
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "no certificate authority");
	exec.stdin_bytes = str_of(cert);
	if (!instance_can(&sandbox->engine->instance, CAN_OWN_TREE))
		return err_set(err, ERR_UNSUPPORTED_BY_ENGINE,
			       "the sandbox has no trust store of its own");
	return link_exec(sandbox->link, &exec, done, arg, &process_id, err);
}

void trust_install(struct sandbox *sandbox)
{
	struct err err;
	struct op *op;

	if (sandbox->trust == TRUST_INSTALLING)
		return;
	sandbox->trust = TRUST_INSTALLING;
	op = op_new(sandbox->service, sandbox->handle, &err);
	if (op && trust_start(sandbox, on_installed, op, &err) == 0)
		return;
	if (op)
		(void)op_end(op);
	log_warn("sandbox %s: requests whose TLS the proxy terminates will fail: %s", sandbox->id,
		 err.message);
	sandbox->trust = TRUST_INSTALLED; /* installation is impossible: calls do not wait for it */
}
