/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service/network only: the state of the theme. */
#ifndef CAY_SERVICE_NETWORK_NETWORK_PRIVATE_H
#define CAY_SERVICE_NETWORK_NETWORK_PRIVATE_H

#include "service/network/egress.h"
#include "service/service_internal.h"

/* Owner: the service. */
struct network {
	struct map by_address;	    /* of links */
	struct egress_rule *opened; /* by the operator: private networks, addresses of this host */
	uint32_t opened_count;
	struct op_list dials;
};

#endif
