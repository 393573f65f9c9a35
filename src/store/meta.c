/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "store/statement.h"

int store_meta_get(struct store *store, const char *name, char *dst, size_t size)
{
	int r = 0, code;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_META_GET, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, name);
	code = sqlite3_step(stmt);
	if (code == SQLITE_ROW) {
		r = str_copy(dst, size, str_of(statement_text(stmt, 0)));
		if (r == 0)
			r = 1;
	} else {
		r = store_errno(code);
	}
	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return r;
}

int store_meta_put(struct store *store, const char *name, const char *value)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_META_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, name);
	statement_bind_text(stmt, 2, value);
	return statement_run(stmt);
}
