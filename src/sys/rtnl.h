/* SPDX-License-Identifier: Apache-2.0 */
/* Links, addresses and routes of the net namespace a socket was opened in. Addresses are IPv4 in
 * the host's byte order. */
#ifndef CAY_SYS_RTNL_H
#define CAY_SYS_RTNL_H

#include <net/if.h>

#include "base/macro.h"

int rtnl_open(int *ret_fd) _must_check_;
/* A pair: inside in the socket's namespace, outside (in a device group) in that of outside_ns_fd.
 * Both are down. -EEXIST when there is one of either name. */
int rtnl_veth_make(int fd, const char *inside, const char *outside, int outside_ns_fd,
		   uint32_t outside_group) _must_check_;
/* A point-to-point address, then up, then (gateway) all else that way. */
int rtnl_link_up(int fd, unsigned ifindex, uint32_t address, uint32_t peer,
		 bool gateway) _must_check_;
int rtnl_link_group(int fd, unsigned ifindex, uint32_t group) _must_check_;
int rtnl_link_delete(int fd, unsigned ifindex) _must_check_;
/* Its number by name, in the socket's namespace. -ENODEV */
int rtnl_link_find(int fd, const char *name, unsigned *ret_ifindex) _must_check_;
/* Links whose name begins so. */
struct rtnl_link {
	unsigned ifindex;
	char name[IF_NAMESIZE];
	uint64_t rx_bytes, tx_bytes;
};
int rtnl_link_each(int fd, const char *prefix,
		   void (*each)(void *arg, const struct rtnl_link *link), void *arg) _must_check_;
int rtnl_link_stat(int fd, const char *name, struct rtnl_link *ret) _must_check_;
/* Whether a route leads to, or an address lies in, this range, other than by the default route. */
int rtnl_range_used(int fd, uint32_t address, unsigned bits, bool *ret) _must_check_;

#endif
