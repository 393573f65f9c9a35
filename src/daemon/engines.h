/* SPDX-License-Identifier: Apache-2.0 */
/* The engines that the operator selected, for the service and for the daemon's own isolation. */
#ifndef CAY_DAEMON_ENGINES_H
#define CAY_DAEMON_ENGINES_H

#include "daemon/config.h"

/* Every engine of the registry, enabled or not; the caller frees the array. NULL: out of memory. */
struct engine_choice *engines_choices(const struct config *config);
/* What all enabled engines require of the daemon: enum engine_demand. */
uint32_t engines_demands(const struct config *config);
/*
 * Before the daemon drops its privileges: opens the directory of recipes, beside this program or
 * where it is installed. -1: not found.
 */
int engines_open_recipes(void);

#endif
