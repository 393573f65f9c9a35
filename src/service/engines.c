/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the engines of this daemon and follows their availability (ready, lost, back). A lost
 * engine keeps its sandboxes; the service reconciles with it when it is back.
 */
#include <stdio.h>

#include "base/log.h"
#include "engine/registry.h"
#include "service/event/event_internal.h"
#include "service/network/egress_internal.h"
#include "service/pairing_internal.h"
#include "service/sandbox/recover_internal.h"
#include "service/service_internal.h"

#define STORAGE_LOW_PERCENT 80
#define STORAGE_ENOUGH_PERCENT 75

const char *engine_name(const struct service_engine *engine)
{
	return engine->instance.driver->name;
}

bool engine_usable(const struct service_engine *engine)
{
	return engine->instance.ready && !engine->lost && engine->listed;
}

struct service_engine *service_engine_by_name(struct service *service, const char *name)
{
	for (size_t i = 0; i < service->engine_count; i++)
		if (strcmp(engine_name(&service->engines[i]), name) == 0)
			return &service->engines[i];
	return NULL;
}

static void refuse_engine(const struct service *service, struct str name, struct err *err)
{
	const struct engine_choice *disabled = NULL;
	char there[128] = "";
	size_t n = 0;

	for (size_t i = 0; i < service->engine_count && n < sizeof(there); i++)
		n += (size_t)snprintf(there + n, sizeof(there) - n, "%s%s", n ? ", " : "",
				      engine_name(&service->engines[i]));
	for (size_t i = 0; i < service->config.engine_count && !disabled; i++)
		if (str_is(name, service->config.engines[i].driver->name))
			disabled = &service->config.engines[i];
	(void)err_set(err, ERR_INVALID_REQUEST,
		      "engine '%.*s' is not enabled on this host; enabled: %s%s%s",
		      (int)MIN(name.n, 64), name.p, there[0] ? there : "none",
		      disabled ? "; the operator can allow it: " : "",
		      disabled ? disabled->driver->enable : "");
}

static void set_not_ready(const struct service_engine *engine, struct err *err)
{
	/* A foreign engine stays unusable until an operator acts, so retrying does not help. */
	(void)err_set(err, engine->foreign ? ERR_CONFLICT : ERR_UNAVAILABLE,
		      "engine %s is not ready: %s", engine_name(engine),
		      engine->why[0] ? engine->why : "the connection is being made");
}

struct service_engine *service_engine_find(struct service *service, struct str name,
					   struct err *err)
{
	struct service_engine *engine = NULL;

	for (size_t i = 0; i < service->engine_count && !engine; i++)
		if (!name.n || str_is(name, engine_name(&service->engines[i])))
			engine = &service->engines[i];
	if (!engine)
		refuse_engine(service, name, err);
	else if (!engine_usable(engine))
		set_not_ready(engine, err);
	else
		return engine;
	return NULL;
}

/* ---- events of engines ---- */

static void on_ready(void *arg, const struct engine_capabilities *can)
{
	struct service_engine *engine = arg;
	bool first = !engine->instance.ready;

	engine->instance.can = *can;
	engine->instance.ready = true;
	if (!first)
		return;
	engine->lost = !pairing_check(engine);
	if (engine->lost)
		return;
	engine->why[0] = '\0';
	log_info("engine %s is ready", engine_name(engine));
	reconcile_start(engine);
}

static void on_lost(void *arg, const struct err *why)
{
	struct service_engine *engine = arg;

	engine->lost = true;
	(void)snprintf(engine->why, sizeof(engine->why), "%s", why->message);
	log_warn("engine %s is lost: %s; its sandboxes continue to run", engine_name(engine),
		 why->message);
}

static void on_back(void *arg, const struct engine_capabilities *can)
{
	struct service_engine *engine = arg;

	engine->instance.can = *can;
	engine->lost = !pairing_check(engine);
	if (engine->lost)
		return;
	engine->why[0] = '\0';
	log_info("engine %s is back", engine_name(engine));
	engine->listing = false;
	reconcile_start(engine);
}

/* Publishes the event once per crossing of the low-space threshold. */
static void on_storage(void *arg, const struct engine_storage *storage)
{
	struct service_engine *engine = arg;
	uint64_t used = storage->used_bytes / 1024 * 100;
	uint64_t unit = storage->capacity_bytes / 1024;

	engine->storage = *storage;
	if (engine->storage_low && used < unit * STORAGE_ENOUGH_PERCENT) {
		engine->storage_low = false;
	} else if (!engine->storage_low && unit && used >= unit * STORAGE_LOW_PERCENT) {
		engine->storage_low = true;
		log_warn("engine %s: storage is nearly full: %llu of %llu MiB", engine_name(engine),
			 (unsigned long long)(storage->used_bytes >> 20),
			 (unsigned long long)(storage->capacity_bytes >> 20));
		event_storage_low(engine->service, engine_name(engine), storage);
	}
}

static void on_rejected(void *arg, uint32_t address, uint32_t to, uint16_t port, uint8_t protocol)
{
	struct service_engine *engine = arg;

	egress_rejected(engine->service, address, to, port, protocol);
}

/* ---- open and close ---- */

static int open_one(struct service_engine *engine, const struct engine_choice *choice,
		    struct err *err)
{
	const struct service_config *config = &engine->service->config;
	struct engine_config own = { .loop = config->loop,
				     .state_dir = config->state_dir,
				     .template_dir = config->template_dir,
				     .agent_path = config->agent_path,
				     .tools_path = config->tools_path,
				     .recipes_fd = config->recipes_fd,
				     .streams = config->streams,
				     .settings = choice->settings,
				     .on_ready = on_ready,
				     .on_lost = on_lost,
				     .on_back = on_back,
				     .on_storage = on_storage,
				     .on_rejected = on_rejected,
				     .arg = engine };

	engine->instance.driver = choice->driver;
	if (choice->driver->warning)
		log_warn("engine %s: %s", choice->driver->name, choice->driver->warning);
	return choice->driver->open(&own, &engine->instance.engine, err);
}

static int refuse_none(const struct service_config *config, struct err *err)
{
	char ways[200] = "";
	size_t n = 0;

	for (size_t i = 0; i < config->engine_count && n < sizeof(ways); i++)
		n += (size_t)snprintf(ways + n, sizeof(ways) - n, "%s%s", n ? ", or " : "",
				      config->engines[i].driver->enable);
	return err_set(err, ERR_INVALID_REQUEST, "no engine is enabled; enable one: %s", ways);
}

int engines_open(struct service *service, struct err *err)
{
	const struct service_config *config = &service->config;

	service->engines = calloc(config->engine_count + 1, sizeof(*service->engines));
	if (!service->engines)
		return err_set(err, ERR_INTERNAL, "out of memory");
	for (size_t i = 0; i < config->engine_count; i++) {
		struct service_engine *engine = &service->engines[service->engine_count];

		if (!config->engines[i].enabled)
			continue;
		service->engine_count++;
		engine->service = service;
		if (open_one(engine, &config->engines[i], err) < 0)
			return -1;
	}
	return service->engine_count ? 0 : refuse_none(config, err);
}

void engines_close(struct service *service)
{
	for (size_t i = 0; i < service->engine_count; i++)
		if (service->engines[i].instance.engine)
			service->engines[i].instance.driver->close(
				service->engines[i].instance.engine);
	free(service->engines);
}

void engines_tick(struct service *service)
{
	for (size_t i = 0; i < service->engine_count; i++) {
		struct service_engine *engine = &service->engines[i];

		if (engine->instance.ready && !engine->lost && !engine->listed)
			reconcile_start(engine);
	}
}

/* ---- views for faces ---- */

bool service_ready(const struct service *service, struct err *err)
{
	for (size_t i = 0; i < service->engine_count; i++) {
		const struct service_engine *engine = &service->engines[i];

		if (!engine_usable(engine) && (i == 0 || !engine->lost)) {
			set_not_ready(engine, err);
			return false;
		}
	}
	if (service->upkeep.closing) {
		(void)err_set(err, ERR_UNAVAILABLE, "the daemon is shutting down");
		return false;
	}
	return true;
}

bool service_engine_view(const struct service *service, size_t i, struct engine_view *ret)
{
	const struct service_engine *engine;
	const struct instance *instance;

	if (i >= service->engine_count)
		return false;
	engine = &service->engines[i];
	instance = &engine->instance;
	*ret = (struct engine_view){
		.name = instance->driver->name,
		.label = instance->driver->label,
		.why = engine->why[0] ? engine->why : NULL,
		.warning = instance->driver->warning,
		.is_default = i == 0,
		.is_available = engine_usable(engine),
		.disk_enforced = instance_can(instance, CAN_LIMIT_DISK),
		.network = instance_can(instance, CAN_NETWORK) ? "transparent"
			   : instance_can(instance, CAN_PROXY) ? "proxied"
							       : "none",
	};
	return true;
}

bool service_engine_capability(const struct service *service, size_t i, int which,
			       const char **ret_name, bool *ret_can)
{
	if (i >= service->engine_count || which >= CAPABILITY_COUNT)
		return false;
	*ret_name = capability_name((enum capability)which);
	*ret_can = instance_can(&service->engines[i].instance, (enum capability)which);
	return true;
}

void service_warnings(const struct service *service, void (*fn)(void *arg, const char *text),
		      void *arg)
{
	if (service->upkeep.disk.low)
		fn(arg, "state directory: its disk is nearly full. Free space on it, or delete "
			"snapshots and sandboxes");
	for (size_t i = 0; i < service->engine_count; i++) {
		const struct service_engine *engine = &service->engines[i];
		const struct instance *instance = &engine->instance;

		if (instance->driver->warning)
			fn(arg, instance->driver->warning);
		if (engine->why[0])
			fn(arg, engine->why);
		if (engine->storage_low)
			fn(arg, "storage: nearly full. Delete snapshots or sandboxes, or free "
				"space on the disk of the state directory");
		if (instance_can(instance, CAN_ISOLATE) && !instance_can(instance, CAN_LIMIT_DISK))
			fn(arg, "disk_limit: unenforced. The storage has no quotas, so "
				"disk_size_mb does not limit a sandbox");
	}
}
