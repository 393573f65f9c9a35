/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service/copy only: the state of the theme. */
#ifndef CAY_SERVICE_COPY_COPY_PRIVATE_H
#define CAY_SERVICE_COPY_COPY_PRIVATE_H

#include "service/service_internal.h"

/* Owner: the service. */
struct copies {
	struct map snapshots; /* by id */
	struct snapshot *oldest, *newest;
	uint32_t deleting; /* engine calls in progress */
	struct op_list forks;
};

#endif
