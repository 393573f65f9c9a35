/* SPDX-License-Identifier: Apache-2.0 */
/* Names of states and other enums, as in the API and in the store. */
#include "service/sandbox/sandbox_internal.h"

const char *const sandbox_state_names[] = { "provisioning", "running", "paused",
					    "destroyed",    "error",   NULL };
const char *const sandbox_boot_names[] = { "cold", "pool", "snapshot", "fork", NULL };
const char *const pause_kind_names[] = { "freeze", "hibernate", NULL };
const char *const on_timeout_names[] = { "destroy", "pause", "hibernate", NULL };
const char *const pool_mode_names[] = { "prefer", "require", "bypass", NULL };
static const char *const reason_names[] = { NULL,  "requested", "timeout",     "idle_timeout",
					    "oom", "crash",	"engine_lost", "boot_failed" };

static_assert(ARRAY_LEN(sandbox_state_names) == SANDBOX_STATE_COUNT + 1, "every state has a name");
static_assert(ARRAY_LEN(sandbox_boot_names) == BOOT_COUNT + 1, "every boot path has a name");
static_assert(ARRAY_LEN(pause_kind_names) == PAUSE_KIND_COUNT + 1, "every pause has a name");
static_assert(ARRAY_LEN(on_timeout_names) == ON_TIMEOUT_COUNT + 1, "every end has a name");
static_assert(ARRAY_LEN(pool_mode_names) == POOL_MODE_COUNT + 1, "every pool mode has a name");
static_assert(ARRAY_LEN(reason_names) == REASON_COUNT, "every reason has a name");

const char *sandbox_reason_name(enum sandbox_reason reason)
{
	return reason_names[reason];
}

enum sandbox_state sandbox_state_parse(const char *name)
{
	for (int i = 0; i < SANDBOX_STATE_COUNT; i++)
		if (name && strcmp(name, sandbox_state_names[i]) == 0)
			return (enum sandbox_state)i;
	return SANDBOX_ERROR;
}

enum sandbox_reason sandbox_reason_parse(const char *name)
{
	for (int i = 1; i < REASON_COUNT; i++)
		if (name && strcmp(name, reason_names[i]) == 0)
			return (enum sandbox_reason)i;
	return REASON_NONE;
}
