/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST requests to servers elsewhere, on the loop: one connection each, one time limit for all of
 * it, no redirects, no cookies, nothing but the status of the answer kept.
 */
#ifndef CAY_HTTP_CLIENT_POST_H
#define CAY_HTTP_CLIENT_POST_H

#include "base/value/poster.h"
#include "net/loop.h"

struct http_poster_config {
	struct loop *loop;
	const char *ca_path;	/* certificates to trust besides the system's; NULL or "": none */
	const char *user_agent; /* outlives the poster */
	bool private_ok;	/* addresses that are not public, too */
};
/* Owner: the wiring. At most limit at once: -ENOBUFS. */
int http_poster_new(const struct http_poster_config *config, uint32_t limit,
		    struct poster **ret) _must_check_;
void http_poster_free(struct poster *poster); /* NULL is fine; what is under way is cut */

#endif
