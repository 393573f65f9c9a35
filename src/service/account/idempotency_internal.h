/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: answers kept for calls that come again. */
#ifndef CAY_SERVICE_ACCOUNT_IDEMPOTENCY_INTERNAL_H
#define CAY_SERVICE_ACCOUNT_IDEMPOTENCY_INTERNAL_H

#include "service/account/idempotency.h"
#include "service/service_internal.h"

int idempotency_record(struct service *service, struct idempotency *idem,
		       const char *sandbox_id) _must_check_;
/* The answer itself, in a transaction of the caller's, before it is sent. */
int idempotency_settle(struct service *service, struct idempotency *idem, int status,
		       struct str body) _must_check_;
void idempotency_unsettle(struct idempotency *idem); /* that transaction failed */
/* Once the sandboxes are there: the numbers of processes that may have been begun are not used
 * again. */
int idempotency_load(struct service *service, struct err *err) _must_check_;
void idempotency_expire(struct service *service); /* those that are a day old */
void idempotency_done(struct service *service);

#endif
