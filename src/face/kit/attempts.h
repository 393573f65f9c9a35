/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients that send wrong credentials: after some of them in a minute, further ones are refused
 * with rate_limited, and where looking at them costs something they are not looked at. A fixed
 * table: when many clients guess, the slot goes to the latest, and each still gets its few tries
 * only. Owner: the face that checks the credentials.
 *
 * Clients that sent good credentials are remembered for ten minutes in a table of their own, which
 * strangers cannot fill: where strangers compete for something, a part of it is reserved for them.
 */
#ifndef CAY_FACE_KIT_ATTEMPTS_H
#define CAY_FACE_KIT_ATTEMPTS_H

#include "base/err.h"
#include "base/str.h"

#define ATTEMPT_SLOTS 1024
#define ATTEMPTS_TOKEN 30  /* a minute: tokens, signatures and addresses of previews */
#define ATTEMPTS_KEY 1200  /* a minute: API keys, which are too long to be guessed */
#define ATTEMPTS_OPEN 6000 /* a minute: calls that need no credentials */
#define ATTEMPT_KNOWN_MINUTES 10

struct attempts {
	uint32_t open_most; /* calls of one client without credentials in a minute; 0: ATTEMPTS_OPEN
			     */
	struct attempt {
		uint64_t who; /* 0: free */
		int64_t minute;
		uint32_t count;
	} slots[ATTEMPT_SLOTS], open[ATTEMPT_SLOTS], known[ATTEMPT_SLOTS];
};

/* Whether this client has sent fewer than `most` wrong credentials in this minute. */
bool attempts_allowed(struct attempts *attempts, struct str peer, uint32_t most);
void attempts_wrong(struct attempts *attempts, struct str peer);
/* Counts one more wrong attempt. err says why it is rejected; it becomes rate_limited if there
 * were too many before. Returns -1. */
int attempts_refuse(struct attempts *attempts, struct str peer, uint32_t most, struct err *err);

/* Counts a call without credentials: 0, or -1 when this client had too many in this minute. */
int attempts_open(struct attempts *attempts, struct str peer, struct err *err) _must_check_;

void attempts_right(struct attempts *attempts, struct str peer); /* its credentials were good */
bool attempts_known(const struct attempts *attempts, struct str peer);

#endif
