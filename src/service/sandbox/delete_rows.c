/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deletes rows of swept sandboxes. No caller waits for this, so many are deleted in one
 * transaction. If the daemon dies before, the next start sweeps them again.
 */
#include <errno.h>

#include "base/log.h"
#include "service/sandbox/destroy_internal.h"
#include "service/sandbox/sandbox_private.h"

#define RETRY_MS 1000 /* while the disk is full */
#define FORGET_DELAY_MS 25

static void on_forget(void *arg)
{
	delete_rows_flush(arg);
}

void delete_rows_flush(struct service *service)
{
	int r;

	service->sandboxes->delete_armed = false;
	if (!service->sandboxes->deleted_count)
		return;
	r = store_begin(service->store);
	for (uint32_t i = 0; r == 0 && i < service->sandboxes->deleted_count; i++) {
		r = store_sandbox_delete(service->store, service->sandboxes->deleted[i]);
		if (r == 0)
			r = store_intent_delete(service->store, service->sandboxes->deleted[i]);
	}
	r = store_end(service->store, r);
	service_wrote(service);
	if (r == -ENOSPC && !service->upkeep.closing &&
	    service->sandboxes->deleted_count < DELETED_MAX && service->sandboxes->delete_timer) {
		service->sandboxes->delete_armed = true;
		loop_timer_set(service->sandboxes->delete_timer, RETRY_MS, 0);
		return;
	}
	if (r < 0)
		log_warn("rows of ended sandboxes could not be deleted and stay until the next "
			 "start: %s",
			 strerror(-r));
	service->sandboxes->deleted_count = 0;
}

void delete_rows_add(struct service *service, int64_t row)
{
	if (service->sandboxes->deleted_count == DELETED_MAX)
		delete_rows_flush(service);
	service->sandboxes->deleted[service->sandboxes->deleted_count++] = row;
	if (!service->sandboxes->delete_timer &&
	    loop_timer_new(service->config.loop, on_forget, service,
			   &service->sandboxes->delete_timer) < 0) {
		delete_rows_flush(service);
		return;
	}
	if (service->sandboxes->delete_armed)
		return;
	service->sandboxes->delete_armed = true;
	loop_timer_set(service->sandboxes->delete_timer, FORGET_DELAY_MS, 0);
}

void delete_rows_done(struct service *service)
{
	if (service->store)
		delete_rows_flush(service);
	loop_timer_free(service->sandboxes->delete_timer);
}
