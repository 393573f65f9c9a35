/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: how sandboxes end, are swept and forgotten. */
#ifndef CAY_SERVICE_SANDBOX_DESTROY_INTERNAL_H
#define CAY_SERVICE_SANDBOX_DESTROY_INTERNAL_H

#include "service/service_internal.h"

/* destroy.c */
void destroy_sweep(struct sandbox *sandbox); /* asks the engine; again later when it fails */
void destroy_unknown(struct service_engine *engine, const char *id);
/* It could not be started: what the engine has of it goes, the rest stays to be looked at. Where
 * only an initializer failed it lives on, and can be worked with. */
int destroy_retain(struct sandbox *sandbox) _must_check_;
/* Ends one that nobody was told of, also when that cannot be recorded: what the store has then, a
 * row of the pool or an intent to make it, is swept at the next start. */
void destroy_unborn(struct sandbox *sandbox, enum sandbox_reason reason);
void destroy_unretain(struct sandbox *sandbox); /* it does not live any more */
void destroy_died(struct sandbox *sandbox, enum sandbox_reason reason, const char *message);
void destroy_check_drained(struct service *service);

/* delete_rows.c */
void delete_rows_add(struct service *service, int64_t row);
void delete_rows_flush(struct service *service);
void delete_rows_done(struct service *service);

/* expiry.c */
void expiry_arm(struct service *service, int64_t due_ms);
void expiry_on_timer(void *arg);

#endif
