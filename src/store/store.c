/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "store/statement.h"

static const char *const statement_sql[] = {
#define X(sym, sql) [STATEMENT_##sym] = sql,
	STATEMENT_TABLE(X)
#undef X
};

int store_errno(int code)
{
	switch (code & 0xff) {
	case SQLITE_OK:
	case SQLITE_DONE:
	case SQLITE_ROW:
		return 0;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return -EBUSY;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EUCLEAN;
	case SQLITE_CONSTRAINT:
		return -EEXIST;
	case SQLITE_PERM:
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
		return -EACCES;
	default:
		return -EIO;
	}
}

sqlite3_stmt *statement_get(struct store *store, enum statement which, int *ret_error)
{
	if (!store->statements[which]) {
		int code = sqlite3_prepare_v3(store->db, statement_sql[which], -1,
					      SQLITE_PREPARE_PERSISTENT, &store->statements[which],
					      NULL);

		if (code != SQLITE_OK) {
			*ret_error = store_errno(code);
			return NULL;
		}
	}
	return store->statements[which];
}

/* Test builds can be made to die before and after every write. */
static void journal_step(void)
{
	if (fault_due())
		/*
		 * as with kill -9, which the daemon's seccomp filter does not allow it to send to
		 * itself
		 */
		_exit(137);
}

int statement_run(sqlite3_stmt *stmt)
{
	int code;

	journal_step();
	code = sqlite3_step(stmt);

	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	journal_step();
	return store_errno(code);
}

int statement_rows(sqlite3_stmt *stmt, statement_row_fn row, statement_fn fn, void *arg)
{
	int r = 0, code = SQLITE_OK;

	while (r == 0 && (code = sqlite3_step(stmt)) == SQLITE_ROW)
		r = row(stmt, fn, arg);
	(void)sqlite3_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	return r ? r : store_errno(code);
}

int statement_each(struct store *store, enum statement which, statement_row_fn row, statement_fn fn,
		   void *arg)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, which, &r);

	return stmt ? statement_rows(stmt, row, fn, arg) : r;
}

/* Bound bytes must outlive the next step: every caller binds and runs in one function. */
void statement_bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
	(void)sqlite3_bind_text(stmt, at, text, -1, SQLITE_STATIC);
}

void statement_bind_milli(sqlite3_stmt *stmt, int at, int64_t milli)
{
	if (milli % 1000)
		(void)sqlite3_bind_double(stmt, at, (double)milli / 1000);
	else
		(void)sqlite3_bind_int64(stmt, at, milli / 1000);
}

int64_t statement_milli(sqlite3_stmt *stmt, int column)
{
	return (int64_t)(sqlite3_column_double(stmt, column) * 1000 + 0.5);
}

void statement_bind_blob(sqlite3_stmt *stmt, int at, struct str bytes)
{
	if (bytes.n)
		(void)sqlite3_bind_blob64(stmt, at, bytes.p, bytes.n, SQLITE_STATIC);
	else
		(void)sqlite3_bind_null(stmt, at);
}

const char *statement_text(sqlite3_stmt *stmt, int column)
{
	return (const char *)sqlite3_column_text(stmt, column);
}

struct str statement_blob(sqlite3_stmt *stmt, int column)
{
	const char *p = sqlite3_column_blob(stmt, column);

	return (struct str){ p ? p : "", p ? (size_t)sqlite3_column_bytes(stmt, column) : 0 };
}

static int on_wal(void *arg, sqlite3 *db, const char *name, int pages)
{
	struct store *store = arg;

	(void)db;
	(void)name;
	store->wal_pages = pages;
	return SQLITE_OK;
}

static int check_integrity(sqlite3 *db)
{
	sqlite3_stmt *stmt = NULL;
	int code = sqlite3_prepare_v2(db, "PRAGMA quick_check(1)", -1, &stmt, NULL);
	int r = store_errno(code);

	if (r == 0) {
		code = sqlite3_step(stmt);
		r = store_errno(code);
		if (r == 0 && code == SQLITE_ROW &&
		    strcmp((const char *)sqlite3_column_text(stmt, 0), "ok") != 0)
			r = -EUCLEAN;
	}
	(void)sqlite3_finalize(stmt);
	return r;
}

/* Creates the file here, so that neither it nor the WAL ever exists with wider permissions. */
static int make_file(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? -errno : 0;
}

static int open_connection(const char *path, const char *vfs, sqlite3 **ret)
{
	sqlite3 *db = NULL;
	int code = sqlite3_open_v2(
		path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, vfs);

	if (code == SQLITE_OK)
		code = sqlite3_exec(db,
				    "PRAGMA busy_timeout=2000;"
				    "PRAGMA journal_mode=WAL;"
				    "PRAGMA synchronous=NORMAL;"
				    "PRAGMA wal_autocheckpoint=0;"
				    "PRAGMA temp_store=MEMORY;"
				    "PRAGMA trusted_schema=OFF;"
				    "PRAGMA cache_size=-2048;",
				    NULL, NULL, NULL);
	if (code != SQLITE_OK) {
		(void)sqlite3_close_v2(db);
		return store_errno(code);
	}
	*ret = db;
	return 0;
}

static int open_both(const char *path, const char *vfs, struct store *store)
{
	int r = open_connection(path, vfs, &store->db);

	if (r == 0)
		r = check_integrity(store->db);
	if (r == 0)
		r = schema_migrate(store->db);
	if (r == 0)
		r = open_connection(path, vfs, &store->checkpoint_db);
	return r;
}

static void close_both(struct store *store)
{
	(void)sqlite3_close_v2(TAKE_PTR(store->checkpoint_db));
	(void)sqlite3_close_v2(TAKE_PTR(store->db));
}

int store_open(const char *path, struct store **ret)
{
	struct store *store;
	int r = make_file(path);

	if (r < 0)
		return r;
	store = calloc(1, sizeof(*store));
	if (!store)
		return -ENOMEM;
	r = open_both(path, NULL, store);
	/*
	 * SQLite needs eight pages of the disk for the index of the WAL. If the disk is full, the
	 * index is kept in memory, and other processes cannot read the database until the next
	 * start. A full disk is reported as an I/O error there.
	 */
	if (r == -ENOSPC || r == -EIO) {
		close_both(store);
		r = open_both(path, "unix-excl", store);
	}
	if (r < 0) {
		store_close(store);
		return r;
	}
	(void)sqlite3_wal_hook(store->db, on_wal, store);
	*ret = store;
	return 0;
}

void store_close(struct store *store)
{
	if (!store)
		return;
	for (size_t i = 0; i < ARRAY_LEN(store->statements); i++)
		(void)sqlite3_finalize(store->statements[i]);
	close_both(store);
	free(store);
}

static int run_plain(struct store *store, enum statement which)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, which, &r);

	return stmt ? statement_run(stmt) : r;
}

int statement_run_text(struct store *store, enum statement which, const char *text)
{
	int r = 0;
	sqlite3_stmt *stmt = statement_get(store, which, &r);

	if (!stmt)
		return r;
	statement_bind_text(stmt, 1, text);
	return statement_run(stmt);
}

static int begin(struct store *store)
{
	int r = store->depth ? 0 : run_plain(store, STATEMENT_BEGIN);

	store->depth += r == 0;
	return r;
}

int store_begin(struct store *store)
{
	return begin(store);
}

int store_begin_durable(struct store *store)
{
	int r;

	if (store->depth)
		return begin(store);
	r = store_errno(sqlite3_exec(store->db, "PRAGMA synchronous=FULL", NULL, NULL, NULL));
	if (r < 0)
		return r;
	store->durable = true;
	return begin(store);
}

static void end_durable(struct store *store)
{
	if (!store->durable)
		return;
	store->durable = false;
	(void)sqlite3_exec(store->db, "PRAGMA synchronous=NORMAL", NULL, NULL, NULL);
}

int store_commit(struct store *store)
{
	int r;

	if (store->depth > 1) {
		store->depth--;
		return store->broken ? -ECANCELED : 0;
	}
	r = store->broken ? -ECANCELED : 0;
	if (r == 0 && store->hooks.before)
		r = store->hooks.before(store->hooks.arg);
	if (r == 0)
		r = run_plain(store, STATEMENT_COMMIT);
	if (r < 0) {
		store_rollback(store);
		return r;
	}
	store->depth = 0;
	end_durable(store);
	if (store->hooks.after)
		store->hooks.after(store->hooks.arg);
	return 0;
}

void store_set_hooks(struct store *store, const struct store_hooks *hooks)
{
	store->hooks = hooks ? *hooks : (struct store_hooks){ .arg = NULL };
}

void store_rollback(struct store *store)
{
	if (store->depth > 1) {
		store->depth--;
		store->broken = true;
		return;
	}
	store->depth = 0;
	store->broken = false;
	store->rollbacks++;
	if (!sqlite3_get_autocommit(store->db))
		(void)!run_plain(store, STATEMENT_ROLLBACK);
	end_durable(store);
}

int store_end(struct store *store, int r)
{
	if (r >= 0)
		return store_commit(store);
	store_rollback(store);
	return r;
}

uint64_t store_rollbacks(const struct store *store)
{
	return store->rollbacks;
}

bool store_wants_checkpoint(const struct store *store)
{
	return store->wal_pages >= STORE_WAL_PAGES_MAX;
}

int store_checkpoint(struct store *store)
{
	return store_errno(sqlite3_wal_checkpoint_v2(store->checkpoint_db, NULL,
						     SQLITE_CHECKPOINT_PASSIVE, NULL, NULL));
}

void store_checkpoint_tail(struct store *store)
{
	if (store->wal_pages >= STORE_WAL_PAGES_HARD)
		(void)sqlite3_wal_checkpoint_v2(store->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL,
						NULL);
	/* The next commit sets the real value again. */
	store->wal_pages = 0;
}
