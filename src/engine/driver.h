/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between the service and an engine. docs/internals/engine.md shows how to write one.
 *
 * An engine creates, finds, dials, reports and destroys sandboxes. The core table contains what
 * every engine implements; the sub-tables may be NULL. The agent runs commands and handles files
 * and ports over the link, so these are the same on every engine. Nothing outside src/engine calls
 * these functions directly: engine/instance.h does, and is the one place that decides what an
 * engine cannot do.
 *
 * Every function with a completion starts an operation and returns 0, or returns -1 with err set
 * and never completes. A completion is called exactly once, and never from inside the starting
 * call. An operation in progress when the engine is closed still completes, possibly after close()
 * has returned. No function blocks or runs the loop.
 */
#ifndef CAY_ENGINE_DRIVER_H
#define CAY_ENGINE_DRIVER_H

#include "base/value/bounds.h"
#include "base/err.h"
#include "base/text/setting.h"
#include "base/value/stall.h"
#include "base/str.h"
#include "engine/channel.h"
#include "net/loop.h"

#define ENGINE_ID_MAX 63 /* a sandbox id is a host label */
#define ENGINE_HASH_SIZE 32
#define ENGINE_STEP_MAX 127

/* ---- capabilities ---- */

/* Properties that the tables do not show. An engine states them with on_ready. */
enum engine_flag {
	ENGINE_ISOLATES = 1 << 0, /* a security boundary against hostile code */
	/* A sandbox has its own root file system, with users and a trust store. */
	ENGINE_OWN_TREE = 1 << 1,
	ENGINE_LIMITS_MEMORY = 1 << 2,
	ENGINE_LIMITS_CPU = 1 << 3,
	ENGINE_LIMITS_PIDS = 1 << 4,
	ENGINE_LIMITS_DISK = 1 << 5,
	ENGINE_SURVIVES = 1 << 6,     /* sandboxes outlive the daemon and can be attached again */
	ENGINE_POOLS = 1 << 7,	      /* sandboxes may be created in advance; needs resize */
	ENGINE_KEEPS_MEMORY = 1 << 8, /* a snapshot may contain processes; needs snapshot */
	ENGINE_PROXIES = 1 << 9,      /* no link: programs use the agent's proxy (--egress) */
	/*
	 * ENGINE_KEEPS_MEMORY is not decided yet. A snapshot with ENGINE_SNAPSHOT_MEMORY waits
	 * until it is, and on_ready() follows.
	 */
	ENGINE_CHECKS_MEMORY = 1 << 10,
};

/* The sub-tables. */
enum engine_table {
	ENGINE_TABLE_FREEZE,
	ENGINE_TABLE_SNAPSHOT,
	ENGINE_TABLE_RESIZE,
	ENGINE_TABLE_IMAGE,
	ENGINE_TABLE_VOLUME,
	ENGINE_TABLE_NETWORK,
	ENGINE_TABLE_COUNT,
};

struct engine_capabilities {
	uint32_t flags; /* ENGINE_ISOLATES ... */
	/*
	 * Per table NULL, or why this host cannot offer it although the engine has it: a static
	 * text that completes "engine X cannot ... on this host: ".
	 */
	const char *missing[ENGINE_TABLE_COUNT];
	/*
	 * What it holds belongs to one database, which is named here; "": none has claimed it yet.
	 * Only of an engine with claim(). holds: there is at least one sandbox or snapshot.
	 */
	char owner[ENGINE_ID_MAX + 1];
	bool holds;
};

/* ---- sandboxes ---- */

/* The network link of a sandbox besides loopback. */
enum engine_link {
	ENGINE_LINK_NONE,
	ENGINE_LINK_PROXY,  /* a link to the daemon's proxy and resolver */
	ENGINE_LINK_ROUTED, /* the same, and traffic other than TCP and DNS is forwarded */
};

struct engine_limits {
	uint32_t cpu_milli; /* thousandths of a CPU */
	uint32_t memory_mb;
	uint32_t disk_size_mb;
	uint32_t pids_max;
};

/*
 * Names what a sandbox starts from. A template has a name and the hash of its content; a hash of
 * zeros means the current version of the name. Other kinds (an OCI digest) get their own value
 * here.
 */
enum engine_image_kind { ENGINE_IMAGE_TEMPLATE };
struct engine_image_ref {
	enum engine_image_kind kind;
	char name[BOUNDS_NAME_MAX + 1];
	uint8_t hash[ENGINE_HASH_SIZE];
};

struct engine_spec {
	char id[ENGINE_ID_MAX + 1]; /* also the host name inside */
	/*
	 * "", or the snapshot whose files it starts with. The image is then that of the snapshot,
	 * and the one below is ignored.
	 */
	char snapshot_id[ENGINE_ID_MAX + 1];
	bool last_use; /* of a temporary snapshot: it may be consumed */
	bool memory;   /* with the processes in the snapshot; fail if that is not possible */
	struct engine_image_ref image;
	struct engine_limits limits;
	enum engine_link link;
};

/* The link of a sandbox. IPv4 addresses in host byte order; all zero: it has none. */
struct engine_network {
	uint32_t address; /* unique among existing sandboxes */
	uint32_t gateway; /* address of the host where proxy and resolver must be served */
	uint16_t proxy_port, dns_port;
	uint32_t sink; /* an address of this network that no sandbox has; 0: none */
};

struct engine_made {
	struct channel channel; /* to the agent; the completion takes ownership */
	/* readable when the sandbox is dead (a pidfd or similar); -1: none */
	int watch_fd;
	struct engine_network network;
};
/* For a completion whose caller no longer exists. */
static inline void engine_made_close(const struct engine_made *made)
{
	channel_close(&made->channel);
	if (made->watch_fd >= 0)
		(void)close(made->watch_fd);
}

struct engine_stat {
	bool alive;
	bool paused;
	bool oom_killed; /* the memory limit killed a process since the start */
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

/* Completions. arg is the caller's; err NULL means success. */
typedef void (*engine_made_fn)(void *arg, const struct engine_made *made, const struct err *err);
typedef void (*engine_dialed_fn)(void *arg, const struct channel *channel, const struct err *err);
typedef void (*engine_done_fn)(void *arg, const struct err *err);
typedef void (*engine_stat_fn)(void *arg, const struct engine_stat *stat, const struct err *err);
/* Called for each id, then once with NULL. */
typedef void (*engine_list_fn)(void *arg, const char *id, const struct err *err);
/* A snapshot in a list. Without a sandbox_id its description is damaged, and only the id is known.
 */
struct engine_snapshot_entry {
	const char *id, *sandbox_id;
	uint64_t size_bytes;
	bool memory;
	uint8_t template_hash[ENGINE_HASH_SIZE];
};
/* Called for each, then once with NULL. */
typedef void (*engine_entry_fn)(void *arg, const struct engine_snapshot_entry *entry,
				const struct err *err);

struct engine; /* defined by each driver */

/* ---- optional tables ---- */

struct engine_freeze {
	/* Idempotent in both directions. */
	int (*set)(struct engine *engine, const char *id, bool frozen, engine_done_fn done,
		   void *arg, struct err *err);
};

enum {
	/*
	 * For sandboxes that are created from it at once: it need not be durable, and is not
	 * listed.
	 */
	ENGINE_SNAPSHOT_TEMPORARY = 1 << 0,
	/* With its processes where possible. The link breaks; the sandbox can be attached again. */
	ENGINE_SNAPSHOT_MEMORY = 1 << 1,
};
struct engine_snapshot_info {
	uint64_t size_bytes; /* size of its files, shared with others or not */
	bool memory;	     /* it contains the processes */
	/* if ENGINE_SNAPSHOT_MEMORY was requested and is missing: the reason, for people */
	const char *why;
	uint8_t template_hash[ENGINE_HASH_SIZE];
};
typedef void (*engine_snapshot_fn)(void *arg, const struct engine_snapshot_info *snapshot,
				   const struct err *err);
struct engine_snapshot {
	/*
	 * Keeps the files of a running or frozen sandbox as they are at one instant; the sandbox
	 * continues as before. On completion the snapshot is on disk and survives a power failure.
	 * A failed or abandoned operation leaves nothing behind. snapshot_id is a new host label:
	 * otherwise ERR_CONFLICT.
	 */
	int (*take)(struct engine *engine, const char *id, const char *snapshot_id, unsigned flags,
		    engine_snapshot_fn done, void *arg, struct err *err);
	/*
	 * Sandboxes created from it are not affected. Idempotent; one that is still being taken is
	 * cancelled.
	 */
	int (*remove)(struct engine *engine, const char *snapshot_id, engine_done_fn done,
		      void *arg, struct err *err);
	int (*list)(struct engine *engine, engine_entry_fn each, void *arg, struct err *err);
};

struct engine_resize {
	int (*set)(struct engine *engine, const char *id, const struct engine_limits *limits,
		   engine_done_fn done, void *arg, struct err *err);
};

/* Progress of preparing an image. */
struct engine_progress {
	const char *step; /* one line for people, at most ENGINE_STEP_MAX bytes */
};
struct engine_image_watch {
	int log_fd; /* owned by the caller; receives the output of the work. -1: none */
	void (*on_progress)(void *arg, const struct engine_progress *progress); /* may be NULL */
	void (*done)(void *arg, const struct err *err);
	void *arg;
};
typedef void (*engine_have_fn)(void *arg, bool have, const struct err *err);
struct engine_image {
	/* Whether prepare() can make the image: 0, or -1 with err (template_not_found). */
	int (*check)(struct engine *engine, const struct engine_image_ref *image, struct err *err);
	int (*have)(struct engine *engine, const struct engine_image_ref *image,
		    engine_have_fn done, void *arg, struct err *err);
	/* Builds or fetches it. A hash of zeros makes a new version even if there is one. */
	int (*prepare)(struct engine *engine, const struct engine_image_ref *image,
		       const struct engine_image_watch *watch, struct err *err);
	/* Removes all its versions. ERR_CONFLICT while anything on the host needs one. */
	int (*remove)(struct engine *engine, const struct engine_image_ref *image,
		      const struct engine_image_watch *watch, struct err *err);
};

/* Storage that outlives sandboxes. No engine implements it yet. */
struct engine_volume {
	int (*create)(struct engine *engine, const char *volume_id, uint32_t size_mb,
		      engine_done_fn done, void *arg, struct err *err);
	int (*remove)(struct engine *engine, const char *volume_id, engine_done_fn done, void *arg,
		      struct err *err);
	int (*list)(struct engine *engine, engine_list_fn each, void *arg, struct err *err);
};

typedef void (*engine_linked_fn)(void *arg, const struct engine_network *network,
				 const struct err *err);
struct engine_net {
	int (*set)(struct engine *engine, const char *id, enum engine_link link,
		   engine_linked_fn done, void *arg, struct err *err);
};

/* ---- the driver ---- */

/* Where an engine keeps the files of its sandboxes. All zero: it does not count. */
struct engine_storage {
	uint64_t capacity_bytes;
	uint64_t used_bytes;
	uint64_t promised_bytes; /* the disk limits of sandboxes, and what snapshots hold */
};

struct engine_config {
	struct loop *loop;
	const char *state_dir;
	const char *template_dir;
	const char *agent_path; /* the cay-agent program */
	const char *tools_path; /* the cay-tools program; NULL: none */
	bool streams;	/* no channel passes descriptors, as if every agent were on another host */
	int recipes_fd; /* directory of template recipes, owned by the caller; -1: not found */
	const void *settings; /* the driver's struct, from its configuration section */

	/*
	 * The engine can be used, with these capabilities. Called from the loop once after open(),
	 * and again whenever the capabilities change, but never between on_lost() and on_back().
	 */
	void (*on_ready)(void *arg, const struct engine_capabilities *can);
	/*
	 * It cannot be reached, before on_ready() or after; it reconnects by itself. Open
	 * operations fail.
	 */
	void (*on_lost)(void *arg, const struct err *why);
	/* It can be reached again, possibly with other capabilities. Only after on_ready(). */
	void (*on_back)(void *arg, const struct engine_capabilities *can);
	/* What its storage holds now, every second or so. May be NULL. */
	void (*on_storage)(void *arg, const struct engine_storage *storage);
	/* A packet of a sandbox that was neither TCP nor DNS was rejected. May be NULL. */
	void (*on_rejected)(void *arg, uint32_t address, uint32_t to, uint16_t port,
			    uint8_t protocol);
	void *arg;
};

/* What the daemon must keep for an engine when it drops its privileges. */
enum engine_demand {
	/* It starts programs from the daemon, which inherit the daemon's seccomp filter. */
	ENGINE_DEMANDS_EXEC = 1 << 0,
	ENGINE_DEMANDS_PROC_SELF = 1 << 1, /* it opens names below /proc/self/fd */
};

struct engine_driver {
	const char *name;
	const char *label;   /* one line for people: how it isolates */
	const char *warning; /* NULL, or what an operator must know before using it */
	const char *doc;     /* one line in the list of settings, for engine_NAME */
	const char *enable;  /* how an operator enables it, if it is off */
	uint32_t demands;    /* enum engine_demand */

	/* Its configuration section: engine_NAME_SETTING. NULL: it has none. */
	const struct setting *settings;
	size_t setting_count;
	size_t settings_size; /* size of the struct that they fill */

	/* Returns at once; -1 only for errors that do not go away. */
	int (*open)(const struct engine_config *config, struct engine **ret, struct err *err);
	/* Sandboxes continue to run with ENGINE_SURVIVES. */
	void (*close)(struct engine *engine);

	/* Completes with a connection to the new agent, which may not have started yet. */
	int (*create)(struct engine *engine, const struct engine_spec *spec, engine_made_fn done,
		      void *arg, struct err *err);
	/* Finds a running sandbox after a restart of the daemon or the engine, and dials it. */
	int (*attach)(struct engine *engine, const char *id, engine_made_fn done, void *arg,
		      struct err *err);
	/*
	 * One more connection to the agent of a sandbox that was created or attached, because its
	 * link broke.
	 */
	int (*dial)(struct engine *engine, const char *id, engine_dialed_fn done, void *arg,
		    struct err *err);
	/*
	 * Removes everything of the sandbox. On completion it is no longer running; the cleanup
	 * continues in the background. Idempotent.
	 */
	int (*destroy)(struct engine *engine, const char *id, engine_done_fn done, void *arg,
		       struct err *err);
	int (*stat)(struct engine *engine, const char *id, engine_stat_fn done, void *arg,
		    struct err *err);
	int (*list)(struct engine *engine, engine_list_fn each, void *arg, struct err *err);
	/*
	 * Writes down that what it holds belongs to this database (an id). Takes effect before
	 * every call that follows; on_ready() repeats it. NULL: nothing of it outlives the daemon's
	 * state.
	 */
	void (*claim)(struct engine *engine, const char *owner);

	/* NULL if the engine lacks the feature. */
	const struct engine_freeze *freeze;
	const struct engine_snapshot *snapshot;
	const struct engine_resize *resize;
	const struct engine_image *image;
	const struct engine_volume *volume;
	const struct engine_net *network;
};

#endif
