/* SPDX-License-Identifier: Apache-2.0 */
#include "service/sandbox/sandbox_private.h"
#include "service/account/usage_internal.h"
#include "service/copy/transition_internal.h"
#include "service/sandbox/attach_internal.h"
#include "service/create/create_internal.h"
#include "service/sandbox/destroy_internal.h"
#include "service/sandbox/recover_internal.h"
#include "service/secret/secret_internal.h"

#define OBJECTS_MAX 65536 /* sandboxes and pool members, including ending ones */

struct sandboxes *sandboxes_new(void)
{
	struct sandboxes *sandboxes = calloc(1, sizeof(*sandboxes));

	if (!sandboxes)
		return NULL;
	slot_init(&sandboxes->table, OBJECTS_MAX);
	map_init(&sandboxes->by_id);
	map_init(&sandboxes->by_name);
	time_boot_id(sandboxes->boot_id);
	return sandboxes;
}

int sandboxes_open(struct service *service, struct err *err)
{
	if (loop_timer_new(service->config.loop, expiry_on_timer, service,
			   &service->sandboxes->deadline_timer) < 0)
		return err_set(err, ERR_INTERNAL, "out of memory");
	return reboot_load(service, err);
}

int sandboxes_load(struct service *service, struct err *err)
{
	return reconcile_load(service, err) < 0 || grants_load(service, err) < 0 ? -1 : 0;
}

void sandboxes_tick(struct service *service)
{
	ready_tick(service);
	recover_tick(service);
	reboot_tick(service);
	history_tick(service);
}

void sandboxes_stop(struct service *service)
{
	batch_stop_all(service);
}

void sandboxes_drop(struct service *service)
{
	struct sandbox *sandbox;
	uint32_t cursor = 0;

	while ((sandbox = sandbox_next(service, &cursor))) {
		if (sandbox->link)
			link_free(TAKE_PTR(sandbox->link));
		creation_free(TAKE_PTR(sandbox->creation));
		sandbox_drop(sandbox);
	}
}

void sandboxes_close(struct service *service)
{
	struct sandboxes *sandboxes = service->sandboxes;

	delete_rows_done(service);
	loop_timer_free(sandboxes->deadline_timer);
	map_done(&sandboxes->by_id);
	map_done(&sandboxes->by_name);
	slot_done(&sandboxes->table);
	free(sandboxes);
}

struct sandbox *sandbox_get(struct service *service, slot_handle handle)
{
	return slot_get(&service->sandboxes->table, handle);
}

struct sandbox *sandbox_by_id(const struct service *service, struct str id)
{
	return map_get(&service->sandboxes->by_id, id);
}

struct sandbox *sandbox_next(const struct service *service, uint32_t *cursor)
{
	return slot_next(&service->sandboxes->table, cursor);
}

struct op_list *sandbox_batches(const struct service *service)
{
	return &service->sandboxes->batches;
}

struct sandbox *sandbox_newest(const struct service *service)
{
	return service->sandboxes->newest;
}

const struct tombstone *sandbox_tombstone(const struct service *service, struct str id)
{
	for (size_t i = 0; i < TOMBSTONES; i++) {
		const struct tombstone *stone = &service->sandboxes->tombstones[i];

		if (stone->id[0] && str_is(id, stone->id))
			return stone;
	}
	return NULL;
}
