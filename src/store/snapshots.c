/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include "store/statement.h"

int store_snapshot_put(struct store *store, const struct store_snapshot *row)
{
	const char *const texts[] = { row->owner,	  row->sandbox_id, row->engine,
				      row->kind,	  row->state,	   row->template_name,
				      row->template_hash, row->comment };
	const int64_t numbers[] = { row->memory_mb, row->disk_size_mb, row->size_bytes,
				    row->created_ms, row->expires_ms };
	int r = 0, at = 1;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_SNAPSHOT_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, at++, row->id);
	(void)sqlite3_bind_int64(stmt, at++, row->seq);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		statement_bind_text(stmt, at++, texts[i]);
	statement_bind_blob(stmt, at++, row->env);
	statement_bind_milli(stmt, at++, row->cpu_milli);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		(void)sqlite3_bind_int64(stmt, at++, numbers[i]);
	statement_bind_text(stmt, at++, row->memory_error);
	return statement_run(stmt);
}

int store_snapshot_delete(struct store *store, const char *id)
{
	return statement_run_text(store, STATEMENT_SNAPSHOT_DELETE, id);
}

static void read_row(sqlite3_stmt *stmt, struct store_snapshot *row)
{
	*row = (struct store_snapshot){
		.id = statement_text(stmt, 0),
		.seq = sqlite3_column_int64(stmt, 1),
		.owner = statement_text(stmt, 2),
		.sandbox_id = statement_text(stmt, 3),
		.engine = statement_text(stmt, 4),
		.kind = statement_text(stmt, 5),
		.state = statement_text(stmt, 6),
		.template_name = statement_text(stmt, 7),
		.template_hash = statement_text(stmt, 8),
		.comment = statement_text(stmt, 9),
		.env = statement_blob(stmt, 10),
		.cpu_milli = statement_milli(stmt, 11),
		.memory_mb = sqlite3_column_int64(stmt, 12),
		.disk_size_mb = sqlite3_column_int64(stmt, 13),
		.size_bytes = sqlite3_column_int64(stmt, 14),
		.created_ms = sqlite3_column_int64(stmt, 15),
		.expires_ms = sqlite3_column_int64(stmt, 16),
		.memory_error = statement_text(stmt, 17),
	};
}

static int read_snapshot(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	struct store_snapshot row;

	read_row(stmt, &row);
	return ((store_snapshot_fn)fn)(arg, &row);
}

int store_snapshot_each(struct store *store, store_snapshot_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_SNAPSHOT_EACH, read_snapshot, (statement_fn)fn, arg);
}
