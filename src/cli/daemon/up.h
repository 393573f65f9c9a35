/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by up.c, which starts the daemon, up_print.c, which prints the result, and down.c. */
#ifndef CAY_CLI_DAEMON_UP_H
#define CAY_CLI_DAEMON_UP_H

#include "cli/cli.h"
#include "cli/daemon/supervise.h"

enum up_program { UP_DAEMON, UP_WARDEN, UP_SUPERVISOR, UP_PROGRAMS };

/* Owner: up_run(). Paths are absolute, because the supervisor changes its directory. */
struct up {
	struct supervise_config config;
	char state[PATH_MAX], templates[PATH_MAX], config_path[PATH_MAX];
	char tls_cert[PATH_MAX], tls_key[PATH_MAX];
	char listen[32];
	off_t log_from[UP_PROGRAMS];	 /* size of the logs before this start */
	bool wrong_settings, no_address; /* from the daemon's exit status */
	bool already;
	bool undecided; /* it runs, and waits for `cay recover` or another database */
	bool build;
};

/* Prints the address and what to do next, or JSON. */
int up_print(struct cli *cli, const struct up *up, struct err *err) _must_check_;
/*
 * Starts the daemon of a state directory again, on a free loopback port and without a build, so
 * that `cay down` can end the sandboxes of an earlier daemon.
 */
int up_for_down(struct cli *cli, const struct args *args, struct err *err) _must_check_;

#endif
