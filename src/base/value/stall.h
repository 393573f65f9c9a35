/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long the tasks of a sandbox waited for a resource, as the kernel counts it (PSI): a value
 * that the warden reads and every layer up to the faces passes on.
 */
#ifndef CAY_BASE_VALUE_STALL_H
#define CAY_BASE_VALUE_STALL_H

#include <stdint.h>

enum stall_resource { STALL_CPU, STALL_MEMORY, STALL_IO, STALL_COUNT };

struct stall {
	uint64_t some_us, full_us; /* some task waited, all of them did; since the start */
	uint32_t some_percent, full_percent; /* of the last 10 s, in hundredths of a percent */
};

#endif
