/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clock of the sandbox. It stops while the sandbox is frozen, so that no deadline passes
 * meanwhile. Before it thaws a sandbox, the warden records on its freezer group how long it was
 * frozen.
 */
#ifndef CAY_AGENT_SYSTEM_CLOCK_H
#define CAY_AGENT_SYSTEM_CLOCK_H

#include "agent/process/cgroup.h"

void clock_open(const struct groups *groups); /* groups must outlive the clock */
int64_t clock_us(void);

#endif
