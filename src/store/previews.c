/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <errno.h>

#include "store/statement.h"

int store_preview_put(struct store *store, const struct store_preview *row)
{
	const int64_t numbers[] = { row->port,	     row->visibility, row->host_header,
				    row->created_ms, row->expires_ms, row->requests,
				    row->bytes_in,   row->bytes_out,  row->connections };
	int r = 0, at = 1;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_PREVIEW_PUT, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, at++, row->id);
	statement_bind_text(stmt, at++, row->sandbox_id);
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		(void)sqlite3_bind_int64(stmt, at++, numbers[i]);
	return statement_run(stmt);
}

int store_preview_delete(struct store *store, const char *id)
{
	int r = statement_run_text(store, STATEMENT_PREVIEW_DELETE, id);

	return r < 0 ? r : statement_run_text(store, STATEMENT_PREVIEW_TOKENS_DELETE, id);
}

static int read_preview(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	struct store_preview row = {
		.id = statement_text(stmt, 0),
		.sandbox_id = statement_text(stmt, 1),
		.port = sqlite3_column_int64(stmt, 2),
		.visibility = sqlite3_column_int64(stmt, 3),
		.host_header = sqlite3_column_int64(stmt, 4),
		.created_ms = sqlite3_column_int64(stmt, 5),
		.expires_ms = sqlite3_column_int64(stmt, 6),
		.requests = sqlite3_column_int64(stmt, 7),
		.bytes_in = sqlite3_column_int64(stmt, 8),
		.bytes_out = sqlite3_column_int64(stmt, 9),
		.connections = sqlite3_column_int64(stmt, 10),
	};

	return ((store_preview_fn)fn)(arg, &row);
}

int store_preview_each(struct store *store, store_preview_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_PREVIEW_EACH, read_preview, (statement_fn)fn, arg);
}

int store_preview_token_put(struct store *store, const struct store_preview_token *token)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, STATEMENT_PREVIEW_TOKEN_PUT, &r);

	if (!stmt)
		return r;
	(void)sqlite3_bind_blob(stmt, 1, token->hash, sizeof(token->hash), SQLITE_STATIC);
	statement_bind_text(stmt, 2, token->preview_id);
	(void)sqlite3_bind_int64(stmt, 3, token->expires_ms);
	return statement_run(stmt);
}

int store_preview_tokens_delete(struct store *store, const char *preview_id)
{
	return statement_run_text(store, STATEMENT_PREVIEW_TOKENS_DELETE, preview_id);
}

static int read_preview_token(sqlite3_stmt *stmt, statement_fn fn, void *arg)
{
	struct store_preview_token token = { .preview_id = statement_text(stmt, 1),
					     .expires_ms = sqlite3_column_int64(stmt, 2) };
	struct str hash = statement_blob(stmt, 0);

	if (hash.n != sizeof(token.hash))
		return -EUCLEAN;
	memcpy(token.hash, hash.p, sizeof(token.hash));
	return ((store_preview_token_fn)fn)(arg, &token);
}

int store_preview_token_each(struct store *store, store_preview_token_fn fn, void *arg)
{
	return statement_each(store, STATEMENT_PREVIEW_TOKEN_EACH, read_preview_token,
			      (statement_fn)fn, arg);
}
