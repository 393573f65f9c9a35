/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: checks that the content of an engine belongs to this database. */
#ifndef CAY_SERVICE_PAIRING_INTERNAL_H
#define CAY_SERVICE_PAIRING_INTERNAL_H

#include "service/service_internal.h"

/* Reads the id of the database, or creates one. */
int pairing_open(struct service *service, struct err *err) _must_check_;
/* Called when the engine has reported its capabilities. False: the engine must not be used, and
 * engine->why has the reason. */
bool pairing_check(struct service_engine *engine);
/* Writes the database's id to the engine: its content belongs to this database from now on. 0 or
 * -errno. */
int pairing_claim(struct service_engine *engine) _must_check_;

#endif
