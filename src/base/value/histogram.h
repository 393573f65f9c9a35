/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of durations in fixed buckets, for metrics. The struct is owned by its user; a zeroed
 * struct is an empty histogram.
 */
#ifndef CAY_BASE_VALUE_HISTOGRAM_H
#define CAY_BASE_VALUE_HISTOGRAM_H

#include "base/macro.h"

#define HISTOGRAM_BOUNDS 18

/* Upper bounds in microseconds: 0.1 ms to a minute. */
extern const uint32_t histogram_bounds_us[HISTOGRAM_BOUNDS];

struct histogram {
	uint64_t buckets[HISTOGRAM_BOUNDS]; /* not cumulative */
	uint64_t count;			    /* all values, including those above the last bound */
	uint64_t us_sum;
};

void histogram_add(struct histogram *histogram, int64_t us); /* a negative value counts as 0 */

#endif
