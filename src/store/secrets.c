/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <errno.h>

#include "store/statement.h"

int store_secret_put(struct store *store, const struct store_secret *row)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_SECRET_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, row->id);
	statement_bind_text(stmt, 2, row->owner);
	statement_bind_text(stmt, 3, row->name);
	(void)sqlite3_bind_int64(stmt, 4, row->scope);
	statement_bind_text(stmt, 5, row->scope_id);
	statement_bind_text(stmt, 6, row->hosts);
	(void)sqlite3_bind_int64(stmt, 7, row->version);
	(void)sqlite3_bind_int64(stmt, 8, row->created_ms);
	(void)sqlite3_bind_int64(stmt, 9, row->updated_ms);
	(void)sqlite3_bind_int64(stmt, 10, row->deleted_ms);
	return statement_run(stmt);
}

int store_secret_delete(struct store *store, const char *id)
{
	int r = store_secret_version_trim(store, id, INT64_MAX);

	return r < 0 ? r : statement_run_text(store, STATEMENT_SECRET_DELETE, id);
}

static int read_secret(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	struct store_secret row = {
		.id = statement_text(stmt, 0),
		.owner = statement_text(stmt, 1),
		.name = statement_text(stmt, 2),
		.scope = sqlite3_column_int64(stmt, 3),
		.scope_id = statement_text(stmt, 4),
		.hosts = statement_text(stmt, 5),
		.version = sqlite3_column_int64(stmt, 6),
		.created_ms = sqlite3_column_int64(stmt, 7),
		.updated_ms = sqlite3_column_int64(stmt, 8),
		.deleted_ms = sqlite3_column_int64(stmt, 9),
	};

	return ((store_secret_fn)fn)(arg, &row);
}

int store_secret_each(struct store *store, store_secret_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_SECRET_EACH, read_secret, (statement_fn)fn, arg);
}

int store_secret_version_put(struct store *store, const char *secret_id, int64_t version,
			     struct str sealed)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_SECRET_VERSION_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, secret_id);
	(void)sqlite3_bind_int64(stmt, 2, version);
	statement_bind_blob(stmt, 3, sealed);
	return statement_run(stmt);
}

int store_secret_version_trim(struct store *store, const char *secret_id, int64_t first)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_SECRET_VERSION_TRIM, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, secret_id);
	(void)sqlite3_bind_int64(stmt, 2, first);
	return statement_run(stmt);
}

static int read_secret_version(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	return ((store_secret_version_fn)fn)(arg, statement_text(stmt, 0),
					     sqlite3_column_int64(stmt, 1),
					     statement_blob(stmt, 2));
}

int store_secret_version_each(struct store *store, store_secret_version_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_SECRET_VERSION_EACH, read_secret_version,
			      (statement_fn)fn, arg);
}

int store_grant_put(struct store *store, int64_t at, const struct store_grant *row)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_GRANT_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, row->sandbox_id);
	(void)sqlite3_bind_int64(stmt, 2, at);
	statement_bind_text(stmt, 3, row->secret_id);
	(void)sqlite3_bind_int64(stmt, 4, row->way);
	statement_bind_text(stmt, 5, row->env);
	statement_bind_text(stmt, 6, row->hosts);
	statement_bind_text(stmt, 7, row->placeholder);
	return statement_run(stmt);
}

int store_grant_delete(struct store *store, const char *sandbox_id)
{
	return statement_run_text(store, STATEMENT_GRANT_DELETE, sandbox_id);
}

static int read_grant(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	struct store_grant row = {
		.sandbox_id = statement_text(stmt, 0),
		.secret_id = statement_text(stmt, 1),
		.way = sqlite3_column_int64(stmt, 2),
		.env = statement_text(stmt, 3),
		.hosts = statement_text(stmt, 4),
		.placeholder = statement_text(stmt, 5),
	};

	return ((store_grant_fn)fn)(arg, &row);
}

int store_grant_each(struct store *store, store_grant_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_GRANT_EACH, read_grant, (statement_fn)fn, arg);
}

int store_authority_put(struct store *store, const char *sandbox_id, struct str sealed)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_AUTHORITY_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, sandbox_id);
	statement_bind_blob(stmt, 2, sealed);
	return statement_run(stmt);
}

int store_authority_get(struct store *store, const char *sandbox_id, char **ret, size_t *ret_len)
{
	int r = 0, code;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_AUTHORITY_GET, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, sandbox_id);
	code = sqlite3_step(stmt);
	if (code == SQLITE_ROW) {
		struct str sealed = statement_blob(stmt, 0);

		*ret = malloc(sealed.n + 1);
		if (*ret) {
			memcpy(*ret, sealed.p, sealed.n);
			*ret_len = sealed.n;
		}
		r = *ret ? 1 : -ENOMEM;
	} else {
		r = store_errno(code);
	}
	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return r;
}

int store_authority_delete(struct store *store, const char *sandbox_id)
{
	return statement_run_text(store, STATEMENT_AUTHORITY_DELETE, sandbox_id);
}

int store_authority_trim(struct store *store)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_AUTHORITY_TRIM, &r);

	return stmt ? statement_run(stmt) : r;
}
