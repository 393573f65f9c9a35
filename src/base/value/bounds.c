/* SPDX-License-Identifier: Apache-2.0 */
#include "base/value/bounds.h"

bool bounds_template_name(struct str name)
{
	return str_is_name(name, BOUNDS_NAME_MAX);
}

bool bounds_id(struct str id)
{
	if (id.n == 0 || id.n > BOUNDS_NAME_MAX || id.p[0] == '-')
		return false;
	for (size_t i = 0; i < id.n; i++) {
		char c = id.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'))
			return false;
	}
	return true;
}

static bool within(uint32_t value, uint32_t min, uint32_t max)
{
	return value >= min && value <= max;
}

bool bounds_sizes(uint32_t cpu_milli, uint32_t memory_mb, uint32_t disk_mb, uint32_t pids)
{
	return within(cpu_milli, BOUNDS_CPU_MILLI_MIN, BOUNDS_CPU_MILLI_MAX) &&
	       within(memory_mb, BOUNDS_MEMORY_MB_MIN, BOUNDS_MEMORY_MB_MAX) &&
	       within(disk_mb, BOUNDS_DISK_MB_MIN, BOUNDS_DISK_MB_MAX) &&
	       within(pids, BOUNDS_PIDS_MIN, BOUNDS_PIDS_MAX);
}
