/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes of IPv4 addresses: public ones, those that a sandbox reaches only if a policy names them,
 * and those it never reaches. Used by the packet filter and by the egress service. Host byte order.
 */
#ifndef CAY_BASE_VALUE_IPV4_H
#define CAY_BASE_VALUE_IPV4_H

#include "base/macro.h"

enum ipv4_class {
	IPV4_PUBLIC,
	IPV4_SPECIAL, /* private networks and similar */
	IPV4_NEVER,   /* this host, multicast, metadata services that issue credentials */
};

struct ipv4_range {
	uint32_t first;
	uint8_t bits;
	uint8_t class; /* enum ipv4_class */
};

/* all ranges that are not public; the first match counts */
extern const struct ipv4_range ipv4_ranges[];
extern const size_t ipv4_range_count;

static inline bool ipv4_in_range(uint32_t address, const struct ipv4_range *range)
{
	return ((address ^ range->first) >> (32 - range->bits)) == 0;
}

enum ipv4_class ipv4_class(uint32_t address);

#endif
