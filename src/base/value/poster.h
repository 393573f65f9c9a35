/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Somebody who sends a POST to an address elsewhere. The service asks, the HTTP layer does it:
 * neither sees the other.
 */
#ifndef CAY_BASE_VALUE_POSTER_H
#define CAY_BASE_VALUE_POSTER_H

#include "base/str.h"

struct poster_header {
	const char *name, *value;
};
struct poster_request {
	const char *url;
	const struct poster_header *headers;
	size_t header_count;
	struct str body; /* JSON */
	int64_t timeout_ms;
};
/* status: of the answer; 0: there is none, and error says why as -errno: -EPERM: the address is no
 * public one, -EHOSTUNREACH: no such name, -EKEYREJECTED: its certificate is not right. */
typedef void (*poster_fn)(void *arg, int status, int error);

struct poster {
	/* -EINVAL: no http:// or https:// URL. */
	int (*check)(struct poster *poster, struct str url);
	/* Everything is copied. done comes once, never from inside. *ret serves cancel. */
	int (*post)(struct poster *poster, const struct poster_request *request, poster_fn done,
		    void *arg, uint64_t *ret);
	void (*cancel)(struct poster *poster, uint64_t handle); /* done is not called any more */
};

#endif
