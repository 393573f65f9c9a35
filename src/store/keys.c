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
	return statement_run(stmt);
}

int store_key_delete(struct store *store, const char *id)
{
	return statement_run_text(store, STATEMENT_KEY_DELETE, id);
}

int store_key_each(struct store *store, store_key_fn fn, void *arg)
{
	int r = 0, code;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_KEY_EACH, &r);

	if (!stmt)
		return r;
	while ((code = sqlite3_step(stmt)) == SQLITE_ROW && r == 0) {
		struct store_key key = {
			.id = statement_text(stmt, 0),
			.name = statement_text(stmt, 1),
			.scopes = (uint32_t)sqlite3_column_int64(stmt, 3),
			.created_ms = sqlite3_column_int64(stmt, 4),
		};
		struct str hash = statement_blob(stmt, 2);

		if (hash.n != sizeof(key.hash)) {
			r = -EUCLEAN;
			break;
		}
		memcpy(key.hash, hash.p, sizeof(key.hash));
		for (int i = 0; i < STORE_KEY_LIMITS; i++)
			key.limits[i] = sqlite3_column_int64(stmt, 5 + i);
		r = fn(arg, &key);
	}
	(void)sqlite3_reset(stmt);
	return r ? r : store_errno(code);
}
