/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside src/service only: the service object and its engines.
 *
 * Headers of the service: X.h is for faces and themes, X_internal.h for all themes, X_private.h
 * for the files of its own folder.
 */
#ifndef CAY_SERVICE_SERVICE_PRIVATE_H
#define CAY_SERVICE_SERVICE_PRIVATE_H

#include "base/map.h"
#include "base/time.h"
#include "engine/instance.h"
#include "net/loop.h"
#include "service/account/auth.h"
#include "service/op_internal.h"
#include "service/sandbox/record_internal.h"
#include "service/service.h"
#include "store/store.h"

#define SERVICE_TICK_MS 1000

struct service_engine {
	struct service *service;
	struct instance instance;
	bool lost;
	bool listed; /* its sandboxes have been reconciled at least once */
	bool listing;
	bool foreign;	 /* its content belongs to another database: pairing.c */
	bool recovering; /* recover_engine.c is in progress */
	struct engine_storage storage;
	bool storage_low;	   /* storage is nearly full, and the event was published */
	char why[ERR_MESSAGE_MAX]; /* the reason, when the engine is not usable */
};

/* pairing.c: the id of the database, and whether an engine was ever claimed with it. */
#define PAIRING_ID_LEN 26
struct pairing {
	char id[PAIRING_ID_LEN + 1];
	bool paired;
};

/* state_disk.c: as last seen; 0: not yet. */
struct state_disk {
	uint64_t capacity_bytes, free_bytes;
	bool low; /* and that was reported */
};

/* steady_internal.h: the steady clock. */
#define STEADY_TEXT_SIZE 160
struct steady {
	bool opened;
	int64_t distance_ms; /* steady time minus boot time */
	int64_t offset_ms;   /* wall time minus steady time, as last seen */
	int64_t low_ms;	     /* the lowest offset before that */
	int64_t since_ms;    /* steady time since which the offset holds */
	int64_t set_before_ms;
	char last_boot_id[TIME_BOOT_ID_SIZE];
	int64_t last_boot_ms; /* of that boot, when it was last recorded */
};

struct sandboxes;
struct runs;
struct file_runs;
struct network;
struct copies;
struct accounts;
struct secrets;
struct events;
struct templates;
struct pools;

/* State that every theme may use. */
struct upkeep {
	struct op_list ops; /* in progress, except those in the list of a theme */
	struct loop_timer *tick_timer;
	uint32_t ticks;
	int64_t last_seq; /* the last sequence number: see service_next_seq() */
	bool checkpointing;
	bool closing; /* the service closes: no new sandboxes */
	struct service_counters counters;
	struct pairing pairing;
	struct steady steady;
	struct state_disk disk;
};

/*
 * The object itself. The state of a theme is a struct that only the theme's own folder sees
 * (THEME_private.h); other themes use the functions of its *_internal.h.
 */
struct service {
	struct service_config config;
	struct store *store;
	struct service_engine *engines; /* enabled ones; the first is the default */
	size_t engine_count;
	struct upkeep upkeep;
	struct sandboxes *sandboxes;
	struct runs *runs;
	struct file_runs *file_runs;
	struct network *network;
	struct copies *copies;
	struct accounts *accounts;
	struct secrets *secrets;
	struct events *events;
	struct templates *templates;
	struct pools *pools;
};

/* service.c */
/* A number greater than all earlier ones, also across restarts. Lists are in this order. */
int64_t service_next_seq(struct service *service);
void service_saw_seq(struct service *service, int64_t seq); /* for a row that was loaded */
void service_wrote(struct service *service); /* after a commit: may start a checkpoint */
/*
 * A write to the store failed with -errno r. Sets err (capacity_exceeded if the disk is full,
 * otherwise internal) and returns -1.
 */
int service_unrecorded(struct err *err, int r, const char *what);

/* engines.c */
int engines_open(struct service *service, struct err *err) _must_check_;
void engines_close(struct service *service);
void engines_tick(struct service *service);
const char *engine_name(const struct service_engine *engine);
/* The engine answers and its sandboxes are known. */
bool engine_usable(const struct service_engine *engine);
struct service_engine *service_engine_find(struct service *service, struct str name,
					   struct err *err);
struct service_engine *service_engine_by_name(struct service *service, const char *name);

#endif
