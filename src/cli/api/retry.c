/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/api/retry.h"

#include <poll.h>

#include "base/time.h"

#define FIRST_DELAY_MS 50
#define LAST_DELAY_MS 500

int retry_delay(struct retry *retry, struct cli *cli)
{
	int64_t now = time_boot_ms();
	int delay;

	if (retry->until_ms == 0) {
		retry->until_ms = now + RETRY_FOR_MS;
		retry->delay_ms = FIRST_DELAY_MS;
		cli_note(cli, "cay: the connection to the daemon was lost; reconnecting");
	}
	if (now >= retry->until_ms)
		return -1;
	/* It may listen elsewhere after the restart. */
	cli_disconnect(cli);
	delay = retry->delay_ms;
	retry->delay_ms = MIN(delay * 2, LAST_DELAY_MS);
	return delay;
}

bool retry_wait(struct retry *retry, struct cli *cli)
{
	struct pollfd pfd = { .fd = cli->wake_fd, .events = POLLIN };
	int delay = retry_delay(retry, cli);

	if (delay < 0)
		return false;
	if (poll(&pfd, 1, delay) > 0 && cli->wake(cli->wake_arg) < 0)
		return false;
	return true;
}

void retry_connected(struct retry *retry, const struct cli *cli)
{
	if (retry->until_ms != 0)
		cli_note(cli, "cay: reconnected");
	retry->until_ms = 0;
}
