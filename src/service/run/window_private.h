/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/service only: windows found by their names. */
#ifndef CAY_SERVICE_RUN_WINDOW_PRIVATE_H
#define CAY_SERVICE_RUN_WINDOW_PRIVATE_H

#include "service/service_internal.h"
#include "service/run/window.h"

void window_stop_all(struct service *service);
/* A search for the window of one name. looked() owns the struct from then on. sandbox is NULL with
 * an error, and also without one if the service was closed. */
struct window_look {
	struct op op;
	void (*looked)(struct window_look *look, struct sandbox *sandbox, const struct err *err);
	uint32_t windows;
	bool found;
	struct window_info info;
	char name[PROCESS_NAME_MAX + 1];
};
int window_look_start(struct window_look *look, struct sandbox *sandbox, struct str name,
		      struct err *err) _must_check_;

#endif
