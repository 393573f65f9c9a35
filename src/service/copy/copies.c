/* SPDX-License-Identifier: Apache-2.0 */
#include "service/copy/copy_internal.h"
#include "service/copy/copy_private.h"
#include "service/copy/snapshot_internal.h"
#include "service/copy/transition_internal.h"

struct copies *copies_new(void)
{
	struct copies *copies = calloc(1, sizeof(*copies));

	if (copies)
		map_init(&copies->snapshots);
	return copies;
}

int copies_load(struct service *service, struct err *err)
{
	return snapshot_load(service, err);
}

void copies_tick(struct service *service)
{
	snapshot_tick(service);
}

void copies_stop(struct service *service)
{
	fork_stop_all(service);
}

void copies_close(struct service *service)
{
	snapshot_done_all(service);
	free(service->copies);
}

struct snapshot *snapshot_by_id(const struct service *service, struct str id)
{
	return map_get(&service->copies->snapshots, id);
}

struct snapshot *snapshot_oldest(const struct service *service)
{
	return service->copies->oldest;
}

uint32_t snapshot_deletions(const struct service *service)
{
	return service->copies->deleting;
}
