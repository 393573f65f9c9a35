/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time namespaces: the clocks that count from the start of the host begin at zero in a sandbox, so
 * that /proc/uptime, the start times of processes and btime agree with each other. Called by the
 * child that becomes a sandbox's first process, and by the probe.
 */
#ifndef CAY_SYS_PROCESS_TIMENS_H
#define CAY_SYS_PROCESS_TIMENS_H

#include "base/macro.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

/* For the time namespace that this process enters with its next exec; proc_path: a /proc. */
int timens_begin(const char *proc_path) _must_check_;
/* Whether a process enters it then (Linux 6.3); before that only its children by fork do. */
int timens_follows_exec(void) _must_check_;

#endif
