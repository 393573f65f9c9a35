/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <errno.h>

#include "store/statement.h"

static void bind_row(sqlite3_stmt *stmt, const struct store_sandbox *row)
{
	const char *const texts[] = { row->id,
				      row->name,
				      row->owner,
				      row->state,
				      row->reason,
				      row->engine,
				      row->template_name,
				      row->template_hash,
				      row->boot_path,
				      row->pool_mode,
				      row->external_workspace_id,
				      row->last_error,
				      row->pause_kind,
				      row->from_id,
				      row->on_timeout,
				      row->clock,
				      row->network };
	const int64_t numbers[] = { row->memory_mb,	   row->disk_size_mb, row->timeout_sec,
				    row->idle_timeout_sec, row->created_ms,   row->started_ms,
				    row->expires_ms,	   row->boot_us,      row->due_ms,
				    row->left_ms,	   row->idle_left_ms };
	int at = 1;

	(void)sqlite3_bind_int64(stmt, at++, row->row);
	(void)sqlite3_bind_int64(stmt, at++, row->seq);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		statement_bind_text(stmt, at++, texts[i]);
	statement_bind_blob(stmt, at++, row->env);
	statement_bind_blob(stmt, at++, row->metadata);
	(void)sqlite3_bind_int64(stmt, at++, row->pooled);
	(void)sqlite3_bind_int64(stmt, at++, row->always_on);
	(void)sqlite3_bind_int64(stmt, at++, row->auto_resume);
	statement_bind_milli(stmt, at++, row->cpu_milli);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		(void)sqlite3_bind_int64(stmt, at++, numbers[i]);
}

int store_sandbox_put(struct store *store, const struct store_sandbox *row)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_SANDBOX_PUT, &r);

	if (!stmt)
		return r;
	bind_row(stmt, row);
	return statement_run(stmt);
}

int store_sandbox_set_state(struct store *store, int64_t row, const char *state, const char *reason,
			    const char *last_error)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_SANDBOX_STATE, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, row);
	statement_bind_text(stmt, 2, state);
	statement_bind_text(stmt, 3, reason);
	statement_bind_text(stmt, 4, last_error);
	return statement_run(stmt);
}

int store_sandbox_delete(struct store *store, int64_t row)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_SANDBOX_DELETE, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_int64(stmt, 1, row);
	return statement_run(stmt);
}

static void read_row(sqlite3_stmt *stmt, struct store_sandbox *row)
{
	*row = (struct store_sandbox){
		.row = sqlite3_column_int64(stmt, 0),
		.seq = sqlite3_column_int64(stmt, 1),
		.id = statement_text(stmt, 2),
		.name = statement_text(stmt, 3),
		.owner = statement_text(stmt, 4),
		.state = statement_text(stmt, 5),
		.reason = statement_text(stmt, 6),
		.engine = statement_text(stmt, 7),
		.template_name = statement_text(stmt, 8),
		.template_hash = statement_text(stmt, 9),
		.boot_path = statement_text(stmt, 10),
		.pool_mode = statement_text(stmt, 11),
		.external_workspace_id = statement_text(stmt, 12),
		.last_error = statement_text(stmt, 13),
		.pause_kind = statement_text(stmt, 14),
		.from_id = statement_text(stmt, 15),
		.on_timeout = statement_text(stmt, 16),
		.clock = statement_text(stmt, 17),
		.network = statement_text(stmt, 18),
		.env = statement_blob(stmt, 19),
		.metadata = statement_blob(stmt, 20),
		.pooled = sqlite3_column_int(stmt, 21) != 0,
		.always_on = sqlite3_column_int(stmt, 22) != 0,
		.auto_resume = sqlite3_column_int(stmt, 23) != 0,
		.cpu_milli = statement_milli(stmt, 24),
		.memory_mb = sqlite3_column_int64(stmt, 25),
		.disk_size_mb = sqlite3_column_int64(stmt, 26),
		.timeout_sec = sqlite3_column_int64(stmt, 27),
		.idle_timeout_sec = sqlite3_column_int64(stmt, 28),
		.created_ms = sqlite3_column_int64(stmt, 29),
		.started_ms = sqlite3_column_int64(stmt, 30),
		.expires_ms = sqlite3_column_int64(stmt, 31),
		.boot_us = sqlite3_column_int64(stmt, 32),
		.due_ms = sqlite3_column_int64(stmt, 33),
		.left_ms = sqlite3_column_int64(stmt, 34),
		.idle_left_ms = sqlite3_column_int64(stmt, 35),
	};
}

static int read_sandbox(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	struct store_sandbox row;

	read_row(stmt, &row);
	return ((store_sandbox_fn)fn)(arg, &row);
}

int store_sandbox_each(struct store *store, store_sandbox_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_SANDBOX_EACH, read_sandbox, (statement_fn)fn, arg);
}
