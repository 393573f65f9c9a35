/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a program that the supervisor started still works: it reports every few seconds in the
 * way that systemd has for it (NOTIFY_SOCKET, WATCHDOG_USEC), over a socket of its own. One that
 * has begun to report and then does not for WATCHDOG_MS is hung. Owner: the supervisor.
 */
#ifndef CAY_CLI_DAEMON_WATCHDOG_H
#define CAY_CLI_DAEMON_WATCHDOG_H

#include <sys/types.h>

#include "base/macro.h"

#define WATCHDOG_MS 30000
#define WATCHDOG_NAME_SIZE 64

struct watchdog {
	int fd;			       /* -1: none */
	char name[WATCHDOG_NAME_SIZE]; /* "@..." */
	int64_t heard_ms;	       /* monotonic; 0: the program has not reported yet */
};
#define WATCHDOG_NONE ((struct watchdog){ .fd = -1 })

int watchdog_open(struct watchdog *ret) _must_check_;
void watchdog_close(struct watchdog *watchdog);
void watchdog_tell(const struct watchdog *watchdog);	  /* in the child, before exec */
void watchdog_read(struct watchdog *watchdog, pid_t pid); /* only reports of this process count */
int watchdog_left_ms(const struct watchdog *watchdog); /* -1: nothing is awaited; 0: it is hung */

#endif
