/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/system/clock.h"

#include "base/time.h"

/* A freeze appears as a gap of at least this length; shorter ones do not matter. */
#define LOOK_US 20000

static const struct groups *groups;
static int64_t looked_us;  /* on the kernel's clock */
static uint64_t noted_us;  /* value on the group at the last look */
static uint64_t frozen_us; /* since our start */

void clock_open(const struct groups *from)
{
	groups = from;
}

/*
 * Reads the kernel's clock first and the recorded time second: a freeze in between makes the result
 * too early, which the next call corrects. In the other order, frozen time would count as elapsed.
 */
int64_t clock_us(void)
{
	int64_t now_us = time_mono_us();

	if (groups && !groups->away && now_us - looked_us >= LOOK_US) {
		uint64_t sum_us = groups_frozen_us(groups);

		if (sum_us > noted_us)
			frozen_us += sum_us - noted_us;
		noted_us = sum_us; /* less: another group, after a checkpoint */
		looked_us = now_us;
	}
	return now_us - (int64_t)frozen_us;
}
