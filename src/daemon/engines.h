/* SPDX-License-Identifier: Apache-2.0 */
/* Which engines this daemon has, and how the native one builds templates. */
#ifndef CAY_DAEMON_ENGINES_H
#define CAY_DAEMON_ENGINES_H

#include "daemon/config.h"
#include "net/loop.h"
#include "service/service.h"

void engines_choose(const struct config *config, struct loop *loop, struct service_config *ret);
void engines_done(void);
/* Before the daemon gives up its privileges: opens the directory of recipes, beside this program or
 * where it is installed. */
void engines_find_recipes(void);

#endif
