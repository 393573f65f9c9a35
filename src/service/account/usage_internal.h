/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: intervals of usage, and samples. */
#ifndef CAY_SERVICE_ACCOUNT_USAGE_INTERNAL_H
#define CAY_SERVICE_ACCOUNT_USAGE_INTERNAL_H

#include "service/service_internal.h"
#include "service/account/usage.h"

/* usage.c */
int usage_load(struct service *service, struct err *err) _must_check_;
void usage_changed(struct sandbox *sandbox); /* after every change of its state */
/* For bus.c, which writes them together with the events. */
int usage_put_all(struct service *service) _must_check_;
int usage_put_of(const struct sandbox *sandbox) _must_check_;
void usage_clear(struct service *service);
void usage_clock_set(struct service *service); /* the wall clock was set: steady.c */
void usage_tick(struct service *service);
uint32_t usage_pending(const struct service *service); /* rows for usage_put_all() */

#endif
