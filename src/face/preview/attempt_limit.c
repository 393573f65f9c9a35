/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that guess tokens or addresses: after some wrong ones in a minute their credentials are
 * not even looked at. A fixed table: when many guess, the slot goes to the latest, and each still
 * gets its few tries only.
 */
#include "base/time.h"
#include "face/preview/visit.h"

static uint64_t hash_of(struct str peer)
{
	uint64_t h = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < peer.n; i++)
		h = (h ^ (unsigned char)peer.p[i]) * 0x100000001b3ULL;
	return h | 1;
}

static struct guess *find(struct preview_face *face, struct str peer)
{
	uint64_t who = hash_of(peer);
	struct guess *guess = &face->guesses[(who >> 16) % GUESS_SLOTS];
	int64_t minute = time_mono_us() / 60000000;

	if (guess->who != who || guess->minute != minute)
		*guess = (struct guess){ .who = who, .minute = minute };
	return guess;
}

bool guess_allowed(struct preview_face *face, struct str peer)
{
	return find(face, peer)->count < GUESSES_PER_MINUTE;
}

void guess_wrong(struct preview_face *face, struct str peer)
{
	find(face, peer)->count++;
}
