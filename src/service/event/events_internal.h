/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: events and webhooks. */
#ifndef CAY_SERVICE_EVENT_EVENTS_INTERNAL_H
#define CAY_SERVICE_EVENT_EVENTS_INTERNAL_H

#include "service/service_internal.h"

/* events.c: called by service.c, in this order. NULL: no memory. */
struct events *events_new(void);
int events_open(struct service *service, struct err *err) _must_check_;
int events_load(struct service *service, struct err *err) _must_check_;
void events_tick(struct service *service); /* every second */
void events_close(struct service *service);

void webhook_key_deleted(struct service *service, const char *owner);

#endif
