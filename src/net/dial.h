/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects a stream socket, with a deadline. Blocks: for the CLI and tests, not for the loop. The
 * caller owns the descriptor.
 */
#ifndef CAY_NET_DIAL_H
#define CAY_NET_DIAL_H

#include "base/macro.h"

/*
 * Tries every address of the name in turn. The descriptor is non-blocking, close-on-exec, and has
 * TCP_NODELAY. timeout_ms < 0 waits as long as the kernel does. Returns 0 or -errno.
 */
int dial_tcp(const char *host, uint16_t port, int timeout_ms, int *ret_fd) _must_check_;
int dial_unix(const char *path, int *ret_fd) _must_check_;

#endif
