/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/store: the connection and the table of SQL statements, each prepared once. */
#ifndef CAY_STORE_STATEMENT_H
#define CAY_STORE_STATEMENT_H

#include <sqlite3.h>

#include "store/store.h"

/*
 * Sums of the intervals inside ?1 to ?2; an open interval counts until ?3. Each variant reads only
 * what its index finds: older history is not touched. Whole days, from ?7 to before ?8, come from
 * usage_days, to which intervals are moved some time after their end.
 */
#define USAGE_WHOSE                                                                   \
	" AND (?4 IS NULL OR owner=?4) AND (?5 IS NULL OR external_workspace_id=?5) " \
	"AND (?6 IS NULL OR sandbox_id=?6)"
#define USAGE_PART(from, to) "MIN(" to ")-MAX(" from ") AS d"
#define USAGE_FIGURES                                             \
	"CASE kind WHEN 1 THEN d ELSE 0 END AS running,"          \
	"CASE kind WHEN 2 THEN d ELSE 0 END AS paused,"           \
	"CASE kind WHEN 1 THEN d*cpu_count ELSE 0 END AS vcpu,"   \
	"CASE kind WHEN 1 THEN d*memory_mb ELSE 0 END AS memory," \
	"CASE kind WHEN 2 THEN d*disk_bytes ELSE 0 END AS storage"
#define USAGE_ROWS(where)                                                                         \
	"SELECT owner,external_workspace_id,sandbox_id," USAGE_FIGURES                            \
	" FROM (SELECT *," USAGE_PART("from_ms,?1",                                               \
				      "CASE to_ms WHEN 0 THEN MAX(from_ms,?3) ELSE "              \
				      "to_ms END,?2") " FROM usage WHERE " where USAGE_WHOSE ") " \
						      "WHERE d>0 OR (d=0 AND "                    \
						      "from_ms>=?1 AND from_ms<?2)"
#define USAGE_DAYS(where)                                                     \
	"SELECT owner,external_workspace_id,sandbox_id,running_ms,paused_ms," \
	"vcpu_ms,memory_mb_ms,storage_byte_ms FROM usage_days "               \
	"WHERE day>=?7 AND day<?8 AND " where USAGE_WHOSE
#define USAGE_SUMS(rows)                                                              \
	"SELECT owner,external_workspace_id,COUNT(DISTINCT sandbox_id),SUM(running)," \
	"SUM(paused),SUM(1.0*vcpu),SUM(1.0*memory),SUM(1.0*storage) FROM (" rows ") " \
	"GROUP BY owner,external_workspace_id ORDER BY owner,external_workspace_id"

/* The ?2 oldest intervals that ended until ?1, in a stable order. */
#define USAGE_OLD                                  \
	" FROM usage WHERE to_ms>0 AND to_ms<=?1 " \
	"ORDER BY to_ms,sandbox_id,from_ms,kind LIMIT ?2"
#define USAGE_DAY_MS "86400000"
#define USAGE_ROLL_SQL                                                                             \
	"WITH RECURSIVE part(sandbox_id,from_ms,kind,to_ms,owner,external_workspace_id,"           \
	"cpu_count,memory_mb,disk_bytes,day) AS (SELECT sandbox_id,from_ms,kind,to_ms,owner,"      \
	"external_workspace_id,cpu_count,memory_mb,disk_bytes,from_ms/" USAGE_DAY_MS               \
	" FROM (SELECT *" USAGE_OLD ") UNION ALL SELECT sandbox_id,from_ms,kind,to_ms,owner,"      \
	"external_workspace_id,cpu_count,memory_mb,disk_bytes,day+1 FROM part "                    \
	"WHERE (day+1)*" USAGE_DAY_MS "<to_ms) "                                                   \
	"INSERT INTO usage_days(sandbox_id,day,owner,external_workspace_id,running_ms,"            \
	"paused_ms,vcpu_ms,memory_mb_ms,storage_byte_ms,last_ms) "                                 \
	"SELECT sandbox_id,day,owner,external_workspace_id,SUM(running),SUM(paused),SUM(vcpu),"    \
	"SUM(memory),SUM(storage),MAX(to_ms) FROM (SELECT *," USAGE_FIGURES                        \
	" FROM (SELECT *," USAGE_PART(                                                             \
		"from_ms,day*" USAGE_DAY_MS,                                                       \
		"to_ms,(day+1)*" USAGE_DAY_MS) " FROM part)) "                                     \
					       "GROUP BY sandbox_id,day ON "                       \
					       "CONFLICT(sandbox_id,day) DO UPDATE SET "           \
					       "running_ms=running_ms+excluded.running_ms,paused_" \
					       "ms=paused_ms+excluded.paused_ms,"                  \
					       "vcpu_ms=vcpu_ms+excluded.vcpu_ms,memory_mb_ms="    \
					       "memory_mb_ms+excluded.memory_mb_ms,"               \
					       "storage_byte_ms=storage_byte_ms+excluded.storage_" \
					       "byte_ms,"                                          \
					       "last_ms=MAX(last_ms,excluded.last_ms)"

/* X(symbol, SQL) */
#define STATEMENT_TABLE(X)                                                                         \
	X(BEGIN, "BEGIN IMMEDIATE")                                                                \
	X(COMMIT, "COMMIT")                                                                        \
	X(ROLLBACK, "ROLLBACK")                                                                    \
	X(SANDBOX_PUT, "INSERT OR REPLACE INTO sandboxes("                                         \
		       "row,seq,id,name,owner,state,reason,engine,template_name,"                  \
		       "template_hash,boot_path,pool_mode,external_workspace_id,"                  \
		       "last_error,pause_kind,from_id,on_timeout,clock,network,env,metadata,"      \
		       "pooled,always_on,auto_resume,cpu_count,memory_mb,disk_size_mb,"            \
		       "timeout_sec,idle_timeout_sec,created_ms,started_ms,expires_ms,"            \
		       "boot_us,due_ms,left_ms,idle_left_ms) VALUES("                              \
		       "?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,"               \
		       "?18,?19,?20,?21,?22,?23,?24,?25,?26,?27,?28,?29,?30,?31,?32,"              \
		       "?33,?34,?35,?36)")                                                         \
	X(SANDBOX_STATE, "UPDATE sandboxes SET state=?2,reason=?3,last_error=?4 WHERE row=?1")     \
	X(SANDBOX_DELETE, "DELETE FROM sandboxes WHERE row=?1")                                    \
	X(SANDBOX_EACH, "SELECT "                                                                  \
			"row,seq,id,name,owner,state,reason,engine,template_name,"                 \
			"template_hash,boot_path,pool_mode,external_workspace_id,"                 \
			"last_error,pause_kind,from_id,on_timeout,clock,network,env,metadata,"     \
			"pooled,always_on,auto_resume,cpu_count,memory_mb,disk_size_mb,"           \
			"timeout_sec,idle_timeout_sec,created_ms,started_ms,expires_ms,"           \
			"boot_us,due_ms,left_ms,idle_left_ms "                                     \
			"FROM sandboxes ORDER BY seq")                                             \
	X(INTENT_PUT, "INSERT OR REPLACE INTO intents(row,kind,created_ms) VALUES(?1,?2,?3)")      \
	X(INTENT_DELETE, "DELETE FROM intents WHERE row=?1")                                       \
	X(INTENT_EACH, "SELECT row,kind FROM intents ORDER BY row")                                \
	X(KEY_PUT, "INSERT INTO keys(id,name,hash,scopes,created_ms,max_sandboxes,max_vcpus,"      \
		   "max_memory_mb,max_disk_mb,max_snapshots,max_creates_per_sec,parent) "          \
		   "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12) ON CONFLICT(id) DO UPDATE SET " \
		   "name=?2,max_sandboxes=?6,max_vcpus=?7,max_memory_mb=?8,max_disk_mb=?9,"        \
		   "max_snapshots=?10,max_creates_per_sec=?11")                                    \
	X(KEY_DELETE, "DELETE FROM keys WHERE id=?1")                                              \
	X(KEY_EACH, "SELECT id,name,hash,scopes,created_ms,max_sandboxes,max_vcpus,max_memory_mb," \
		    "max_disk_mb,max_snapshots,max_creates_per_sec,parent FROM keys "              \
		    "ORDER BY created_ms,id")                                                      \
	X(DEPARTED_PUT, "INSERT OR REPLACE INTO departed_keys(id,payer) VALUES(?1,?2)")            \
	X(DEPARTED_DELETE, "DELETE FROM departed_keys WHERE id=?1")                                \
	X(DEPARTED_EACH, "SELECT id,payer FROM departed_keys")                                     \
	X(IDEMPOTENCY_DELETE_OWNER, "DELETE FROM idempotency WHERE owner=?1")                      \
	X(IDEMPOTENCY_PUT, "INSERT OR REPLACE INTO idempotency(owner,key,body_hash,sandbox_id,"    \
			   "status,body,created_ms,thing) VALUES(?1,?2,?3,?4,0,NULL,?5,?6)")       \
	X(IDEMPOTENCY_BEGUN, "SELECT sandbox_id,thing FROM idempotency WHERE status=0 AND "        \
			     "thing IS NOT NULL AND sandbox_id IS NOT NULL")                       \
	X(IDEMPOTENCY_FINISH,                                                                      \
	  "UPDATE idempotency SET status=?3,body=?4,sealed=?5 WHERE owner=?1 AND key=?2")          \
	X(IDEMPOTENCY_GET,                                                                         \
	  "SELECT body_hash,status,sandbox_id,body,created_ms,sealed,thing FROM idempotency "      \
	  "WHERE owner=?1 AND key=?2")                                                             \
	X(IDEMPOTENCY_DELETE, "DELETE FROM idempotency WHERE owner=?1 AND key=?2")                 \
	X(IDEMPOTENCY_COUNT, "SELECT COUNT(*),IFNULL(SUM(LENGTH(body)),0) FROM idempotency "       \
			     "WHERE owner=?1")                                                     \
	X(IDEMPOTENCY_TRIM,                                                                        \
	  "DELETE FROM idempotency WHERE owner=?1 AND status<>0 AND created_ms<=(SELECT "          \
	  "created_ms FROM idempotency WHERE owner=?1 ORDER BY created_ms LIMIT 1 OFFSET ?2)")     \
	X(IDEMPOTENCY_EXPIRE, "DELETE FROM idempotency WHERE created_ms<?1")                       \
	X(SNAPSHOT_PUT, "INSERT OR REPLACE INTO snapshots("                                        \
			"id,seq,owner,sandbox_id,engine,kind,state,template_name,"                 \
			"template_hash,comment,env,cpu_count,memory_mb,disk_size_mb,"              \
			"size_bytes,created_ms,expires_ms,memory_error) VALUES("                   \
			"?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18)")         \
	X(SNAPSHOT_DELETE, "DELETE FROM snapshots WHERE id=?1")                                    \
	X(SNAPSHOT_EACH, "SELECT "                                                                 \
			 "id,seq,owner,sandbox_id,engine,kind,state,template_name,"                \
			 "template_hash,comment,env,cpu_count,memory_mb,disk_size_mb,"             \
			 "size_bytes,created_ms,expires_ms,memory_error "                          \
			 "FROM snapshots ORDER BY seq")                                            \
	X(EVENT_PUT, "INSERT INTO events(id,ms,type,sandbox_id,owner,external_workspace_id,data,"  \
		     "tenant) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)")                                    \
	X(EVENT_RANGE, "SELECT (SELECT MIN(id) FROM events),(SELECT MAX(id) FROM events),"         \
		       "(SELECT COUNT(*) FROM events)")                                            \
	X(EVENT_EACH, "SELECT id,ms,type,sandbox_id,owner,external_workspace_id,data,tenant "      \
		      "FROM events WHERE id>?1 ORDER BY id LIMIT ?2")                              \
	X(EVENT_OF, "SELECT 1 FROM events WHERE sandbox_id=?1 AND (?2 IS NULL OR owner=?2) "       \
		    "LIMIT 1")                                                                     \
	X(EVENT_END, "SELECT 1 FROM events WHERE sandbox_id=?1 AND type='process.ended' AND "      \
		     "json_extract(data,'$.process_id')=?2 LIMIT 1")                               \
	X(EVENT_SHARES, "SELECT tenant,COUNT(*) FROM events GROUP BY tenant")                      \
	X(EVENT_NTH, "SELECT id FROM events WHERE tenant=?2 ORDER BY id LIMIT 1 OFFSET ?1")        \
	X(EVENT_OLDER, "SELECT MAX(id) FROM (SELECT id,ms FROM events ORDER BY id LIMIT ?2) "      \
		       "WHERE ms<?1")                                                              \
	X(EVENT_TRIM, "DELETE FROM events WHERE id<=?1")                                           \
	X(EVENT_TRIM_TENANT, "DELETE FROM events WHERE tenant=?2 AND id<=?1")                      \
	X(EVENT_TRIMMED_PUT, "INSERT OR REPLACE INTO event_trims(tenant,upto) VALUES(?1,?2)")      \
	X(EVENT_TRIMMED, "SELECT upto FROM event_trims WHERE tenant=?1")                           \
	X(EVENT_TRIMMED_ANY, "SELECT MAX(upto) FROM event_trims")                                  \
	X(EVENT_TRIMS_EXPIRE, "DELETE FROM event_trims WHERE upto<=?1")                            \
	X(USAGE_PUT, "INSERT OR REPLACE INTO usage(sandbox_id,from_ms,kind,to_ms,owner,"           \
		     "external_workspace_id,cpu_count,memory_mb,disk_bytes) "                      \
		     "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9)")                                         \
	X(USAGE_OPEN, "SELECT sandbox_id,from_ms,kind,to_ms,owner,external_workspace_id,"          \
		      "cpu_count,memory_mb,disk_bytes FROM usage WHERE to_ms=0")                   \
	X(USAGE_CLOSE, "UPDATE usage SET to_ms=MAX(from_ms,?2) WHERE sandbox_id=?1 AND to_ms=0")   \
	X(USAGE_LAST, "SELECT MAX(IFNULL((SELECT MAX(to_ms) FROM usage WHERE sandbox_id=?1),0),"   \
		      "IFNULL((SELECT MAX(last_ms) FROM usage_days WHERE sandbox_id=?1),0))")      \
	X(USAGE_ROLL, USAGE_ROLL_SQL)                                                              \
	X(USAGE_ROLLED, "DELETE FROM usage WHERE (sandbox_id,from_ms,kind) IN "                    \
			"(SELECT sandbox_id,from_ms,kind" USAGE_OLD ")")                           \
	X(USAGE_EXPIRE_DAYS, "DELETE FROM usage_days WHERE day<?1")                                \
	X(USAGE_EXPIRE, "DELETE FROM usage WHERE to_ms>0 AND to_ms<?1")                            \
	X(USAGE_SUM, USAGE_SUMS(USAGE_ROWS("to_ms=0") " UNION ALL " USAGE_ROWS(                    \
			     "to_ms>0 AND to_ms>=?1") " UNION ALL " USAGE_DAYS("1")))              \
	X(USAGE_SUM_OWNER,                                                                         \
	  USAGE_SUMS(USAGE_ROWS("to_ms=0 AND owner=?4") " UNION ALL " USAGE_ROWS(                  \
		  "to_ms>0 AND to_ms>=?1 AND owner=?4") " UNION ALL " USAGE_DAYS("owner=?4")))     \
	X(USAGE_SUM_SANDBOX,                                                                       \
	  USAGE_SUMS(USAGE_ROWS("sandbox_id=?6") " UNION ALL " USAGE_DAYS("sandbox_id=?6")))       \
	X(WEBHOOK_PUT, "INSERT OR REPLACE INTO webhooks(id,seq,owner,url,description,events,"      \
		       "external_workspace_id,secret,enabled,disabled_reason,created_ms,"          \
		       "failing_ms,missed,cursor) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,"  \
		       "?13,?14)")                                                                 \
	X(WEBHOOK_CURSOR, "UPDATE webhooks SET cursor=?2,failing_ms=?3,missed=?4 WHERE id=?1")     \
	X(WEBHOOK_DELETE, "DELETE FROM webhooks WHERE id=?1")                                      \
	X(WEBHOOK_EACH, "SELECT id,seq,owner,url,description,events,external_workspace_id,secret," \
			"enabled,disabled_reason,created_ms,failing_ms,missed,cursor "             \
			"FROM webhooks ORDER BY seq")                                              \
	X(DEAD_PUT, "INSERT OR REPLACE INTO webhook_dead(hook,event,type,ms,attempts,status,"      \
		    "error,body) VALUES(?1,?2,?3,?4,?5,?6,?7,?8)")                                 \
	X(DEAD_TRIM, "DELETE FROM webhook_dead WHERE hook=?1 AND event<=(SELECT event FROM "       \
		     "webhook_dead WHERE hook=?1 ORDER BY event DESC LIMIT 1 OFFSET ?2)")          \
	X(DEAD_EACH, "SELECT event,type,ms,attempts,status,error,body,hook FROM webhook_dead "     \
		     "WHERE hook=?1 AND event>?2 ORDER BY event LIMIT ?3")                         \
	X(DEAD_COUNT, "SELECT COUNT(*) FROM webhook_dead WHERE hook=?1")                           \
	X(DEAD_DELETE, "DELETE FROM webhook_dead WHERE hook=?1 AND event=?2")                      \
	X(DEAD_DELETE_ALL, "DELETE FROM webhook_dead WHERE hook=?1")                               \
	X(PREVIEW_PUT,                                                                             \
	  "INSERT OR REPLACE INTO previews(id,sandbox_id,port,visibility,host_header,"             \
	  "created_ms,expires_ms,requests,bytes_in,bytes_out,connections) "                        \
	  "VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11)")                                            \
	X(PREVIEW_DELETE, "DELETE FROM previews WHERE id=?1")                                      \
	X(PREVIEW_EACH, "SELECT id,sandbox_id,port,visibility,host_header,created_ms,expires_ms,"  \
			"requests,bytes_in,bytes_out,connections FROM previews "                   \
			"ORDER BY created_ms,id")                                                  \
	X(PREVIEW_TOKEN_PUT, "INSERT INTO preview_tokens(hash,preview_id,expires_ms) "             \
			     "VALUES(?1,?2,?3)")                                                   \
	X(PREVIEW_TOKENS_DELETE, "DELETE FROM preview_tokens WHERE preview_id=?1")                 \
	X(PREVIEW_TOKEN_EACH, "SELECT hash,preview_id,expires_ms FROM preview_tokens")             \
	X(SECRET_PUT, "INSERT OR REPLACE INTO secrets(id,owner,name,scope,scope_id,hosts,version," \
		      "created_ms,updated_ms,deleted_ms) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)")  \
	X(SECRET_DELETE, "DELETE FROM secrets WHERE id=?1")                                        \
	X(SECRET_EACH, "SELECT id,owner,name,scope,scope_id,hosts,version,created_ms,updated_ms,"  \
		       "deleted_ms FROM secrets ORDER BY created_ms,id")                           \
	X(SECRET_VERSION_PUT, "INSERT OR REPLACE INTO secret_versions(secret_id,version,sealed) "  \
			      "VALUES(?1,?2,?3)")                                                  \
	X(SECRET_VERSION_TRIM, "DELETE FROM secret_versions WHERE secret_id=?1 AND version<?2")    \
	X(SECRET_VERSION_EACH, "SELECT secret_id,version,sealed FROM secret_versions "             \
			       "ORDER BY secret_id,version")                                       \
	X(GRANT_PUT, "INSERT INTO grants(sandbox_id,at,secret_id,way,env,hosts,placeholder) "      \
		     "VALUES(?1,?2,?3,?4,?5,?6,?7)")                                               \
	X(GRANT_DELETE, "DELETE FROM grants WHERE sandbox_id=?1")                                  \
	X(GRANT_EACH, "SELECT sandbox_id,secret_id,way,env,hosts,placeholder FROM grants "         \
		      "ORDER BY sandbox_id,at")                                                    \
	X(AUTHORITY_PUT, "INSERT OR REPLACE INTO authorities(sandbox_id,sealed) VALUES(?1,?2)")    \
	X(AUTHORITY_GET, "SELECT sealed FROM authorities WHERE sandbox_id=?1")                     \
	X(AUTHORITY_DELETE, "DELETE FROM authorities WHERE sandbox_id=?1")                         \
	X(DENIALS_PUT, "INSERT OR REPLACE INTO denials(sandbox_id,list) VALUES(?1,?2)")            \
	X(DENIALS_DELETE, "DELETE FROM denials WHERE sandbox_id=?1")                               \
	X(DENIALS_TRIM, "DELETE FROM denials WHERE sandbox_id NOT IN (SELECT id FROM sandboxes)")  \
	X(DENIALS_EACH, "SELECT sandbox_id,list FROM denials")                                     \
	X(AUTHORITY_TRIM,                                                                          \
	  "DELETE FROM authorities WHERE sandbox_id NOT IN (SELECT id FROM sandboxes)")            \
	X(META_GET, "SELECT value FROM meta WHERE name=?1")                                        \
	X(META_PUT, "INSERT OR REPLACE INTO meta(name,value) VALUES(?1,?2)")

enum statement {
#define X(sym, sql) STATEMENT_##sym,
	STATEMENT_TABLE(X)
#undef X
		STATEMENT_COUNT
};

/* Owner: the service. Prepared statements live as long as the connection. */
struct store {
	sqlite3 *db;
	sqlite3 *checkpoint_db; /* only for store_checkpoint() */
	sqlite3_stmt *statements[STATEMENT_COUNT];
	int wal_pages;
	bool durable; /* the open transaction syncs when it commits */
	uint64_t rollbacks;
	bool broken; /* a nested transaction was rolled back */
	unsigned depth;
	struct store_hooks hooks;
};

int store_errno(int sqlite_code);
/* A prepared, reset statement; NULL with *ret_error = -errno if it cannot be prepared. */
sqlite3_stmt *statement_get(struct store *store, enum statement which, int *ret_error) _must_check_;
/* Runs a statement that yields no rows, and resets it. */
int statement_run(sqlite3_stmt *stmt) _must_check_;
/* Likewise, with one parameter. */
int statement_run_text(struct store *store, enum statement which, const char *text) _must_check_;
/*
 * Iterates over rows: row converts each row to the argument of fn and calls it; only row knows fn's
 * real type. The first non-zero result ends the iteration and is returned. fn must not use the same
 * statement.
 */
typedef void (*statement_fn)(void);
typedef int (*statement_row_fn)(sqlite3_stmt *stmt, statement_fn fn, void *arg);
int statement_rows(sqlite3_stmt *stmt, statement_row_fn row, statement_fn fn,
		   void *arg) _must_check_;
/* Likewise, without parameters. */
int statement_each(struct store *store, enum statement which, statement_row_fn row, statement_fn fn,
		   void *arg) _must_check_;
void statement_bind_text(sqlite3_stmt *stmt, int at, const char *text); /* NULL binds null */
/* A number in thousandths. The column cpu_count holds CPUs, so that sums over it are correct. */
void statement_bind_milli(sqlite3_stmt *stmt, int at, int64_t milli);
int64_t statement_milli(sqlite3_stmt *stmt, int column);
void statement_bind_blob(sqlite3_stmt *stmt, int at, struct str bytes);
const char *statement_text(sqlite3_stmt *stmt, int column);
struct str statement_blob(sqlite3_stmt *stmt, int column);

/* schema.c: 0, -ENOTSUP when the database is newer than this program, or -errno. */
int schema_migrate(sqlite3 *db) _must_check_;

#endif
