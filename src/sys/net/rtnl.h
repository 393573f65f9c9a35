/* SPDX-License-Identifier: Apache-2.0 */
/* Links, addresses and routes of the net namespace a socket was opened in. Addresses are IPv4 in
 * the host's byte order. */
#ifndef CAY_SYS_NET_RTNL_H
#define CAY_SYS_NET_RTNL_H

#include <net/if.h>

#include "base/macro.h"

int rtnl_open(int *ret_fd) _must_check_;
/* One end of a pair. The number is the caller's choice: nobody has to look it up. */
struct rtnl_end {
	const char *name;
	unsigned ifindex;
	uint32_t address, peer; /* point to point */
	bool gateway;		/* all else goes to the peer */
};
/*
 * Makes a pair: here in the socket's namespace, raised; there, in a device group, in the one of
 * there_ns_fd, still down. -EEXIST when there is a link of either name or number.
 */
int rtnl_veth_make(int fd, const struct rtnl_end *here, const struct rtnl_end *there,
		   int there_ns_fd, uint32_t there_group) _must_check_;
/* Gives it its address and raises it. It routes nothing that comes in, and has no IPv6 address. */
int rtnl_link_raise(int fd, const struct rtnl_end *end) _must_check_;
/* Also whether what comes in through it may be routed on. */
int rtnl_link_group(int fd, unsigned ifindex, uint32_t group, bool forward) _must_check_;
/* What leaves through it is sent at this rate (TBF); more waits, and then is dropped. */
int rtnl_link_shape(int fd, unsigned ifindex, uint64_t bytes_per_sec) _must_check_;
int rtnl_link_delete(int fd, unsigned ifindex) _must_check_;
/* Links whose name begins so. */
struct rtnl_link {
	unsigned ifindex;
	char name[IF_NAMESIZE];
	uint64_t rx_bytes, tx_bytes;
};
int rtnl_link_each(int fd, const char *prefix,
		   void (*each)(void *arg, const struct rtnl_link *link), void *arg) _must_check_;
int rtnl_link_stat(int fd, const char *name, struct rtnl_link *ret) _must_check_;
/* The links that default routes lead to, each once: how many, at most max. */
int rtnl_default_links(int fd, unsigned *ret, size_t max) _must_check_;
/* Whether a route leads to, or an address lies in, this range, other than by the default route. */
int rtnl_range_used(int fd, uint32_t address, unsigned bits, bool *ret) _must_check_;

#endif
