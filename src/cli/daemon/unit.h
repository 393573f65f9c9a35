/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The systemd unit of a process. `cay down` checks it before it sends a signal, because systemd
 * restarts what ends without 'systemctl stop'.
 */
#ifndef CAY_CLI_DAEMON_UNIT_H
#define CAY_CLI_DAEMON_UNIT_H

#include <sys/types.h>

#include "base/str.h"

/*
 * From the text of /proc/PID/cgroup (version 1 or 2): "cayd.service" or "cay-warden.service",
 * static; NULL if the process is in neither.
 */
const char *unit_in(struct str text);
/* The same for a running process. NULL also if it has ended or its file cannot be read. */
const char *unit_of(pid_t pid);

#endif
