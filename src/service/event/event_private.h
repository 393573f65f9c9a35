/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/service/event: the state of the theme. */
#ifndef CAY_SERVICE_EVENT_EVENT_PRIVATE_H
#define CAY_SERVICE_EVENT_EVENT_PRIVATE_H

#include "service/service_internal.h"

/* Owner: the service. */
struct events {
	struct bus *bus;
	struct map webhooks; /* by id */
	struct webhook *oldest_webhook, *newest_webhook;
	struct webhook *hooks_first, *hooks_last; /* wait for one of webhooks_at_once */
	uint32_t hooks_posting;
};

#endif
