/* SPDX-License-Identifier: Apache-2.0 */
/* Distinguishes public addresses from those that reach only this host or networks near it. */
#ifndef CAY_NET_ADDRESS_H
#define CAY_NET_ADDRESS_H

#include <sys/socket.h>

#include "base/macro.h"

/*
 * Global unicast. Not included: this host, its links and private networks, shared carrier networks,
 * documentation, multicast, reserved ranges, and IPv6 forms that contain such an IPv4 address.
 */
bool address_is_public(const struct sockaddr *address);
/* One of this host's, on whatever interface, public or not. Also where that cannot be found out. */
bool address_is_local(const struct sockaddr *address, socklen_t size);

#endif
