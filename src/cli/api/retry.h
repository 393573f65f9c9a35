/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reconnecting after the connection to the daemon was lost, most likely because the daemon is being
 * restarted.
 */
#ifndef CAY_CLI_API_RETRY_H
#define CAY_CLI_API_RETRY_H

#include "cli/cli.h"

#define RETRY_FOR_MS 60000 /* both units of a slow machine take 15 s to restart */

struct retry {
	int64_t until_ms; /* 0: connected */
	int delay_ms;
};

/* Prints a note once, waits a little and returns true; false after RETRY_FOR_MS. */
bool retry_wait(struct retry *retry, struct cli *cli);
/* The same without waiting: returns how long to wait, or -1. */
int retry_delay(struct retry *retry, struct cli *cli);
/* Prints a note if the connection was lost before. */
void retry_connected(struct retry *retry, const struct cli *cli);

#endif
