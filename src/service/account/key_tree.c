/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of keys that were created by other keys. A non-admin key sees the keys below it, and
 * their usage counts against it. Keys that an admin key creates have no parent, because an admin
 * key is not a tenant.
 *
 * Deleting a key deletes all keys below it. Their sandboxes and snapshots stay and still count
 * against the key above; otherwise a key could multiply its quota by creating and deleting keys. A
 * deleted key is therefore remembered as departed for as long as it owns something.
 */
#include <errno.h>

#include "base/log.h"
#include "service/account/account_private.h"
#include "service/account/auth_internal.h"
#include "service/account/key_tree_private.h"
#include "service/event/events_internal.h"
#include "service/secret/secrets_internal.h"

/* Owner: accounts->departed, until it owns nothing or no key above it is left. */
struct departed {
	char id[AUTH_KEY_ID_SIZE];
	char payer[AUTH_KEY_ID_SIZE]; /* the nearest key above that still exists */
	uint32_t things;	      /* sandboxes and snapshots */
};

bool key_is_below(const struct key *key, const struct key *above)
{
	while ((key = key->parent))
		if (key == above)
			return true;
	return false;
}

const struct key *key_top(const struct key *key)
{
	while (key->parent)
		key = key->parent;
	return key;
}

uint32_t key_count_below(const struct service *service, const struct key *above)
{
	const struct key *key;
	uint32_t count = 0;
	size_t cursor = 0;

	while ((key = map_next(&service->accounts->keys_by_id, &cursor)))
		count += key_is_below(key, above);
	return count;
}

/* ---- charging the keys above ---- */

static struct departed *find_departed(const struct service *service, const char *id)
{
	return map_get(&service->accounts->departed, str_of(id));
}

struct key *key_payer(const struct service *service, const char *owner)
{
	struct key *key = auth_by_id(service, owner);
	const struct departed *departed = key ? NULL : find_departed(service, owner);

	return departed ? auth_by_id(service, departed->payer) : key;
}

const char *key_tenant(const struct service *service, const char *owner)
{
	const struct key *key = key_payer(service, owner);

	return key ? key_top(key)->id : owner;
}

static void forget(struct service *service, struct departed *departed)
{
	if (store_departed_delete(service->store, departed->id) < 0)
		log_warn("the deleted key %s is remembered until the next start", departed->id);
	(void)map_take(&service->accounts->departed, str_of(departed->id));
	free(departed);
}

void key_owns(struct service *service, const char *owner, int by)
{
	struct key *key = auth_by_id(service, owner);
	struct departed *departed = key ? NULL : find_departed(service, owner);

	if (key)
		key->things += (uint32_t)by;
	if (!departed)
		return;
	departed->things += (uint32_t)by;
	if (!departed->things && !service->upkeep.closing)
		forget(service, departed);
}

static int add_departed(struct service *service, const char *id, const char *payer, uint32_t things)
{
	struct departed *departed = calloc(1, sizeof(*departed));

	if (!departed)
		return -ENOMEM;
	departed->things = things;
	if (str_copy(departed->id, sizeof(departed->id), str_of(id)) < 0 ||
	    str_copy(departed->payer, sizeof(departed->payer), str_of(payer)) < 0 ||
	    map_put(&service->accounts->departed, str_of(departed->id), departed) < 0) {
		free(departed);
		return -ENOMEM;
	}
	return 0;
}

/* ---- deletion ---- */

static bool goes_with(const struct key *key, const struct key *root)
{
	return key == root || key_is_below(key, root);
}

/* Moves departed keys that counted against a key being deleted to the nearest key above it. */
static int save_departed(struct service *service, const struct key *root)
{
	struct departed *departed;
	size_t cursor = 0;
	int r = 0;

	while (r == 0 && (departed = map_next(&service->accounts->departed, &cursor))) {
		const struct key *payer = auth_by_id(service, departed->payer);

		if (!payer || !goes_with(payer, root))
			continue;
		r = root->parent
			    ? store_departed_put(service->store, departed->id, root->parent->id)
			    : store_departed_delete(service->store, departed->id);
	}
	return r;
}

static int save_removal(struct service *service, const struct key *root)
{
	const struct key *key;
	size_t cursor = 0;
	int r = store_begin_durable(service->store);

	if (r < 0)
		return r;
	r = save_departed(service, root);
	while (r == 0 && (key = map_next(&service->accounts->keys_by_id, &cursor))) {
		if (!goes_with(key, root))
			continue;
		r = store_key_delete(service->store, key->id);
		if (r == 0)
			r = store_idempotency_delete_owner(service->store, key->id);
		if (r == 0 && key->things && root->parent)
			r = store_departed_put(service->store, key->id, root->parent->id);
	}
	return store_end(service->store, r);
}

static void drop_departed(struct service *service, const struct key *root)
{
	struct departed *departed, *gone;
	size_t cursor;

	do { /* removing an entry changes the map */
		gone = NULL;
		cursor = 0;
		while (!gone && (departed = map_next(&service->accounts->departed, &cursor))) {
			const struct key *payer = auth_by_id(service, departed->payer);

			if (!payer || !goes_with(payer, root))
				continue;
			if (root->parent)
				memcpy(departed->payer, root->parent->id, sizeof(departed->payer));
			else
				gone = departed;
		}
		if (gone) {
			(void)map_take(&service->accounts->departed, str_of(gone->id));
			free(gone);
		}
	} while (gone);
}

static struct key *find_leaf(const struct service *service, const struct key *root)
{
	struct key *key;
	size_t cursor = 0;

	while ((key = map_next(&service->accounts->keys_by_id, &cursor)))
		if (key_is_below(key, root) && key_count_below(service, key) == 0)
			return key;
	return NULL;
}

static void drop_key(struct service *service, struct key *key, const struct key *payer)
{
	if (key->things && payer && add_departed(service, key->id, payer->id, key->things) < 0)
		log_warn("sandboxes and snapshots of the deleted key %s are not counted until the "
			 "next start",
			 key->id);
	webhook_key_deleted(service, key->id);
	secret_key_deleted(service, key->id);
	auth_forget(service, key);
}

int key_remove(struct service *service, struct key *root)
{
	const struct key *payer = root->parent;
	struct key *leaf;
	int r = save_removal(service, root);

	if (r < 0)
		return r;
	drop_departed(service, root);
	while ((leaf = find_leaf(service, root)))
		drop_key(service, leaf, payer);
	drop_key(service, root, payer);
	return 0;
}

/* ---- start and end ---- */

static int on_departed(void *arg, const char *id, const char *payer)
{
	return add_departed(arg, id, payer, 0);
}

int key_tree_load(struct service *service)
{
	struct key *key;
	size_t cursor = 0;

	while ((key = map_next(&service->accounts->keys_by_id, &cursor)))
		key->parent = key->parent_id[0] ? auth_by_id(service, key->parent_id) : NULL;
	return store_departed_each(service->store, on_departed, service);
}

void key_tree_settle(struct service *service)
{
	struct departed *departed;
	size_t cursor = 0;

	while ((departed = map_next(&service->accounts->departed, &cursor)))
		if (!departed->things || !auth_by_id(service, departed->payer)) {
			forget(service, departed);
			cursor = 0;
		}
}

void key_tree_done(struct service *service)
{
	struct departed *departed;
	size_t cursor = 0;

	while ((departed = map_next(&service->accounts->departed, &cursor)))
		free(departed);
	map_done(&service->accounts->departed);
}
