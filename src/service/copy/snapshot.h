/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots: the files of a sandbox at one instant, and its processes if that was requested and
 * possible, stored by its engine. They outlive the sandbox. Faces call these functions; the service
 * owns the objects.
 */
#ifndef CAY_SERVICE_COPY_SNAPSHOT_H
#define CAY_SERVICE_COPY_SNAPSHOT_H

#include "service/sandbox/sandbox.h"

#define SNAPSHOT_ID_MAX (SANDBOX_ID_LEN + 2)
#define SNAPSHOT_REF_MAX 63 /* bytes of an id in a request; a longer one is not found */
#define SNAPSHOT_COMMENT_MAX 1024
#define SNAPSHOT_EXPIRES_MAX_SEC (10LL * 365 * 86400)
#define SNAPSHOT_KEEP_MAX 1000
#define SNAPSHOTS_PER_KEY 1000

/* The purpose of a snapshot. Clients see only SNAPSHOT_USER. */
enum snapshot_kind { SNAPSHOT_USER, SNAPSHOT_HIBERNATE, SNAPSHOT_FORK, SNAPSHOT_KIND_COUNT };
/* Transitions: making -> ready when the engine has taken it; ready -> missing and back when the
 * engine does not, or again does, list it; each of them -> deleting, after which the row is
 * removed. */
enum snapshot_state {
	SNAPSHOT_MAKING,
	SNAPSHOT_READY,
	SNAPSHOT_DELETING,
	SNAPSHOT_MISSING,
	SNAPSHOT_STATE_COUNT,
};

/* Owner: the service's table. */
struct snapshot {
	struct service *service;
	struct service_engine *engine;
	struct template *template;
	char id[SNAPSHOT_ID_MAX + 1];
	char owner[AUTH_KEY_ID_SIZE];
	char sandbox_id[SANDBOX_ID_LEN + 1];
	uint8_t kind;  /* enum snapshot_kind */
	uint8_t state; /* enum snapshot_state */
	bool taking;   /* the engine is taking it */
	bool deleting; /* the engine is deleting it */
	bool unseen; /* existed when the engine's current listing began and was not in it so far */
	bool listed; /* was in that listing */
	bool warned; /* the warning about its expiry was published */
	bool of_reboot; /* files of a sandbox that was running when the host went down */
	bool last_use;	/* the next sandbox created from it may consume it */
	bool memory;	/* it contains the processes */
	/* Sandboxes that consist of it or are being created from it. It is kept while there are
	 * any. */
	uint32_t users;
	uint32_t cpu_milli, memory_mb, disk_size_mb; /* of its source */
	uint64_t size_bytes;
	int64_t seq, created_ms;
	int64_t expires_ms; /* steady clock (snapshot_expires_ms()); 0: never */
	int64_t retry_ms;   /* boot clock: when to try again to delete it */
	struct pairs env;
	struct grants *grants; /* secrets that its files may contain, to scrub; NULL: none */
	char *comment;	       /* heap or NULL */
	char *memory_error;    /* why it lacks the requested memory; heap or NULL */
	void (*made)(void *arg, const struct snapshot *snapshot, const struct err *err);
	void *made_arg; /* the waiting caller */
	int64_t keep_last;
	struct snapshot *prev, *next; /* by seq */
};

/* The fields of POST .../snapshots; views live during the call. */
struct snapshot_spec {
	struct str comment;
	int64_t expires_in_sec; /* 0: never */
	int64_t keep_last;	/* how many of this sandbox's to keep; 0: all */
	enum snapshot_kind kind;
	bool memory;		  /* with its processes, if the engine can save them */
	struct idempotency *idem; /* the id is noted there together with the row; NULL: none */
};
typedef void (*snapshot_made_fn)(void *arg, const struct snapshot *snapshot, const struct err *err);
int sandbox_snapshot(struct sandbox *sandbox, struct key *key, const struct snapshot_spec *spec,
		     snapshot_made_fn done, void *arg, struct err *err) _must_check_;

/* Snapshots of other owners are not found. NULL with err set. */
struct snapshot *snapshot_find(struct service *service, const struct key *key, struct str id,
			       struct err *err);
/* A snapshot that an earlier daemon began, by its noted id. snapshot_not_found: it was not
 * completed; unavailable: that is not known yet. */
struct snapshot *snapshot_find_begun(struct service *service, const struct key *key, struct str id,
				     struct err *err);
/* Newest first: the next one older than *cursor (INT64_MAX to begin). sandbox_id "": of all
 * sandboxes. */
const struct snapshot *snapshot_list_next(struct service *service, const struct key *key,
					  const char *sandbox_id, int64_t *cursor);
/*
 * The snapshot disappears for clients immediately. Its data is deleted when no sandbox uses it any
 * more.
 */
void snapshot_remove(struct snapshot *snapshot);
int64_t snapshot_expires_ms(const struct snapshot *snapshot); /* wall clock; 0: never */
const char *snapshot_engine(const struct snapshot *snapshot); /* its name */

/*
 * Replaces the sandbox's files by those of the snapshot and, with memory, its processes by the
 * saved ones, if there are any. Running processes are killed.
 */
int sandbox_restore(struct sandbox *sandbox, struct snapshot *snapshot, bool memory,
		    sandbox_changed_fn done, void *arg, struct err *err) _must_check_;

/* The fields of POST .../fork. */
#define FORK_NAME_MAX 59 /* leaves space for the suffix "-100" */
struct fork_spec {
	struct str name;
	struct text_map metadata; /* not given: the source's */
	int64_t count, timeout_sec;
	bool memory;	    /* children continue with its processes; otherwise the fork fails */
	bool memory_if_can; /* with its processes if possible, otherwise only with its files */
};
int sandbox_fork(struct sandbox *sandbox, struct key *key, const struct fork_spec *spec,
		 struct idempotency *idem, const struct batch_hooks *hooks, void *arg,
		 struct err *err) _must_check_;

/* recover_engine.c: turns the content of an engine that belongs to a lost database into snapshots
 * of this key. */
struct engine_recovered {
	uint32_t snapshots; /* found */
	uint32_t sandboxes; /* that were running, and became snapshots */
};
typedef void (*engine_recovered_fn)(void *arg, const struct engine_recovered *made,
				    const struct err *err);
int engine_recover(struct service *service, const struct key *key, engine_recovered_fn done,
		   void *arg, struct err *err) _must_check_;

#endif
