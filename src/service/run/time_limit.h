/* SPDX-License-Identifier: Apache-2.0 */
/* The longest time limit of a command; faces show and check it, and the service checks it. */
#ifndef CAY_SERVICE_RUN_TIME_LIMIT_H
#define CAY_SERVICE_RUN_TIME_LIMIT_H

#include "base/macro.h"
#include "service/run/process.h"
#include "service/service.h"

/* As long as the operator lets a sandbox live, and at least a day. */
static inline int64_t command_time_max_sec(const struct service_config *config)
{
	return MAX((int64_t)config->max_timeout_sec, (int64_t)EXEC_TIMEOUT_MAX_SEC);
}

#endif
