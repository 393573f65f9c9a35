/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For all themes of the service: one sandbox as the service keeps it. Faces see struct
 * sandbox_view.
 */
#ifndef CAY_SERVICE_SANDBOX_RECORD_INTERNAL_H
#define CAY_SERVICE_SANDBOX_RECORD_INTERNAL_H

#include "service/sandbox/phase_internal.h"

/* What the caller requested. Owner: the creation, then the sandbox. */
struct sandbox_attrs {
	char owner[AUTH_KEY_ID_SIZE];
	char *name;		     /* heap or NULL */
	char *external_workspace_id; /* heap or NULL */
	struct pairs env;
	struct pairs metadata;
	struct grants *grants;		   /* secrets; NULL: none */
	struct initializers *initializers; /* freed when the sandbox is running; NULL: none */
	uint32_t cpu_milli;
	uint32_t memory_mb;
	uint32_t disk_size_mb;
	uint32_t timeout_sec;
	uint32_t idle_timeout_sec;
	uint8_t pool_mode;
	uint8_t on_timeout; /* enum on_timeout */
	bool always_on;
	bool auto_resume;
	struct egress_policy *network; /* NULL: none */
	bool retain_on_failure;	       /* used only during the creation */
};

#define RUNNING_UNKNOWN UINT16_MAX

/* Owner: the service's table. Kept small: a thousand of them and their links fit in a few MiB. */
struct sandbox {
	slot_handle handle;
	struct service *service;
	struct service_engine *engine;
	struct template *template;
	char id[SANDBOX_ID_LEN + 1];
	uint8_t phase;	      /* enum sandbox_phase; written by sandbox_set_phase() only */
	uint8_t reason;	      /* enum sandbox_reason */
	uint8_t boot;	      /* enum sandbox_boot */
	uint16_t failed_code; /* enum err_code of a transition that is being reverted */
	uint8_t recover;      /* enum store_intent found open at the start */
	uint8_t pool_network; /* enum engine_link of the pool that it comes from */
	uint8_t metered;      /* enum store_usage_kind; 0: nothing is counted */
	uint8_t trust;	      /* enum trust_state: whether its certificate is installed */
	/* The engine call that the phase waits for: an image, a create, a freeze, a snapshot, a
	 * destroy. NULL: none. There is at most one, and a destroy waits for its end. */
	struct op *engine_op;
	/* Independent of the phase, because a link can break at any time. NULL: none in progress.
	 */
	struct op *attach_op; /* the engine dials the agent */
	struct op *death_op;  /* the engine is asked how it died */

	/* The flags are facts that hold in several phases and outlast changes between them. */
	bool pooled;	     /* A pool member, also while it ends. Invisible to clients. */
	bool freeze_unknown; /* The engine has not answered yet; the freezer may be on or off. */
	bool wake_due;	     /* Always on, and running when the host went down: resume it. */
	bool without_memory; /* Do not restore the memory in from, or do not save it. */
	bool unlisted;	     /* Not yet found in the engine's list that is being read. */
	uint8_t attach_tries;
	uint8_t end_tries; /* attempts to pause it after a timeout */
	uint16_t sweep_tries;
	uint16_t execs; /* commands with a waiting caller; they stop the idle clock */
	/* Upper bound for the number of running processes: the end of a process without a reader
	 * may not be noticed. process_limit.c counts again before it refuses a start.
	 * RUNNING_UNKNOWN after a restart. */
	uint16_t running;
	uint32_t admissions;	   /* number of admitted processes so far */
	uint32_t begun_process_id; /* the last id that an earlier daemon may have used; 0: none */
	uint16_t windows_making;
	uint16_t file_ops;    /* in progress */
	uint16_t port_events; /* published in port_minute */
	uint32_t port_minute;
	int64_t row, seq;
	int64_t created_ms, started_ms;
	int64_t expires_ms; /* wall clock, for display: see clock_expires_ms() */
	/* On the boot clock, which neither jumps nor stops. 0: none. */
	int64_t due_ms, active_ms, sweep_due_ms, thawed_ms;
	int64_t left_ms, idle_left_ms;				 /* remaining times while paused */
	int64_t metered_ms, metered_boot_ms, metered_disk_bytes; /* the current interval of usage */
	/* After a start: when it was last known to be alive; 0: its agent has answered since. */
	int64_t proven_ms;
	int64_t warned_ms, idle_warned_ms; /* the deadlines whose warning was published */
	int64_t boot_us;
	struct sandbox_attrs attrs;
	char *last_error;	   /* heap or NULL */
	struct creation *creation; /* the create request; NULL once it has a reply */
	struct pool *pool;
	struct snapshot *from; /* contains its files: hibernated, or being created from it */
	void (*on_transition)(void *arg, struct sandbox *sandbox, const struct err *err);
	void *on_transition_arg;
	struct end_wait *end_waits; /* callers that wait for the end: destroy.c */
	struct history *history;    /* NULL: no client requests metrics */
	struct egress *egress;	    /* NULL: it never had a network */
	uint32_t network_version;
	struct link *link;
	struct sandbox_wait *waits; /* calls that wait for the link */
	struct preview *previews;   /* oldest first */
	struct loop_watch *watch;
	int watch_fd;
	struct sandbox *prev, *next; /* visible ones, by seq; or the pool's ready list */
};

#endif
