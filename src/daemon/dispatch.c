/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/dispatch.h"

#include <assert.h>

void dispatch_add(struct dispatch *dispatch, dispatch_takes_fn takes, http_handler_fn handle,
		  void *face)
{
	assert(dispatch->count < DISPATCH_FACES_MAX);
	dispatch->faces[dispatch->count].takes = takes;
	dispatch->faces[dispatch->count].handle = handle;
	dispatch->faces[dispatch->count].face = face;
	dispatch->count++;
}

void dispatch_handle(void *ctx, struct http_req *req)
{
	const struct dispatch *dispatch = ctx;

	for (size_t i = 0; i < dispatch->count; i++) {
		if (dispatch->faces[i].takes &&
		    !dispatch->faces[i].takes(dispatch->faces[i].face, req))
			continue;
		dispatch->faces[i].handle(dispatch->faces[i].face, req);
		return;
	}
	http_reply(req, 404, NULL, 0, (struct str){ "", 0 });
}
