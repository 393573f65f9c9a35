/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to a server somewhere, made on the loop. Names are looked up on the worker pool,
 * once: the address that was judged is the one that is connected to, whatever the name says a
 * moment later.
 */
#ifndef CAY_NET_REACH_H
#define CAY_NET_REACH_H

#include "net/loop.h"

#define REACH_HOST_MAX 255
#define REACH_LOOKUPS_MAX \
	2 /* at once, of a process: the worker pool has other work too. More wait. */

struct reach;
/* status 0: fd, connected and non-blocking, is the caller's. Else -errno: -EHOSTUNREACH (no such
 * name), -EPERM (no public address, or one of this host), or why the last address could not be
 * connected to. */
typedef void (*reach_fn)(void *arg, int status, int fd);
/* host: a name or an address, v6 without brackets. done comes once, never from inside. There is no
 * time limit but the kernel's: cancel it. */
int reach_start(struct loop *loop, const char *host, uint16_t port, bool private_ok, reach_fn done,
		void *arg, struct reach **ret) _must_check_;
void reach_cancel(struct reach *reach); /* before done was called; it is not any more */

#endif
