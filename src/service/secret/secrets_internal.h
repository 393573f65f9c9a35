/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: the table of secrets. */
#ifndef CAY_SERVICE_SECRET_SECRETS_INTERNAL_H
#define CAY_SERVICE_SECRET_SECRETS_INTERNAL_H

#include "service/service_internal.h"

/* secret.c: called by service.c, in this order. NULL: no memory. */
struct secrets *secrets_new(void);
int secrets_load(struct service *service, struct err *err) _must_check_;
void secrets_close(struct service *service);

void secret_key_deleted(struct service *service, const char *owner);
void secret_sandbox_gone(struct service *service, const char *sandbox_id);

#endif
