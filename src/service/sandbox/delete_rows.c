/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of sandboxes that are swept. Nobody waits for their deletion, so many go in one transaction;
 * a daemon that dies before it merely sweeps them once more.
 */
#include <errno.h>

#include "base/log.h"
#include "service/sandbox/destroy_private.h"

#define FORGET_DELAY_MS 25

static void on_forget(void *arg)
{
	delete_rows_flush(arg);
}

void delete_rows_flush(struct service *service)
{
	int r;

	service->forget_armed = false;
	if (!service->forgotten_count)
		return;
	r = store_begin(service->store);
	for (uint32_t i = 0; r == 0 && i < service->forgotten_count; i++) {
		r = store_sandbox_delete(service->store, service->forgotten[i]);
		if (r == 0)
			r = store_intent_delete(service->store, service->forgotten[i]);
	}
	r = store_end(service->store, r);
	if (r < 0)
		log_warn("rows of ended sandboxes stay until the next start: %s", strerror(-r));
	service->forgotten_count = 0;
	service_wrote(service);
}

void delete_rows_add(struct service *service, int64_t row)
{
	if (service->forgotten_count == FORGET_MAX)
		delete_rows_flush(service);
	service->forgotten[service->forgotten_count++] = row;
	if (!service->forget_timer &&
	    loop_timer_new(service->loop, on_forget, service, &service->forget_timer) < 0) {
		delete_rows_flush(service);
		return;
	}
	if (service->forget_armed)
		return;
	service->forget_armed = true;
	loop_timer_set(service->forget_timer, FORGET_DELAY_MS, 0);
}

void delete_rows_done(struct service *service)
{
	if (service->store)
		delete_rows_flush(service);
	loop_timer_free(service->forget_timer);
}
