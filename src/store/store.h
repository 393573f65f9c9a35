/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's state on disk: SQLite in WAL mode, with one connection on the loop's thread and one
 * for checkpoints. A commit survives the death of the daemon (the kernel holds the pages). Only
 * changes that must also survive a power failure are committed in a durable transaction.
 *
 * Called by the service, which owns the store. Strings passed to callbacks live during the call
 * only; callers free what a comment marks as heap.
 */
#ifndef CAY_STORE_STORE_H
#define CAY_STORE_STORE_H

#include "base/macro.h"
#include "base/str.h"

struct store;

/* When the WAL exceeds this, it is copied back into the database off the loop. */
#define STORE_WAL_PAGES_MAX 1000
/*
 * Beyond this the tail is also copied on the loop, so that a constant writer cannot grow it without
 * limit.
 */
#define STORE_WAL_PAGES_HARD 8000

/*
 * Opens or creates the database, checks it and upgrades its schema. -EUCLEAN: it is damaged;
 * -ENOTSUP: a newer version of the program wrote it; otherwise -errno.
 */
int store_open(const char *path, struct store **ret) _must_check_;
void store_close(struct store *store);

/*
 * A statement outside begin/commit is its own transaction. A nested transaction becomes part of the
 * outer one: it is durable if the outermost is, and rolling it back rolls back everything.
 */
int store_begin(struct store *store) _must_check_;
/* As store_begin(), but the commit returns only when the data is on disk. */
int store_begin_durable(struct store *store) _must_check_;
int store_commit(struct store *store) _must_check_;
/*
 * What belongs into every transaction: before runs inside it, right before the commit; when it
 * fails, so does the commit. after runs when it succeeded. Neither may begin or end a transaction.
 */
struct store_hooks {
	int (*before)(void *arg);
	void (*after)(void *arg);
	void *arg;
};
void store_set_hooks(struct store *store, const struct store_hooks *hooks); /* NULL: none */
/* number of rollbacks, including failed commits */
uint64_t store_rollbacks(const struct store *store);
void store_rollback(struct store *store);
/* Ends a transaction: commits, or rolls back if r < 0 (the error of one of its statements). */
int store_end(struct store *store, int r) _must_check_;

/* Whether the WAL exceeds STORE_WAL_PAGES_MAX. */
bool store_wants_checkpoint(const struct store *store);
/*
 * Copies the WAL back. May run on another thread, one call at a time, because it has its own
 * connection.
 */
int store_checkpoint(struct store *store);
/*
 * Called on the loop after store_checkpoint(): completes a tail that exceeds STORE_WAL_PAGES_HARD.
 */
void store_checkpoint_tail(struct store *store);

/* ---- sandboxes ---- */

/* Strings may be NULL. Views passed to callbacks live during the call only. */
struct store_sandbox {
	int64_t row; /* key of this table; not reused while the row exists */
	int64_t seq; /* order of creation, for lists */
	const char *id;
	const char *name;
	const char *owner;
	const char *state;
	const char *reason;
	const char *engine;
	const char *template_name;
	const char *template_hash;
	const char *boot_path;
	const char *pool_mode;
	const char *external_workspace_id;
	const char *last_error;
	const char *pause_kind; /* if paused */
	const char *from_id;	/* the snapshot that holds its files */
	const char *on_timeout;
	const char *clock;   /* the boot that due_ms counts from */
	const char *network; /* its network policy as JSON; NULL: none */
	struct str env;
	struct str metadata;
	bool pooled;
	bool always_on;
	bool auto_resume;
	int64_t cpu_milli; /* stored in cpu_count as a number of CPUs, possibly a fraction */
	int64_t memory_mb;
	int64_t disk_size_mb;
	int64_t timeout_sec;
	int64_t idle_timeout_sec;
	int64_t created_ms;
	int64_t started_ms;
	int64_t expires_ms;
	int64_t boot_us;
	int64_t due_ms;		       /* boot clock; 0: none */
	int64_t left_ms, idle_left_ms; /* if paused */
};

int store_sandbox_put(struct store *store, const struct store_sandbox *row) _must_check_;
int store_sandbox_set_state(struct store *store, int64_t row, const char *state, const char *reason,
			    const char *last_error) _must_check_;
int store_sandbox_delete(struct store *store, int64_t row) _must_check_;
typedef int (*store_sandbox_fn)(void *arg, const struct store_sandbox *row);
/* In the order of seq. Stops at the first non-zero result of fn and returns it. */
int store_sandbox_each(struct store *store, store_sandbox_fn fn, void *arg) _must_check_;

/* ---- intents: operations that were started and not yet completed ---- */

enum store_intent {
	STORE_INTENT_CREATE = 1,
	STORE_INTENT_DESTROY = 2,
	STORE_INTENT_PAUSE = 3,
	STORE_INTENT_RESUME = 4,
	STORE_INTENT_HIBERNATE = 5,
	STORE_INTENT_SNAPSHOT = 6,
	STORE_INTENT_RESTORE = 7,
	STORE_INTENT_FORK = 8,
	STORE_INTENT_RETAIN = 9, /* an errored sandbox that is kept for inspection */
};

/* One open intent per sandbox row; a new one replaces the old. */
int store_intent_put(struct store *store, int64_t row, enum store_intent kind,
		     int64_t now_ms) _must_check_;
int store_intent_delete(struct store *store, int64_t row) _must_check_;
typedef int (*store_intent_fn)(void *arg, int64_t row, enum store_intent kind);
int store_intent_each(struct store *store, store_intent_fn fn, void *arg) _must_check_;

/* ---- snapshots ---- */

/* Strings may be NULL where the table allows it. Views live during the call only. */
struct store_snapshot {
	const char *id;
	int64_t seq;
	const char *owner;
	const char *sandbox_id; /* the source, which may no longer exist */
	const char *engine;
	const char *kind;
	const char *state;
	const char *template_name;
	const char *template_hash;
	const char *comment;
	struct str env;
	int64_t cpu_milli; /* stored in cpu_count as a number of CPUs, possibly a fraction */
	int64_t memory_mb;
	int64_t disk_size_mb;
	int64_t size_bytes;
	int64_t created_ms;
	int64_t expires_ms; /* 0: never */
	const char *memory_error;
};

int store_snapshot_put(struct store *store, const struct store_snapshot *row) _must_check_;
int store_snapshot_delete(struct store *store, const char *id) _must_check_;
typedef int (*store_snapshot_fn)(void *arg, const struct store_snapshot *row);
/* In the order of seq. Stops at the first non-zero result of fn and returns it. */
int store_snapshot_each(struct store *store, store_snapshot_fn fn, void *arg) _must_check_;

/* ---- API keys (only their hashes) ---- */

#define STORE_KEY_HASH_SIZE 32
#define STORE_KEY_LIMITS 6 /* sandboxes, vcpus, memory, disk, snapshots, creations per second */

struct store_key {
	const char *id;
	const char *name;
	uint8_t hash[STORE_KEY_HASH_SIZE];
	uint32_t scopes;
	const char *parent;		  /* the key that created it; NULL: none */
	int64_t limits[STORE_KEY_LIMITS]; /* 0: the configured default, -1: unlimited */
	int64_t created_ms;
};

/* The same id replaces name and limits; -EEXIST: another key has this hash. */
int store_key_put(struct store *store, const struct store_key *key) _must_check_;
int store_key_delete(struct store *store, const char *id) _must_check_;
typedef int (*store_key_fn)(void *arg, const struct store_key *key);
int store_key_each(struct store *store, store_key_fn fn, void *arg) _must_check_;
/* Deleted keys that still own something; payer: the key that this counts against. */
int store_departed_put(struct store *store, const char *id, const char *payer) _must_check_;
int store_departed_delete(struct store *store, const char *id) _must_check_;
typedef int (*store_departed_fn)(void *arg, const char *id, const char *payer);
int store_departed_each(struct store *store, store_departed_fn fn, void *arg) _must_check_;

/* ---- idempotency ---- */

#define STORE_BODY_HASH_SIZE 32
#define STORE_THING_SIZE 64

struct store_idempotency {
	uint8_t body_hash[STORE_BODY_HASH_SIZE];
	int status; /* 0: started, reply not recorded */
	char sandbox_id[64];
	char thing[STORE_THING_SIZE]; /* what was begun; "": not known */
	bool sealed;		      /* the body is sealed by the vault */
	char *body;		      /* heap, freed by the caller; NULL if there is none */
	size_t body_bytes;
	int64_t created_ms;
};

int store_idempotency_put(struct store *store, const char *owner, struct str key,
			  const uint8_t body_hash[STORE_BODY_HASH_SIZE], const char *sandbox_id,
			  const char *thing, int64_t now_ms) _must_check_;
/* Those without an answer, of a sandbox. */
typedef int (*store_begun_fn)(void *arg, const char *sandbox_id, const char *thing);
int store_idempotency_begun(struct store *store, store_begun_fn fn, void *arg) _must_check_;
int store_idempotency_finish(struct store *store, const char *owner, struct str key, int status,
			     struct str body, bool sealed) _must_check_;
/* 1 found, 0 absent, or -errno. */
int store_idempotency_get(struct store *store, const char *owner, struct str key,
			  struct store_idempotency *ret) _must_check_;
int store_idempotency_delete(struct store *store, const char *owner, struct str key) _must_check_;
int store_idempotency_count(struct store *store, const char *owner, int64_t *ret_rows,
			    int64_t *ret_bytes) _must_check_;
/* The oldest answered ones, this many or a few more. */
int store_idempotency_trim(struct store *store, const char *owner, int64_t rows) _must_check_;
int store_idempotency_delete_owner(struct store *store, const char *owner) _must_check_;
int store_idempotency_expire(struct store *store, int64_t before_ms) _must_check_;

/* ---- events ---- */

struct store_event {
	int64_t id;
	int64_t ms; /* wall clock */
	const char *type;
	const char *sandbox_id;
	const char *owner;
	const char *external_workspace_id;
	const char *tenant; /* whose share of the kept events it is in */
	struct str data;    /* JSON */
};

int store_event_put(struct store *store, const struct store_event *event) _must_check_;
/* First and last id; 0 and 0 if there are no events. */
int store_event_range(struct store *store, int64_t *ret_first, int64_t *ret_last,
		      int64_t *ret_count) _must_check_;
typedef int (*store_event_fn)(void *arg, const struct store_event *event);
/*
 * At most limit events after the given id, in the order of ids. Stops at the first non-zero result
 * of fn and returns it. fn must not call this function.
 */
int store_event_each(struct store *store, int64_t after, int64_t limit, store_event_fn fn,
		     void *arg) _must_check_;
/* Whether there is an event of this sandbox; owner NULL: of any owner. 1, 0 or -errno. */
int store_event_of(struct store *store, const char *sandbox_id, const char *owner) _must_check_;
/* Whether the end of this process was published. 1, 0 or -errno. */
int store_event_told_end(struct store *store, const char *sandbox_id,
			 uint32_t process_id) _must_check_;
/*
 * The id of the count-th oldest event of a tenant, and of the newest among the limit oldest of all
 * that are older than before_ms; 0: none.
 */
int store_event_nth(struct store *store, const char *tenant, int64_t count,
		    int64_t *ret) _must_check_;
int store_event_older(struct store *store, int64_t before_ms, int64_t limit,
		      int64_t *ret) _must_check_;
typedef int (*store_event_share_fn)(void *arg, const char *tenant, int64_t count);
int store_event_shares(struct store *store, store_event_share_fn fn, void *arg) _must_check_;
/*
 * Deletes all events up to this id, inclusive, of all tenants (NULL) or of one; the latter is
 * remembered until the former passes it.
 */
int store_event_trim(struct store *store, const char *tenant, int64_t upto) _must_check_;
/* Up to which id events of this tenant were deleted; NULL: the highest of all tenants. 0: none. */
int store_event_trimmed(struct store *store, const char *tenant, int64_t *ret) _must_check_;

/* ---- usage ---- */

enum store_usage_kind { STORE_USAGE_RUNNING = 1, STORE_USAGE_PAUSED = 2 };

/* One interval. The same sandbox, from_ms and kind replace it. */
struct store_usage {
	const char *sandbox_id;
	const char *owner;
	const char *external_workspace_id;
	enum store_usage_kind kind;
	int64_t from_ms;
	int64_t to_ms; /* 0: open */
	int64_t cpu_milli, memory_mb, disk_bytes;
};

int store_usage_put(struct store *store, const struct store_usage *usage) _must_check_;
typedef int (*store_usage_fn)(void *arg, const struct store_usage *usage);
/* The open intervals; fn must not call this function. */
int store_usage_each_open(struct store *store, store_usage_fn fn, void *arg) _must_check_;
/* Ends the open interval of a sandbox at to_ms, or at its start if that is later. */
int store_usage_close(struct store *store, const char *sandbox_id, int64_t to_ms) _must_check_;
/* The end of the last closed interval of a sandbox; 0: none. */
int store_usage_last(struct store *store, const char *sandbox_id, int64_t *ret) _must_check_;
int store_usage_expire(struct store *store, int64_t before_ms) _must_check_;

#define STORE_DAY_MS (24 * 3600 * 1000LL)
/*
 * Moves at most limit of the intervals that ended until to_ms to days (UTC), one row per sandbox
 * and day, and returns how many. Call it inside a transaction. A query window that begins or ends
 * inside such a day counts the whole day.
 */
int store_usage_roll(struct store *store, int64_t to_ms, int64_t limit) _must_check_;

struct store_usage_query {
	int64_t from_ms, to_ms; /* of the window */
	int64_t now_ms;		/* open intervals count until then */
	const char *owner, *external_workspace_id, *sandbox_id; /* NULL: any */
};
struct store_usage_sum {
	const char *owner, *external_workspace_id;
	int64_t sandboxes;
	int64_t running_ms, paused_ms;
	double vcpu_ms, memory_mb_ms, storage_byte_ms;
};
typedef int (*store_usage_sum_fn)(void *arg, const struct store_usage_sum *sum);
/* One sum per owner and workspace, sorted by them. */
int store_usage_sum(struct store *store, const struct store_usage_query *query,
		    store_usage_sum_fn fn, void *arg) _must_check_;

/* ---- webhooks ---- */

struct store_webhook {
	const char *id;
	int64_t seq;
	const char *owner;
	const char *url;
	const char *description;	   /* or NULL */
	const char *events;		   /* names, separated by commas */
	const char *external_workspace_id; /* or NULL */
	const char *secret;
	bool enabled;
	const char *disabled_reason; /* or NULL */
	int64_t created_ms;
	int64_t failing_ms; /* no delivery succeeded since then; 0: the last one did */
	int64_t missed;	    /* events that retention removed before delivery */
	int64_t cursor;	    /* the last event that was delivered or given up */
};
int store_webhook_put(struct store *store, const struct store_webhook *hook) _must_check_;
int store_webhook_set_cursor(struct store *store, const char *id, int64_t cursor,
			     int64_t failing_ms, int64_t missed) _must_check_;
/* and its dead deliveries */
int store_webhook_delete(struct store *store, const char *id) _must_check_;
typedef int (*store_webhook_fn)(void *arg, const struct store_webhook *hook);
int store_webhook_each(struct store *store, store_webhook_fn fn, void *arg) _must_check_;

/* A delivery that was given up. */
struct store_dead {
	const char *hook;
	int64_t event;
	const char *type;
	int64_t ms; /* of the last attempt */
	int64_t attempts;
	int64_t status;	   /* of the last reply; 0: none */
	const char *error; /* or NULL */
	struct str body;
};
/* Beyond keep per webhook the oldest are removed. */
int store_dead_put(struct store *store, const struct store_dead *dead, int64_t keep) _must_check_;
typedef int (*store_dead_fn)(void *arg, const struct store_dead *dead);
/* At most limit deliveries after the given id; fn must not call this function. */
int store_dead_each(struct store *store, const char *hook, int64_t after, int64_t limit,
		    store_dead_fn fn, void *arg) _must_check_;
int store_dead_count(struct store *store, const char *hook, int64_t *ret) _must_check_;
int store_dead_delete(struct store *store, const char *hook, int64_t event) _must_check_;
/* ---- previews and their share tokens (only hashes) ---- */

struct store_preview {
	const char *id;
	const char *sandbox_id;
	int64_t port; /* 0: every port */
	int64_t visibility, host_header;
	int64_t created_ms;
	int64_t expires_ms; /* 0: never */
	int64_t requests, bytes_in, bytes_out, connections;
};

int store_preview_put(struct store *store, const struct store_preview *row) _must_check_;
int store_preview_delete(struct store *store, const char *id) _must_check_; /* and its tokens */
typedef int (*store_preview_fn)(void *arg, const struct store_preview *row);
/* In the order of creation. Stops at the first non-zero result of fn and returns it. */
int store_preview_each(struct store *store, store_preview_fn fn, void *arg) _must_check_;

struct store_preview_token {
	uint8_t hash[STORE_KEY_HASH_SIZE];
	const char *preview_id;
	int64_t expires_ms;
};
int store_preview_token_put(struct store *store,
			    const struct store_preview_token *token) _must_check_;
int store_preview_tokens_delete(struct store *store, const char *preview_id) _must_check_;
typedef int (*store_preview_token_fn)(void *arg, const struct store_preview_token *token);
int store_preview_token_each(struct store *store, store_preview_token_fn fn,
			     void *arg) _must_check_;

/* ---- secrets: values are only stored sealed ---- */

struct store_secret {
	const char *id;
	const char *owner;
	const char *name;
	int64_t scope;
	const char *scope_id;
	const char *hosts;
	int64_t version;
	int64_t created_ms, updated_ms, deleted_ms;
};
int store_secret_put(struct store *store, const struct store_secret *row) _must_check_;
/* Also deletes its versions; call it inside a transaction. */
int store_secret_delete(struct store *store, const char *id) _must_check_;
typedef int (*store_secret_fn)(void *arg, const struct store_secret *row);
int store_secret_each(struct store *store, store_secret_fn fn, void *arg) _must_check_;

int store_secret_version_put(struct store *store, const char *secret_id, int64_t version,
			     struct str sealed) _must_check_;
/* Deletes versions before first. */
int store_secret_version_trim(struct store *store, const char *secret_id,
			      int64_t first) _must_check_;
typedef int (*store_secret_version_fn)(void *arg, const char *secret_id, int64_t version,
				       struct str sealed);
/* The versions of each secret, oldest first. */
int store_secret_version_each(struct store *store, store_secret_version_fn fn,
			      void *arg) _must_check_;

/* A secret that a sandbox was given. */
struct store_grant {
	const char *sandbox_id;
	const char *secret_id;
	int64_t way;
	const char *env;
	const char *hosts;
	const char *placeholder;
};
int store_grant_put(struct store *store, int64_t at, const struct store_grant *row) _must_check_;
/* all of the sandbox */
int store_grant_delete(struct store *store, const char *sandbox_id) _must_check_;
typedef int (*store_grant_fn)(void *arg, const struct store_grant *row);
int store_grant_each(struct store *store, store_grant_fn fn, void *arg) _must_check_;

/* The denials of a sandbox, in the service's own encoding. */
int store_denials_put(struct store *store, const char *sandbox_id, struct str list) _must_check_;
int store_denials_delete(struct store *store, const char *sandbox_id) _must_check_;
int store_denials_trim(struct store *store) _must_check_; /* of sandboxes that no longer exist */
int store_denials_each(struct store *store,
		       void (*fn)(void *arg, const char *sandbox_id, struct str list),
		       void *arg) _must_check_;

/* The certificate authority of a sandbox, sealed. */
int store_authority_put(struct store *store, const char *sandbox_id,
			struct str sealed) _must_check_;
/* 1 with bytes that the caller frees, 0 absent, or -errno. */
int store_authority_get(struct store *store, const char *sandbox_id, char **ret,
			size_t *ret_len) _must_check_;
int store_authority_delete(struct store *store, const char *sandbox_id) _must_check_;
int store_authority_trim(struct store *store) _must_check_; /* of sandboxes that no longer exist */

/* ---- small persistent values ---- */

/* 1 found, 0 absent, or -errno. */
int store_meta_get(struct store *store, const char *name, char *dst, size_t size) _must_check_;
int store_meta_put(struct store *store, const char *name, const char *value) _must_check_;

#endif
