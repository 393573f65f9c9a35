/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: egress, previews and ports. */
#ifndef CAY_SERVICE_NETWORK_NETWORK_INTERNAL_H
#define CAY_SERVICE_NETWORK_NETWORK_INTERNAL_H

#include "service/service_internal.h"

/* network.c: called by service.c, in this order. NULL: no memory. */
struct network *network_new(void);
int network_load(struct service *service, struct err *err) _must_check_;
void network_tick(struct service *service); /* every second */
void network_stop(struct service *service); /* ends operations in progress */
void network_close(struct service *service);

#endif
