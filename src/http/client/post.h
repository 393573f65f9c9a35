/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST requests to other servers, on the loop, for webhooks: one connection each, one time limit
 * for the whole request, no redirects and no cookies. Only the status of the reply is kept.
 */
#ifndef CAY_HTTP_CLIENT_POST_H
#define CAY_HTTP_CLIENT_POST_H

#include "base/value/poster.h"
#include "net/loop.h"

struct http_poster_config {
	struct loop *loop;
	/* certificates to trust in addition to the system's; NULL or "": none */
	const char *ca_path;
	const char *user_agent; /* must outlive the poster */
	bool private_ok;	/* also allow addresses that are not public */
};
/* Owner: the wiring. At most limit requests at once: -ENOBUFS. */
int http_poster_new(const struct http_poster_config *config, uint32_t limit,
		    struct poster **ret) _must_check_;
/* NULL is allowed; requests in progress are dropped */
void http_poster_free(struct poster *poster);

#endif
