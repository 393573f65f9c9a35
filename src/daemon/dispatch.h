/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which face answers a request: the first of an ordered list that takes it. The last one takes
 * whatever is left and is the REST face.
 */
#ifndef CAY_DAEMON_DISPATCH_H
#define CAY_DAEMON_DISPATCH_H

#include "http/server/server.h"

#define DISPATCH_FACES_MAX 8

/* Looks at Host, headers and path only; must not answer. */
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

/* In the order in which they are asked. */
void dispatch_add(struct dispatch *dispatch, dispatch_takes_fn takes, http_handler_fn handle,
		  void *face);
/* An http_handler_fn; ctx is the struct dispatch. */
void dispatch_handle(void *ctx, struct http_req *req);

#endif
