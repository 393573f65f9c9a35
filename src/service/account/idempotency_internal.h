/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: recorded replies for repeated calls. */
#ifndef CAY_SERVICE_ACCOUNT_IDEMPOTENCY_INTERNAL_H
#define CAY_SERVICE_ACCOUNT_IDEMPOTENCY_INTERNAL_H

#include "service/account/idempotency.h"
#include "service/service_internal.h"

int idempotency_record(struct service *service, struct idempotency *idem,
		       const char *sandbox_id) _must_check_;
/* Records the reply in the caller's transaction, before it is sent. */
int idempotency_settle(struct service *service, struct idempotency *idem, int status,
		       struct str body) _must_check_;
void idempotency_unsettle(struct idempotency *idem); /* that transaction failed */
/* Called when the sandboxes are loaded. Reserves the ids of processes that an earlier daemon may
 * have started, so that they are not used again. */
int idempotency_load(struct service *service, struct err *err) _must_check_;
void idempotency_expire(struct service *service); /* deletes records older than a day */
void idempotency_done(struct service *service);

#endif
