/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "store/statement.h"

int store_webhook_put(struct store *store, const struct store_webhook *hook)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_WEBHOOK_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, hook->id);
	(void)sqlite3_bind_int64(stmt, 2, hook->seq);
	statement_bind_text(stmt, 3, hook->owner);
	statement_bind_text(stmt, 4, hook->url);
	statement_bind_text(stmt, 5, hook->description);
	statement_bind_text(stmt, 6, hook->events);
	statement_bind_text(stmt, 7, hook->external_workspace_id);
	statement_bind_text(stmt, 8, hook->secret);
	(void)sqlite3_bind_int(stmt, 9, hook->enabled);
	statement_bind_text(stmt, 10, hook->disabled_reason);
	(void)sqlite3_bind_int64(stmt, 11, hook->created_ms);
	(void)sqlite3_bind_int64(stmt, 12, hook->failing_ms);
	(void)sqlite3_bind_int64(stmt, 13, hook->missed);
	(void)sqlite3_bind_int64(stmt, 14, hook->cursor);
	return statement_run(stmt);
}

int store_webhook_set_cursor(struct store *store, const char *id, int64_t cursor,
			     int64_t failing_ms, int64_t missed)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_WEBHOOK_CURSOR, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, id);
	(void)sqlite3_bind_int64(stmt, 2, cursor);
	(void)sqlite3_bind_int64(stmt, 3, failing_ms);
	(void)sqlite3_bind_int64(stmt, 4, missed);
	return statement_run(stmt);
}

int store_webhook_delete(struct store *store, const char *id)
{
	int r = statement_run_text(store, STATEMENT_DEAD_DELETE_ALL, id);

	return r < 0 ? r : statement_run_text(store, STATEMENT_WEBHOOK_DELETE, id);
}

static int read_webhook(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	struct store_webhook hook = {
		.id = statement_text(stmt, 0),
		.seq = sqlite3_column_int64(stmt, 1),
		.owner = statement_text(stmt, 2),
		.url = statement_text(stmt, 3),
		.description = statement_text(stmt, 4),
		.events = statement_text(stmt, 5),
		.external_workspace_id = statement_text(stmt, 6),
		.secret = statement_text(stmt, 7),
		.enabled = sqlite3_column_int(stmt, 8) != 0,
		.disabled_reason = statement_text(stmt, 9),
		.created_ms = sqlite3_column_int64(stmt, 10),
		.failing_ms = sqlite3_column_int64(stmt, 11),
		.missed = sqlite3_column_int64(stmt, 12),
		.cursor = sqlite3_column_int64(stmt, 13),
	};

	return ((store_webhook_fn)fn)(arg, &hook);
}

int store_webhook_each(struct store *store, store_webhook_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_WEBHOOK_EACH, read_webhook, (statement_fn)fn, arg);
}

/* ---- deliveries that were given up ---- */

int store_dead_put(struct store *store, const struct store_dead *dead, int64_t keep)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_DEAD_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, dead->hook);
	(void)sqlite3_bind_int64(stmt, 2, dead->event);
	statement_bind_text(stmt, 3, dead->type);
	(void)sqlite3_bind_int64(stmt, 4, dead->ms);
	(void)sqlite3_bind_int64(stmt, 5, dead->attempts);
	(void)sqlite3_bind_int64(stmt, 6, dead->status);
	statement_bind_text(stmt, 7, dead->error);
	(void)sqlite3_bind_blob64(stmt, 8, dead->body.p, dead->body.n, SQLITE_STATIC);
	r = statement_run(stmt);
	if (r < 0)
		return r;
	stmt = statement_get(store, STATEMENT_DEAD_TRIM, &r);
	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, dead->hook);
	(void)sqlite3_bind_int64(stmt, 2, keep);
	return statement_run(stmt);
}

static int read_dead(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	struct store_dead dead = { .hook = statement_text(stmt, 7),
				   .event = sqlite3_column_int64(stmt, 0),
				   .type = statement_text(stmt, 1),
				   .ms = sqlite3_column_int64(stmt, 2),
				   .attempts = sqlite3_column_int64(stmt, 3),
				   .status = sqlite3_column_int64(stmt, 4),
				   .error = statement_text(stmt, 5),
				   .body = statement_blob(stmt, 6) };

	return ((store_dead_fn)fn)(arg, &dead);
}

int store_dead_each(struct store *store, const char *hook, int64_t after, int64_t limit,
		    store_dead_fn fn, void *arg)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_DEAD_EACH, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, hook);
	(void)sqlite3_bind_int64(stmt, 2, after);
	(void)sqlite3_bind_int64(stmt, 3, limit);
	return statement_rows(stmt, read_dead, (statement_fn)fn, arg);
}

int store_dead_count(struct store *store, const char *hook, int64_t *ret)
{
	int r = 0, code;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_DEAD_COUNT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, hook);
	code = sqlite3_step(stmt);
	*ret = code == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return store_errno(code);
}

int store_dead_delete(struct store *store, const char *hook, int64_t event)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_DEAD_DELETE, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, hook);
	(void)sqlite3_bind_int64(stmt, 2, event);
	return statement_run(stmt);
}
