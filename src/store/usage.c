/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "store/statement.h"

int store_usage_put(struct store *store, const struct store_usage *usage)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_USAGE_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, usage->sandbox_id);
	(void)sqlite3_bind_int64(stmt, 2, usage->from_ms);
	(void)sqlite3_bind_int(stmt, 3, (int)usage->kind);
	(void)sqlite3_bind_int64(stmt, 4, usage->to_ms);
	statement_bind_text(stmt, 5, usage->owner);
	statement_bind_text(stmt, 6, usage->external_workspace_id);
	statement_bind_milli(stmt, 7, usage->cpu_milli);
	(void)sqlite3_bind_int64(stmt, 8, usage->memory_mb);
	(void)sqlite3_bind_int64(stmt, 9, usage->disk_bytes);
	return statement_run(stmt);
}

static int read_usage(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	struct store_usage usage = {
		.sandbox_id = statement_text(stmt, 0),
		.from_ms = sqlite3_column_int64(stmt, 1),
		.kind = (enum store_usage_kind)sqlite3_column_int(stmt, 2),
		.owner = statement_text(stmt, 4),
		.external_workspace_id = statement_text(stmt, 5),
		.cpu_milli = statement_milli(stmt, 6),
		.memory_mb = sqlite3_column_int64(stmt, 7),
		.disk_bytes = sqlite3_column_int64(stmt, 8),
	};

	return ((store_usage_fn)fn)(arg, &usage);
}

int store_usage_each_open(struct store *store, store_usage_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_USAGE_OPEN, read_usage, (statement_fn)fn, arg);
}

int store_usage_close(struct store *store, const char *sandbox_id, int64_t to_ms)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_USAGE_CLOSE, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, sandbox_id);
	(void)sqlite3_bind_int64(stmt, 2, to_ms);
	return statement_run(stmt);
}

int store_usage_last(struct store *store, const char *sandbox_id, int64_t *ret)
{
	int r = 0, code;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_USAGE_LAST, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, sandbox_id);
	code = sqlite3_step(stmt);
	*ret = code == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return store_errno(code);
}

int store_usage_expire(struct store *store, int64_t before_ms)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_USAGE_EXPIRE, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, before_ms);
	r = statement_run(stmt);
	stmt = r < 0 ? NULL : statement_get(store, STATEMENT_USAGE_EXPIRE_DAYS, &r);
	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, before_ms / STORE_DAY_MS);
	return statement_run(stmt);
}

int store_usage_roll(struct store *store, int64_t to_ms, int64_t limit)
{
	static const enum statement both[] = { STATEMENT_USAGE_ROLL, STATEMENT_USAGE_ROLLED };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(both); i++) {
		sqlite3_stmt *stmt = statement_get(store, both[i], &r);

		if (!stmt)
			return r;
		(void)sqlite3_bind_int64(stmt, 1, to_ms);
		(void)sqlite3_bind_int64(stmt, 2, limit);
		r = statement_run(stmt);
	}
	return r < 0 ? r : sqlite3_changes(store->db);
}

static int read_sum(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	struct store_usage_sum sum = {
		.owner = statement_text(stmt, 0),
		.external_workspace_id = statement_text(stmt, 1),
		.sandboxes = sqlite3_column_int64(stmt, 2),
		.running_ms = sqlite3_column_int64(stmt, 3),
		.paused_ms = sqlite3_column_int64(stmt, 4),
		.vcpu_ms = sqlite3_column_double(stmt, 5),
		.memory_mb_ms = sqlite3_column_double(stmt, 6),
		.storage_byte_ms = sqlite3_column_double(stmt, 7),
	};

	return ((store_usage_sum_fn)fn)(arg, &sum);
}

int store_usage_sum(struct store *store, const struct store_usage_query *query,
		    store_usage_sum_fn fn, void *arg)
{
	enum statement which = query->sandbox_id ? STATEMENT_USAGE_SUM_SANDBOX
			       : query->owner	 ? STATEMENT_USAGE_SUM_OWNER
						 : STATEMENT_USAGE_SUM;
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, which, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, query->from_ms);
	(void)sqlite3_bind_int64(stmt, 2, query->to_ms);
	(void)sqlite3_bind_int64(stmt, 3, query->now_ms);
	statement_bind_text(stmt, 4, query->owner);
	statement_bind_text(stmt, 5, query->external_workspace_id);
	statement_bind_text(stmt, 6, query->sandbox_id);
	(void)sqlite3_bind_int64(stmt, 7, query->from_ms / STORE_DAY_MS);
	(void)sqlite3_bind_int64(stmt, 8, (query->to_ms + STORE_DAY_MS - 1) / STORE_DAY_MS);
	return statement_rows(stmt, read_sum, (statement_fn)fn, arg);
}
