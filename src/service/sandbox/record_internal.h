/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: one sandbox as the service keeps it. Faces see struct sandbox_view. */
#ifndef CAY_SERVICE_SANDBOX_RECORD_INTERNAL_H
#define CAY_SERVICE_SANDBOX_RECORD_INTERNAL_H

#include "service/sandbox/sandbox.h"

/* What is under way; the intents on disk say the same. One at a time. */
enum sandbox_transition {
	TRANSITION_NONE,
	TRANSITION_PAUSE,
	TRANSITION_RESUME,
	TRANSITION_HIBERNATE,
	TRANSITION_SNAPSHOT,
	TRANSITION_RESTORE,
	TRANSITION_FORK,
	TRANSITION_COUNT,
};

/* What the caller chose. Owner: the sandbox, before that the creation. */
struct sandbox_attrs {
	char owner[AUTH_KEY_ID_SIZE];
	char *name;		     /* heap or NULL */
	char *external_workspace_id; /* heap or NULL */
	struct pairs env;
	struct pairs metadata;
	struct grants *grants;		   /* secrets; NULL: none */
	struct initializers *initializers; /* of its creation: gone once it runs; NULL: none */
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

/* Owner: the service's table. Kept small: a thousand of them and their links fit in a few MiB. */
struct sandbox {
	slot_handle handle;
	struct service *service;
	struct service_engine *engine;
	struct template *template;
	char id[SANDBOX_ID_LEN + 1];
	uint8_t state;	      /* enum sandbox_state */
	uint8_t reason;	      /* enum sandbox_reason */
	uint8_t boot;	      /* enum sandbox_boot */
	uint8_t pause_kind;   /* enum pause_kind; of a paused one */
	uint8_t transition;   /* enum sandbox_transition */
	uint16_t failed_code; /* enum err_code of a transition that is being taken back */
	uint8_t recover;      /* enum store_intent found open at the start */
	bool pooled;	      /* not handed out: nobody's, invisible */
	bool trust_installed, trust_installing; /* its authority, in its trust store */
	bool pool_ready;
	uint8_t pool_network; /* enum engine_link: of the pool it comes from */
	uint8_t metered;      /* enum store_usage_kind; 0: nothing is counted */
	bool initializing;    /* provisioning, and its initializers are at work */
	bool retained;	      /* an error, but it lives: to be looked at */
	bool making;	      /* the engine's create is under way: a destroy waits for it */
	bool attaching;	      /* the engine's attach is under way */
	bool asking;	 /* an engine call of the transition is under way: a destroy waits for it */
	bool unsure;	 /* whether the engine has it frozen is not known */
	bool residue;	 /* the engine may hold a running part of a hibernated one */
	bool wake;	 /* it is always on, and was running when the host ended */
	bool files_only; /* the transition under way leaves the memory behind */
	bool resizing;
	bool checking; /* asking the engine how it died */
	bool sweeping; /* the engine's destroy is under way or due again */
	bool swept;    /* the engine has nothing of it any more */
	bool unseen;   /* not yet named by the engine's running list */
	uint8_t attach_tries;
	uint8_t end_tries; /* to pause it because its time is up */
	uint16_t sweep_tries;
	uint16_t execs; /* somebody waits for them: the idle clock stands */
	/* Processes that run, at most: those that nobody follows end unnoticed. process_limit.c
	 * counts again before it says no. */
	uint16_t running;
	uint32_t admissions;	   /* ever */
	uint32_t begun_process_id; /* up to it a former daemon may have begun some; 0: none */
	bool counted;		   /* running is such a bound; not so just after a restart */
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
	int64_t proven_ms; /* after a start: when it was last known to live; 0: its agent answered
			      since */
	int64_t warned_ms, idle_warned_ms; /* the deadlines that were warned of */
	int64_t boot_us;
	struct sandbox_attrs attrs;
	char *last_error;	   /* heap or NULL */
	struct creation *creation; /* waiting for this sandbox; NULL once answered */
	struct pool *pool;
	struct snapshot *from; /* has its files: hibernated, or being made from it */
	void (*on_transition)(void *arg, struct sandbox *sandbox, const struct err *err);
	void *on_transition_arg;
	struct history *history; /* NULL: nobody asks */
	struct egress *egress;	 /* NULL: it never had a network */
	uint32_t network_version;
	struct link *link;
	struct sandbox_wait *waits; /* for the link */
	struct preview *previews;   /* oldest first */
	struct loop_watch *watch;
	int watch_fd;
	struct sandbox *prev, *next; /* visible ones, by seq; or the pool's ready list */
};

#endif
