/* SPDX-License-Identifier: Apache-2.0 */
/* Applies a sandbox's secrets: variables of its new processes, and the scrubber for its output. */
#include <errno.h>

#include "base/log.h"
#include "service/pairs.h"
#include "service/secret/secret_internal.h"
#include "service/service_internal.h"
#include "service/secret/vault.h"
#include "service/secret/secret_private.h"
#include "service/network/trust_internal.h"

static int put_value(const struct service *service, const struct grant *g, struct buf *out)
{
	const struct secret *secret = g->secret;
	char *plain;
	size_t n;
	int r;

	if (g->way == GRANT_BROKER)
		return buf_puts(out, g->placeholder);
	r = secret_open(service, secret, &secret->versions[secret->version_count - 1], &plain, &n);
	if (r < 0)
		return r;
	r = buf_append(out, plain, n);
	vault_wipe(plain, n);
	return r;
}

int grants_env(const struct sandbox *sandbox, struct pairs *ret, struct err *err)
{
	const struct grants *grants = sandbox->attrs.grants;
	struct buf out;
	int r = 0;

	*ret = (struct pairs){ NULL, 0, 0 };
	if (!grants)
		return 0;
	buf_init(&out, SECRETS_PER_SANDBOX * (SECRET_VALUE_MAX + SECRET_NAME_MAX + 2));
	for (size_t i = 0; i < grants->count && r == 0; i++) {
		const struct grant *g = &grants->list[i];

		if (g->way == GRANT_SCRUB || g->secret->deleted_ms || !g->secret->version_count)
			continue;
		r = buf_printf(&out, "%s=", g->env);
		if (r == 0)
			r = put_value(sandbox->service, g, &out);
		if (r == 0)
			r = buf_putc(&out, '\0');
		ret->count++;
	}
	/* With brokered secrets these variables override the sandbox's own. Otherwise the sandbox's
	 * own have precedence. */
	if (r == 0 && broker_any(grants)) {
		const struct pairs *trust = trust_env(sandbox);

		r = trust->n ? buf_append(&out, trust->p, trust->n) : 0;
		ret->count += trust->count;
	}
	if (r == 0 && ret->count) {
		ret->n = (uint32_t)buf_len(&out);
		ret->p = malloc(ret->n);
		if (ret->p)
			memcpy(ret->p, buf_data(&out), ret->n);
		else
			r = -ENOMEM;
	}
	if (out.base)
		explicit_bzero(out.base, out.capacity);
	buf_done(&out);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "a secret cannot be decrypted") : 0;
}

void grants_env_wipe(struct pairs *env)
{
	if (env->p)
		explicit_bzero(env->p, env->n);
	pairs_done(env);
}

static int add_versions(const struct service *service, const struct secret *secret,
			struct scrub *scrub)
{
	int r = 0;

	for (size_t i = 0; i < secret->version_count && r == 0; i++) {
		char *plain;
		size_t n;

		r = secret_open(service, secret, &secret->versions[i], &plain, &n);
		if (r < 0)
			return r;
		r = scrub_add(scrub, (struct str){ plain, n });
		vault_wipe(plain, n);
	}
	return r;
}

static int make_scrub(const struct grants *grants, struct scrub **ret)
{
	struct scrub *scrub;
	int r = scrub_new(&scrub);

	if (r < 0)
		return r;
	for (size_t i = 0; i < grants->count && r == 0; i++)
		r = add_versions(grants->service, grants->list[i].secret, scrub);
	if (r == 0)
		r = scrub_finish(scrub);
	if (r < 0) {
		scrub_unref(scrub);
		return r;
	}
	*ret = scrub;
	return 0;
}

struct scrub *sandbox_scrub(const struct sandbox *sandbox)
{
	struct grants *grants = sandbox->attrs.grants;
	struct scrub *scrub = NULL;
	int r;

	if (!grants)
		return NULL;
	if (grants->scrub && grants->scrub_of == grants->service->secrets->vault_generation)
		return grants->scrub;
	r = make_scrub(grants, &scrub);
	if (r < 0) {
		log_error("sandbox %s: the scrubber cannot be rebuilt: %s", sandbox->id,
			  strerror(-r));
		return grants->scrub;
	}
	scrub_unref(grants->scrub);
	grants->scrub = scrub;
	grants->scrub_of = grants->service->secrets->vault_generation;
	return scrub;
}

const char *sandbox_scrub_text(const struct sandbox *sandbox, const char *text, char *dst,
			       size_t size)
{
	struct scrub *scrub = text ? sandbox_scrub(sandbox) : NULL;
	size_t n;

	if (!scrub)
		return text;
	n = MIN(strlen(text), size - 1);
	memcpy(dst, text, n);
	dst[n] = '\0';
	(void)scrub_text(scrub, dst, n, text[n] != '\0');
	return dst;
}
