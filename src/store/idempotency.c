/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <errno.h>

#include "store/statement.h"

static void bind_key(sqlite3_stmt *stmt, const char *owner, struct str key)
{
	statement_bind_text(stmt, 1, owner);
	(void)sqlite3_bind_text(stmt, 2, key.p, (int)key.n, SQLITE_STATIC);
}

int store_idempotency_put(struct store *store, const char *owner, struct str key,
			  const uint8_t body_hash[STORE_BODY_HASH_SIZE], const char *sandbox_id,
			  const char *thing, int64_t now_ms)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_IDEMPOTENCY_PUT, &r);

	if (!stmt)
		return r;
	bind_key(stmt, owner, key);
	(void)sqlite3_bind_blob(stmt, 3, body_hash, STORE_BODY_HASH_SIZE, SQLITE_STATIC);
	statement_bind_text(stmt, 4, sandbox_id);
	(void)sqlite3_bind_int64(stmt, 5, now_ms);
	statement_bind_text(stmt, 6, thing);
	return statement_run(stmt);
}

int store_idempotency_finish(struct store *store, const char *owner, struct str key, int status,
			     struct str body, bool sealed)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_IDEMPOTENCY_FINISH, &r);

	if (!stmt)
		return r;
	bind_key(stmt, owner, key);
	(void)sqlite3_bind_int(stmt, 3, status);
	statement_bind_blob(stmt, 4, body);
	(void)sqlite3_bind_int(stmt, 5, sealed);
	return statement_run(stmt);
}

static int read_entry(sqlite3_stmt *stmt, struct store_idempotency *ret)
{
	struct str hash = statement_blob(stmt, 0), body = statement_blob(stmt, 3);
	const char *id = statement_text(stmt, 2), *thing = statement_text(stmt, 6);

	if (hash.n != STORE_BODY_HASH_SIZE)
		return -EUCLEAN;
	memset(ret, 0, sizeof(*ret));
	memcpy(ret->body_hash, hash.p, hash.n);
	ret->status = sqlite3_column_int(stmt, 1);
	ret->created_ms = sqlite3_column_int64(stmt, 4);
	ret->sealed = sqlite3_column_int(stmt, 5) != 0;
	if (str_copy(ret->sandbox_id, sizeof(ret->sandbox_id), str_of(id)) < 0 ||
	    str_copy(ret->thing, sizeof(ret->thing), str_of(thing)) < 0)
		return -EUCLEAN;
	if (!body.n)
		return 1;
	ret->body = malloc(body.n);
	if (!ret->body)
		return -ENOMEM;
	memcpy(ret->body, body.p, body.n);
	ret->body_bytes = body.n;
	return 1;
}

int store_idempotency_get(struct store *store, const char *owner, struct str key,
			  struct store_idempotency *ret)
{
	int r = 0, code;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_IDEMPOTENCY_GET, &r);

	if (!stmt)
		return r;
	bind_key(stmt, owner, key);
	code = sqlite3_step(stmt);
	r = code == SQLITE_ROW ? read_entry(stmt, ret) : store_errno(code);
	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return r;
}

int store_idempotency_delete(struct store *store, const char *owner, struct str key)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_IDEMPOTENCY_DELETE, &r);

	if (!stmt)
		return r;
	bind_key(stmt, owner, key);
	return statement_run(stmt);
}

static int read_begun(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	return ((store_begun_fn)fn)(arg, statement_text(stmt, 0), statement_text(stmt, 1));
}

int store_idempotency_begun(struct store *store, store_begun_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_IDEMPOTENCY_BEGUN, read_begun, (statement_fn)fn,
			      arg);
}

int store_idempotency_count(struct store *store, const char *owner, int64_t *ret_rows,
			    int64_t *ret_bytes)
{
	int r = 0, code;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_IDEMPOTENCY_COUNT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, owner);
	code = sqlite3_step(stmt);
	if (code == SQLITE_ROW) {
		*ret_rows = sqlite3_column_int64(stmt, 0);
		*ret_bytes = sqlite3_column_int64(stmt, 1);
	}
	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return store_errno(code);
}

int store_idempotency_trim(struct store *store, const char *owner, int64_t rows)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_IDEMPOTENCY_TRIM, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, owner);
	(void)sqlite3_bind_int64(stmt, 2, MAX(rows - 1, 0));
	return statement_run(stmt);
}

int store_idempotency_delete_owner(struct store *store, const char *owner)
{
	return statement_run_text(store, STATEMENT_IDEMPOTENCY_DELETE_OWNER, owner);
}

int store_idempotency_expire(struct store *store, int64_t before_ms)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_IDEMPOTENCY_EXPIRE, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, before_ms);
	return statement_run(stmt);
}
