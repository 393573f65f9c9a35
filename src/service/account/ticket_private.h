/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/service. */
#ifndef CAY_SERVICE_ACCOUNT_TICKET_PRIVATE_H
#define CAY_SERVICE_ACCOUNT_TICKET_PRIVATE_H

#include "service/service_internal.h"

void tickets_tick(struct service *service); /* once a second: removes expired ones */
void tickets_done(struct service *service);

#endif
