/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: brokered secrets, and the certificate authority of a sandbox. */
#ifndef CAY_SERVICE_NETWORK_TRUST_INTERNAL_H
#define CAY_SERVICE_NETWORK_TRUST_INTERNAL_H

#include "engine/link.h"
#include "service/pairs.h"
#include "service/secret/secret.h"
#include "service/service_internal.h"

/* broker.c */
bool broker_any(const struct grants *grants);
/* trust_store.c */
enum trust_state { TRUST_ABSENT, TRUST_INSTALLING, TRUST_INSTALLED };
bool trust_due(const struct sandbox
		       *sandbox); /* its certificate must be installed before a program runs */
void trust_install(struct sandbox *sandbox); /* then ready_there() */
/* Starts the installation; done has to call trust_note(). */
int trust_start(struct sandbox *sandbox, link_exec_fn done, void *arg,
		struct err *err) _must_check_;
void trust_note(struct sandbox *sandbox, const struct link_result *result, const struct err *error);
const struct pairs *trust_env(const struct sandbox *sandbox);

#endif
