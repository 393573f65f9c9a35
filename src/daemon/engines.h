/* SPDX-License-Identifier: Apache-2.0 */
/* The engines that the operator chose, for the service and for how far the daemon locks itself in.
 */
#ifndef CAY_DAEMON_ENGINES_H
#define CAY_DAEMON_ENGINES_H

#include "daemon/config.h"

/* Every engine of the registry, enabled or not; the caller frees the array. NULL: out of memory. */
struct engine_choice *engines_choices(const struct config *config);
/* What all enabled engines need of the daemon: enum engine_demand. */
uint32_t engines_demands(const struct config *config);
/* Before the daemon gives up its privileges: opens the directory of recipes, beside this program or
 * where it is installed. -1: not found. */
int engines_open_recipes(void);

#endif
