/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor, which `cay up` leaves running. It keeps cay-warden and cayd running: it starts
 * them, takes over ones that already run, restarts one that dies, and reaps orphans.
 *
 * Signals:
 *   TERM, INT  stop both (the daemon first), then exit; a second signal kills at once
 *   USR1       do not restart the daemon when it ends (sent by `cay down`). The warden is still
 *              restarted, because the daemon needs it to destroy sandboxes.
 *   USR2       restart again, without a pause
 */
#ifndef CAY_CLI_DAEMON_SUPERVISE_H
#define CAY_CLI_DAEMON_SUPERVISE_H

#include <limits.h>

#include "base/err.h"

/* Exit status of cayd if its settings are invalid: restarting does not help. */
#define SUPERVISE_WRONG_SETTINGS 2
/* Exit status of cayd if it cannot listen. In the foreground the first such exit is final. */
#define SUPERVISE_NO_ADDRESS 3
/* A program that ended this often in a row before the daemon was ever ready is given up. */
#define SUPERVISE_DEATHS_MAX 3

struct supervise_config {
	const char *state;
	const char *templates;
	const char *listen;		/* NULL: the daemon's default */
	const char *config;		/* NULL: the daemon's default */
	const char *tls_cert, *tls_key; /* absolute; NULL: the daemon's default */
	bool engine_local;
	bool with_warden; /* false only for the local engine without root */
	bool foreground;  /* the programs' logs go to standard error */
	char daemon[PATH_MAX], warden[PATH_MAX], agent[PATH_MAX], tools[PATH_MAX], build[PATH_MAX];
	int lock_fd; /* supervisor.lock, held */
	/* receives "NAME STATUS\n" when a program ends, until it is closed; -1: none */
	int report_fd;
};

/* Runs until it is stopped; returns the exit status. */
int supervise_run(const struct supervise_config *config);

/* The pause before restart number `deaths` in a row: 50 ms, doubled each time, at most 5 s. */
int supervise_backoff_ms(unsigned deaths);

#endif
