/* SPDX-License-Identifier: Apache-2.0 */
#include "service/event/events_internal.h"
#include "service/event/event_internal.h"
#include "service/event/event_private.h"
#include "service/event/webhook_private.h"

struct events *events_new(void)
{
	struct events *events = calloc(1, sizeof(*events));

	if (events)
		map_init(&events->webhooks);
	return events;
}

int events_open(struct service *service, struct err *err)
{
	return bus_open(service, err);
}

int events_load(struct service *service, struct err *err)
{
	return webhook_load(service, err);
}

void events_tick(struct service *service)
{
	bus_tick(service);
	webhook_tick(service);
}

void events_close(struct service *service)
{
	webhook_done_all(service);
	bus_done(service);
	free(service->events);
}
