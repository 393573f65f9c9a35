/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/instance.h"

#define NO_TABLE ENGINE_TABLE_COUNT

/* A capability exists if its table does, this host offers it, and all of its flags are set. */
static const struct {
	const char *name;
	enum engine_table table;
	uint32_t flags;
} capabilities[CAPABILITY_COUNT] = {
	[CAN_ISOLATE] = { "isolate", NO_TABLE, ENGINE_ISOLATES },
	[CAN_OWN_TREE] = { "own_tree", NO_TABLE, ENGINE_OWN_TREE },
	[CAN_LIMIT_MEMORY] = { "limit_memory", NO_TABLE, ENGINE_LIMITS_MEMORY },
	[CAN_LIMIT_CPU] = { "limit_cpu", NO_TABLE, ENGINE_LIMITS_CPU },
	[CAN_LIMIT_PIDS] = { "limit_pids", NO_TABLE, ENGINE_LIMITS_PIDS },
	[CAN_LIMIT_DISK] = { "limit_disk", NO_TABLE, ENGINE_LIMITS_DISK },
	[CAN_SURVIVE] = { "survive_restart", NO_TABLE, ENGINE_SURVIVES },
	[CAN_POOL] = { "pool", ENGINE_TABLE_RESIZE, ENGINE_POOLS },
	[CAN_FREEZE] = { "pause", ENGINE_TABLE_FREEZE, 0 },
	[CAN_SNAPSHOT] = { "snapshot", ENGINE_TABLE_SNAPSHOT, 0 },
	[CAN_SNAPSHOT_MEMORY] = { "snapshot_memory", ENGINE_TABLE_SNAPSHOT, ENGINE_KEEPS_MEMORY },
	[CAN_RESIZE] = { "resize", ENGINE_TABLE_RESIZE, 0 },
	[CAN_IMAGE] = { "image", ENGINE_TABLE_IMAGE, 0 },
	[CAN_VOLUME] = { "volume", ENGINE_TABLE_VOLUME, 0 },
	[CAN_NETWORK] = { NULL, ENGINE_TABLE_NETWORK, 0 },
	[CAN_PROXY] = { NULL, NO_TABLE, ENGINE_PROXIES },
};

static bool has_table(const struct engine_driver *driver, enum engine_table table)
{
	switch (table) {
	case ENGINE_TABLE_FREEZE:
		return driver->freeze != NULL;
	case ENGINE_TABLE_SNAPSHOT:
		return driver->snapshot != NULL;
	case ENGINE_TABLE_RESIZE:
		return driver->resize != NULL;
	case ENGINE_TABLE_IMAGE:
		return driver->image != NULL;
	case ENGINE_TABLE_VOLUME:
		return driver->volume != NULL;
	case ENGINE_TABLE_NETWORK:
		return driver->network != NULL;
	case ENGINE_TABLE_COUNT:
		break;
	}
	return true;
}

static const char *missing(const struct instance *instance, enum engine_table table)
{
	return table < ENGINE_TABLE_COUNT ? instance->can.missing[table] : NULL;
}

const char *capability_name(enum capability capability)
{
	return capabilities[capability].name;
}

bool instance_can(const struct instance *instance, enum capability capability)
{
	enum engine_table table = capabilities[capability].table;
	uint32_t flags = capabilities[capability].flags;

	return instance->ready && has_table(instance->driver, table) && !missing(instance, table) &&
	       (instance->can.flags & flags) == flags;
}

bool instance_may(const struct instance *instance, enum capability capability)
{
	if (capability == CAN_SNAPSHOT_MEMORY && instance_can(instance, CAN_SNAPSHOT) &&
	    (instance->can.flags & ENGINE_CHECKS_MEMORY))
		return true;
	return instance_can(instance, capability);
}

static int refuse(const struct instance *instance, const char *why, const char *field,
		  const char *action, struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED_BY_ENGINE, "%s%sengine %s cannot %s on this host%s%s",
		       field ? field : "", field ? ": " : "", instance->driver->name, action,
		       why ? ": " : "", why ? why : "");
}

static int not_ready(const struct instance *instance, struct err *err)
{
	return err_set(err, ERR_UNAVAILABLE, "engine %s is not ready", instance->driver->name);
}

int instance_need(const struct instance *instance, enum capability capability, const char *field,
		  const char *action, struct err *err)
{
	if (instance_can(instance, capability))
		return 0;
	if (!instance->ready)
		return not_ready(instance, err);
	return refuse(instance, missing(instance, capabilities[capability].table), field, action,
		      err);
}

/* For calls of a sub-table: it exists, and the engine can be used. */
static int open_table(const struct instance *instance, enum engine_table table, const char *action,
		      struct err *err)
{
	if (!has_table(instance->driver, table))
		return refuse(instance, NULL, NULL, action, err);
	return instance->ready ? 0 : not_ready(instance, err);
}

/* ---- the core ---- */

int instance_create(const struct instance *instance, const struct engine_spec *spec,
		    engine_made_fn done, void *arg, struct err *err)
{
	if (!instance->ready)
		return not_ready(instance, err);
	return instance->driver->create(instance->engine, spec, done, arg, err);
}

int instance_attach(const struct instance *instance, const char *id, engine_made_fn done, void *arg,
		    struct err *err)
{
	if (!instance->ready)
		return not_ready(instance, err);
	return instance->driver->attach(instance->engine, id, done, arg, err);
}

int instance_dial(const struct instance *instance, const char *id, engine_dialed_fn done, void *arg,
		  struct err *err)
{
	if (!instance->ready)
		return not_ready(instance, err);
	return instance->driver->dial(instance->engine, id, done, arg, err);
}

int instance_destroy(const struct instance *instance, const char *id, engine_done_fn done,
		     void *arg, struct err *err)
{
	if (!instance->ready)
		return not_ready(instance, err);
	return instance->driver->destroy(instance->engine, id, done, arg, err);
}

int instance_stat(const struct instance *instance, const char *id, engine_stat_fn done, void *arg,
		  struct err *err)
{
	if (!instance->ready)
		return not_ready(instance, err);
	return instance->driver->stat(instance->engine, id, done, arg, err);
}

int instance_list(const struct instance *instance, engine_list_fn each, void *arg, struct err *err)
{
	if (!instance->ready)
		return not_ready(instance, err);
	return instance->driver->list(instance->engine, each, arg, err);
}

/* ---- the sub-tables ---- */

int instance_freeze(const struct instance *instance, const char *id, bool frozen,
		    engine_done_fn done, void *arg, struct err *err)
{
	if (open_table(instance, ENGINE_TABLE_FREEZE, "pause", err) < 0)
		return -1;
	return instance->driver->freeze->set(instance->engine, id, frozen, done, arg, err);
}

int instance_resize(const struct instance *instance, const char *id,
		    const struct engine_limits *limits, engine_done_fn done, void *arg,
		    struct err *err)
{
	if (open_table(instance, ENGINE_TABLE_RESIZE, "change limits", err) < 0)
		return -1;
	return instance->driver->resize->set(instance->engine, id, limits, done, arg, err);
}

int instance_relink(const struct instance *instance, const char *id, enum engine_link link,
		    engine_linked_fn done, void *arg, struct err *err)
{
	if (open_table(instance, ENGINE_TABLE_NETWORK, "change a network", err) < 0)
		return -1;
	return instance->driver->network->set(instance->engine, id, link, done, arg, err);
}

int instance_snapshot(const struct instance *instance, const char *id, const char *snapshot_id,
		      unsigned flags, engine_snapshot_fn done, void *arg, struct err *err)
{
	if (instance_need(instance, CAN_SNAPSHOT, NULL, "take a snapshot", err) < 0)
		return -1;
	return instance->driver->snapshot->take(instance->engine, id, snapshot_id, flags, done, arg,
						err);
}

int instance_snapshot_remove(const struct instance *instance, const char *snapshot_id,
			     engine_done_fn done, void *arg, struct err *err)
{
	if (open_table(instance, ENGINE_TABLE_SNAPSHOT, "remove a snapshot", err) < 0)
		return -1;
	return instance->driver->snapshot->remove(instance->engine, snapshot_id, done, arg, err);
}

int instance_snapshot_list(const struct instance *instance, engine_entry_fn each, void *arg,
			   struct err *err)
{
	if (open_table(instance, ENGINE_TABLE_SNAPSHOT, "list snapshots", err) < 0)
		return -1;
	return instance->driver->snapshot->list(instance->engine, each, arg, err);
}

int instance_image_check(const struct instance *instance, const struct engine_image_ref *image,
			 struct err *err)
{
	if (open_table(instance, ENGINE_TABLE_IMAGE, "build templates", err) < 0)
		return -1;
	return instance->driver->image->check(instance->engine, image, err);
}

int instance_image_have(const struct instance *instance, const struct engine_image_ref *image,
			engine_have_fn done, void *arg, struct err *err)
{
	if (open_table(instance, ENGINE_TABLE_IMAGE, "look for an image", err) < 0)
		return -1;
	return instance->driver->image->have(instance->engine, image, done, arg, err);
}

int instance_image_prepare(const struct instance *instance, const struct engine_image_ref *image,
			   const struct engine_image_watch *watch, struct err *err)
{
	if (open_table(instance, ENGINE_TABLE_IMAGE, "prepare an image", err) < 0)
		return -1;
	return instance->driver->image->prepare(instance->engine, image, watch, err);
}

int instance_image_remove(const struct instance *instance, const struct engine_image_ref *image,
			  const struct engine_image_watch *watch, struct err *err)
{
	if (open_table(instance, ENGINE_TABLE_IMAGE, "remove an image", err) < 0)
		return -1;
	return instance->driver->image->remove(instance->engine, image, watch, err);
}
