/* SPDX-License-Identifier: Apache-2.0 */
/* Between up.c, which starts the daemon, up_print.c, which says so, and down.c. */
#ifndef CAY_CLI_DAEMON_UP_H
#define CAY_CLI_DAEMON_UP_H

#include "cli/cli.h"
#include "cli/daemon/supervise.h"

enum up_program { UP_DAEMON, UP_WARDEN, UP_SUPERVISOR, UP_PROGRAMS };

/* Owner: up_run(). The paths are absolute, because the supervisor leaves our directory. */
struct up {
	struct supervise_config config;
	char state[PATH_MAX], templates[PATH_MAX], config_path[PATH_MAX];
	char tls_cert[PATH_MAX], tls_key[PATH_MAX];
	char listen[32];
	off_t log_from[UP_PROGRAMS];	 /* how long the logs were before this start */
	bool wrong_settings, no_address; /* why the daemon ended, by its status */
	bool already;
	bool undecided; /* it runs, and waits for `cay recover` or another database */
	bool build;
};

/* Prints the address and what to do next, or JSON. */
int up_print(struct cli *cli, const struct up *up, struct err *err) _must_check_;
/*
 * Starts the daemon of a state directory again, on a free loopback port and without a build, so
 * that `cay down` can end the sandboxes that an earlier one left running.
 */
int up_for_down(struct cli *cli, const struct args *args, struct err *err) _must_check_;

#endif
