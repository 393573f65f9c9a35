/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "store/statement.h"

int store_intent_put(struct store *store, int64_t row, enum store_intent kind, int64_t now_ms)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_INTENT_PUT, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, row);
	(void)sqlite3_bind_int(stmt, 2, (int)kind);
	(void)sqlite3_bind_int64(stmt, 3, now_ms);
	return statement_run(stmt);
}

int store_intent_delete(struct store *store, int64_t row)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_INTENT_DELETE, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, row);
	return statement_run(stmt);
}

static int read_intent(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	return ((store_intent_fn)fn)(arg, sqlite3_column_int64(stmt, 0),
				     (enum store_intent)sqlite3_column_int(stmt, 1));
}

int store_intent_each(struct store *store, store_intent_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_INTENT_EACH, read_intent, (statement_fn)fn, arg);
}
