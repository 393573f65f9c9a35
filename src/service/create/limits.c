/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits for the size and lifetime of a sandbox, from the operator's settings (max_cpu_count and
 * those after it). Faces show and check the same limits; this check applies to every face. The
 * warden has bounds of its own (base/value/bounds.h).
 */
#include "base/value/bounds.h"
#include "service/range_internal.h"
#include "service/create/limits_internal.h"
#include "service/sandbox/sandbox.h"

static int refuse(const char *name, double min, double max, struct err *err)
{
	return err_set(err, ERR_INVALID_REQUEST, "%s must be a number from %.12g to %.12g", name,
		       min, max);
}

int limits_check_time(const struct service *service, const char *name, int64_t sec, struct err *err)
{
	uint32_t max = service->config.max_timeout_sec;

	return sec < 0 || sec > max ? refuse(name, 0, max, err) : 0;
}

int limits_check_name(struct str name, struct err *err)
{
	return range_check_name("name", name, SANDBOX_NAME_MAX, err);
}

static int check_texts(const struct sandbox_spec *spec, struct err *err)
{
	if (limits_check_name(spec->name, err) < 0 ||
	    range_check_name("engine", spec->engine, SANDBOX_ENGINE_MAX, err) < 0)
		return -1;
	return range_check_text("external_workspace_id", spec->external_workspace_id, 0,
				SANDBOX_WORKSPACE_MAX, err);
}

int limits_check(const struct service *service, const struct sandbox_spec *spec, struct err *err)
{
	const struct service_config *c = &service->config;

	if (spec->cpu_milli < BOUNDS_CPU_MILLI_MIN || spec->cpu_milli > c->max_cpu_milli)
		return refuse("cpu_count", BOUNDS_CPU_MILLI_MIN / 1e3, c->max_cpu_milli / 1e3, err);
	if (spec->memory_mb < BOUNDS_MEMORY_MB_MIN || spec->memory_mb > c->max_memory_mb)
		return refuse("memory_mb", BOUNDS_MEMORY_MB_MIN, c->max_memory_mb, err);
	if (spec->disk_size_mb < BOUNDS_DISK_MB_MIN || spec->disk_size_mb > c->max_disk_size_mb)
		return refuse("disk_size_mb", BOUNDS_DISK_MB_MIN, c->max_disk_size_mb, err);
	if (check_texts(spec, err) < 0 ||
	    range_check("pool.wait_ms", spec->pool_wait_ms, 0, SANDBOX_POOL_WAIT_MAX_MS, err) < 0 ||
	    limits_check_time(service, "timeout_sec", spec->timeout_sec, err) < 0)
		return -1;
	return limits_check_time(service, "idle_timeout_sec", spec->idle_timeout_sec, err);
}
