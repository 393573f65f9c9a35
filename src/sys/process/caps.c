/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/process/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>

#define CAP(name) (1ULL << CAP_##name)

const uint64_t caps_sandbox = CAP(CHOWN) | CAP(DAC_OVERRIDE) | CAP(FOWNER) | CAP(FSETID) |
			      CAP(KILL) | CAP(SETGID) | CAP(SETUID) | CAP(SETPCAP) |
			      CAP(NET_BIND_SERVICE) | CAP(SETFCAP);

int caps_bound(uint64_t keep)
{
	for (unsigned cap = 0; cap <= 63; cap++) {
		if (keep & (1ULL << cap))
			continue;
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return errno == EINVAL ? 0 : -errno; /* EINVAL: no such capability */
	}
	return 0;
}
