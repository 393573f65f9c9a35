/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: keys, quota, usage, tickets and idempotency. */
#ifndef CAY_SERVICE_ACCOUNT_ACCOUNT_INTERNAL_H
#define CAY_SERVICE_ACCOUNT_ACCOUNT_INTERNAL_H

#include "service/service_internal.h"

/* accounts.c: called by service.c, in this order. NULL: no memory. */
struct accounts *accounts_new(void);
int accounts_open(struct service *service, struct err *err) _must_check_;
int accounts_load(struct service *service, struct err *err) _must_check_;
void accounts_tick(struct service *service); /* every second */
void accounts_close(struct service *service);

#endif
