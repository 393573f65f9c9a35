/* SPDX-License-Identifier: Apache-2.0 */
#include "service/state_disk_internal.h"

#include <sys/statvfs.h>

#include "base/log.h"
#include "service/event/event_internal.h"

#define LOOK_TICKS 5
#define MIB (UINT64_C(1) << 20)
#define LOW_BYTES (256 * MIB) /* twice what the storage pool leaves to the database */
#define LOW_SHARE 20	      /* of a small disk: a twentieth */

void state_disk_tick(struct service *service)
{
	struct state_disk *disk = &service->upkeep.disk;
	struct statvfs fs;
	uint64_t low;

	if (service->upkeep.ticks % LOOK_TICKS != 1 || statvfs(service->config.state_dir, &fs) < 0)
		return;
	disk->capacity_bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
	disk->free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	low = MIN(LOW_BYTES, disk->capacity_bytes / LOW_SHARE);
	if (disk->free_bytes > low + low / 4) {
		disk->low = false;
	} else if (!disk->low && disk->free_bytes <= low) {
		struct engine_storage figures = { .capacity_bytes = disk->capacity_bytes,
						  .used_bytes =
							  disk->capacity_bytes - disk->free_bytes };

		disk->low = true;
		log_warn("the disk of the state directory is nearly full: %llu MiB are free",
			 (unsigned long long)(disk->free_bytes / MIB));
		event_storage_low(service, NULL, &figures);
	}
}
