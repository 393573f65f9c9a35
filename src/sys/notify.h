/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the service manager, as sd_notify(3) sends them: a datagram to $NOTIFY_SOCKET. Used
 * by cayd and the warden, which open it before they give up the host's files and close it at the
 * end. Where there is no such manager every call does nothing.
 */
#ifndef CAY_SYS_NOTIFY_H
#define CAY_SYS_NOTIFY_H

#include "base/macro.h"

/* Owner: the program. */
struct notify {
	int fd;		  /* connected; -1: nobody listens */
	int64_t alive_ms; /* how often notify_alive() has to come; 0: never */
	int64_t next_ms;  /* when it sends next, in boot time */
};

/*
 * Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID and takes them out of the environment, so
 * that no child speaks for us. Never fails: a socket that cannot be reached counts as none.
 */
void notify_open(struct notify *ret);
void notify_close(struct notify *notify);
/* text: lines such as "READY=1" or "STATUS=...". A full socket drops it. */
void notify_send(const struct notify *notify, const char *text);
/* Says that the program's loop turns, when that is due. */
void notify_alive(struct notify *notify);
/* How long the loop may sleep until notify_alive() is due: timeout_ms (-1: for ever) or less. */
int notify_sleep_ms(const struct notify *notify, int timeout_ms);

#endif
