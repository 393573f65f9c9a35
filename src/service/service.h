/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The product's rules behind every face: sandboxes, commands, keys, quotas, templates, pools. The
 * service never handles HTTP, and a face never uses an engine or the store. The daemon's wiring
 * opens and closes it. Objects that its functions return belong to the service, unless a function
 * says otherwise.
 */
#ifndef CAY_SERVICE_SERVICE_H
#define CAY_SERVICE_SERVICE_H

#include "base/err.h"
#include "base/value/histogram.h"
#include "base/str.h"
#include "service/sandbox/sandbox.h"

struct engine_choice;
struct poster;
struct engine_network;
struct loop;
struct service;

struct service_config {
	struct loop *loop;
	const char *state_dir;
	const char *template_dir;
	const char *agent_path;
	const char *tools_path;
	bool streams; /* see engine_config */
	/* Create a certificate authority (text, with its key) and extract its certificate; each at
	 * most SECRET_AUTHORITY_BYTES. NULL: brokering is off. */
	int (*authority_new)(const char *name, char *saved);
	int (*authority_certificate)(const char *saved, char *certificate);
	const char *vault_key; /* hexadecimal; NULL or "": <state_dir>/vault.key */
	/* All engines, enabled or not; must outlive the service. The first enabled one is the
	 * default. */
	const struct engine_choice *engines;
	size_t engine_count;
	int recipes_fd; /* directory of template recipes, owned by the caller; -1: not found */
	const char *default_template;
	bool pool_enabled;
	uint32_t pool_min; /* per popular template */
	uint32_t pool_max;
	uint32_t pids_max;
	/* Upper limits for one sandbox; 0: the default. max_timeout_sec also limits the idle
	 * timeout. */
	uint32_t max_cpu_milli, max_memory_mb, max_disk_size_mb, max_timeout_sec;
	uint32_t max_sandboxes;		/* on this host */
	uint32_t max_sandboxes_per_key; /* keys with the admin scope are not counted */
	uint32_t max_snapshots_per_key; /* not for admin keys either; 0: the default */
	uint32_t max_vcpus_per_key;	/* 0 here and below: no limit */
	uint32_t max_memory_mb_per_key;
	uint32_t max_disk_mb_per_key;
	uint32_t create_rate_per_sec;	/* per key */
	uint32_t request_rate_per_key;	/* per second, including keys that the key created */
	uint32_t processes_per_sandbox; /* running ones; 0 here and below: the default */
	uint32_t windows_per_sandbox;
	uint32_t streams_per_key;
	uint32_t output_ring_bytes;    /* per stream of a process */
	uint32_t output_keep_sec;      /* output is kept this long after a process ends */
	uint32_t ready_wait_ms;	       /* how long calls wait for a link that is being connected */
	uint32_t file_ops_per_sandbox; /* at once; 0: the default */
	uint32_t events_keep;	       /* number of events kept; 0 here and below: the default */
	uint32_t events_keep_days;
	uint32_t usage_keep_days;
	uint32_t usage_detail_days; /* older usage is kept as sums per day */
	struct poster
		*poster; /* sends webhooks; must outlive the service; NULL: webhooks are off */
	uint32_t webhooks_per_key;
	uint32_t webhooks_at_once; /* concurrent posts, of all webhooks */
	uint32_t webhook_timeout_sec;
	uint32_t webhook_attempts;
	uint32_t webhook_retry_ms;    /* delay before the first retry; doubles each time */
	uint32_t webhook_disable_sec; /* a webhook without a success for this long is disabled */
	const char *preview_scheme;   /* "http" */
	const char *preview_suffix;   /* ".cay.localhost:7070"; NULL: previews have no address */
	/* Private networks and addresses of this host that sandboxes may name in allow, separated
	 * by blanks or commas; NULL or "": none. */
	const char *egress_allow_private;
	/* The daemon's ports, which sandboxes never reach on addresses of this host; 0: none. */
	uint16_t own_ports[2];
	/* A sandbox has a network link: serve it before a program runs in it. NULL: links are not
	 * served. */
	void (*on_network)(void *arg, const struct engine_network *network);
	/* A program in the sandbox with this address connected to its agent's proxy. The callee
	 * owns fd. */
	void (*on_egress)(void *arg, uint32_t address, int fd);
	void *network_arg;
};

/*
 * Opens the state and the engines and starts to look for existing sandboxes. The config's strings
 * must outlive the service.
 */
int service_open(const struct service_config *config, struct service **ret,
		 struct err *err) _must_check_;
/* Sandboxes continue to run. No callback is called afterwards. */
void service_close(struct service *service);

/*
 * Whether the default engine answers and its sandboxes are known, and every other engine has
 * answered or is known to be out of reach. If not, err has the reason.
 */
bool service_ready(const struct service *service, struct err *err);
/*
 * Ends every sandbox and pool member; done is called when nothing is left (or after limit_ms with
 * an error).
 */
int service_destroy_all(struct service *service, int64_t limit_ms,
			void (*done)(void *arg, const struct err *err), void *arg,
			struct err *err) _must_check_;

/* Figures for /metrics. */
struct service_counters {
	uint64_t creates_cold, creates_pool, creates_failed, destroys;
	uint64_t pool_hits, pool_misses, pool_fills, pool_fill_failures;
	uint64_t execs, exec_refusals, processes, window_runs;
	uint64_t file_ops;
	uint64_t hooks_delivered, hooks_failed;
	uint64_t egress_denied;
	struct histogram create_duration, exec_duration;
	uint64_t deaths_oom, deaths_crash, deaths_lost, timeouts, idle_timeouts;
};
const struct service_counters *service_counters(const struct service *service);
struct service_gauges {
	uint32_t by_state[SANDBOX_STATE_COUNT];
	uint32_t pool_ready, pool_filling, pool_target;
	uint32_t sweeping;
	uint32_t streams; /* open */
	/* Storage of the default engine; 0: the engine does not report it. */
	uint64_t storage_capacity_bytes, storage_used_bytes, storage_promised_bytes;
	uint64_t state_capacity_bytes, state_free_bytes; /* of the disk of the state directory */
};
void service_gauges(const struct service *service, struct service_gauges *ret);

/* The engines with what each can do on this host, and the warnings an operator should see. */
struct engine_view {
	const char *name, *label;
	const char *why;     /* the reason why it is not available, or NULL */
	const char *warning; /* or NULL */
	bool is_default, is_available, disk_enforced;
	const char *network; /* transparent, proxied, none */
};
/* Engine i, in configured order; false if there is no such engine. */
bool service_engine_view(const struct service *service, size_t i, struct engine_view *ret);
/* Capability `which` of engine i; *name is NULL if it is not shown. False after the last one. */
bool service_engine_capability(const struct service *service, size_t i, int which,
			       const char **ret_name, bool *ret_can);
/* One call per warning. */
void service_warnings(const struct service *service, void (*fn)(void *arg, const char *text),
		      void *arg);
const struct service_config *service_config(const struct service *service);

#endif
