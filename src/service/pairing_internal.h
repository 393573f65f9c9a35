/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: whether what an engine holds belongs to this database. */
#ifndef CAY_SERVICE_PAIRING_INTERNAL_H
#define CAY_SERVICE_PAIRING_INTERNAL_H

#include "service/service_internal.h"

/* Reads the id of the database, or gives it one. */
int pairing_open(struct service *service, struct err *err) _must_check_;
/* With its new capabilities. False: it must not be used, and engine->why says why. */
bool pairing_check(struct service_engine *engine);
/* What the engine holds belongs to this database from now on. 0 or -errno. */
int pairing_claim(struct service_engine *engine) _must_check_;

#endif
