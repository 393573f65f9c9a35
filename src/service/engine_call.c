/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service_internal.h"

struct call *call_new(struct service *service, slot_handle sandbox, struct err *err)
{
	struct call *call = calloc(1, sizeof(*call));

	if (!call) {
		(void)err_set(err, ERR_UNAVAILABLE, "out of memory");
		return NULL;
	}
	call->service = service;
	call->sandbox = sandbox;
	call->next = service->upkeep.calls;
	if (call->next)
		call->next->prev = call;
	service->upkeep.calls = call;
	return call;
}

struct service *call_end(struct call *call)
{
	struct service *service = call->service;

	if (service) {
		if (call->prev)
			call->prev->next = call->next;
		else
			service->upkeep.calls = call->next;
		if (call->next)
			call->next->prev = call->prev;
	}
	free(call);
	return service;
}

struct sandbox *call_end_sandbox(struct call *call)
{
	slot_handle handle = call->sandbox;
	struct service *service = call_end(call);

	return service ? sandbox_get(service, handle) : NULL;
}
