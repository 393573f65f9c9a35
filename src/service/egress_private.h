/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: what a sandbox with a network has in memory. */
#ifndef CAY_SERVICE_EGRESS_PRIVATE_H
#define CAY_SERVICE_EGRESS_PRIVATE_H

#include "service/private.h"

struct egress_pin {
	char *name;
	uint32_t address;
	int64_t until_ms; /* boot clock */
};

struct denial;

/* Owner: the sandbox. Lost with the daemon: names are looked up again. */
struct egress {
	uint32_t address; /* of its link; 0: none */
	uint32_t gateway;
	struct egress_pin *pins;
	uint32_t pin_count, pin_room;
	struct denial *denials;
	uint32_t denial_count;
	bool denials_unsaved;
	int64_t told_ms; /* when the current minute of events began */
	uint32_t told;	 /* in it */
};

void denials_free(struct egress *egress);
struct egress *egress_of(struct sandbox *sandbox); /* made if need be; NULL: no memory */

#endif
