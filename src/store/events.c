/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "store/statement.h"

int store_event_put(struct store *store, const struct store_event *event)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_EVENT_PUT, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, event->id);
	(void)sqlite3_bind_int64(stmt, 2, event->ms);
	statement_bind_text(stmt, 3, event->type);
	statement_bind_text(stmt, 4, event->sandbox_id);
	statement_bind_text(stmt, 5, event->owner);
	statement_bind_text(stmt, 6, event->external_workspace_id);
	(void)sqlite3_bind_text(stmt, 7, event->data.p, (int)event->data.n, SQLITE_STATIC);
	statement_bind_text(stmt, 8, event->tenant);
	return statement_run(stmt);
}

/* Reads the numbers of a statement's only row. */
static int read_row(sqlite3_stmt *stmt, int64_t *const *ret, int count)
{
	int code = sqlite3_step(stmt);

	for (int i = 0; i < count; i++)
		*ret[i] = code == SQLITE_ROW ? sqlite3_column_int64(stmt, i) : 0;
	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return store_errno(code);
}

int store_event_range(struct store *store, int64_t *ret_first, int64_t *ret_last,
		      int64_t *ret_count)
{
	int64_t *const ret[] = { ret_first, ret_last, ret_count };
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_EVENT_RANGE, &r);

	return stmt ? read_row(stmt, ret, 3) : r;
}

static int read_event(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	struct str data = { statement_text(stmt, 6), 0 };
	struct store_event event = { .id = sqlite3_column_int64(stmt, 0),
				     .ms = sqlite3_column_int64(stmt, 1),
				     .type = statement_text(stmt, 2),
				     .sandbox_id = statement_text(stmt, 3),
				     .owner = statement_text(stmt, 4),
				     .external_workspace_id = statement_text(stmt, 5),
				     .tenant = statement_text(stmt, 7) };

	data.n = data.p ? (size_t)sqlite3_column_bytes(stmt, 6) : 0;
	event.data = data;
	return ((store_event_fn)fn)(arg, &event);
}

int store_event_each(struct store *store, int64_t after, int64_t limit, store_event_fn fn,
		     void *arg)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_EVENT_EACH, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, after);
	(void)sqlite3_bind_int64(stmt, 2, limit);
	return statement_rows(stmt, read_event, (statement_fn)fn, arg);
}

int store_event_of(struct store *store, const char *sandbox_id, const char *owner)
{
	int r = 0, code;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_EVENT_OF, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, sandbox_id);
	statement_bind_text(stmt, 2, owner);
	code = sqlite3_step(stmt);
	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return code == SQLITE_ROW ? 1 : store_errno(code);
}

int store_event_told_end(struct store *store, const char *sandbox_id, uint32_t process_id)
{
	int r = 0, code;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_EVENT_END, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, sandbox_id);
	(void)sqlite3_bind_int64(stmt, 2, process_id);
	code = sqlite3_step(stmt);
	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return code == SQLITE_ROW ? 1 : store_errno(code);
}

int store_event_nth(struct store *store, const char *tenant, int64_t count, int64_t *ret)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_EVENT_NTH, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, count - 1);
	statement_bind_text(stmt, 2, tenant);
	return read_row(stmt, &ret, 1);
}

int store_event_older(struct store *store, int64_t before_ms, int64_t limit, int64_t *ret)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_EVENT_OLDER, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, before_ms);
	(void)sqlite3_bind_int64(stmt, 2, limit);
	return read_row(stmt, &ret, 1);
}

static int read_share(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	return ((store_event_share_fn)fn)(arg, statement_text(stmt, 0),
					  sqlite3_column_int64(stmt, 1));
}

int store_event_shares(struct store *store, store_event_share_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_EVENT_SHARES, read_share, (statement_fn)fn, arg);
}

static int run_upto(struct store *store, enum statement which, int64_t upto, const char *tenant)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, which, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, upto);
	if (tenant)
		statement_bind_text(stmt, 2, tenant);
	return statement_run(stmt);
}

static int remember_trim(struct store *store, const char *tenant, int64_t upto)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_EVENT_TRIMMED_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, tenant);
	(void)sqlite3_bind_int64(stmt, 2, upto);
	return statement_run(stmt);
}

int store_event_trim(struct store *store, const char *tenant, int64_t upto)
{
	int r = run_upto(store, tenant ? STATEMENT_EVENT_TRIM_TENANT : STATEMENT_EVENT_TRIM, upto,
			 tenant);

	if (r < 0)
		return r;
	return tenant ? remember_trim(store, tenant, upto)
		      : run_upto(store, STATEMENT_EVENT_TRIMS_EXPIRE, upto, NULL);
}

int store_event_trimmed(struct store *store, const char *tenant, int64_t *ret)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(
		store, tenant ? STATEMENT_EVENT_TRIMMED : STATEMENT_EVENT_TRIMMED_ANY, &r);

	if (!stmt)
		return r;
	if (tenant)
		statement_bind_text(stmt, 1, tenant);
	return read_row(stmt, &ret, 1);
}
