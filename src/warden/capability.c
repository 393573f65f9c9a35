/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/capability.h"

uint32_t capability_bits(const struct warden *w)
{
	uint32_t bits = WARDEN_CAN_ISOLATE | WARDEN_CAN_SURVIVE | WARDEN_CAN_POOL;

	if (w->cgroups.fd[CGROUP_MEMORY] >= 0)
		bits |= WARDEN_CAN_LIMIT_MEMORY;
	if (w->cgroups.fd[CGROUP_CPU] >= 0)
		bits |= WARDEN_CAN_LIMIT_CPU;
	if (w->cgroups.fd[CGROUP_PIDS] >= 0)
		bits |= WARDEN_CAN_LIMIT_PIDS;
	if (w->pool_has_quota)
		bits |= WARDEN_CAN_LIMIT_DISK;
	if (w->cgroups.fd[CGROUP_FREEZER] >= 0)
		bits |= WARDEN_CAN_PAUSE;
	if (w->snapshots_fd >= 0 && w->cgroups.fd[CGROUP_FREEZER] >= 0)
		bits |= WARDEN_CAN_SNAPSHOT;
	if (w->links.usable)
		bits |= WARDEN_CAN_NETWORK;
	if ((bits & WARDEN_CAN_SNAPSHOT) && w->criu_works)
		bits |= WARDEN_CAN_SNAPSHOT_MEMORY;
	if ((bits & WARDEN_CAN_SNAPSHOT) && w->criu_checking)
		bits |= WARDEN_CHECKS_MEMORY;
	return bits;
}
