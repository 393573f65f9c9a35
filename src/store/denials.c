/* SPDX-License-Identifier: Apache-2.0 */
#include "store/statement.h"

int store_denials_put(struct store *store, const char *sandbox_id, struct str list)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_DENIALS_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, sandbox_id);
	statement_bind_blob(stmt, 2, list);
	return statement_run(stmt);
}

int store_denials_delete(struct store *store, const char *sandbox_id)
{
	return statement_run_text(store, STATEMENT_DENIALS_DELETE, sandbox_id);
}

int store_denials_trim(struct store *store)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_DENIALS_TRIM, &r);

	return stmt ? statement_run(stmt) : r;
}

int store_denials_each(struct store *store,
		       void (*fn)(void *arg, const char *sandbox_id, struct str list), void *arg)
{
	int r = 0, code;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_DENIALS_EACH, &r);

	if (!stmt)
		return r;
	while ((code = sqlite3_step(stmt)) == SQLITE_ROW)
		fn(arg, statement_text(stmt, 0), statement_blob(stmt, 1));
	(void)sqlite3_reset(stmt);
	return store_errno(code);
}
