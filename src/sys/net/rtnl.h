/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links, addresses and routes of the network namespace that a socket was opened in. Addresses are
 * IPv4 in host byte order.
 */
#ifndef CAY_SYS_NET_RTNL_H
#define CAY_SYS_NET_RTNL_H

#include <net/if.h>

#include "base/macro.h"

int rtnl_open(int *ret_fd) _must_check_;
/* One end of a veth pair. The caller chooses the interface number, so it needs no lookup. */
struct rtnl_end {
	const char *name;
	unsigned ifindex;
	uint32_t address, peer; /* point to point */
	bool gateway;		/* default route through the peer */
};
/*
 * Creates a pair: here in the socket's namespace, up; there in the namespace there_ns_fd, in a
 * device group, still down. -EEXIST if a link has either name or number.
 */
int rtnl_veth_make(int fd, const struct rtnl_end *here, const struct rtnl_end *there,
		   int there_ns_fd, uint32_t there_group) _must_check_;
/* Assigns the address and sets the link up. It does not forward, and has no IPv6 address. */
int rtnl_link_raise(int fd, const struct rtnl_end *end) _must_check_;
/* Also sets whether packets that arrive on it may be forwarded. */
int rtnl_link_group(int fd, unsigned ifindex, uint32_t group, bool forward) _must_check_;
/* What leaves through it is sent at this rate (TBF); more waits, and then is dropped. */
int rtnl_link_shape(int fd, unsigned ifindex, uint64_t bytes_per_sec) _must_check_;
int rtnl_link_delete(int fd, unsigned ifindex) _must_check_;
/* A link whose name begins with the given prefix. */
struct rtnl_link {
	unsigned ifindex;
	char name[IF_NAMESIZE];
	uint64_t rx_bytes, tx_bytes;
};
int rtnl_link_each(int fd, const char *prefix,
		   void (*each)(void *arg, const struct rtnl_link *link), void *arg) _must_check_;
int rtnl_link_stat(int fd, const char *name, struct rtnl_link *ret) _must_check_;
/* The links of the default routes, each once: returns how many, at most max. */
int rtnl_default_links(int fd, unsigned *ret, size_t max) _must_check_;
/* Whether a route leads to this range or an address lies in it, except for the default route. */
int rtnl_range_used(int fd, uint32_t address, unsigned bits, bool *ret) _must_check_;

#endif
