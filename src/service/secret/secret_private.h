/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/service/secret: the state of the theme. */
#ifndef CAY_SERVICE_SECRET_SECRET_PRIVATE_H
#define CAY_SERVICE_SECRET_SECRET_PRIVATE_H

#include "service/service_internal.h"

/* Owner: the service. */
struct secrets {
	struct vault *vault;	   /* NULL: no secret was created yet */
	uint32_t vault_generation; /* grows with every rotation */
	struct map by_id;
	struct secret *oldest, *newest;
};

#endif
