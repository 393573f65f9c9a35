/* SPDX-License-Identifier: Apache-2.0 */
/* How long things took, counted in fixed buckets: for metrics. Owner: whoever has it; zeroed:
 * empty. */
#ifndef CAY_BASE_VALUE_HISTOGRAM_H
#define CAY_BASE_VALUE_HISTOGRAM_H

#include "base/macro.h"

#define HISTOGRAM_BOUNDS 18

/* Upper bounds in microseconds: 0.1 ms to a minute. */
extern const uint32_t histogram_bounds_us[HISTOGRAM_BOUNDS];

struct histogram {
	uint64_t buckets[HISTOGRAM_BOUNDS]; /* each its own, not the ones below it */
	uint64_t count;			    /* of all, also beyond the last bound */
	uint64_t us_sum;
};

void histogram_add(struct histogram *histogram, int64_t us); /* negative: 0 */

#endif
