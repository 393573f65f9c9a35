/* SPDX-License-Identifier: Apache-2.0 */
/* One agent and one connection to it, started and ended for each test. */
#ifndef CAY_TESTS_AGENT_ONE_AGENT_H
#define CAY_TESTS_AGENT_ONE_AGENT_H

#include "caller.h"

extern struct rig rig;
extern struct caller *caller;

/* For cmocka. The commands of the first run as root, in /tmp. */
int one_agent_setup(void **state);
int one_agent_teardown(void **state);
/* A new connection to the same agent; numbers of follows continue, so that none is used twice. */
void one_agent_reconnect(void);

#endif
