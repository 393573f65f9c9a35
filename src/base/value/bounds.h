/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ranges of the values that travel from a face to the warden. The service, the engine and the
 * warden use these same definitions, so no layer accepts a value that the next one rejects. An
 * operator may set lower limits (docs/reference/config.md); the service applies those, and the
 * warden these.
 */
#ifndef CAY_BASE_VALUE_BOUNDS_H
#define CAY_BASE_VALUE_BOUNDS_H

#include "base/str.h"

#define BOUNDS_NAME_MAX 63 /* for template names, sandbox ids and snapshot ids */

/*
 * The kernel requires a quota of at least 1 ms per period (100 ms); 0.05 of a CPU leaves a margin.
 */
#define BOUNDS_CPU_MILLI_MIN 50
#define BOUNDS_CPU_MILLI_MAX (1024 * 1000)
#define BOUNDS_MEMORY_MB_MIN 1
#define BOUNDS_MEMORY_MB_MAX (4 * 1024 * 1024)
#define BOUNDS_DISK_MB_MIN 1
#define BOUNDS_DISK_MB_MAX (128 * 1024 * 1024)
#define BOUNDS_PIDS_MIN 8
#define BOUNDS_PIDS_MAX 32768
#define BOUNDS_TIMEOUT_SEC_MAX (10 * 365 * 86400)
/* Of one sandbox's link; the operator's settings. */
#define BOUNDS_LINK_MBIT_MAX 100000
#define BOUNDS_LINK_CONNECTS_MAX 100000
#define BOUNDS_LINK_CONNECTIONS_MAX 65536

/* [a-z0-9][a-z0-9._-]*, at most BOUNDS_NAME_MAX bytes. cay-build accepts the same names. */
bool bounds_template_name(struct str name);
/* [a-z0-9][a-z0-9-]*, at most BOUNDS_NAME_MAX bytes, so that an id can be a host label. */
bool bounds_id(struct str id);
bool bounds_sizes(uint32_t cpu_milli, uint32_t memory_mb, uint32_t disk_mb, uint32_t pids);

#endif
