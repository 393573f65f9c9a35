/* SPDX-License-Identifier: Apache-2.0 */
/* Coming back after the daemon was lost: it is being restarted, most likely. */
#ifndef CAY_CLI_API_RETRY_H
#define CAY_CLI_API_RETRY_H

#include "cli/cli.h"

#define RETRY_FOR_MS 60000 /* both units of a slow machine take 15 s to restart */

struct retry {
	int64_t until_ms; /* 0: connected */
	int delay_ms;
};

/* Says so once, waits a little and returns true; false when it has been tried for long enough. */
bool retry_wait(struct retry *retry, struct cli *cli);
/* The same, without waiting: how long to wait is returned, or -1. */
int retry_delay(struct retry *retry, struct cli *cli);
/* Says so if it was lost. */
void retry_connected(struct retry *retry, const struct cli *cli);

#endif
