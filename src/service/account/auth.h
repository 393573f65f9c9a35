/* SPDX-License-Identifier: Apache-2.0 */
/*
 * API keys: identification of the caller, and the scopes and limits of its key. Called by faces.
 * Only hashes are stored; a key is shown once. The service owns the keys.
 */
#ifndef CAY_SERVICE_ACCOUNT_AUTH_H
#define CAY_SERVICE_ACCOUNT_AUTH_H

#include "base/err.h"
#include "base/str.h"

struct service;

/* X(symbol, public name) : bit = position */
#define AUTH_SCOPE_TABLE(X)                   \
	X(ADMIN, "admin")                     \
	X(SANDBOXES_READ, "sandboxes:read")   \
	X(SANDBOXES_WRITE, "sandboxes:write") \
	X(EXEC, "exec")                       \
	X(TEMPLATES_READ, "templates:read")   \
	X(TEMPLATES_WRITE, "templates:write") \
	X(KEYS, "keys")                       \
	X(METRICS, "metrics")                 \
	X(WEBHOOKS, "webhooks")               \
	X(SECRETS, "secrets")

enum auth_scope_bit {
#define X(sym, name) AUTH_BIT_##sym,
	AUTH_SCOPE_TABLE(X)
#undef X
		AUTH_SCOPE_COUNT
};
enum auth_scope {
	AUTH_ANY = 0, /* every key */
#define X(sym, name) AUTH_##sym = 1 << AUTH_BIT_##sym,
	AUTH_SCOPE_TABLE(X)
#undef X
};
extern const char *const auth_scope_names[]; /* by bit, NULL-terminated */

/* The limits of a key. X(symbol, its name in the API and the settings, name of what is limited) */
#define QUOTA_TABLE(X)                             \
	X(SANDBOXES, "max_sandboxes", "sandboxes") \
	X(VCPUS, "max_vcpus", "vcpus")             \
	X(MEMORY, "max_memory_mb", "memory_mb")    \
	X(DISK, "max_disk_mb", "disk_mb")          \
	X(SNAPSHOTS, "max_snapshots", "snapshots") \
	X(CREATES, "max_creates_per_sec", "creates_per_sec")
enum quota {
#define X(sym, name, held) QUOTA_##sym,
	QUOTA_TABLE(X)
#undef X
		QUOTA_COUNT
};
#define QUOTA_MAX 1000000000
#define QUOTA_NONE (-1)

#define AUTH_KEY_ID_SIZE 17
#define AUTH_KEY_TEXT_SIZE 45 /* "cay_" + 40 digits + NUL */
#define AUTH_KEYS_MAX 10000
#define AUTH_NAME_MAX 64
#define AUTH_KEYS_PER_KEY 100 /* created by one non-admin key; more are refused */

/* A token bucket: allows bursts of up to one second's worth. */
struct key_bucket {
	int64_t filled_us; /* 0: never used */
	double level;
};

/* Owner: the service; lives until the key is deleted. */
struct key {
	char id[AUTH_KEY_ID_SIZE];
	char name[AUTH_NAME_MAX + 1];
	uint8_t hash[32];
	uint32_t scopes;
	struct key *parent; /* the key that created it; NULL: an admin key or the daemon */
	char parent_id[AUTH_KEY_ID_SIZE];
	int64_t limits[QUOTA_COUNT]; /* 0: the configured default; QUOTA_NONE: no limit */
	int64_t held[QUOTA_COUNT];   /* including keys below; rates are in bucket instead */
	uint32_t things;	     /* number of sandboxes and snapshots that it owns */
	int64_t created_ms;
	int64_t last_used_ms; /* since the start of the daemon; 0: not yet */
	uint32_t streams;     /* open ones */
	struct key_bucket creates, requests;
	uint32_t input_bytes; /* unread terminal input: see stream_hold_input() */
	/* Number and size of its idempotency records: see idempotency.c. */
	bool answers_known;
	int64_t answers, answer_bytes;
};

static inline bool key_is_admin(const struct key *key)
{
	return (key->scopes & AUTH_ADMIN) != 0;
}

static inline bool key_may(const struct key *key, uint32_t scope)
{
	return key_is_admin(key) || (key->scopes & scope) == scope;
}

/* The key with this text, "cay_<40 hex>" or "e2b_<40 hex>"; NULL if there is none. */
struct key *auth_find(struct service *service, struct str text);
struct key *auth_by_id(const struct service *service, const char *id); /* NULL: there is none */
/* Creates a key. maker is NULL for the daemon itself; otherwise the new key gets at most the
 * maker's scopes and limits, and its usage counts against the maker, too, unless that is an admin
 * key. */
struct key_spec {
	struct str name;
	uint32_t scopes;
	int64_t limits[QUOTA_COUNT];
};
int auth_create(struct service *service, const struct key *maker, const struct key_spec *spec,
		char ret_text[AUTH_KEY_TEXT_SIZE], const struct key **ret,
		struct err *err) _must_check_;
struct key_patch {
	bool has_name, has_limit[QUOTA_COUNT];
	struct str name;
	int64_t limits[QUOTA_COUNT];
};
int auth_change(struct service *service, const struct key *maker, struct str id,
		const struct key_patch *patch, const struct key **ret,
		struct err *err) _must_check_;
/* A key that viewer may see: itself and the keys below it; admin keys see all. Others are reported
 * as not found. */
const struct key *auth_get(struct service *service, const struct key *viewer, struct str id,
			   struct err *err);
/* Deletes the key and all keys below it. */
int auth_delete(struct service *service, const struct key *maker, struct str id,
		struct err *err) _must_check_;
/* Iterates in order of creation over the keys that viewer may see: the one after the key with id
 * `after` ("" for the first). NULL at the end. */
const struct key *auth_next(struct service *service, const struct key *viewer, struct str after);
/* Counts one request of this key. -1: the rate limit is exceeded. */
int auth_count_request(struct service *service, struct key *key, struct err *err) _must_check_;
/* One limit of a key, and how much of it is in use. */
struct quota_figures {
	const char *name;   /* name of the resource */
	int64_t limit;	    /* QUOTA_NONE: there is none */
	int64_t used_milli; /* thousandths */
	bool has_used;	    /* false for rates */
};
void quota_figures(const struct service *service, const struct key *key, enum quota which,
		   struct quota_figures *ret);

#endif
