/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine is: a table of at most twelve functions and a set of capability bits. An engine
 * only makes, finds, dials, limits, pauses, reports and destroys; commands, files and ports are the
 * agent's work over the link, and therefore the same on every engine.
 *
 * Every function that takes a completion starts an operation and returns 0, or returns -1 with err
 * set and never completes. Completions come exactly once, from the loop, never from inside the
 * call.
 */
#ifndef CAY_ENGINE_DRIVER_H
#define CAY_ENGINE_DRIVER_H

#include "base/err.h"
#include "base/str.h"
#include "engine/channel.h"
#include "net/loop.h"
#include "base/value/stall.h"

#define ENGINE_ID_MAX 63 /* a sandbox id is a host label */
#define ENGINE_TEMPLATE_HASH_SIZE 32

enum engine_capability {
	ENGINE_CAN_ISOLATE = 1 << 0, /* a boundary against hostile code */
	ENGINE_CAN_LIMIT_MEMORY = 1 << 1,
	ENGINE_CAN_LIMIT_CPU = 1 << 2,
	ENGINE_CAN_LIMIT_PIDS = 1 << 3,
	ENGINE_CAN_LIMIT_DISK = 1 << 4,
	ENGINE_CAN_SURVIVE = 1 << 5, /* sandboxes outlive the daemon and can be attached again */
	ENGINE_CAN_POOL = 1 << 6,    /* ready-made sandboxes may be kept and resized at hand-out */
	ENGINE_CAN_PAUSE = 1 << 7,
	ENGINE_CAN_SNAPSHOT =
		1 << 8, /* of the files; then snapshot and snapshot_delete are there */
	ENGINE_CAN_SNAPSHOT_MEMORY = 1 << 9,
	ENGINE_CAN_NETWORK = 1 << 10, /* links that lead to the daemon, and nowhere else */
	ENGINE_CAN_PROXY = 1 << 11,   /* no link: programs use the agent's proxy (--egress) */
};

/* What a sandbox has besides loopback. */
enum engine_link {
	ENGINE_LINK_NONE,
	ENGINE_LINK_PROXY,  /* a link to the daemon's proxy and resolver */
	ENGINE_LINK_ROUTED, /* the same, and what is neither TCP nor DNS is forwarded to the outside
			     */
};

struct engine_limits {
	uint32_t cpu_milli; /* thousandths of a CPU */
	uint32_t memory_mb;
	uint32_t disk_size_mb;
	uint32_t pids_max;
	enum engine_link network;
};

struct engine_spec {
	char id[ENGINE_ID_MAX + 1]; /* also the host name inside */
	/* "", or the snapshot whose files it starts with; the template is then the one the snapshot
	 * was taken of, and template_hash is not looked at. */
	char snapshot_id[ENGINE_ID_MAX + 1];
	bool last_use; /* of a temporary snapshot: it is not needed after this */
	bool memory;   /* with the processes that are in the snapshot, or not at all */
	uint8_t template_hash[ENGINE_TEMPLATE_HASH_SIZE];
	struct engine_limits limits;
};

/* The link of a sandbox. IPv4 addresses in the host's byte order; all zero: it has none. */
struct engine_network {
	uint32_t address; /* nobody else's while it lives */
	uint32_t gateway; /* of the host, where these are to be served */
	uint16_t proxy_port, dns_port;
	uint32_t sink; /* an address of this network that is nobody's; 0: there is none */
};

/* Where an operation's answer goes. arg is opaque to the engine (a handle of the caller). */
struct engine_made {
	struct channel channel; /* to the agent; ownership passes to the completion */
	int watch_fd; /* readable when the sandbox is dead (a pidfd or like); -1 when the engine has
			 none */
	struct engine_network network;
};
/* Nobody takes it over. */
static inline void engine_made_close(const struct engine_made *made)
{
	channel_close(&made->channel);
	if (made->watch_fd >= 0)
		(void)close(made->watch_fd);
}
typedef void (*engine_made_fn)(void *arg, const struct engine_made *made,
			       const struct err *err); /* err NULL: done */
typedef void (*engine_done_fn)(void *arg, const struct err *err);
typedef void (*engine_resized_fn)(void *arg, const struct engine_network *network,
				  const struct err *err);

struct engine_stat {
	bool alive;
	bool paused;
	bool oom_killed; /* the memory limit killed something since the start */
	uint64_t oom_kills;
	uint64_t memory_bytes;
	uint64_t memory_peak_bytes;
	uint64_t memory_limit_bytes;
	uint64_t cpu_us;
	uint64_t pids;
	uint64_t disk_bytes;
	uint64_t disk_limit_bytes;
	uint64_t sent_bytes, received_bytes; /* over its link */
	bool has_stall;
	struct stall stall[STALL_COUNT];
};
typedef void (*engine_stat_fn)(void *arg, const struct engine_stat *stat, const struct err *err);
/* Names one thing the engine holds; called for each, then once with id NULL. */
typedef void (*engine_list_fn)(void *arg, const char *id, const struct err *err);

enum engine_kind {
	ENGINE_SANDBOXES,
	ENGINE_SNAPSHOTS, /* complete ones; an engine without any lists none */
};

struct engine_snapshot {
	uint64_t size_bytes; /* of what is in it, shared with others or not */
	bool memory;	     /* its processes are in it */
	const char *why;     /* ENGINE_SNAPSHOT_MEMORY was asked for and is not: for people */
	uint8_t template_hash[ENGINE_TEMPLATE_HASH_SIZE];
};
enum {
	/* For sandboxes that are made of it at once: need not outlast anything, is in no list. */
	ENGINE_SNAPSHOT_TEMPORARY = 1 << 0,
	/* With its processes where that can be. The link breaks; the sandbox can be attached again.
	 */
	ENGINE_SNAPSHOT_MEMORY = 1 << 1,
};
typedef void (*engine_snapshot_fn)(void *arg, const struct engine_snapshot *snapshot,
				   const struct err *err);

struct engine_config {
	struct loop *loop;
	const char *state_dir;
	const char *template_dir;
	const char *agent_path; /* the cay-agent program (local and fake engines) */
	const char *tools_path; /* the cay-tools program; NULL: none (local engine) */
	bool proxied;		/* agents listen as egress proxies (local engine) */
	bool streams; /* no channel passes descriptors, as if every agent were on another host */
	void (*on_lost)(void *arg); /* the engine's other end went away; it reconnects by itself */
	void (*on_back)(void *arg); /* and is there again */
	/* A packet of a sandbox that was neither TCP nor DNS was rejected. May be NULL. */
	void (*on_rejected)(void *arg, uint32_t address, uint32_t to, uint16_t port,
			    uint8_t protocol);
	void *arg;
};

struct engine; /* each driver's own */

struct engine_driver {
	const char *name;
	const char *label;   /* one line for people: what it isolates with */
	const char *warning; /* NULL, or what an operator must know before using it */

	/* Capabilities are known after open and may depend on the host. */
	int (*open)(const struct engine_config *config, struct engine **ret, struct err *err);
	void (*close)(struct engine *engine); /* sandboxes live on where ENGINE_CAN_SURVIVE */
	uint32_t (*capabilities)(const struct engine *engine);

	int (*create)(struct engine *engine, const struct engine_spec *spec, engine_made_fn done,
		      void *arg, struct err *err);
	/* Finds a living sandbox again (after a restart, or after its link broke) and dials its
	 * agent. */
	int (*attach)(struct engine *engine, const char *id, engine_made_fn done, void *arg,
		      struct err *err);
	/* Everything of it goes away; done means: no longer running, the sweep goes on behind.
	 * Idempotent. */
	int (*destroy)(struct engine *engine, const char *id, engine_done_fn done, void *arg,
		       struct err *err);
	int (*resize)(struct engine *engine, const char *id, const struct engine_limits *limits,
		      engine_resized_fn done, void *arg, struct err *err);
	int (*stat)(struct engine *engine, const char *id, engine_stat_fn done, void *arg,
		    struct err *err);
	int (*list)(struct engine *engine, enum engine_kind kind, engine_list_fn each, void *arg,
		    struct err *err);
	/* NULL when it cannot. Idempotent both ways. */
	int (*pause)(struct engine *engine, const char *id, bool paused, engine_done_fn done,
		     void *arg, struct err *err);
	/*
	 * Keeps the files of a running or paused sandbox as they are at one instant; it goes on as
	 * before. Done means: on disk, a power cut included. What fails, or loses its caller in the
	 * middle, leaves nothing. snapshot_id is a host label and new: ERR_CONFLICT otherwise.
	 * flags: ENGINE_SNAPSHOT_*.
	 */
	int (*snapshot)(struct engine *engine, const char *id, const char *snapshot_id,
			unsigned flags, engine_snapshot_fn done, void *arg, struct err *err);
	/* Sandboxes made from it stay whole. Idempotent; one still being taken is called off. */
	int (*snapshot_delete)(struct engine *engine, const char *snapshot_id, engine_done_fn done,
			       void *arg, struct err *err);
};

/* The built-in engines, NULL-terminated, in the order of /v1/options. Filled in by the daemon's
 * wiring. */
extern const struct engine_driver engine_native, engine_local, engine_fake;

#endif
