/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The schema as a list of steps. A released step is never changed; a new one is added instead. All
 * missing steps run in one transaction, so a crash leaves either the old schema or the new one.
 */
#include <errno.h>

#include "store/statement.h"

static const char *const steps[] = {
	/*
	 * 1: the foundation. Rows of sandboxes are addressed by their own number, so that the hot
	 * path needs no second index; the daemon keeps names and ids unique in memory.
	 */
	"CREATE TABLE sandboxes("
	" row INTEGER PRIMARY KEY, seq INTEGER NOT NULL, id TEXT NOT NULL, name TEXT, owner TEXT,"
	" state TEXT NOT NULL, reason TEXT, engine TEXT NOT NULL, template_name TEXT NOT NULL,"
	" template_hash TEXT NOT NULL, boot_path TEXT, pool_mode TEXT,"
	" external_workspace_id TEXT, last_error TEXT, env BLOB, metadata BLOB,"
	" pooled INTEGER NOT NULL, always_on INTEGER NOT NULL, cpu_count INTEGER NOT NULL,"
	" memory_mb INTEGER NOT NULL, disk_size_mb INTEGER NOT NULL,"
	" timeout_sec INTEGER NOT NULL, idle_timeout_sec INTEGER NOT NULL,"
	" created_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,"
	" boot_us INTEGER NOT NULL);"
	"CREATE TABLE intents("
	" row INTEGER PRIMARY KEY, kind INTEGER NOT NULL, created_ms INTEGER NOT NULL);"
	"CREATE TABLE keys("
	" id TEXT PRIMARY KEY, name TEXT NOT NULL, hash BLOB NOT NULL UNIQUE,"
	" scopes INTEGER NOT NULL, max_sandboxes INTEGER NOT NULL, created_ms INTEGER NOT NULL);"
	"CREATE TABLE idempotency("
	" owner TEXT NOT NULL, key TEXT NOT NULL, body_hash BLOB NOT NULL, sandbox_id TEXT,"
	" status INTEGER NOT NULL, body BLOB, created_ms INTEGER NOT NULL,"
	" PRIMARY KEY(owner, key)) WITHOUT ROWID;"
	"CREATE TABLE meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;",

	/* events: delivered in the order of ids, which are never reused (meta 'event_ids'). */
	"CREATE TABLE events("
	" id INTEGER PRIMARY KEY, ms INTEGER NOT NULL, type TEXT NOT NULL,"
	" sandbox_id TEXT NOT NULL, owner TEXT NOT NULL, external_workspace_id TEXT,"
	" data TEXT NOT NULL);",

	/*
	 * life cycle. due_ms is on the boot clock that clock names; left_ms and idle_left_ms are
	 * the remaining times of a paused sandbox; from_id is the snapshot with its files.
	 */
	"ALTER TABLE sandboxes ADD COLUMN pause_kind TEXT;"
	"ALTER TABLE sandboxes ADD COLUMN from_id TEXT;"
	"ALTER TABLE sandboxes ADD COLUMN on_timeout TEXT;"
	"ALTER TABLE sandboxes ADD COLUMN clock TEXT;"
	"ALTER TABLE sandboxes ADD COLUMN auto_resume INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandboxes ADD COLUMN due_ms INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandboxes ADD COLUMN left_ms INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE sandboxes ADD COLUMN idle_left_ms INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE snapshots("
	" id TEXT PRIMARY KEY, seq INTEGER NOT NULL, owner TEXT NOT NULL, sandbox_id TEXT NOT NULL,"
	" engine TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL,"
	" template_name TEXT NOT NULL, template_hash TEXT NOT NULL, comment TEXT, env BLOB,"
	" cpu_count INTEGER NOT NULL, memory_mb INTEGER NOT NULL, disk_size_mb INTEGER NOT NULL,"
	" size_bytes INTEGER NOT NULL, created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL"
	") WITHOUT ROWID;",

	/* usage: one row per interval in one state; to_ms is 0 while it is open. */
	"CREATE TABLE usage("
	" sandbox_id TEXT NOT NULL, from_ms INTEGER NOT NULL, kind INTEGER NOT NULL,"
	" to_ms INTEGER NOT NULL, owner TEXT NOT NULL, external_workspace_id TEXT,"
	" cpu_count INTEGER NOT NULL, memory_mb INTEGER NOT NULL, disk_bytes INTEGER NOT NULL,"
	" PRIMARY KEY(sandbox_id, from_ms, kind)) WITHOUT ROWID;",

	/* at a start the daemon searches for the few open intervals. */
	"CREATE INDEX usage_open ON usage(sandbox_id) WHERE to_ms=0;",

	/* limits of a key; 0: the configured default, -1: unlimited. */
	"ALTER TABLE keys ADD COLUMN max_vcpus INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE keys ADD COLUMN max_memory_mb INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE keys ADD COLUMN max_disk_mb INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE keys ADD COLUMN max_snapshots INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE keys ADD COLUMN max_creates_per_sec INTEGER NOT NULL DEFAULT 0;",

	/*
	 * webhooks: cursor is the last event that was delivered or given up; dead: deliveries that
	 * were given up.
	 */
	"CREATE TABLE webhooks("
	" id TEXT PRIMARY KEY, seq INTEGER NOT NULL, owner TEXT NOT NULL, url TEXT NOT NULL,"
	" description TEXT, events TEXT NOT NULL, external_workspace_id TEXT, secret TEXT NOT NULL,"
	" enabled INTEGER NOT NULL, disabled_reason TEXT, created_ms INTEGER NOT NULL,"
	" failing_ms INTEGER NOT NULL, missed INTEGER NOT NULL, cursor INTEGER NOT NULL"
	") WITHOUT ROWID;"
	"CREATE TABLE webhook_dead("
	" hook TEXT NOT NULL, event INTEGER NOT NULL, type TEXT NOT NULL, ms INTEGER NOT NULL,"
	" attempts INTEGER NOT NULL, status INTEGER NOT NULL, error TEXT, body BLOB NOT NULL,"
	" PRIMARY KEY(hook, event)) WITHOUT ROWID;",

	/* previews: access to ports; tokens are stored as hashes only. */
	"CREATE TABLE previews("
	" id TEXT PRIMARY KEY, sandbox_id TEXT NOT NULL, port INTEGER NOT NULL,"
	" visibility INTEGER NOT NULL, host_header INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
	" expires_ms INTEGER NOT NULL, requests INTEGER NOT NULL, bytes_in INTEGER NOT NULL,"
	" bytes_out INTEGER NOT NULL, connections INTEGER NOT NULL) WITHOUT ROWID;"
	"CREATE TABLE preview_tokens("
	" hash BLOB PRIMARY KEY, preview_id TEXT NOT NULL, expires_ms INTEGER NOT NULL"
	") WITHOUT ROWID;"
	"CREATE INDEX preview_tokens_of ON preview_tokens(preview_id);",

	/* network: the policy as JSON; NULL: none. */
	"ALTER TABLE sandboxes ADD COLUMN network TEXT;",

	/* events are queried by sandbox, and for every sandbox whose link is established again. */
	"CREATE INDEX events_sandbox ON events(sandbox_id);",

	/*
	 * secrets. Values are stored only sealed. A deleted secret stays while a sandbox that
	 * received it exists, because that sandbox's output is still scrubbed.
	 */
	"CREATE TABLE secrets("
	" id TEXT PRIMARY KEY, owner TEXT NOT NULL, name TEXT NOT NULL, scope INTEGER NOT NULL,"
	" scope_id TEXT NOT NULL, hosts TEXT NOT NULL, version INTEGER NOT NULL,"
	" created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL, deleted_ms INTEGER NOT NULL"
	") WITHOUT ROWID;"
	"CREATE TABLE secret_versions("
	" secret_id TEXT NOT NULL, version INTEGER NOT NULL, sealed BLOB NOT NULL,"
	" PRIMARY KEY(secret_id, version)) WITHOUT ROWID;"
	"CREATE TABLE grants("
	" sandbox_id TEXT NOT NULL, at INTEGER NOT NULL, secret_id TEXT NOT NULL,"
	" way INTEGER NOT NULL, env TEXT NOT NULL, hosts TEXT NOT NULL, placeholder TEXT NOT NULL,"
	" PRIMARY KEY(sandbox_id, at)) WITHOUT ROWID;"
	"CREATE TABLE authorities(sandbox_id TEXT PRIMARY KEY, sealed BLOB NOT NULL) "
	"WITHOUT ROWID;",

	/* usage of a period: reads only intervals that had not ended before it. */
	"CREATE INDEX usage_ended ON usage(to_ms) WHERE to_ms>0;"
	"CREATE INDEX usage_owner ON usage(owner,to_ms) WHERE to_ms>0;",

	/* why a snapshot lacks the memory that was requested. */
	"ALTER TABLE snapshots ADD COLUMN memory_error TEXT;",

	/* replies that contain a secret are stored sealed. */
	"ALTER TABLE idempotency ADD COLUMN sealed INTEGER NOT NULL DEFAULT 0;",

	/*
	 * usage per UTC day, for intervals that ended some time ago; last_ms: the end of the last
	 * of them.
	 */
	"CREATE TABLE usage_days("
	" sandbox_id TEXT NOT NULL, day INTEGER NOT NULL, owner TEXT NOT NULL,"
	" external_workspace_id TEXT, running_ms INTEGER NOT NULL, paused_ms INTEGER NOT NULL,"
	" vcpu_ms INTEGER NOT NULL, memory_mb_ms INTEGER NOT NULL,"
	" storage_byte_ms INTEGER NOT NULL, last_ms INTEGER NOT NULL,"
	" PRIMARY KEY(sandbox_id, day)) WITHOUT ROWID;"
	"CREATE INDEX usage_days_day ON usage_days(day);"
	"CREATE INDEX usage_days_owner ON usage_days(owner,day);",

	/* denials of sandboxes: one row each, with a list as JSON. */
	"CREATE TABLE denials(sandbox_id TEXT PRIMARY KEY, list BLOB NOT NULL) WITHOUT ROWID;",

	/* keys that keys created, and deleted ones that still own something. */
	"ALTER TABLE keys ADD COLUMN parent TEXT;"
	"CREATE TABLE departed_keys(id TEXT PRIMARY KEY, payer TEXT NOT NULL) WITHOUT ROWID;",

	/* the oldest records of a key make room for new ones; thing: what was begun. */
	"CREATE INDEX idempotency_age ON idempotency(owner,created_ms);"
	"ALTER TABLE idempotency ADD COLUMN thing TEXT;"
	"CREATE INDEX idempotency_begun ON idempotency(status) WHERE status=0;",

	/* events are kept in fair shares: each tenant loses only its own oldest ones. */
	"ALTER TABLE events ADD COLUMN tenant TEXT NOT NULL DEFAULT '';"
	"UPDATE events SET tenant=owner;"
	"CREATE INDEX events_tenant ON events(tenant,id);"
	"CREATE TABLE event_trims(tenant TEXT PRIMARY KEY, upto INTEGER NOT NULL) WITHOUT ROWID;",
};

static int schema_version(void)
{
	return (int)ARRAY_LEN(steps);
}

static int read_version(sqlite3 *db, int *ret)
{
	sqlite3_stmt *stmt = NULL;
	int code = sqlite3_prepare_v2(db, "SELECT COALESCE(MAX(version),0) FROM migrations", -1,
				      &stmt, NULL);
	int r = store_errno(code);

	if (r == 0) {
		code = sqlite3_step(stmt);
		if (code == SQLITE_ROW)
			*ret = sqlite3_column_int(stmt, 0);
		r = store_errno(code);
	}
	(void)sqlite3_finalize(stmt);
	return r;
}

static int apply_step(sqlite3 *db, int version)
{
	char note[128];
	int code = sqlite3_exec(db, steps[version - 1], NULL, NULL, NULL);

	if (code != SQLITE_OK)
		return store_errno(code);
	(void)sqlite3_snprintf(sizeof(note), note,
			       "INSERT INTO migrations(version,applied_at) "
			       "VALUES(%d,strftime('%%Y-%%m-%%dT%%H:%%M:%%SZ','now'))",
			       version);
	return store_errno(sqlite3_exec(db, note, NULL, NULL, NULL));
}

static int migrate_in_transaction(sqlite3 *db)
{
	int version = 0;
	int r = store_errno(sqlite3_exec(db,
					 "CREATE TABLE IF NOT EXISTS migrations("
					 "version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL)",
					 NULL, NULL, NULL));

	if (r == 0)
		r = read_version(db, &version);
	if (r == 0 && version > schema_version())
		r = -ENOTSUP;
	while (r == 0 && version < schema_version())
		r = apply_step(db, ++version);
	return r;
}

int schema_migrate(sqlite3 *db)
{
	int r = store_errno(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL));

	if (r < 0)
		return r;
	r = migrate_in_transaction(db);
	if (r == 0)
		r = store_errno(sqlite3_exec(db, "COMMIT", NULL, NULL, NULL));
	if (r < 0)
		(void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	return r;
}
