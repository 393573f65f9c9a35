/* SPDX-License-Identifier: Apache-2.0 */
/* Which IPv4 addresses sandboxes reach only where it is meant, and which never. The host's byte
 * order. */
#ifndef CAY_BASE_VALUE_IPV4_H
#define CAY_BASE_VALUE_IPV4_H

#include "base/macro.h"

enum ipv4_class {
	IPV4_PUBLIC,
	IPV4_SPECIAL, /* private nets and the like */
	IPV4_NEVER, /* this host, groups of hosts, services that give out a machine's credentials */
};

struct ipv4_range {
	uint32_t first;
	uint8_t bits;
	uint8_t class; /* enum ipv4_class */
};

extern const struct ipv4_range ipv4_ranges[]; /* all but the public ones; the first that fits */
extern const size_t ipv4_range_count;

static inline bool ipv4_in_range(uint32_t address, const struct ipv4_range *range)
{
	return ((address ^ range->first) >> (32 - range->bits)) == 0;
}

enum ipv4_class ipv4_class(uint32_t address);

#endif
