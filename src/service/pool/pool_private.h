/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/service/pool: the state of the theme. */
#ifndef CAY_SERVICE_POOL_POOL_PRIVATE_H
#define CAY_SERVICE_POOL_POOL_PRIVATE_H

#include "service/service_internal.h"

#define POOLS_MAX 16 /* templates with a pool at once; sandboxes of others are created cold */

/* Owner: the service. */
struct pools {
	struct pool *list[POOLS_MAX];
};

#endif
