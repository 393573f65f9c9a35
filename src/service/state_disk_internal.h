/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The disk of the state directory, which the database and the storage pool share with whatever else
 * is on it. Before it is full, the event storage.low, a warning of GET /v1/options and a log line
 * say so. Called by service.c and engines.c.
 */
#ifndef CAY_SERVICE_STATE_DISK_INTERNAL_H
#define CAY_SERVICE_STATE_DISK_INTERNAL_H

#include "service/service_internal.h"

void state_disk_tick(struct service *service);

#endif
