/* SPDX-License-Identifier: Apache-2.0 */
/* The state directory: creation, ownership, lock, and the file with the daemon's address. */
#ifndef CAY_DAEMON_STATE_H
#define CAY_DAEMON_STATE_H

#include "base/err.h"
#include "base/str.h"
#include "daemon/isolate.h"

/* Creates it and its logs directory; user NULL: the caller's. */
int state_prepare(const char *dir, const struct isolate_user *user, struct err *err) _must_check_;
/* Held until the process ends. */
int state_lock(const char *dir, const struct isolate_user *user, int *ret_fd,
	       struct err *err) _must_check_;
int state_write_url(const char *dir, const char *url, struct err *err) _must_check_;
/* No client finds the daemon any more; the file stays under another name, for the next one. */
void state_hide_url(const char *dir);
/* The port of a daemon that was killed; 0 if there is none. */
uint16_t state_last_port(const char *dir);
uint16_t state_url_port(struct str url); /* 0 when it has none */

#endif
