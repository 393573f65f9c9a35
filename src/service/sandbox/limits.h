/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranges and defaults of what a sandbox is made from. Faces take them into their field tables; the
 * service checks every spec against the same ones (limits.c). Upper bounds of sizes and times are
 * the operator's: struct service_config.
 */
#ifndef CAY_SERVICE_SANDBOX_LIMITS_H
#define CAY_SERVICE_SANDBOX_LIMITS_H

/* When a caller names none; never more than the operator allows. */
#define SANDBOX_CPU_MILLI 1000
#define SANDBOX_MEMORY_MB 1024
#define SANDBOX_DISK_MB 3072
#define SANDBOX_TIMEOUT_SEC 300

#define SANDBOX_NAME_MAX 63
#define SANDBOX_WORKSPACE_MAX 255 /* external_workspace_id */
#define SANDBOX_ENGINE_MAX 32
#define SANDBOX_POOL_WAIT_MAX_MS 30000
#define FORK_NAME_MAX 59 /* "-100" is put behind it */

#endif
