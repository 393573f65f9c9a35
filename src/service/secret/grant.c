/* SPDX-License-Identifier: Apache-2.0 */
/* Grants: the secrets of a sandbox and how it gets them. Former grants are kept for scrubbing. */
#include <errno.h>
#include <stdio.h>

#include "base/rand.h"
#include "service/secret/secret_internal.h"
#include "service/service_internal.h"
#include "service/secret/secret_private.h"

const char *const grant_way_names[] = { "env", "broker", NULL };

static int no_memory(struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "out of memory");
}

struct grants *grants_new(struct service *service)
{
	struct grants *grants = calloc(1, sizeof(*grants));

	if (grants)
		grants->service = service;
	return grants;
}

void grants_free(struct grants *grants)
{
	if (!grants)
		return;
	for (size_t i = 0; i < grants->count; i++) {
		free(grants->list[i].hosts);
		secret_unused(grants->service, grants->list[i].secret);
	}
	scrub_unref(grants->scrub);
	free(grants);
}

struct grant *grants_add(struct grants *grants, struct secret *secret, int way, const char *env,
			 const char *hosts)
{
	struct grant *g = &grants->list[grants->count];
	char *copy = strdup(hosts);

	if (!copy || str_copy(g->env, sizeof(g->env), str_of(env)) < 0) {
		free(copy);
		return NULL;
	}
	g->secret = secret;
	g->way = (uint8_t)way;
	g->hosts = copy;
	secret->grants++;
	grants->count++;
	return g;
}

static void make_placeholder(struct grant *g)
{
	size_t n = sizeof(SECRET_PLACEHOLDER_PREFIX) - 1;

	memcpy(g->placeholder, SECRET_PLACEHOLDER_PREFIX, n);
	rand_label(g->placeholder + n, 26);
}

struct grants *grants_copy(const struct grants *from)
{
	struct grants *grants = grants_new(from->service);

	for (size_t i = 0; grants && i < from->count; i++) {
		const struct grant *old = &from->list[i];
		struct grant *g = grants_add(grants, old->secret, old->way, old->env, old->hosts);

		if (!g) {
			grants_free(grants);
			return NULL;
		}
		if (g->way == GRANT_BROKER)
			make_placeholder(g);
	}
	return grants;
}

/* Keeps former grants, because processes that received a value may still print it. */
static int grants_keep(struct grants *grants, const struct grants *old, struct err *err)
{
	for (size_t i = 0; old && i < old->count; i++) {
		struct secret *secret = old->list[i].secret;
		bool there = false;

		for (size_t k = 0; k < grants->count; k++)
			there = there || grants->list[k].secret == secret;
		if (there)
			continue;
		if (grants->count == SECRETS_PER_SANDBOX)
			return err_set(err, ERR_QUOTA_EXCEEDED,
				       "a sandbox has at most %d secrets, former ones included",
				       SECRETS_PER_SANDBOX);
		if (!grants_add(grants, secret, GRANT_SCRUB, "", ""))
			return no_memory(err);
	}
	return 0;
}

struct grants *grants_former(const struct grants *from)
{
	struct grants *grants = grants_new(from->service);
	struct err err;

	if (grants && grants_keep(grants, from, &err) == 0)
		return grants;
	grants_free(grants);
	return NULL;
}

int grants_inherit(struct sandbox *sandbox, const struct grants *from, struct err *err)
{
	struct grants *grants = sandbox->attrs.grants;

	if (!from)
		return 0;
	if (!grants)
		grants = sandbox->attrs.grants = grants_new(sandbox->service);
	if (!grants)
		return no_memory(err);
	grants->saved = false;
	scrub_unref(TAKE_PTR(grants->scrub)); /* rebuilt on the next use */
	return grants_keep(grants, from, err);
}

/* ---- request ---- */

/* Variables that usually contain an API key of the operator. A process that reads one can act, and
 * incur costs, as the operator. */
static bool is_system_key(struct str variable)
{
	static const char *const names[] = { "ANTHROPIC_API_KEY", "RUNPOD_API_KEY", "CAY_API_KEY",
					     "CAY_VAULT_KEY", "E2B_API_KEY" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq_nocase(variable, names[i]))
			return true;
	return false;
}

static int check_spec(const struct grant_spec *spec, size_t i, struct err *err)
{
	if (!spec->name.n)
		return err_set(err, ERR_INVALID_REQUEST, "secrets[%zu].name is missing", i);
	if (spec->way != GRANT_ENV && spec->way != GRANT_BROKER)
		return err_set(err, ERR_INVALID_REQUEST, "secrets[%zu].as must be env or broker",
			       i);
	if (spec->way == GRANT_ENV && is_system_key(spec->env))
		return err_set(err, ERR_INVALID_REQUEST,
			       "secrets[%zu]: the variable %.*s is never filled with a value; use "
			       "\"as\": \"broker\"",
			       i, (int)MIN(spec->env.n, SECRET_NAME_MAX), spec->env.p);
	if (spec->hosts.list && spec->way != GRANT_BROKER)
		return err_set(err, ERR_INVALID_REQUEST,
			       "secrets[%zu].hosts is allowed only with \"as\": \"broker\"", i);
	return 0;
}

/* The secret of that name with the narrowest scope. */
static struct secret *resolve(struct service *service, struct str name,
			      const struct grants_holder *holder)
{
	const char *ids[] = { "", holder->workspace ? holder->workspace : "",
			      holder->sandbox_id ? holder->sandbox_id : "" };
	struct secret *best = NULL;

	for (struct secret *s = service->secrets->oldest; s; s = s->next) {
		if (s->deleted_ms || strcmp(s->owner, holder->owner) != 0 ||
		    !str_is(name, s->name) || strcmp(s->scope_id, ids[s->scope]) != 0 ||
		    (s->scope && !ids[s->scope][0]))
			continue;
		if (!best || s->scope > best->scope)
			best = s;
	}
	return best;
}

static bool hosts_have(const char *list, struct str host)
{
	struct str rest = str_of(list), one;
	bool more = rest.n > 0;

	while (more) {
		more = str_cut(rest, ',', &one, &rest);
		if (str_eq(more ? one : rest, host))
			return true;
	}
	return false;
}

/* A grant can only narrow the hosts that the secret is bound to. */
static int bind_hosts(const struct grant_spec *wish, const struct secret *secret, char **ret,
		      struct err *err)
{
	struct str rest, host;
	bool more;

	if (!wish->hosts.count) {
		if (!secret->hosts[0])
			return err_set(err, ERR_INVALID_REQUEST,
				       "secret %s: brokering needs hosts, either in the grant or "
				       "in the secret",
				       secret->name);
		*ret = strdup(secret->hosts);
		return *ret ? 0 : no_memory(err);
	}
	if (secret_hosts_make(&wish->hosts, "hosts", ret, err) < 0)
		return -1;
	rest = str_of(*ret);
	more = secret->hosts[0] != '\0';
	while (more) {
		more = str_cut(rest, ',', &host, &rest);
		if (hosts_have(secret->hosts, more ? host : rest))
			continue;
		free(TAKE_PTR(*ret));
		return err_set(err, ERR_FORBIDDEN, "secret %s is not bound to all of these hosts",
			       secret->name);
	}
	return 0;
}

static int add_wish(struct grants *grants, const struct grant_spec *wish, struct secret *secret,
		    const struct grants *old, struct err *err)
{
	char env[SECRET_NAME_MAX + 1], *hosts = NULL;
	struct grant *g;

	if (!secret_name_ok(wish->env) || str_copy(env, sizeof(env), wish->env) < 0)
		return err_set(err, ERR_INVALID_REQUEST,
			       "env must be characters of [A-Za-z0-9_] and not begin with a digit");
	for (size_t i = 0; i < grants->count; i++)
		if (strcmp(grants->list[i].env, env) == 0)
			return err_set(err, ERR_INVALID_REQUEST, "two secrets use the variable %s",
				       env);
	if (wish->way == GRANT_BROKER && bind_hosts(wish, secret, &hosts, err) < 0)
		return -1;
	g = grants_add(grants, secret, wish->way, env, hosts ? hosts : "");
	free(hosts);
	if (!g)
		return no_memory(err);
	if (wish->way != GRANT_BROKER)
		return 0;
	make_placeholder(g);
	/* Placeholders that programs already have stay valid. */
	for (size_t i = 0; old && i < old->count; i++)
		if (old->list[i].way == GRANT_BROKER && old->list[i].secret == secret &&
		    strcmp(old->list[i].env, env) == 0)
			memcpy(g->placeholder, old->list[i].placeholder, sizeof(g->placeholder));
	return 0;
}

int grants_make(struct service *service, const struct grant_list *list,
		const struct grants_holder *holder, struct grants **ret, struct err *err)
{
	const struct grants *old = holder->old;
	struct grants *grants;

	*ret = NULL;
	if (list->count == 0 && !old)
		return 0;
	if (list->count > SECRETS_PER_SANDBOX)
		return err_set(err, ERR_INVALID_REQUEST, "a sandbox has at most %d secrets",
			       SECRETS_PER_SANDBOX);
	grants = grants_new(service);
	if (!grants)
		return no_memory(err);
	for (size_t i = 0; i < list->count; i++) {
		const struct grant_spec *spec = &list->list[i];
		struct secret *secret;

		if (check_spec(spec, i, err) < 0)
			goto fail;
		secret = resolve(service, spec->name, holder);
		if (!secret) {
			(void)err_set(err, ERR_SECRET_NOT_FOUND, "secrets[%zu]: no secret '%.*s'",
				      i, (int)MIN(spec->name.n, SECRET_NAME_MAX), spec->name.p);
			goto fail;
		}
		if (add_wish(grants, spec, secret, old, err) < 0)
			goto fail;
	}
	if (grants_keep(grants, old, err) < 0)
		goto fail;
	*ret = grants;
	return 0;
fail:
	grants_free(grants);
	return -1;
}
