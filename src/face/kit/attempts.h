/* SPDX-License-Identifier: Apache-2.0 */
/* Counts wrong credentials per client. After a number of them in a minute, further ones are
 * rejected with rate_limited, and expensive checks are skipped. The table has a fixed size: if
 * many clients guess, a slot goes to the latest, and each client still gets only its few
 * attempts. Owner: the face that checks the credentials. */
#ifndef CAY_FACE_KIT_ATTEMPTS_H
#define CAY_FACE_KIT_ATTEMPTS_H

#include "base/err.h"
#include "base/str.h"

#define ATTEMPT_SLOTS 1024
#define ATTEMPTS_TOKEN 30 /* a minute: tokens, signatures and addresses of previews */
#define ATTEMPTS_KEY 1200 /* a minute: API keys, which are too long to be guessed */

struct attempts {
	struct attempt {
		uint64_t who; /* 0: free */
		int64_t minute;
		uint32_t count;
	} slots[ATTEMPT_SLOTS];
};

/* Whether this client has sent fewer than `most` wrong credentials in this minute. */
bool attempts_allowed(struct attempts *attempts, struct str peer, uint32_t most);
void attempts_wrong(struct attempts *attempts, struct str peer);
/* Counts one more wrong attempt. err says why it is rejected; it becomes rate_limited if there
 * were too many before. Returns -1. */
int attempts_refuse(struct attempts *attempts, struct str peer, uint32_t most, struct err *err);

#endif
