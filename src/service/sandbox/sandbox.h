/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sandboxes for the faces: states, creation, lookup, transitions and end. struct sandbox is opaque
 * to faces and belongs to the service; faces keep its handle, or an id, between calls.
 */
#ifndef CAY_SERVICE_SANDBOX_SANDBOX_H
#define CAY_SERVICE_SANDBOX_SANDBOX_H

#include "base/err.h"
#include "base/slot.h"
#include "base/value/stall.h"
#include "service/account/auth.h"
#include "service/network/egress.h"
#include "service/pairs.h"

struct service;
struct service_engine;
struct template;
struct idempotency;
struct link;
struct loop_watch;
struct creation;
struct pool;
struct sandbox_wait;
struct snapshot;
struct preview;

struct grants;
struct initializers;

enum sandbox_state {
	SANDBOX_PROVISIONING,
	SANDBOX_RUNNING,
	SANDBOX_PAUSED,
	SANDBOX_DESTROYED,
	SANDBOX_ERROR,
	SANDBOX_STATE_COUNT,
};

enum sandbox_reason {
	REASON_NONE,
	REASON_REQUESTED,
	REASON_TIMEOUT,
	REASON_IDLE_TIMEOUT,
	REASON_OOM,
	REASON_CRASH,
	REASON_ENGINE_LOST,
	REASON_BOOT_FAILED,
	REASON_COUNT,
};

enum sandbox_boot { BOOT_COLD, BOOT_POOL, BOOT_SNAPSHOT, BOOT_FORK, BOOT_COUNT };
/* freeze: processes stay in memory but get no CPU time. hibernate: saved on disk, nothing runs. */
enum pause_kind { PAUSE_FREEZE, PAUSE_HIBERNATE, PAUSE_KIND_COUNT };
enum on_timeout { ON_TIMEOUT_DESTROY, ON_TIMEOUT_PAUSE, ON_TIMEOUT_HIBERNATE, ON_TIMEOUT_COUNT };

enum pool_mode { POOL_PREFER, POOL_REQUIRE, POOL_BYPASS, POOL_MODE_COUNT };

extern const char *const sandbox_state_names[]; /* each NULL-terminated */
extern const char *const sandbox_boot_names[];
extern const char *const pool_mode_names[];
extern const char *const pause_kind_names[];
extern const char *const on_timeout_names[];
const char *sandbox_reason_name(enum sandbox_reason reason); /* NULL for none */

#define SANDBOX_ID_LEN 20

/*
 * Ranges and defaults of the fields of a sandbox. Faces use them in their field tables, and
 * limits.c checks every spec against them. The operator sets the upper bounds of sizes and times:
 * struct service_config.
 */
#define SANDBOX_CPU_MILLI 1000 /* here and below: the default */
#define SANDBOX_MEMORY_MB 1024
#define SANDBOX_DISK_MB 3072
#define SANDBOX_TIMEOUT_SEC 300
#define SANDBOX_NAME_MAX 63
#define SANDBOX_WORKSPACE_MAX 255 /* external_workspace_id */
#define SANDBOX_ENGINE_MAX 32
#define SANDBOX_POOL_WAIT_MAX_MS 30000

struct grant_list { /* service/secret/secret.h */
	const struct grant_spec *list;
	size_t count;
};
struct initializer_list { /* service/sandbox/initializer.h */
	const struct initializer *list;
	size_t count;
};

/* The fields of POST /sandboxes; views live during the call. */
struct sandbox_spec {
	struct str template;
	struct str name;
	struct str external_workspace_id;
	struct str engine; /* empty: the default one */
	struct str snapshot_id;
	struct text_map env, metadata;
	struct grant_list secrets;
	struct initializer_list initializers;
	int64_t cpu_milli, memory_mb, disk_size_mb;
	int64_t timeout_sec, idle_timeout_sec;
	int64_t pool_wait_ms;
	int64_t count; /* of sandbox_create_many() */
	bool has_count;
	int pool_mode;
	int on_timeout;
	bool retain_on_failure;
	bool always_on;
	bool auto_resume;
	bool memory; /* restore the processes in the snapshot, if there are any */
	struct egress_want network;
	struct idempotency *idem;			  /* of sandbox_create(); NULL: none */
	bool has_template, has_cpu, has_memory, has_disk; /* given, not the default */
};

/* err NULL: sandbox is running. The pointer is valid during the call only. */
typedef void (*sandbox_made_fn)(void *arg, const struct sandbox *sandbox, const struct err *err);
/*
 * 1: complete, *ret_now is running and done is never called. 0: done is called later. -1: refused.
 * spec->idem is recorded in the transaction that creates the sandbox.
 */
int sandbox_create(struct service *service, struct key *owner, const struct sandbox_spec *spec,
		   sandbox_made_fn done, void *arg, const struct sandbox **ret_now,
		   struct err *err) _must_check_;

/*
 * Hooks of calls that create several sandboxes. item: once for each, in order. seal, only with
 * idempotency: composes the whole reply, which is recorded in the transaction that keeps the
 * sandboxes. done: the last call, with err if no sandbox was created.
 */
struct batch_hooks {
	void (*item)(void *arg, int64_t index, const struct sandbox *sandbox,
		     const struct err *err);
	int (*seal)(void *arg, struct str *ret_answer);
	void (*done)(void *arg, const struct err *err);
};
#define BATCH_MAX 100
/* Creates spec->count sandboxes, named NAME-1, NAME-2 and so on if there are several. */
int sandbox_create_many(struct service *service, struct key *owner, const struct sandbox_spec *spec,
			struct idempotency *idem, const struct batch_hooks *hooks, void *arg,
			struct err *err) _must_check_;

/* By id or by the caller's own name; sandboxes of other owners are not found. NULL with err set. */
struct sandbox *sandbox_find(struct service *service, const struct key *key, struct str id,
			     struct err *err);
/* NULL if it was removed */
struct sandbox *sandbox_get(struct service *service, slot_handle handle);

/* 0, or wrong_state with the state and its reason. */
int sandbox_check_running(const struct sandbox *sandbox, struct err *err) _must_check_;
/*
 * Every call into a sandbox starts here. 1: the link is ready, fn is never called. 0: the link is
 * being established (after a restart, because it broke, or because the sandbox is being resumed):
 * fn is called once, with err if the sandbox ended or the wait exceeded ready_wait_ms. -1: not
 * running, or too many calls wait. wake: a paused sandbox with auto_resume is resumed for this
 * call.
 */
typedef void (*sandbox_ready_fn)(void *arg, const struct err *err);
int sandbox_when_ready(struct sandbox *sandbox, bool wake, sandbox_ready_fn fn, void *arg,
		       struct sandbox_wait **ret_wait, struct err *err) _must_check_;
void sandbox_wait_cancel(struct sandbox_wait *wait); /* before fn was called */
bool sandbox_ready(const struct sandbox *sandbox);   /* its link is ready */
bool sandbox_up(const struct sandbox *sandbox);	     /* running, whether or not its link is ready */
/* It has the template's users; otherwise everything in it runs as the daemon's user. */
bool sandbox_has_users(const struct sandbox *sandbox);
int64_t sandbox_expires_ms(const struct sandbox *sandbox); /* wall clock; 0: never */
/* The number of CPUs that it can use at a time, rounded up. */
uint32_t sandbox_cpus(const struct sandbox *sandbox);
/* A client uses the sandbox: restarts the idle clock. */
void sandbox_touch(struct sandbox *sandbox);

struct sandbox_filter {
	int state; /* -1: any */
	struct str template, engine, external_workspace_id;
	struct str metadata_key, metadata_value; /* key.p NULL: any */
	bool oldest_first;
};
/* The next visible sandbox that matches. Newest first: the next one older than *cursor (INT64_MAX
 * to begin). Oldest first: the next one younger than *cursor (0 to begin). */
const struct sandbox *sandbox_list_next(struct service *service, const struct key *key,
					const struct sandbox_filter *filter, int64_t *cursor);

struct sandbox_patch {
	bool has_name, has_metadata, has_timeout, has_idle_timeout, has_always_on, has_on_timeout,
		has_auto_resume, has_secrets;
	struct str name; /* empty: removes the name */
	struct text_map metadata;
	struct grant_list secrets;
	int64_t timeout_sec, idle_timeout_sec;
	int on_timeout;
	bool always_on, auto_resume;
	struct egress_want network;
};
/*
 * 1: complete, done is never called. 0: done is called once, when the network link was changed or
 * could not be. -1: refused, with err.
 */
int sandbox_patch(struct sandbox *sandbox, const struct sandbox_patch *patch,
		  void (*done)(void *arg, struct sandbox *sandbox, const struct err *err),
		  void *arg, struct err *err) _must_check_;
/* Restarts the timeout with timeout_sec from now. */
int sandbox_extend(struct sandbox *sandbox, int64_t timeout_sec, struct err *err) _must_check_;

/*
 * Transitions between running and paused. 1: already in that state, done is never called. 0: done
 * is called once, with the sandbox as it is then, or with err. -1: refused, for example during
 * another transition.
 */
typedef void (*sandbox_changed_fn)(void *arg, struct sandbox *sandbox, const struct err *err);
int sandbox_pause(struct sandbox *sandbox, enum pause_kind kind, sandbox_changed_fn done, void *arg,
		  struct err *err) _must_check_;
/* Hibernates only the files, even if memory could be saved. The sandbox starts without processes
 * when it is resumed. */
int sandbox_pause_files(struct sandbox *sandbox, sandbox_changed_fn done, void *arg,
			struct err *err) _must_check_;
/* timeout_sec 0: the remaining time continues. */
int sandbox_resume(struct sandbox *sandbox, int64_t timeout_sec, sandbox_changed_fn done, void *arg,
		   struct err *err) _must_check_;
/* Resumes without the saved memory, for a sandbox whose memory cannot be restored. */
int sandbox_resume_files(struct sandbox *sandbox, int64_t timeout_sec, sandbox_changed_fn done,
			 void *arg, struct err *err) _must_check_;

/*
 * done: the engine confirmed that no process of it runs any more; the rest is removed in the
 * background. With err, the engine could not be asked: the end is recorded, and the engine ends the
 * sandbox when it is back. Returns 0, or -1 with err if the end could not be recorded; the sandbox
 * then continues.
 * For a sandbox that is ending already, the engine is asked again.
 */
typedef void (*sandbox_ended_fn)(void *arg, const struct err *err);
int sandbox_end(struct sandbox *sandbox, enum sandbox_reason reason, sandbox_ended_fn done,
		void *arg, struct err *err) _must_check_;
/* Also one whose end the engine has not confirmed, which sandbox_find() does not show. */
struct sandbox *sandbox_find_to_end(struct service *service, const struct key *key, struct str id,
				    struct err *err);
/* The same for callers that do not wait for the end. */
int sandbox_destroy(struct sandbox *sandbox, enum sandbox_reason reason,
		    struct err *err) _must_check_;

/* The public properties of a sandbox. Pointers are into the sandbox: valid until it changes. */
struct sandbox_view {
	slot_handle handle;
	const char *id, *engine;
	const char *name, *external_workspace_id, *last_error; /* or NULL */
	const struct template *template;
	enum sandbox_state state;
	enum sandbox_reason reason;
	enum sandbox_boot boot;
	enum pause_kind pause_kind; /* if paused */
	enum pool_mode pool_mode;
	enum on_timeout on_timeout;
	bool memory_preserved; /* if paused */
	bool in_transition;    /* between running and paused, or being copied */
	bool disk_enforced;
	bool always_on, auto_resume;
	uint32_t cpu_milli, memory_mb, disk_size_mb, timeout_sec, idle_timeout_sec;
	int64_t boot_us;
	int64_t created_ms, started_ms, expires_ms, idle_expires_ms; /* wall clock; 0: none */
	const struct pairs *metadata, *env;
	const struct grants *grants;	     /* NULL: none */
	const struct egress_policy *network; /* NULL: none */
};
void sandbox_view(const struct sandbox *sandbox, struct sandbox_view *ret);
const char *sandbox_id(const struct sandbox *sandbox);
slot_handle sandbox_handle(const struct sandbox *sandbox);
enum sandbox_state sandbox_state(const struct sandbox *sandbox);

struct sandbox_metrics {
	uint64_t memory_bytes, memory_peak_bytes, memory_limit_bytes, cpu_us, pids, disk_bytes,
		disk_limit_bytes, oom_kills, sent_bytes, received_bytes;
	double cpu_percent; /* of one CPU, since an earlier sample or since its start */
	bool has_stall;	    /* the engine and the kernel report it */
	struct stall stall[STALL_COUNT];
};
typedef void (*sandbox_metrics_fn)(void *arg, const struct sandbox_metrics *metrics,
				   const struct err *err);
/* One measurement of the last minutes. */
struct sandbox_sample {
	int64_t at_ms;
	double cpu_percent; /* since the previous sample */
	bool has_cpu;
	uint64_t memory_bytes, pids, disk_bytes;
};
/*
 * Iterates over the samples, oldest first: start with *at = 0; false at the end. A request for
 * metrics starts the sampling.
 */
bool sandbox_history_next(const struct sandbox *sandbox, uint32_t *at, struct sandbox_sample *ret);
int sandbox_metrics(struct sandbox *sandbox, sandbox_metrics_fn done, void *arg,
		    struct err *err) _must_check_;

#endif
