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

static int64_t this_minute(void)
{
	return time_mono_us() / 60000000;
}

static size_t slot_of(uint64_t who)
{
	return (who >> 16) % ATTEMPT_SLOTS;
}

static struct attempt *find(struct attempt slots[ATTEMPT_SLOTS], struct str peer)
{
	uint64_t who = hash_of(peer);
	struct attempt *attempt = &slots[slot_of(who)];
	int64_t minute = this_minute();

	if (attempt->who != who || attempt->minute != minute)
		*attempt = (struct attempt){ .who = who, .minute = minute };
	return attempt;
}

bool attempts_allowed(struct attempts *attempts, struct str peer, uint32_t most)
{
	return find(attempts->slots, peer)->count < most;
}

void attempts_wrong(struct attempts *attempts, struct str peer)
{
	find(attempts->slots, peer)->count++;
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

int attempts_open(struct attempts *attempts, struct str peer, struct err *err)
{
	uint32_t most = attempts->open_most ? attempts->open_most : ATTEMPTS_OPEN;

	if (++find(attempts->open, peer)->count > most)
		return err_set(err, ERR_RATE_LIMITED,
			       "too many requests without credentials; wait for a minute");
	return 0;
}

void attempts_right(struct attempts *attempts, struct str peer)
{
	find(attempts->known, peer)->count = 1;
}

bool attempts_known(const struct attempts *attempts, struct str peer)
{
	uint64_t who = hash_of(peer);
	const struct attempt *attempt = &attempts->known[slot_of(who)];

	return attempt->who == who && this_minute() - attempt->minute <= ATTEMPT_KNOWN_MINUTES;
}
