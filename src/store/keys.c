/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <errno.h>

#include "store/statement.h"

int store_key_put(struct store *store, const struct store_key *key)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_KEY_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, key->id);
	statement_bind_text(stmt, 2, key->name);
	(void)sqlite3_bind_blob(stmt, 3, key->hash, sizeof(key->hash), SQLITE_STATIC);
	(void)sqlite3_bind_int64(stmt, 4, key->scopes);
	(void)sqlite3_bind_int64(stmt, 5, key->created_ms);
	for (int i = 0; i < STORE_KEY_LIMITS; i++)
		(void)sqlite3_bind_int64(stmt, 6 + i, key->limits[i]);
	statement_bind_text(stmt, 6 + STORE_KEY_LIMITS, key->parent);
	return statement_run(stmt);
}

int store_key_delete(struct store *store, const char *id)
{
	return statement_run_text(store, STATEMENT_KEY_DELETE, id);
}

static int read_key(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	struct store_key key = {
		.id = statement_text(stmt, 0),
		.name = statement_text(stmt, 1),
		.scopes = (uint32_t)sqlite3_column_int64(stmt, 3),
		.created_ms = sqlite3_column_int64(stmt, 4),
	};
	struct str hash = statement_blob(stmt, 2);

	if (hash.n != sizeof(key.hash))
		return -EUCLEAN;
	memcpy(key.hash, hash.p, sizeof(key.hash));
	for (int i = 0; i < STORE_KEY_LIMITS; i++)
		key.limits[i] = sqlite3_column_int64(stmt, 5 + i);
	key.parent = statement_text(stmt, 5 + STORE_KEY_LIMITS);
	return ((store_key_fn)fn)(arg, &key);
}

int store_key_each(struct store *store, store_key_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_KEY_EACH, read_key, (statement_fn)fn, arg);
}

int store_departed_put(struct store *store, const char *id, const char *payer)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_DEPARTED_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, id);
	statement_bind_text(stmt, 2, payer);
	return statement_run(stmt);
}

int store_departed_delete(struct store *store, const char *id)
{
	return statement_run_text(store, STATEMENT_DEPARTED_DELETE, id);
}

static int read_departed(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	return ((store_departed_fn)fn)(arg, statement_text(stmt, 0), statement_text(stmt, 1));
}

int store_departed_each(struct store *store, store_departed_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_DEPARTED_EACH, read_departed, (statement_fn)fn, arg);
}
