/* SPDX-License-Identifier: Apache-2.0 */
#include "face/kit/pending.h"

void *pending_alloc(struct pending_list *list, const struct http_req *req, size_t size)
{
	struct pending *pending = calloc(1, size);

	if (!pending)
		return NULL;
	pending->list = list;
	pending->req = req->handle;
	pending->next = list->first;
	if (pending->next)
		pending->next->prev = pending;
	list->first = pending;
	return pending;
}

struct http_req *pending_free(struct pending *pending)
{
	struct pending_list *list = pending->list;
	struct http_req *req = *list->server ? http_req_get(*list->server, pending->req) : NULL;

	if (pending->prev)
		pending->prev->next = pending->next;
	else
		list->first = pending->next;
	if (pending->next)
		pending->next->prev = pending->prev;
	list->done(pending);
	free(pending);
	return req;
}

void pendings_done(struct pending_list *list)
{
	while (list->first)
		(void)pending_free(list->first);
}
