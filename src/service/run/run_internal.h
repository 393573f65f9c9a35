/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: processes, their readers, windows and code. */
#ifndef CAY_SERVICE_RUN_RUN_INTERNAL_H
#define CAY_SERVICE_RUN_RUN_INTERNAL_H

#include "service/service_internal.h"

/* runs.c: called by service.c, in this order. NULL: no memory. */
struct runs *runs_new(void);
void runs_stop(struct service *service); /* ends operations in progress */
void runs_close(struct service *service);

#endif
