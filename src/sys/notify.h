/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages to the service manager, in the protocol of sd_notify(3): datagrams to $NOTIFY_SOCKET.
 * cayd and the warden open it before they give up access to the host's files, and close it at the
 * end. Without a manager every call does nothing.
 */
#ifndef CAY_SYS_NOTIFY_H
#define CAY_SYS_NOTIFY_H

#include "base/macro.h"

/* Owner: the program. */
struct notify {
	int fd;		  /* connected; -1: no manager */
	int64_t alive_ms; /* interval for notify_alive(); 0: no watchdog */
	int64_t next_ms;  /* when it sends next, in boot time */
};

/*
 * Reads NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID and removes them from the environment, so
 * that no child can send in our name. Never fails: an unreachable socket counts as none.
 */
void notify_open(struct notify *ret);
void notify_close(struct notify *notify);
/* text: lines such as "READY=1" or "STATUS=...". Dropped if the socket is full. */
void notify_send(const struct notify *notify, const char *text);
/* Sends the watchdog message if it is due; called by the program's loop. */
void notify_alive(struct notify *notify);
/* How long the loop may sleep until notify_alive() is due: timeout_ms (-1: no limit) or less. */
int notify_sleep_ms(const struct notify *notify, int timeout_ms);

#endif
