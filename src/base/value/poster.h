/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An interface for sending a POST request to another host. The service calls it and the HTTP layer
 * implements it, so that neither includes the other.
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
/*
 * status: of the reply; 0 if there was none, and then error is the reason as -errno: -EPERM: the
 * address is not public, -EHOSTUNREACH: the name does not exist, -EKEYREJECTED: the certificate is
 * invalid.
 */
typedef void (*poster_fn)(void *arg, int status, int error);

struct poster {
	/* -EINVAL: not an http:// or https:// URL. */
	int (*check)(struct poster *poster, struct str url);
	/*
	 * Copies all arguments. done is called once, never from inside this call. Pass *ret to
	 * cancel.
	 */
	int (*post)(struct poster *poster, const struct poster_request *request, poster_fn done,
		    void *arg, uint64_t *ret);
	void (*cancel)(struct poster *poster, uint64_t handle); /* done is not called afterwards */
};

#endif
