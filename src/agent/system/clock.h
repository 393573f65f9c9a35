/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of the sandbox: it stands still while the sandbox is frozen, so that nothing runs out in
 * the meantime. The warden notes on the sandbox's freezer group how long that was, before it thaws.
 */
#ifndef CAY_AGENT_SYSTEM_CLOCK_H
#define CAY_AGENT_SYSTEM_CLOCK_H

#include "agent/process/cgroup.h"

void clock_open(const struct groups *groups); /* which stay where they are */
int64_t clock_us(void);

#endif
