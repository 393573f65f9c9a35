/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: the service object, its engines, and calls of theirs under way. */
#ifndef CAY_SERVICE_SERVICE_PRIVATE_H
#define CAY_SERVICE_SERVICE_PRIVATE_H

#include "base/map.h"
#include "base/time.h"
#include "engine/driver.h"
#include "net/loop.h"
#include "service/account/auth.h"
#include "service/sandbox/sandbox.h"
#include "service/service.h"
#include "store/store.h"

#define SERVICE_TICK_MS 1000
#define TOMBSTONES 256 /* the last ended sandboxes, so that a 404 can say why; older go */
#define POOLS_MAX 16   /* templates with a pool at once; others are made cold */
#define FORGET_MAX 128 /* rows waiting for deletion; at the limit they go at once */
#define BUILDS_MAX 64  /* remembered builds; the oldest finished one is dropped */

struct service_engine {
	struct service *service;
	const struct engine_driver *driver;
	struct engine *engine; /* NULL: could not be opened */
	uint32_t capabilities;
	bool lost;
	bool listed; /* its sandboxes have been reconciled at least once */
	bool listing;
	char why[ERR_MESSAGE_MAX]; /* when it is not usable */
};

/* One operation of an engine or link under way. The service may end before it: then service is
 * NULL and the completion only frees. */
struct call {
	struct call *prev, *next;
	struct service *service;
	slot_handle sandbox;
	struct service_engine *engine;
	void (*fn)(void); /* the waiting face's function, cast back by whoever set it */
	void *arg;
	char id[ENGINE_ID_MAX + 1];
};

struct tombstone {
	char id[SANDBOX_ID_LEN + 1];
	char owner[AUTH_KEY_ID_SIZE];
	uint8_t reason;
	bool every_port; /* it had a preview of all of them */
};

struct service {
	struct service_config config;
	struct loop *loop;
	struct store *store;
	char boot_id[TIME_BOOT_ID_SIZE];
	int64_t wall_distance_ms; /* from the boot clock to the wall clock, see clock.c */
	struct service_engine engines[SERVICE_ENGINES_MAX];
	size_t engine_count;

	struct slot_table sandboxes;
	struct map by_id;
	struct map by_name;		 /* "owner/name" */
	struct map by_address;		 /* of links */
	struct sandbox *oldest, *newest; /* visible ones by seq */
	uint32_t live_count;		 /* handed out or being made for somebody */
	int64_t last_row, last_seq;
	struct map snapshots; /* by id */
	struct snapshot *oldest_snapshot, *newest_snapshot;
	uint32_t snapshots_deleting; /* calls of engines under way */
	struct fork *forks;
	struct batch *batches;
	struct call *calls;
	struct port_dial *dials;
	uint32_t dial_count;
	struct slot_table execs;
	struct slot_table follows;
	struct exit_watch *exit_watches;
	struct slot_table window_calls;
	struct slot_table code_jobs;
	struct process_start *starts;
	uint32_t stream_count;
	struct slot_table files;
	uint32_t wait_count; /* of READY_WAITS_MAX */
	struct tombstone tombstones[TOMBSTONES];
	uint32_t tombstone_next;

	struct vault *vault;	   /* NULL: there has been no secret yet */
	uint32_t vault_generation; /* grows with every rotation */
	struct map secrets;	   /* by id */
	struct secret *oldest_secret, *newest_secret;

	struct bus *bus;
	struct usage_row *usage_first, *usage_last; /* not yet written */
	uint32_t usage_count, metered_count, history_count;
	int64_t usage_rolled_ms; /* until then intervals may be summed up per day */
	bool usage_rolling;	 /* and more of them are due */
	int64_t alive_ms;	 /* when the engines last knew their sandboxes */
	bool rebooted;		 /* the host, since the last start; until every engine was asked */
	bool boot_saved;
	uint32_t wakes; /* sandboxes to wake */

	uint8_t access_secret[32]; /* see access_token.c */
	struct map webhooks;	   /* by id */
	struct webhook *oldest_webhook, *newest_webhook;
	struct webhook *hooks_first, *hooks_last; /* waiting for one of webhooks_at_once */
	uint32_t hooks_posting;

	struct map keys_by_hash;
	struct map keys_by_id;
	struct map tickets; /* by hash */
	struct template *templates;
	struct map template_refs; /* name -> struct template_ref */
	struct pool *pools[POOLS_MAX];
	struct build *builds[BUILDS_MAX];
	struct map idempotency; /* "owner/key" -> struct idempotency under way */

	struct loop_timer *deadline_timer;
	int64_t deadline_ms; /* boot clock of the next due look; 0: none */
	struct loop_timer *tick_timer;
	uint32_t ticks;
	bool checkpointing;
	struct loop_timer *forget_timer;
	bool forget_armed;
	uint32_t forgotten_count;
	int64_t forgotten[FORGET_MAX];

	void (*drained)(void *arg, const struct err *err);
	void *drained_arg;
	int64_t drain_limit_ms;
	bool closing; /* no new sandboxes */
	struct service_counters counters;
};

/* engine_call.c */
struct call *call_new(struct service *service, slot_handle sandbox, struct err *err);
/* Unlinks and frees; the service it belonged to, or NULL when that is gone. */
struct service *call_end(struct call *call);
/* The same for its sandbox, or NULL when that or all is gone. */
struct sandbox *call_end_sandbox(struct call *call);

/* service.c */
void service_wrote(struct service *service); /* after a commit: maybe checkpoint */
/* Something could not be written, for -errno r: always -1. A full disk is not our fault, nor
 * theirs. */
int service_unrecorded(struct err *err, int r, const char *what);
struct service_engine *service_engine_find(struct service *service, struct str name,
					   struct err *err);
struct service_engine *service_engine_by_name(struct service *service, const char *name);

#endif
