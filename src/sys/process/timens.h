/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time namespaces. The clocks that count from the boot of the host start at zero in a sandbox, so
 * that /proc/uptime, the start times of processes and btime agree. Called by the child that becomes
 * a sandbox's first process, and by the probe.
 */
#ifndef CAY_SYS_PROCESS_TIMENS_H
#define CAY_SYS_PROCESS_TIMENS_H

#include "base/macro.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x00000080
#endif

/*
 * Sets the offsets of the time namespace that this process enters with its next exec; proc_path: a
 * /proc.
 */
int timens_begin(const char *proc_path) _must_check_;
/*
 * Whether an exec enters the namespace (Linux 6.3). On older kernels only children created by fork
 * do.
 */
int timens_follows_exec(void) _must_check_;

#endif
