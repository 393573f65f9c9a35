/* SPDX-License-Identifier: Apache-2.0 */
#include "service/secret/secret.h"

#include <errno.h>
#include <stdio.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "service/sandbox/sandbox_internal.h"
#include "service/secret/secret_internal.h"
#include "service/service_internal.h"
#include "service/secret/vault.h"
#include "service/secret/secret_private.h"
#include "service/secret/secrets_internal.h"

const char *const secret_scope_names[] = { "global", "workspace", "sandbox", NULL };

static int no_memory(struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "out of memory");
}

static void secret_free(struct secret *secret)
{
	if (!secret)
		return;
	for (size_t i = 0; i < secret->version_count; i++)
		free(secret->versions[i].sealed);
	free(secret->hosts);
	free(secret);
}

static void unlink_secret(struct service *service, struct secret *secret)
{
	if (secret->prev)
		secret->prev->next = secret->next;
	else
		service->secrets->oldest = secret->next;
	if (secret->next)
		secret->next->prev = secret->prev;
	else
		service->secrets->newest = secret->prev;
	(void)map_take(&service->secrets->by_id, str_of(secret->id));
}

static int link_secret(struct service *service, struct secret *secret)
{
	int r = map_put(&service->secrets->by_id, str_of(secret->id), secret);

	if (r < 0)
		return r;
	secret->prev = service->secrets->newest;
	if (service->secrets->newest)
		service->secrets->newest->next = secret;
	else
		service->secrets->oldest = secret;
	service->secrets->newest = secret;
	return 0;
}

/* ---- checks ---- */

/* Whether the value contains an API key of this daemon. A program inside that has such a key
 * controls the daemon. */
static bool holds_key(struct service *service, struct str value)
{
	size_t n = AUTH_KEY_TEXT_SIZE - 1;

	for (size_t i = 0; i + n <= value.n; i++)
		if (value.p[i + 3] == '_' && auth_find(service, (struct str){ value.p + i, n }))
			return true;
	return false;
}

static int check_value(struct service *service, struct str value, struct err *err)
{
	if (value.n == 0 || value.n > SECRET_VALUE_MAX)
		return err_set(err, ERR_INVALID_REQUEST, "value must have 1-%d bytes",
			       SECRET_VALUE_MAX);
	if (memchr(value.p, 0, value.n))
		return err_set(err, ERR_INVALID_REQUEST, "value must not contain NUL");
	if (holds_key(service, value))
		return err_set(
			err, ERR_INVALID_REQUEST,
			"value contains an API key of this daemon: such keys are never given to "
			"sandboxes");
	return 0;
}

static int check_scope(struct service *service, struct key *key, const struct secret_spec *spec,
		       struct str *ret_id, struct err *err)
{
	static const char *const needs[] = { NULL, "external_workspace_id", "sandbox_id" };
	struct str ids[] = { { "", 0 }, spec->external_workspace_id, spec->sandbox_id };
	const struct sandbox *sandbox;

	for (int i = 1; i < SECRET_SCOPE_COUNT; i++)
		if ((ids[i].n != 0) != (i == spec->scope))
			return err_set(err, ERR_INVALID_REQUEST, "%s %s scope %s", needs[i],
				       i == spec->scope ? "is needed for" : "is not allowed with",
				       secret_scope_names[spec->scope]);
	*ret_id = ids[spec->scope];
	if (spec->scope != SECRET_SANDBOX)
		return 0;
	sandbox = sandbox_find(service, key, spec->sandbox_id, err);
	if (!sandbox)
		return -1;
	*ret_id = str_of(sandbox->id);
	return 0;
}

static int check_new(struct service *service, const struct key *key, const struct secret *new,
		     struct err *err)
{
	uint32_t count = 0;

	for (const struct secret *s = service->secrets->oldest; s; s = s->next) {
		if (s->deleted_ms || strcmp(s->owner, key->id) != 0)
			continue;
		count++;
		if (s->scope == new->scope && strcmp(s->name, new->name) == 0 &&
		    strcmp(s->scope_id, new->scope_id) == 0)
			return err_set(err, ERR_CONFLICT,
				       "a secret '%s' already exists (%s); rotate it", new->name,
				       s->id);
	}
	if (count >= SECRETS_PER_KEY)
		return err_set(err, ERR_QUOTA_EXCEEDED, "this key has %u secrets, its limit",
			       count);
	return 0;
}

/* ---- save ---- */

static int put_row(struct service *service, const struct secret *secret)
{
	struct store_secret row = { .id = secret->id,
				    .owner = secret->owner,
				    .name = secret->name,
				    .scope = secret->scope,
				    .scope_id = secret->scope_id,
				    .hosts = secret->hosts,
				    .version = secret->version,
				    .created_ms = secret->created_ms,
				    .updated_ms = secret->updated_ms,
				    .deleted_ms = secret->deleted_ms };

	return store_secret_put(service->store, &row);
}

/* Writes the row and its newest version, and deletes versions that are no longer kept. */
static int save(struct service *service, const struct secret *secret)
{
	const struct secret_version *last = &secret->versions[secret->version_count - 1];
	int r = store_begin_durable(service->store);

	if (r < 0)
		return r;
	r = put_row(service, secret);
	if (r == 0)
		r = store_secret_version_put(service->store, secret->id, last->version,
					     (struct str){ (const char *)last->sealed, last->n });
	if (r == 0)
		r = store_secret_version_trim(service->store, secret->id,
					      secret->versions[0].version);
	return store_end(service->store, r);
}

static int add_version(struct service *service, struct secret *secret, struct str value)
{
	struct secret_version new = { .version = secret->version + 1 };
	size_t n;
	int r = vault_seal(service->secrets->vault, "secret", secret->id, new.version, value,
			   &new.sealed, &n);

	if (r < 0)
		return r;
	new.n = (uint32_t)n;
	if (secret->version_count == SECRET_VERSIONS_KEPT) {
		free(secret->versions[0].sealed);
		memmove(secret->versions, secret->versions + 1,
			(SECRET_VERSIONS_KEPT - 1) * sizeof(new));
		secret->version_count--;
	}
	secret->versions[secret->version_count++] = new;
	secret->version = new.version;
	secret->scrubbed = value.n >= SCRUB_VALUE_MIN;
	secret->updated_ms = time_real_ms();
	return 0;
}

/* ---- calls ---- */

static int fill(struct service *service, struct key *key, const struct secret_spec *spec,
		struct secret *secret, struct err *err)
{
	struct str scope_id;

	if (!secret_name_ok(spec->name))
		return err_set(err, ERR_INVALID_REQUEST,
			       "name must be 1-%d characters of [A-Za-z0-9_] and not begin with a "
			       "digit: it is also the name of the variable",
			       SECRET_NAME_MAX);
	if (check_value(service, spec->value, err) < 0 ||
	    check_scope(service, key, spec, &scope_id, err) < 0 ||
	    secret_hosts_make(&spec->hosts, "hosts", &secret->hosts, err) < 0)
		return -1;
	if (str_copy(secret->scope_id, sizeof(secret->scope_id), scope_id) < 0 ||
	    str_copy(secret->name, sizeof(secret->name), spec->name) < 0)
		return err_set(err, ERR_INVALID_REQUEST, "external_workspace_id is too long");
	rand_label(secret->id, SECRET_ID_LEN);
	memcpy(secret->owner, key->id, sizeof(secret->owner));
	secret->scope = (uint8_t)spec->scope;
	secret->created_ms = time_real_ms();
	return check_new(service, key, secret, err);
}

int secret_create(struct service *service, struct key *key, const struct secret_spec *spec,
		  const struct secret **ret, struct err *err)
{
	struct secret *secret = calloc(1, sizeof(*secret));
	int r;

	if (!secret)
		return no_memory(err);
	if (vault_need(service, err) < 0 || fill(service, key, spec, secret, err) < 0) {
		secret_free(secret);
		return -1;
	}
	r = add_version(service, secret, spec->value);
	if (r == 0)
		r = save(service, secret);
	service_wrote(service);
	if (r == 0)
		r = link_secret(service, secret);
	if (r < 0) {
		secret_free(secret);
		return err_set_errno(err, ERR_INTERNAL, r, "the secret could not be saved");
	}
	*ret = secret;
	return 0;
}

int secret_rotate(struct secret *secret, struct service *service, struct str value, struct err *err)
{
	int r;

	if (check_value(service, value, err) < 0 || vault_need(service, err) < 0)
		return -1;
	r = add_version(service, secret, value);
	if (r == 0)
		r = save(service, secret);
	service_wrote(service);
	service->secrets->vault_generation++;
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "the secret could not be saved") : 0;
}

/* Removes a secret that no sandbox has any more. */
static int purge(struct service *service, struct secret *secret)
{
	int r = store_begin_durable(service->store);

	if (r < 0)
		return r;
	r = store_end(service->store, store_secret_delete(service->store, secret->id));
	if (r < 0)
		return r;
	unlink_secret(service, secret);
	secret_free(secret);
	return 0;
}

int secret_delete(struct secret *secret, struct service *service, struct err *err)
{
	int r;

	secret->deleted_ms = time_real_ms();
	r = secret->grants ? put_row(service, secret) : purge(service, secret);
	service_wrote(service);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "the secret could not be deleted") : 0;
}

/* Deletes all that match, and continues after a failure. */
static void delete_matching(struct service *service, const char *owner, const char *sandbox_id)
{
	struct secret *next;
	struct err err;

	for (struct secret *s = service->secrets->oldest; s; s = next) {
		next = s->next;
		if (s->deleted_ms || (owner && strcmp(s->owner, owner) != 0) ||
		    (sandbox_id &&
		     (s->scope != SECRET_SANDBOX || strcmp(s->scope_id, sandbox_id) != 0)))
			continue;
		if (secret_delete(s, service, &err) < 0)
			log_warn("secret %s: %s", s->id, err.message);
	}
}

void secret_key_deleted(struct service *service, const char *owner)
{
	delete_matching(service, owner, NULL);
}

void secret_sandbox_gone(struct service *service, const char *sandbox_id)
{
	delete_matching(service, NULL, sandbox_id);
}

/* Whether its key or its sandbox is gone: the daemon died before it deleted the secret, too.
 */
static bool is_left_over(struct service *service, const struct secret *secret)
{
	return !auth_by_id(service, secret->owner) ||
	       (secret->scope == SECRET_SANDBOX &&
		!sandbox_by_id(service, str_of(secret->scope_id)));
}

void secret_unused(struct service *service, struct secret *secret)
{
	secret->grants--;
	if (!secret->grants && secret->deleted_ms && !service->upkeep.closing &&
	    purge(service, secret) < 0)
		log_warn("a deleted secret stays sealed in the database until the next start");
}

int secret_open(const struct service *service, const struct secret *secret,
		const struct secret_version *version, char **ret, size_t *ret_len)
{
	if (!service->secrets->vault)
		return -ENOKEY;
	return vault_open(service->secrets->vault, "secret", secret->id, version->version,
			  (struct str){ (const char *)version->sealed, version->n }, ret, ret_len);
}

struct secret *secret_find(struct service *service, const struct key *key, struct str id,
			   struct err *err)
{
	struct secret *found = map_get(&service->secrets->by_id, id);

	if (found && !found->deleted_ms &&
	    (key_is_admin(key) || strcmp(found->owner, key->id) == 0))
		return found;
	found = NULL;
	for (struct secret *s = service->secrets->oldest; s; s = s->next) {
		if (s->deleted_ms || strcmp(s->owner, key->id) != 0 || !str_is(id, s->name))
			continue;
		if (found) {
			(void)err_set(err, ERR_CONFLICT,
				      "several secrets have the name '%s'; use an id", s->name);
			return NULL;
		}
		found = s;
	}
	if (!found)
		(void)err_set(err, ERR_SECRET_NOT_FOUND, "no secret '%.*s'", (int)MIN(id.n, 128),
			      id.p);
	return found;
}

const struct secret *secret_next(struct service *service, const struct key *key, struct str after)
{
	const struct secret *s = service->secrets->oldest;

	if (after.n) {
		s = map_get(&service->secrets->by_id, after);
		s = s ? s->next : NULL;
	}
	while (s && (s->deleted_ms || !(key_is_admin(key) || strcmp(s->owner, key->id) == 0)))
		s = s->next;
	return s;
}

/* ---- start and end ---- */

static int on_row(void *arg, const struct store_secret *row)
{
	struct service *service = arg;
	struct secret *secret = calloc(1, sizeof(*secret));

	if (!secret)
		return -ENOMEM;
	secret->hosts = strdup(row->hosts);
	if (!secret->hosts || str_copy(secret->id, sizeof(secret->id), str_of(row->id)) < 0 ||
	    str_copy(secret->owner, sizeof(secret->owner), str_of(row->owner)) < 0 ||
	    str_copy(secret->name, sizeof(secret->name), str_of(row->name)) < 0 ||
	    str_copy(secret->scope_id, sizeof(secret->scope_id), str_of(row->scope_id)) < 0 ||
	    row->scope < 0 || row->scope >= SECRET_SCOPE_COUNT ||
	    link_secret(service, secret) < 0) {
		secret_free(secret);
		return -EUCLEAN;
	}
	secret->scope = (uint8_t)row->scope;
	secret->version = (uint32_t)row->version;
	secret->created_ms = row->created_ms;
	secret->updated_ms = row->updated_ms;
	secret->deleted_ms = row->deleted_ms;
	return 0;
}

static int on_version(void *arg, const char *secret_id, int64_t version, struct str sealed)
{
	struct service *service = arg;
	struct secret *secret = map_get(&service->secrets->by_id, str_of(secret_id));
	struct secret_version *at;

	if (!secret || secret->version_count == SECRET_VERSIONS_KEPT)
		return 0;
	at = &secret->versions[secret->version_count];
	at->sealed = malloc(sealed.n + 1);
	if (!at->sealed)
		return -ENOMEM;
	memcpy(at->sealed, sealed.p, sealed.n);
	at->n = (uint32_t)sealed.n;
	at->version = (uint32_t)version;
	secret->version_count++;
	secret->scrubbed = sealed.n >= VAULT_OVERHEAD + SCRUB_VALUE_MIN;
	return 0;
}

struct secrets *secrets_new(void)
{
	struct secrets *secrets = calloc(1, sizeof(*secrets));

	if (secrets)
		map_init(&secrets->by_id);
	return secrets;
}

int secrets_load(struct service *service, struct err *err)
{
	int r = store_secret_each(service->store, on_row, service);

	if (r == 0)
		r = store_secret_version_each(service->store, on_version, service);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "cannot read the secrets");
	return service->secrets->oldest ? vault_need(service, err) : 0;
}

void secret_settle(struct service *service)
{
	struct secret *next;

	for (struct secret *s = service->secrets->oldest; s; s = next) {
		next = s->next;
		if (!s->deleted_ms && is_left_over(service, s))
			s->deleted_ms = time_real_ms();
		if (s->deleted_ms && !s->grants && purge(service, s) < 0)
			log_warn("a deleted secret stays sealed in the database");
	}
}

void secrets_close(struct service *service)
{
	while (service->secrets->oldest) {
		struct secret *secret = service->secrets->oldest;

		unlink_secret(service, secret);
		secret_free(secret);
	}
	map_done(&service->secrets->by_id);
	vault_free(service->secrets->vault);
	free(service->secrets);
}
