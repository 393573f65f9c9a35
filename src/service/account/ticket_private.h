/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only. */
#ifndef CAY_SERVICE_ACCOUNT_TICKET_PRIVATE_H
#define CAY_SERVICE_ACCOUNT_TICKET_PRIVATE_H

#include "service/service_internal.h"

void tickets_tick(struct service *service); /* once a second: expired ones go */
void tickets_done(struct service *service);

#endif
