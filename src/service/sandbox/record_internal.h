/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For all themes of the service: one sandbox as the service keeps it. Faces see struct
 * sandbox_view.
 */
#ifndef CAY_SERVICE_SANDBOX_RECORD_INTERNAL_H
#define CAY_SERVICE_SANDBOX_RECORD_INTERNAL_H

#include "service/sandbox/phase_internal.h"

/* What the caller chose. Owner: the sandbox, before that the creation. */
struct sandbox_attrs {
	char owner[AUTH_KEY_ID_SIZE];
	char *name;		     /* heap or NULL */
	char *external_workspace_id; /* heap or NULL */
	struct pairs env;
	struct pairs metadata;
	struct grants *grants;		   /* secrets; NULL: none */
	struct initializers *initializers; /* of its creation: freed when it runs; NULL: none */
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
	bool retain_on_failure;	       /* of its creation; afterwards it means nothing */
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
	uint16_t failed_code; /* enum err_code of a transition that is being taken back */
	uint8_t recover;      /* enum store_intent found open at the start */
	uint8_t pool_network; /* enum engine_link: of the pool it comes from */
	uint8_t metered;      /* enum store_usage_kind; 0: nothing is counted */
	uint8_t trust;	      /* enum trust_state: its authority in its trust store */
	/* What its phase waits for: an image, a create, a freeze, a snapshot, a destroy. NULL: no
	 * call is under way. At most one is, and a destroy waits for its end. */
	struct op *engine_op;
	/* Independent of the phase, because a link breaks at any time. NULL: none is under way. */
	struct op *attach_op; /* its agent is looked for */
	struct op *death_op;  /* the engine is asked how it died */

	/* The flags are facts that hold in several phases and outlast changes between them. */
	bool pooled;	     /* A pool's, with a row of its own, also while it ends; invisible. */
	bool freeze_unknown; /* The engine has not answered yet; the freezer may be on or off. */
	bool wake_due;	     /* Always on and running when the host ended: resume it. */
	bool without_memory; /* Memory is left behind: in from, or by the hibernate under way. */
	bool unlisted;	     /* The engine's list that is being read has not named it yet. */
	uint8_t attach_tries;
	uint8_t end_tries; /* to pause it because its time is up */
	uint16_t sweep_tries;
	uint16_t execs; /* somebody waits for them: the idle clock stands */
	/* Processes that run, at most: those that nobody follows end unnoticed. process_limit.c
	 * counts again before it says no. RUNNING_UNKNOWN just after a restart. */
	uint16_t running;
	uint32_t admissions;	   /* ever */
	uint32_t begun_process_id; /* up to it a former daemon may have begun some; 0: none */
	uint16_t windows_making;
	uint16_t file_ops;    /* under way */
	uint16_t port_events; /* told in port_minute */
	uint32_t port_minute;
	int64_t row, seq;
	int64_t created_ms, started_ms;
	int64_t expires_ms; /* wall clock, for people: see clock_expires_ms() */
	/* The boot clock: it neither jumps nor stops. 0: none. */
	int64_t due_ms, active_ms, sweep_due_ms, thawed_ms;
	int64_t left_ms, idle_left_ms;				 /* of a paused one */
	int64_t metered_ms, metered_boot_ms, metered_disk_bytes; /* the interval of usage */
	/* after a start: when it was last known to run; 0: its agent has answered since */
	int64_t proven_ms;
	int64_t warned_ms, idle_warned_ms; /* the deadlines that were warned of */
	int64_t boot_us;
	struct sandbox_attrs attrs;
	char *last_error;	   /* heap or NULL */
	struct creation *creation; /* waiting for this sandbox; NULL once answered */
	struct pool *pool;
	struct snapshot *from; /* has its files: hibernated, or being made from it */
	void (*on_transition)(void *arg, struct sandbox *sandbox, const struct err *err);
	void *on_transition_arg;
	struct end_wait *end_waits; /* callers that wait until nothing of it runs: destroy.c */
	struct history *history;    /* NULL: nobody asks */
	struct egress *egress;	    /* NULL: it never had a network */
	uint32_t network_version;
	struct link *link;
	struct sandbox_wait *waits; /* for the link */
	struct preview *previews;   /* oldest first */
	struct loop_watch *watch;
	int watch_fd;
	struct sandbox *prev, *next; /* visible ones, by seq; or the pool's ready list */
};

#endif
