/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses are somebody's public server, and which only reach what is near this host. */
#ifndef CAY_NET_ADDRESS_H
#define CAY_NET_ADDRESS_H

#include <sys/socket.h>

#include "base/macro.h"

/* Global unicast. Not so: this host, its links and private networks, carriers' shared ones,
 * documentation, multicast, reserved ranges, and v6 forms that carry such a v4 address inside. */
bool address_is_public(const struct sockaddr *address);
/* One of this host's, on whatever interface, public or not. Also where that cannot be found out. */
bool address_is_local(const struct sockaddr *address, socklen_t size);

#endif
