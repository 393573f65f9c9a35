/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the face that handles a request: the first in an ordered list that accepts it. The last
 * one, the REST face, accepts everything.
 */
#ifndef CAY_DAEMON_DISPATCH_H
#define CAY_DAEMON_DISPATCH_H

#include "http/server/server.h"

#define DISPATCH_FACES_MAX 8

/* May inspect only Host, headers and path; must not reply. */
typedef bool (*dispatch_takes_fn)(void *face, const struct http_req *req);

/* Owner: the wiring. */
struct dispatch {
	struct {
		dispatch_takes_fn takes; /* NULL: everything */
		http_handler_fn handle;
		void *face;
	} faces[DISPATCH_FACES_MAX];
	size_t count;
};

/* In the order in which they are tried. */
void dispatch_add(struct dispatch *dispatch, dispatch_takes_fn takes, http_handler_fn handle,
		  void *face);
/* An http_handler_fn; ctx is the struct dispatch. */
void dispatch_handle(void *ctx, struct http_req *req);

#endif
