/* SPDX-License-Identifier: Apache-2.0 */
/* For all themes of the service: file operations. */
#ifndef CAY_SERVICE_FILES_FILES_INTERNAL_H
#define CAY_SERVICE_FILES_FILES_INTERNAL_H

#include "service/service_internal.h"

/* files.c: called by service.c, in this order. NULL: no memory. */
struct file_runs *file_runs_new(void);
void file_runs_tick(struct service *service); /* every second */
void file_runs_stop(struct service *service); /* ends operations in progress */
void file_runs_close(struct service *service);

#endif
