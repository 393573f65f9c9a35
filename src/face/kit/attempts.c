/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/attempts.h"

#include "base/time.h"

static uint64_t hash_of(struct str peer)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < peer.n; i++)
		h = (h ^ (unsigned char)peer.p[i]) * 0x100000001b3ULL;
	return h | 1;
}

static struct attempt *find(struct attempts *attempts, struct str peer)
{
	uint64_t who = hash_of(peer);
	struct attempt *attempt = &attempts->slots[(who >> 16) % ATTEMPT_SLOTS];
	int64_t minute = time_mono_us() / 60000000;

	if (attempt->who != who || attempt->minute != minute)
		*attempt = (struct attempt){ .who = who, .minute = minute };
	return attempt;
}

bool attempts_allowed(struct attempts *attempts, struct str peer, uint32_t most)
{
	return find(attempts, peer)->count < most;
}

void attempts_wrong(struct attempts *attempts, struct str peer)
{
	find(attempts, peer)->count++;
}

int attempts_refuse(struct attempts *attempts, struct str peer, uint32_t most, struct err *err)
{
	bool allowed = attempts_allowed(attempts, peer, most);

	attempts_wrong(attempts, peer);
	if (!allowed)
		(void)err_set(err, ERR_RATE_LIMITED,
			      "too many requests without valid credentials; wait for a minute");
	return -1;
}
