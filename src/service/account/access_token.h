/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access to the inside of one sandbox without an API key: a token that belongs to the sandbox, and
 * signatures made with it, which open one path of its files. Tokens are derived, not stored: they
 * are the same after a restart and differ for every sandbox. Used by the E2B face and previews.
 */
#ifndef CAY_SERVICE_ACCOUNT_ACCESS_TOKEN_H
#define CAY_SERVICE_ACCOUNT_ACCESS_TOKEN_H

#include "service/sandbox/sandbox.h"

#define ACCESS_TOKEN_SIZE 65
#define ACCESS_SIGNATURE_SIZE 48 /* "v1_" and 43 characters of base64 */

/* The sandbox with this id, of any owner; NULL if there is none. The caller must check a token. */
struct sandbox *access_sandbox(struct service *service, struct str id);
/* The key for which streams are counted. NULL: the key was deleted. */
struct key *access_owner(const struct sandbox *sandbox);

void access_token(const struct sandbox *sandbox, char ret[ACCESS_TOKEN_SIZE]);
bool access_token_is(const struct sandbox *sandbox, struct str token);
/* A weaker token, which opens only the servers inside: users may pass it on to visitors. */
void access_traffic_token(const struct sandbox *sandbox, char ret[ACCESS_TOKEN_SIZE]);
bool access_traffic_token_is(const struct sandbox *sandbox, struct str token);

/* The operation and path that a signature permits. */
struct access_claim {
	struct str path, user;
	const char *operation; /* "read", "write" */
	struct str expiration; /* Unix time in decimal digits; p NULL: none */
};
bool access_signature_is(const struct sandbox *sandbox, const struct access_claim *claim,
			 struct str signature);
/*
 * The sandbox whose token made this signature. For callers that do not name one: all are tried
 * (docs/decisions/050), so no more than this many are in a second, and half of that is reserved for
 * clients whose credentials were good before. NULL: none (unauthenticated), or too many
 * (rate_limited).
 */
#define ACCESS_SEARCH_PER_SEC 20000
#define ACCESS_SEARCH_STRANGERS (ACCESS_SEARCH_PER_SEC / 2)
struct sandbox *access_find_signed(struct service *service, const struct access_claim *claim,
				   struct str signature, bool known, struct err *err);

#endif
