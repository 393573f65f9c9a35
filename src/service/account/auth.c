/* SPDX-License-Identifier: Apache-2.0 */
#include "service/account/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sodium.h>

#include "base/log.h"
#include "base/rand.h"
#include "base/time.h"
#include "service/account/auth_internal.h"
#include "service/event/bus.h"
#include "service/range_internal.h"
#include "service/secret/secret.h"
#include "service/account/key_tree_private.h"
#include "service/account/account_private.h"

#define SECRET_BYTES 20

const char *const auth_scope_names[] = {
#define X(sym, name) name,
	AUTH_SCOPE_TABLE(X)
#undef X
		NULL
};

static_assert(sizeof(((struct key *)0)->hash) == STORE_KEY_HASH_SIZE, "hash sizes agree");
static_assert(QUOTA_COUNT == STORE_KEY_LIMITS, "every limit has its column");

/* The secret has 160 random bits, so an unkeyed hash cannot be inverted by guessing. A lookup by
 * hash does not leak the secret through timing. */
static void hash_secret(uint8_t hash[STORE_KEY_HASH_SIZE], const uint8_t secret[SECRET_BYTES])
{
	static const uint8_t context[] = "cay api key v1";

	(void)crypto_generichash(hash, STORE_KEY_HASH_SIZE, secret, SECRET_BYTES, context,
				 sizeof(context));
}

static int parse_secret(struct str text, uint8_t secret[SECRET_BYTES])
{
	if (!str_starts(text, "cay_") && !str_starts(text, "e2b_"))
		return -EINVAL;
	return str_unhex(secret, SECRET_BYTES, (struct str){ text.p + 4, text.n - 4 });
}

static struct str hash_str(const struct key *key)
{
	return (struct str){ (const char *)key->hash, sizeof(key->hash) };
}

struct key *auth_find(struct service *service, struct str text)
{
	uint8_t secret[SECRET_BYTES], hash[STORE_KEY_HASH_SIZE];
	struct key *key;

	if (parse_secret(text, secret) < 0)
		return NULL;
	hash_secret(hash, secret);
	sodium_memzero(secret, sizeof(secret));
	key = map_get(&service->accounts->keys_by_hash,
		      (struct str){ (const char *)hash, sizeof(hash) });
	if (key)
		key->last_used_ms = time_real_ms();
	return key;
}

struct key *auth_by_id(const struct service *service, const char *id)
{
	return map_get(&service->accounts->keys_by_id, str_of(id));
}

static int remember(struct service *service, struct key *key)
{
	int r = map_put(&service->accounts->keys_by_hash, hash_str(key), key);

	if (r < 0)
		return r;
	r = map_put(&service->accounts->keys_by_id, str_of(key->id), key);
	if (r < 0)
		(void)map_take(&service->accounts->keys_by_hash, hash_str(key));
	return r;
}

static int save(struct service *service, const struct key *key)
{
	struct store_key row = { .id = key->id,
				 .name = key->name,
				 .scopes = key->scopes,
				 .parent = key->parent_id[0] ? key->parent_id : NULL,
				 .created_ms = key->created_ms };
	int r;

	memcpy(row.hash, key->hash, sizeof(row.hash));
	memcpy(row.limits, key->limits, sizeof(row.limits));
	r = store_begin_durable(service->store);
	if (r < 0)
		return r;
	return store_end(service->store, store_key_put(service->store, &row));
}

static int make_key(struct service *service, const uint8_t secret[SECRET_BYTES], struct key *parent,
		    const struct key_spec *spec, const struct key **ret, struct err *err)
{
	struct key *key = calloc(1, sizeof(*key));
	int r;

	if (!key)
		return err_set(err, ERR_UNAVAILABLE, "out of memory");
	rand_label(key->id, sizeof(key->id) - 1);
	hash_secret(key->hash, secret);
	key->scopes = spec->scopes;
	memcpy(key->limits, spec->limits, sizeof(key->limits));
	key->created_ms = time_real_ms();
	key->parent = parent;
	if (parent)
		memcpy(key->parent_id, parent->id, sizeof(key->parent_id));
	r = str_copy(key->name, sizeof(key->name), spec->name);
	if (r == 0)
		r = save(service, key);
	if (r == 0)
		r = remember(service, key);
	if (r < 0) {
		free(key);
		return err_set_errno(err, ERR_INTERNAL, r, "the key could not be saved");
	}
	*ret = key;
	return 0;
}

/* A key cannot escape its own limits: keys that it creates have at most the same limits. */
static int check_limits(const struct service *service, const struct key *maker,
			int64_t limits[QUOTA_COUNT], struct err *err)
{
	for (int i = 0; maker && !key_is_admin(maker) && i < QUOTA_COUNT; i++) {
		int64_t own = quota_limit(service, maker, i);

		if (!limits[i])
			limits[i] = maker->limits[i];
		else if (own >= 0 && (limits[i] < 0 || limits[i] > own))
			return err_set(err, ERR_FORBIDDEN,
				       "%s must be at most %lld, the limit of the key that creates "
				       "this one",
				       quota_names[i], (long long)own);
	}
	return 0;
}

/* The service's own check of the ranges that faces check. */
static int check_range(const int64_t limits[QUOTA_COUNT], struct err *err)
{
	for (int i = 0; i < QUOTA_COUNT; i++)
		if (limits[i] < QUOTA_NONE || limits[i] > QUOTA_MAX)
			return err_set(err, ERR_INVALID_REQUEST, "%s must be from %d to %d",
				       quota_names[i], QUOTA_NONE, QUOTA_MAX);
	return 0;
}

int auth_create(struct service *service, const struct key *maker, const struct key_spec *spec,
		char ret_text[AUTH_KEY_TEXT_SIZE], const struct key **ret, struct err *err)
{
	bool below = maker && !key_is_admin(maker);
	uint8_t secret[SECRET_BYTES];
	struct key_spec bounded = *spec;
	int r;

	if (maker && !key_is_admin(maker) && (spec->scopes & ~maker->scopes))
		return err_set(err, ERR_FORBIDDEN,
			       "a key can grant only scopes that it has itself");
	if (service->accounts->keys_by_id.count >= AUTH_KEYS_MAX)
		return err_set(err, ERR_QUOTA_EXCEEDED,
			       "this host has %d keys, the limit: delete some", AUTH_KEYS_MAX);
	if (below && key_count_below(service, key_top(maker)) >= AUTH_KEYS_PER_KEY)
		return err_set(err, ERR_QUOTA_EXCEEDED,
			       "this key, the keys above it and the keys below it have created %d "
			       "keys, the limit: delete some",
			       AUTH_KEYS_PER_KEY);
	if (check_range(bounded.limits, err) < 0 ||
	    check_limits(service, maker, bounded.limits, err) < 0 ||
	    range_check_text("name", spec->name, 1, AUTH_NAME_MAX, err) < 0)
		return -1;
	rand_bytes(secret, sizeof(secret));
	r = make_key(service, secret, below ? auth_by_id(service, maker->id) : NULL, &bounded, ret,
		     err);
	if (r == 0) {
		memcpy(ret_text, "cay_", 4);
		str_hex(ret_text + 4, secret, sizeof(secret));
	}
	sodium_memzero(secret, sizeof(secret));
	return r;
}

static bool may_see(const struct key *viewer, const struct key *key)
{
	return key_is_admin(viewer) || key == viewer || key_is_below(key, viewer);
}

static struct key *find_key(struct service *service, const struct key *viewer, struct str id,
			    struct err *err)
{
	struct key *key = map_get(&service->accounts->keys_by_id, id);

	if (key && may_see(viewer, key))
		return key;
	(void)err_set(err, ERR_KEY_NOT_FOUND, "no key '%.*s'", (int)MIN(id.n, 64), id.p);
	return NULL;
}

const struct key *auth_get(struct service *service, const struct key *viewer, struct str id,
			   struct err *err)
{
	return find_key(service, viewer, id, err);
}

int auth_change(struct service *service, const struct key *maker, struct str id,
		const struct key_patch *patch, const struct key **ret, struct err *err)
{
	struct key *key = find_key(service, maker, id, err);
	struct key next;
	int r = 0;

	if (!key ||
	    (patch->has_name && range_check_text("name", patch->name, 1, AUTH_NAME_MAX, err) < 0))
		return -1;
	next = *key;
	for (int i = 0; i < QUOTA_COUNT; i++) {
		if (!patch->has_limit[i])
			continue;
		if (!key_is_admin(maker))
			return err_set(err, ERR_FORBIDDEN,
				       "%s: only an admin key can change limits", quota_names[i]);
		next.limits[i] = patch->limits[i];
	}
	if (check_range(next.limits, err) < 0)
		return -1;
	if (patch->has_name)
		r = str_copy(next.name, sizeof(next.name), patch->name);
	if (r == 0)
		r = save(service, &next);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "the key could not be saved");
	memcpy(key->name, next.name, sizeof(key->name));
	memcpy(key->limits, next.limits, sizeof(key->limits));
	*ret = key;
	return 0;
}

static uint32_t count_admins(const struct service *service)
{
	size_t cursor = 0;
	uint32_t count = 0;
	const struct key *key;

	while ((key = map_next(&service->accounts->keys_by_id, &cursor)))
		count += key_is_admin(key);
	return count;
}

int auth_delete(struct service *service, const struct key *maker, struct str id, struct err *err)
{
	struct key *key = find_key(service, maker, id, err);
	int r;

	if (!key)
		return -1;
	if (key_is_admin(key) && count_admins(service) == 1)
		return err_set(err, ERR_CONFLICT, "the last admin key cannot be deleted");
	r = key_remove(service, key);
	return r < 0 ? err_set_errno(err, ERR_INTERNAL, r, "the key could not be deleted") : 0;
}

void auth_forget(struct service *service, struct key *key)
{
	(void)map_take(&service->accounts->keys_by_hash, hash_str(key));
	(void)map_take(&service->accounts->keys_by_id, str_of(key->id));
	free(key);
}

/* By time of creation, then by id, so that pages stay stable while keys are added and removed. */
static int compare(const struct key *a, const struct key *b)
{
	if (a->created_ms != b->created_ms)
		return a->created_ms < b->created_ms ? -1 : 1;
	return strcmp(a->id, b->id);
}

const struct key *auth_next(struct service *service, const struct key *viewer, struct str after)
{
	const struct key *from = after.n ? map_get(&service->accounts->keys_by_id, after) : NULL;
	const struct key *best = NULL, *key;
	size_t cursor = 0;

	if (after.n && !from)
		return NULL;
	while ((key = map_next(&service->accounts->keys_by_id, &cursor)))
		if (may_see(viewer, key) && (!from || compare(key, from) > 0) &&
		    (!best || compare(key, best) < 0))
			best = key;
	return best;
}

static int on_key(void *arg, const struct store_key *row)
{
	struct service *service = arg;
	struct key *key = calloc(1, sizeof(*key));
	int r;

	if (!key)
		return -ENOMEM;
	r = str_copy(key->id, sizeof(key->id), str_of(row->id));
	if (r == 0)
		r = str_copy(key->name, sizeof(key->name), str_of(row->name));
	memcpy(key->hash, row->hash, sizeof(key->hash));
	if (r == 0 && row->parent)
		r = str_copy(key->parent_id, sizeof(key->parent_id), str_of(row->parent));
	key->scopes = row->scopes;
	memcpy(key->limits, row->limits, sizeof(key->limits));
	key->created_ms = row->created_ms;
	if (r == 0)
		r = remember(service, key);
	if (r < 0)
		free(key);
	return r;
}

/* Reads the key of an earlier daemon from the file, which may outlive the database. */
static int read_admin_file(const char *path, uint8_t secret[SECRET_BYTES])
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char text[64];
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text));
	if (n < 0)
		return -errno;
	return parse_secret(str_trim((struct str){ text, (size_t)n }, " \r\n\t"), secret);
}

static int write_admin_file(const char *path, const uint8_t secret[SECRET_BYTES])
{
	char temp[4200], text[AUTH_KEY_TEXT_SIZE + 1];
	_cleanup_close_ int fd = -1;

	memcpy(text, "cay_", 4);
	str_hex(text + 4, secret, SECRET_BYTES);
	text[AUTH_KEY_TEXT_SIZE - 1] = '\n';
	if (snprintf(temp, sizeof(temp), "%s.new", path) >= (int)sizeof(temp))
		return -ENAMETOOLONG;
	(void)unlink(temp);
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return -errno;
	if (write(fd, text, AUTH_KEY_TEXT_SIZE) != AUTH_KEY_TEXT_SIZE || fsync(fd) < 0)
		return -EIO;
	return rename(temp, path) < 0 ? -errno : 0;
}

/* The file is written before the row: a crash in between leaves a key that the next start adopts.
 */
static int ensure_admin(struct service *service, struct err *err)
{
	struct key_spec spec = { .name = STR_LIT("admin"), .scopes = AUTH_ADMIN };
	uint8_t secret[SECRET_BYTES];
	const struct key *key;
	char path[4096];
	int r;

	if (count_admins(service) > 0)
		return 0;
	if (snprintf(path, sizeof(path), "%s/admin.key", service->config.state_dir) >=
	    (int)sizeof(path))
		return err_set(err, ERR_INTERNAL, "the state directory's name is too long");
	if (read_admin_file(path, secret) < 0) {
		rand_bytes(secret, sizeof(secret));
		r = write_admin_file(path, secret);
		if (r < 0)
			return err_set_errno(err, ERR_INTERNAL, r, "cannot write %s", path);
		log_info("created the first admin key: %s", path);
	}
	r = make_key(service, secret, NULL, &spec, &key, err);
	sodium_memzero(secret, sizeof(secret));
	return r;
}

int auth_load(struct service *service, struct err *err)
{
	int r;

	if (sodium_init() < 0)
		return err_set(err, ERR_INTERNAL, "libsodium cannot be initialized");
	r = store_key_each(service->store, on_key, service);
	if (r == 0)
		r = key_tree_load(service);
	if (r < 0)
		return err_set_errno(err, ERR_INTERNAL, r, "cannot read the keys");
	return ensure_admin(service, err);
}

void auth_done(struct service *service)
{
	size_t cursor = 0;
	struct key *key;

	while ((key = map_next(&service->accounts->keys_by_id, &cursor)))
		free(key);
	map_done(&service->accounts->keys_by_id);
	map_done(&service->accounts->keys_by_hash);
}
