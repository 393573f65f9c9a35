/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An opened engine: its capabilities, and every call to it. This is the only place that decides
 * what an engine cannot do (unsupported_by_engine) and that it cannot be used yet (unavailable).
 * The functions follow the contract of engine/driver.h. The service calls them.
 */
#ifndef CAY_ENGINE_INSTANCE_H
#define CAY_ENGINE_INSTANCE_H

#include "engine/driver.h"

/* Owner: the service, which fills it at open and with every on_ready() and on_back(). */
struct instance {
	const struct engine_driver *driver;
	struct engine *engine; /* NULL: not opened */
	bool ready;	       /* the capabilities are known */
	struct engine_capabilities can;
};

/* The capabilities of an engine, in the order of GET /v1/options. */
enum capability {
	CAN_ISOLATE,
	CAN_OWN_TREE,
	CAN_LIMIT_MEMORY,
	CAN_LIMIT_CPU,
	CAN_LIMIT_PIDS,
	CAN_LIMIT_DISK,
	CAN_SURVIVE,
	CAN_POOL,
	CAN_FREEZE,
	CAN_SNAPSHOT,
	CAN_SNAPSHOT_MEMORY,
	CAN_RESIZE,
	CAN_IMAGE,
	CAN_VOLUME,
	CAN_NETWORK, /* with its own links; this and the next are the text "network" there */
	CAN_PROXY,
	CAPABILITY_COUNT,
};
/* The name in GET /v1/options; NULL: part of a text there. */
const char *capability_name(enum capability capability);
/* False while the capabilities are unknown. */
bool instance_can(const struct instance *instance, enum capability capability);
/* As instance_can(), and also while the engine has not decided yet: a call that needs it then waits
 * in the engine. */
bool instance_may(const struct instance *instance, enum capability capability);
/*
 * 0, or unsupported_by_engine: "FIELD: engine X cannot ACTION on this host: why". field may be
 * NULL.
 */
int instance_need(const struct instance *instance, enum capability capability, const char *field,
		  const char *action, struct err *err) _must_check_;

int instance_create(const struct instance *instance, const struct engine_spec *spec,
		    engine_made_fn done, void *arg, struct err *err);
int instance_attach(const struct instance *instance, const char *id, engine_made_fn done, void *arg,
		    struct err *err);
int instance_dial(const struct instance *instance, const char *id, engine_dialed_fn done, void *arg,
		  struct err *err);
int instance_destroy(const struct instance *instance, const char *id, engine_done_fn done,
		     void *arg, struct err *err);
int instance_stat(const struct instance *instance, const char *id, engine_stat_fn done, void *arg,
		  struct err *err);
int instance_list(const struct instance *instance, engine_list_fn each, void *arg, struct err *err);

int instance_freeze(const struct instance *instance, const char *id, bool frozen,
		    engine_done_fn done, void *arg, struct err *err);
int instance_resize(const struct instance *instance, const char *id,
		    const struct engine_limits *limits, engine_done_fn done, void *arg,
		    struct err *err);
int instance_relink(const struct instance *instance, const char *id, enum engine_link link,
		    engine_linked_fn done, void *arg, struct err *err);
int instance_snapshot(const struct instance *instance, const char *id, const char *snapshot_id,
		      unsigned flags, engine_snapshot_fn done, void *arg, struct err *err);
/* Snapshots can be removed on a host without the capability: only the table is needed. */
int instance_snapshot_remove(const struct instance *instance, const char *snapshot_id,
			     engine_done_fn done, void *arg, struct err *err);
int instance_snapshot_list(const struct instance *instance, engine_entry_fn each, void *arg,
			   struct err *err);
int instance_image_check(const struct instance *instance, const struct engine_image_ref *image,
			 struct err *err);
int instance_image_have(const struct instance *instance, const struct engine_image_ref *image,
			engine_have_fn done, void *arg, struct err *err);
int instance_image_prepare(const struct instance *instance, const struct engine_image_ref *image,
			   const struct engine_image_watch *watch, struct err *err);
int instance_image_remove(const struct instance *instance, const struct engine_image_ref *image,
			  const struct engine_image_watch *watch, struct err *err);

#endif
