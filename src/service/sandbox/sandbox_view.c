/* SPDX-License-Identifier: Apache-2.0 */
/* The public properties of a sandbox. */
#include "service/copy/transition_internal.h"
#include "service/sandbox/sandbox_internal.h"

void sandbox_view(const struct sandbox *sandbox, struct sandbox_view *ret)
{
	const struct sandbox_attrs *attrs = &sandbox->attrs;

	*ret = (struct sandbox_view){
		.handle = sandbox->handle,
		.id = sandbox->id,
		.engine = engine_name(sandbox->engine),
		.name = attrs->name,
		.external_workspace_id = attrs->external_workspace_id,
		.last_error = sandbox->last_error,
		.template = sandbox->template,
		.state = sandbox_state(sandbox),
		.reason = sandbox->reason,
		.boot = sandbox->boot,
		.pause_kind = sandbox_pause_kind(sandbox),
		.pool_mode = attrs->pool_mode,
		.on_timeout = attrs->on_timeout,
		.memory_preserved = sandbox_keeps_memory(sandbox),
		.in_transition = sandbox_transition(sandbox) != TRANSITION_NONE,
		.disk_enforced = instance_can(&sandbox->engine->instance, CAN_LIMIT_DISK),
		.always_on = attrs->always_on,
		.auto_resume = attrs->auto_resume,
		.cpu_milli = attrs->cpu_milli,
		.memory_mb = attrs->memory_mb,
		.disk_size_mb = attrs->disk_size_mb,
		.timeout_sec = attrs->timeout_sec,
		.idle_timeout_sec = attrs->idle_timeout_sec,
		.boot_us = sandbox->boot_us,
		.created_ms = sandbox->created_ms,
		.started_ms = sandbox->started_ms,
		.expires_ms = clock_expires_ms(sandbox),
		.idle_expires_ms = clock_idle_expires_ms(sandbox),
		.metadata = &attrs->metadata,
		.env = &attrs->env,
		.grants = attrs->grants,
		.network = attrs->network,
	};
}

const char *sandbox_id(const struct sandbox *sandbox)
{
	return sandbox->id;
}

slot_handle sandbox_handle(const struct sandbox *sandbox)
{
	return sandbox->handle;
}

uint32_t sandbox_cpus(const struct sandbox *sandbox)
{
	return (sandbox->attrs.cpu_milli + 999) / 1000;
}
