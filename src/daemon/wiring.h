/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects the layers: loop, service with its engines, faces, HTTP server. Called by main(), which
 * owns the result.
 */
#ifndef CAY_DAEMON_WIRING_H
#define CAY_DAEMON_WIRING_H

#include "base/err.h"
#include "daemon/config.h"
#include "sys/notify.h"

struct wiring;

/* Opened before the daemon dropped its privileges. */
struct wiring_fds {
	int listen, redirect; /* taken over; redirect may be -1 */
	int recipes;	      /* owned by the caller; may be -1 */
};

/* url is written to the state directory when the daemon is ready. */
int wiring_new(const struct config *config, const struct wiring_fds *fds, const char *url,
	       struct wiring **ret, struct err *err) _must_check_;
/* Runs until a signal or a shutdown call. */
void wiring_run(struct wiring *wiring, struct notify *notify);
void wiring_free(struct wiring *wiring);

#endif
