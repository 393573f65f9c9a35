/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service/network only: the state of the theme. */
#ifndef CAY_SERVICE_NETWORK_NETWORK_PRIVATE_H
#define CAY_SERVICE_NETWORK_NETWORK_PRIVATE_H

#include "service/network/egress.h"
#include "service/service_internal.h"

/* Owner: the service. */
struct network {
	struct map by_address; /* sandboxes by the address of their link */
	struct egress_rule
		*opened; /* private networks and addresses of this host that the operator opened */
	uint32_t opened_count;
	struct op_list dials;
};

#endif
