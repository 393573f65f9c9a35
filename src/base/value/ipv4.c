/* SPDX-License-Identifier: Apache-2.0 */
#include "base/value/ipv4.h"

#define V4(a, b, c, d) ((uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d))

const struct ipv4_range ipv4_ranges[] = {
	{ V4(0, 0, 0, 0), 8, IPV4_NEVER },	    { V4(127, 0, 0, 0), 8, IPV4_NEVER },
	{ V4(169, 254, 169, 254), 32, IPV4_NEVER }, { V4(169, 254, 170, 2), 32, IPV4_NEVER },
	{ V4(100, 100, 100, 200), 32, IPV4_NEVER }, { V4(168, 63, 129, 16), 32, IPV4_NEVER },
	{ V4(192, 0, 0, 192), 32, IPV4_NEVER },	    { V4(224, 0, 0, 0), 4, IPV4_NEVER },
	{ V4(255, 255, 255, 255), 32, IPV4_NEVER }, { V4(10, 0, 0, 0), 8, IPV4_SPECIAL },
	{ V4(100, 64, 0, 0), 10, IPV4_SPECIAL },    { V4(169, 254, 0, 0), 16, IPV4_SPECIAL },
	{ V4(172, 16, 0, 0), 12, IPV4_SPECIAL },    { V4(192, 0, 0, 0), 24, IPV4_SPECIAL },
	{ V4(192, 0, 2, 0), 24, IPV4_SPECIAL },	    { V4(192, 88, 99, 0), 24, IPV4_SPECIAL },
	{ V4(192, 168, 0, 0), 16, IPV4_SPECIAL },   { V4(198, 18, 0, 0), 15, IPV4_SPECIAL },
	{ V4(198, 51, 100, 0), 24, IPV4_SPECIAL },  { V4(203, 0, 113, 0), 24, IPV4_SPECIAL },
	{ V4(240, 0, 0, 0), 4, IPV4_SPECIAL },
};
const size_t ipv4_range_count = ARRAY_LEN(ipv4_ranges);

enum ipv4_class ipv4_class(uint32_t address)
{
	for (size_t i = 0; i < ipv4_range_count; i++)
		if (ipv4_in_range(address, &ipv4_ranges[i]))
			return (enum ipv4_class)ipv4_ranges[i].class;
	return IPV4_PUBLIC;
}
