/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening stream sockets, created close-on-exec and non-blocking. The caller owns the descriptor.
 */
#ifndef CAY_NET_LISTEN_H
#define CAY_NET_LISTEN_H

#include <sys/types.h>

#include "base/str.h"

/*
 * Splits "HOST:PORT" ("[v6]:PORT" too). An empty host means every address; the port may be 0.
 * 0 or -EINVAL. The host is copied without brackets.
 */
int listen_parse(const char *text, char *ret_host, size_t host_size,
		 uint16_t *ret_port) _must_check_;
/* host is a numeric address or a name ("localhost"); port 0 lets the kernel choose. */
int listen_open_tcp(const char *host, uint16_t port, int *ret_fd) _must_check_;
/* The port a TCP socket is bound to. */
int listen_port(int fd, uint16_t *ret_port) _must_check_;

#endif
