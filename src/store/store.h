/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's state on disk: SQLite in WAL mode, one connection on the loop's thread plus one that
 * only checkpoints. A commit survives the daemon's death at once (the kernel holds the pages); only
 * what must survive a power cut too is committed in a durable transaction.
 */
#ifndef CAY_STORE_STORE_H
#define CAY_STORE_STORE_H

#include "base/macro.h"
#include "base/str.h"

struct store;

/* The WAL is copied back into the database off the loop once it has grown past this. */
#define STORE_WAL_PAGES_MAX 1000
/* Past this the tail is copied on the loop as well: a writer that never rests cannot grow it. */
#define STORE_WAL_PAGES_HARD 8000

/*
 * Opens or makes the database, checks it and brings its schema up to date.
 * -EUCLEAN: it is damaged; -ENOTSUP: a newer version of the program wrote it; else -errno.
 */
int store_open(const char *path, struct store **ret) _must_check_;
void store_close(struct store *store);

/*
 * Statements outside begin/commit are transactions of their own. What begins inside another one is
 * a part of it: durable when the outermost is, and when it is taken back all of it is.
 */
int store_begin(struct store *store) _must_check_;
/* As store_begin(), but its commit returns only when the disk has the bytes. */
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
uint64_t store_rollbacks(const struct store *store); /* how many there were, failed commits too */
void store_rollback(struct store *store);
/* The end of what was begun: committed, or with r < 0, of one of its statements, taken back. */
int store_end(struct store *store, int r) _must_check_;

/* Whether the WAL has grown past STORE_WAL_PAGES_MAX. */
bool store_wants_checkpoint(const struct store *store);
/* Copies the WAL back. Safe on another thread, one call at a time: it uses its own connection. */
int store_checkpoint(struct store *store);
/* On the loop after store_checkpoint(): finishes a tail that outgrew STORE_WAL_PAGES_HARD. */
void store_checkpoint_tail(struct store *store);

/* ---- sandboxes ---- */

/* Strings may be NULL. Views handed to callbacks live during the call only. */
struct store_sandbox {
	int64_t row; /* this table's key; never reused while the row lives */
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
	const char *pause_kind; /* of a paused one */
	const char *from_id;	/* the snapshot that has its files */
	const char *on_timeout;
	const char *clock;   /* the boot that due_ms counts from */
	const char *network; /* its policy; NULL: none */
	struct str env;
	struct str metadata;
	bool pooled;
	bool always_on;
	bool auto_resume;
	int64_t cpu_milli; /* cpu_count holds the number of CPUs, a fraction where it is one */
	int64_t memory_mb;
	int64_t disk_size_mb;
	int64_t timeout_sec;
	int64_t idle_timeout_sec;
	int64_t created_ms;
	int64_t started_ms;
	int64_t expires_ms;
	int64_t boot_us;
	int64_t due_ms;		       /* boot clock; 0: none */
	int64_t left_ms, idle_left_ms; /* of a paused one */
};

int store_sandbox_put(struct store *store, const struct store_sandbox *row) _must_check_;
int store_sandbox_set_state(struct store *store, int64_t row, const char *state, const char *reason,
			    const char *last_error) _must_check_;
int store_sandbox_delete(struct store *store, int64_t row) _must_check_;
typedef int (*store_sandbox_fn)(void *arg, const struct store_sandbox *row);
/* In the order of seq; stops at the first non-zero answer of fn and returns it. */
int store_sandbox_each(struct store *store, store_sandbox_fn fn, void *arg) _must_check_;

/* ---- intents: what was begun and not yet seen finished ---- */

enum store_intent {
	STORE_INTENT_CREATE = 1,
	STORE_INTENT_DESTROY = 2,
	STORE_INTENT_PAUSE = 3,
	STORE_INTENT_RESUME = 4,
	STORE_INTENT_HIBERNATE = 5,
	STORE_INTENT_SNAPSHOT = 6,
	STORE_INTENT_RESTORE = 7,
	STORE_INTENT_FORK = 8,
	STORE_INTENT_RETAIN = 9, /* an error that lives on, to be looked at */
};

/* One open intent per sandbox row; a later one replaces the earlier. */
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
	const char *sandbox_id; /* that it was taken of, which may be gone */
	const char *engine;
	const char *kind;
	const char *state;
	const char *template_name;
	const char *template_hash;
	const char *comment;
	struct str env;
	int64_t cpu_milli; /* cpu_count holds the number of CPUs, a fraction where it is one */
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
/* In the order of seq; stops at the first non-zero answer of fn and returns it. */
int store_snapshot_each(struct store *store, store_snapshot_fn fn, void *arg) _must_check_;

/* ---- API keys (only their hashes) ---- */

#define STORE_KEY_HASH_SIZE 32
#define STORE_KEY_LIMITS 6 /* sandboxes, vcpus, memory, disk, snapshots, creations a second */

struct store_key {
	const char *id;
	const char *name;
	uint8_t hash[STORE_KEY_HASH_SIZE];
	uint32_t scopes;
	const char *parent;		  /* the key that created it; NULL: none */
	int64_t limits[STORE_KEY_LIMITS]; /* 0: the configured default, -1: none */
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
	int status; /* 0: begun, answer not recorded */
	char sandbox_id[64];
	char thing[STORE_THING_SIZE]; /* what was begun; "": not known */
	bool sealed;		      /* its body is, by the vault */
	char *body;		      /* heap, the caller frees it; NULL when there is none */
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
	struct str data; /* JSON */
};

int store_event_put(struct store *store, const struct store_event *event) _must_check_;
/* What is there: 0 and 0, 0 when nothing is. */
int store_event_range(struct store *store, int64_t *ret_first, int64_t *ret_last,
		      int64_t *ret_count) _must_check_;
typedef int (*store_event_fn)(void *arg, const struct store_event *event);
/* At most limit of those behind after, in the order of ids; stops at the first non-zero answer of
 * fn and returns it. fn must not come back here. */
int store_event_each(struct store *store, int64_t after, int64_t limit, store_event_fn fn,
		     void *arg) _must_check_;
/* Whether there is one of this sandbox; owner NULL: anybody's. 1, 0 or -errno. */
int store_event_of(struct store *store, const char *sandbox_id, const char *owner) _must_check_;
/* Whether the end of this process was told. 1, 0 or -errno. */
int store_event_told_end(struct store *store, const char *sandbox_id,
			 uint32_t process_id) _must_check_;
/* The id of the count-th oldest, and of the newest of those at most limit oldest that are older
 * than before_ms; 0: none. */
int store_event_nth(struct store *store, int64_t count, int64_t *ret) _must_check_;
int store_event_older(struct store *store, int64_t before_ms, int64_t limit,
		      int64_t *ret) _must_check_;
int store_event_trim(struct store *store, int64_t upto) _must_check_; /* that one too */

/* ---- usage ---- */

enum store_usage_kind { STORE_USAGE_RUNNING = 1, STORE_USAGE_PAUSED = 2 };

/* One interval. The same sandbox, from_ms and kind replace it. */
struct store_usage {
	const char *sandbox_id;
	const char *owner;
	const char *external_workspace_id;
	enum store_usage_kind kind;
	int64_t from_ms;
	int64_t to_ms; /* 0: it lasts */
	int64_t cpu_milli, memory_mb, disk_bytes;
};

int store_usage_put(struct store *store, const struct store_usage *usage) _must_check_;
typedef int (*store_usage_fn)(void *arg, const struct store_usage *usage);
/* Those that last; fn must not come back here. */
int store_usage_each_open(struct store *store, store_usage_fn fn, void *arg) _must_check_;
/* What lasts of a sandbox ends at to_ms, or where it began when that is later. */
int store_usage_close(struct store *store, const char *sandbox_id, int64_t to_ms) _must_check_;
/* The end of the last interval of a sandbox; 0: it has none that ended. */
int store_usage_last(struct store *store, const char *sandbox_id, int64_t *ret) _must_check_;
int store_usage_expire(struct store *store, int64_t before_ms) _must_check_;

#define STORE_DAY_MS (24 * 3600 * 1000LL)
/*
 * At most limit of the intervals that ended until to_ms become parts of days (UTC), one row per
 * sandbox and day; how many is returned. Call it inside a transaction. Windows that begin or end
 * inside such a day count all of it.
 */
int store_usage_roll(struct store *store, int64_t to_ms, int64_t limit) _must_check_;

struct store_usage_query {
	int64_t from_ms, to_ms; /* of the window */
	int64_t now_ms;		/* until then what lasts has lasted */
	const char *owner, *external_workspace_id, *sandbox_id; /* NULL: any */
};
struct store_usage_sum {
	const char *owner, *external_workspace_id;
	int64_t sandboxes;
	int64_t running_ms, paused_ms;
	double vcpu_ms, memory_mb_ms, storage_byte_ms;
};
typedef int (*store_usage_sum_fn)(void *arg, const struct store_usage_sum *sum);
/* One sum per owner and workspace, in their order. */
int store_usage_sum(struct store *store, const struct store_usage_query *query,
		    store_usage_sum_fn fn, void *arg) _must_check_;

/* ---- webhooks ---- */

struct store_webhook {
	const char *id;
	int64_t seq;
	const char *owner;
	const char *url;
	const char *description;	   /* or NULL */
	const char *events;		   /* names between commas */
	const char *external_workspace_id; /* or NULL */
	const char *secret;
	bool enabled;
	const char *disabled_reason; /* or NULL */
	int64_t created_ms;
	int64_t failing_ms; /* since then nothing got through; 0: the last one did */
	int64_t missed;	    /* events that retention took away before they were told */
	int64_t cursor;	    /* the last event that is done with */
};
int store_webhook_put(struct store *store, const struct store_webhook *hook) _must_check_;
int store_webhook_set_cursor(struct store *store, const char *id, int64_t cursor,
			     int64_t failing_ms, int64_t missed) _must_check_;
int store_webhook_delete(struct store *store, const char *id) _must_check_; /* the dead ones too */
typedef int (*store_webhook_fn)(void *arg, const struct store_webhook *hook);
int store_webhook_each(struct store *store, store_webhook_fn fn, void *arg) _must_check_;

/* A delivery that was given up. */
struct store_dead {
	const char *hook;
	int64_t event;
	const char *type;
	int64_t ms; /* of the last attempt */
	int64_t attempts;
	int64_t status;	   /* of the last answer; 0: none */
	const char *error; /* or NULL */
	struct str body;
};
/* Beyond keep of one hook the oldest go. */
int store_dead_put(struct store *store, const struct store_dead *dead, int64_t keep) _must_check_;
typedef int (*store_dead_fn)(void *arg, const struct store_dead *dead);
/* At most limit of those behind after; fn must not come back here. */
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
int store_preview_delete(struct store *store, const char *id) _must_check_; /* its tokens too */
typedef int (*store_preview_fn)(void *arg, const struct store_preview *row);
/* In the order of creation; stops at the first non-zero answer of fn and returns it. */
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

/* ---- secrets: their values only sealed ---- */

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
/* Its versions too; call it inside a transaction. */
int store_secret_delete(struct store *store, const char *id) _must_check_;
typedef int (*store_secret_fn)(void *arg, const struct store_secret *row);
int store_secret_each(struct store *store, store_secret_fn fn, void *arg) _must_check_;

int store_secret_version_put(struct store *store, const char *secret_id, int64_t version,
			     struct str sealed) _must_check_;
/* Forgets those before first. */
int store_secret_version_trim(struct store *store, const char *secret_id,
			      int64_t first) _must_check_;
typedef int (*store_secret_version_fn)(void *arg, const char *secret_id, int64_t version,
				       struct str sealed);
/* Oldest first of each secret. */
int store_secret_version_each(struct store *store, store_secret_version_fn fn,
			      void *arg) _must_check_;

/* What a sandbox was given. */
struct store_grant {
	const char *sandbox_id;
	const char *secret_id;
	int64_t way;
	const char *env;
	const char *hosts;
	const char *placeholder;
};
int store_grant_put(struct store *store, int64_t at, const struct store_grant *row) _must_check_;
int store_grant_delete(struct store *store, const char *sandbox_id) _must_check_; /* all of it */
typedef int (*store_grant_fn)(void *arg, const struct store_grant *row);
int store_grant_each(struct store *store, store_grant_fn fn, void *arg) _must_check_;

/* What a sandbox was refused, as the service writes it. */
int store_denials_put(struct store *store, const char *sandbox_id, struct str list) _must_check_;
int store_denials_delete(struct store *store, const char *sandbox_id) _must_check_;
int store_denials_trim(struct store *store) _must_check_; /* of sandboxes that are no more */
int store_denials_each(struct store *store,
		       void (*fn)(void *arg, const char *sandbox_id, struct str list),
		       void *arg) _must_check_;

/* The certificate authority of a sandbox, sealed. */
int store_authority_put(struct store *store, const char *sandbox_id,
			struct str sealed) _must_check_;
/* 1 with bytes to be freed, 0 absent, or -errno. */
int store_authority_get(struct store *store, const char *sandbox_id, char **ret,
			size_t *ret_len) _must_check_;
int store_authority_delete(struct store *store, const char *sandbox_id) _must_check_;
int store_authority_trim(struct store *store) _must_check_; /* of sandboxes that are no more */

/* ---- small values that outlive the process ---- */

/* 1 found, 0 absent, or -errno. */
int store_meta_get(struct store *store, const char *name, char *dst, size_t size) _must_check_;
int store_meta_put(struct store *store, const char *name, const char *value) _must_check_;

#endif
