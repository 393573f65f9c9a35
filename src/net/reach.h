/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects to a server on the loop. A name is resolved once, on the worker pool: the address that
 * was checked is the one that is connected to, even if the name changes meanwhile.
 */
#ifndef CAY_NET_REACH_H
#define CAY_NET_REACH_H

#include "net/loop.h"

#define REACH_HOST_MAX 255
/* Lookups in parallel per process, because the worker pool has other work; more are queued. */
#define REACH_LOOKUPS_MAX 2

struct reach;
/*
 * status 0: fd is connected and non-blocking, and the caller owns it. Otherwise -errno:
 * -EHOSTUNREACH (no such name), -EPERM (not a public address, or one of this host), or the error of
 * the last address tried.
 */
typedef void (*reach_fn)(void *arg, int status, int fd);
/*
 * host: a name or an address, IPv6 without brackets. done is called once, never from inside this
 * call. There is no time limit except the kernel's; use reach_cancel().
 */
int reach_start(struct loop *loop, const char *host, uint16_t port, bool private_ok, reach_fn done,
		void *arg, struct reach **ret) _must_check_;
void reach_cancel(struct reach *reach); /* before done was called; done is then never called */

#endif
