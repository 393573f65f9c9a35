/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's end of sandboxes' links. The host's rules send every TCP connection of a sandbox to
 * the proxy here and every DNS question to the resolver, and nothing else anywhere. While the
 * daemon is not running both ports are closed, and so is the network. The daemon's wiring owns it.
 */
#ifndef CAY_FACE_EGRESS_EGRESS_H
#define CAY_FACE_EGRESS_EGRESS_H

#include "base/err.h"
#include "service/network/egress.h"

struct egress_face;
struct loop;

/*
 * Offers a connection whose first bytes were read and judged, before it is relayed or refused, to a
 * module that terminates TLS. 1: taken; fd and the bytes read belong to the taker. 0: not taken.
 */
typedef int (*egress_intercept_fn)(void *arg, struct sandbox *sandbox, const struct egress_ask *ask,
				   const struct egress_verdict *verdict, int fd, struct str read);

struct egress_config {
	struct service *service; /* or by egress_set_service() */
	struct loop *loop;
	const char *dns_upstream; /* addresses, "IP[:PORT] ..."; "": those of /etc/resolv.conf */
	egress_intercept_fn intercept; /* NULL: no connection is intercepted */
	void *intercept_arg;
};

int egress_new(const struct egress_config *config, struct egress_face **ret,
	       struct err *err) _must_check_;
/* Before the first iteration of the loop. */
void egress_set_service(struct egress_face *face, struct service *service);
/*
 * A connection to the proxy inside the sandbox with this address (engine_network), as a stream.
 * Takes ownership of fd.
 */
void egress_adopt(struct egress_face *face, uint32_t from, int fd);
void egress_stop(struct egress_face *face); /* NULL is allowed */
/* Serves links whose other end is gateway; only the first call has an effect. */
void egress_serve(struct egress_face *face, uint32_t gateway, uint16_t proxy_port,
		  uint16_t dns_port);

#endif
