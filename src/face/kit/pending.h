/* SPDX-License-Identifier: Apache-2.0 */
/* Calls whose reply comes later: from the handler that calls the service until the callback with
 * the result. If the client disconnects meanwhile, the callback finds no request and sends
 * nothing. */
#ifndef CAY_FACE_KIT_PENDING_H
#define CAY_FACE_KIT_PENDING_H

#include "http/server/server.h"

struct pending;

/* Those of one face. Owner: the face. */
struct pending_list {
	struct http_server *const *server;     /* NULL there: it has been freed */
	void (*done)(struct pending *pending); /* releases what the face keeps beside one */
	struct pending *first;
};

/* The beginning of a face's own struct. Owner: its list, until pending_end(). */
struct pending {
	struct pending *prev, *next;
	struct pending_list *list;
	slot_handle req;
	slot_handle work; /* the service's handle of what it does; 0: it has none */
};

/* size bytes, zeroed, of which the first are the pending; NULL: no memory. */
void *pending_alloc(struct pending_list *list, const struct http_req *req, size_t size);
/* Unlinks and frees. Returns the request, or NULL if the client has disconnected. */
struct http_req *pending_free(struct pending *pending);
/* When the face ends. */
void pendings_done(struct pending_list *list);

#endif
