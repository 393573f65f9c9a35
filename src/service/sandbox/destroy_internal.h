/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: how sandboxes end, are swept and removed. */
#ifndef CAY_SERVICE_SANDBOX_DESTROY_INTERNAL_H
#define CAY_SERVICE_SANDBOX_DESTROY_INTERNAL_H

#include "service/service_internal.h"

/* destroy.c */
void destroy_sweep(struct sandbox *sandbox); /* calls the engine; retried later if it fails */
void destroy_unknown(struct service_engine *engine, const char *id);
/*
 * The sandbox could not be started: the engine's part is removed, the rest stays for inspection. If
 * only an initializer failed, it continues to run and can be used.
 */
int destroy_retain(struct sandbox *sandbox) _must_check_;
/*
 * Ends a sandbox that was not reported to a client, also if that cannot be recorded: the remaining
 * row of the pool or create intent is removed at the next start.
 */
void destroy_unborn(struct sandbox *sandbox, enum sandbox_reason reason);
void destroy_unretain(struct sandbox *sandbox); /* it is no longer alive */
void destroy_died(struct sandbox *sandbox, enum sandbox_reason reason, const char *message);
void destroy_drop_waits(struct sandbox *sandbox);
void destroy_check_drained(struct service *service);

/* delete_rows.c */
void delete_rows_add(struct service *service, int64_t row);
void delete_rows_flush(struct service *service);
void delete_rows_done(struct service *service);

/* expiry.c */
void expiry_arm(struct service *service, int64_t due_ms);
void expiry_on_timer(void *arg);

#endif
