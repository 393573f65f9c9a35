/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: snapshots and forks. */
#ifndef CAY_SERVICE_COPY_COPY_INTERNAL_H
#define CAY_SERVICE_COPY_COPY_INTERNAL_H

#include "service/service_internal.h"

/* copies.c: called by service.c, in this order. NULL: no memory. */
struct copies *copies_new(void);
int copies_load(struct service *service, struct err *err) _must_check_;
void copies_tick(struct service *service); /* every second */
void copies_stop(struct service *service); /* ends operations in progress */
void copies_close(struct service *service);

/* For other themes. */
struct snapshot *snapshot_by_id(const struct service *service, struct str id); /* or NULL */
struct snapshot *snapshot_oldest(const struct service *service); /* then snapshot->next */
uint32_t snapshot_deletions(const struct service *service);	 /* engine calls in progress */

#endif
