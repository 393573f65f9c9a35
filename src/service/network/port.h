/* SPDX-License-Identifier: Apache-2.0 */
/* Ports inside a sandbox: listeners, and connections to them. Called by faces. */
#ifndef CAY_SERVICE_NETWORK_PORT_H
#define CAY_SERVICE_NETWORK_PORT_H

#include "service/sandbox/sandbox.h"

/* Strings live for the call. */
struct port_info {
	uint16_t port;
	const char *address;
	uint32_t uid, pid;   /* pid 0: unknown */
	const char *process; /* "": unknown */
};
/* Called for each, then once with port NULL. The sandbox must be ready. */
typedef void (*port_list_fn)(void *arg, const struct port_info *port, const struct err *err);
int port_list(struct sandbox *sandbox, port_list_fn each, void *arg, struct err *err) _must_check_;

/*
 * Connects to a port. A refused connection is retried for a short time, because servers are often
 * requested just before they listen. The caller owns fd, which is shared with the inside:
 * net/foreign.h. The sandbox must be ready.
 */
struct port_dial; /* owner: the service, until fn was called */
typedef void (*port_dial_fn)(void *arg, int fd, const struct err *err);
int port_dial(struct sandbox *sandbox, uint16_t port, port_dial_fn fn, void *arg,
	      struct port_dial **ret, struct err *err) _must_check_;
void port_dial_cancel(struct port_dial *dial); /* fn is not called afterwards */

#endif
