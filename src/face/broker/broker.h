/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests with brokered secrets. A TLS connection of a sandbox to a host that one of its
 * placeholders is bound to is terminated with the sandbox's own authority. One request is read,
 * placeholders in its header are replaced by values, and it is sent to the real host, whose
 * certificate is verified. All other connections pass unchanged. The egress proxy calls this; the
 * daemon's wiring owns it.
 */
#ifndef CAY_FACE_BROKER_BROKER_H
#define CAY_FACE_BROKER_BROKER_H

#include "base/err.h"
#include "net/loop.h"
#include "service/network/egress.h"

struct broker;

/* ca_path: certificates to trust in addition to the system's; "": none. */
int broker_new(struct loop *loop, const char *ca_path, struct broker **ret,
	       struct err *err) _must_check_;
void broker_set_service(struct broker *broker, struct service *service);
void broker_free(struct broker *broker); /* NULL is allowed */

/* An egress_intercept_fn; arg is the struct broker. */
int broker_intercept(void *arg, struct sandbox *sandbox, const struct egress_ask *ask,
		     const struct egress_verdict *verdict, int fd, struct str read);

/* For struct service_config. */
int broker_authority_new(const char *name, char *saved);
int broker_authority_certificate(const char *saved, char *certificate);

#endif
