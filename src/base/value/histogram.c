/* SPDX-License-Identifier: Apache-2.0 */
#include "base/value/histogram.h"

const uint32_t histogram_bounds_us[HISTOGRAM_BOUNDS] = {
	100,	250,	500,	1000,	 2500,	  5000,	   10000,    25000,    50000,
	100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000, 60000000,
};

void histogram_add(struct histogram *histogram, int64_t us)
{
	uint64_t value = us > 0 ? (uint64_t)us : 0;
	size_t i = 0;

	while (i < HISTOGRAM_BOUNDS && value > histogram_bounds_us[i])
		i++;
	if (i < HISTOGRAM_BOUNDS)
		histogram->buckets[i]++;
	histogram->count++;
	histogram->us_sum += value;
}
