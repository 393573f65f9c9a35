/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor that `cay up` leaves behind: it keeps cay-warden and cayd running, restarts either
 * one when it dies, takes over ones that already run, and reaps what they leave.
 *
 * Signals: TERM, INT  stop both (the daemon first), then end; a second one kills at once
 *          USR1       hold: the daemon is not started again when it ends (`cay down` is at work).
 *                     The warden still is, because the daemon needs it to destroy sandboxes.
 *          USR2       go on: restart again, without waiting
 */
#ifndef CAY_CLI_DAEMON_SUPERVISE_H
#define CAY_CLI_DAEMON_SUPERVISE_H

#include <limits.h>

#include "base/err.h"

/* How cayd ends when it does not like its settings: starting it again does not help. */
#define SUPERVISE_WRONG_SETTINGS 2
/* How cayd ends when it cannot listen. In the foreground the first one is final. */
#define SUPERVISE_NO_ADDRESS 3
/* A program that ended this often in a row before the daemon was ever ready will not come up. */
#define SUPERVISE_DEATHS_MAX 3

struct supervise_config {
	const char *state;
	const char *templates;
	const char *listen;		/* NULL: the daemon's own choice */
	const char *config;		/* NULL: the daemon's own choice */
	const char *tls_cert, *tls_key; /* absolute; NULL: the daemon's own choice */
	bool engine_local;
	bool with_warden; /* false only for the local engine without root */
	bool foreground;  /* the programs' logs go to standard error */
	char daemon[PATH_MAX], warden[PATH_MAX], agent[PATH_MAX], tools[PATH_MAX], build[PATH_MAX];
	int lock_fd;   /* supervisor.lock, held */
	int report_fd; /* told when a program ends ("NAME STATUS\n"), until it closes; -1: nobody */
};

/* Runs until it is told to stop; returns the exit status. */
int supervise_run(const struct supervise_config *config);

/* The pause before restart number `deaths` in a row: 50 ms, doubled each time, 5 s at most. */
int supervise_backoff_ms(unsigned deaths);

#endif
