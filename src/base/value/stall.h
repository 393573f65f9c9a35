/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the tasks of a sandbox waited for a resource, as the kernel counts it (PSI). The warden
 * reads the value, and every layer up to the faces passes it on.
 */
#ifndef CAY_BASE_VALUE_STALL_H
#define CAY_BASE_VALUE_STALL_H

#include <stdint.h>

enum stall_resource { STALL_CPU, STALL_MEMORY, STALL_IO, STALL_COUNT };

struct stall {
	/* time during which some task waited, or all of them; since the start */
	uint64_t some_us, full_us;
	/* share of the last 10 s, in hundredths of a percent */
	uint32_t some_percent, full_percent;
};

#endif
