/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transfer of file content through a face: a call of the service that runs as long as its request,
 * ends with its client, counts as one of its key's streams, and is no faster than its reader.
 */
#ifndef CAY_FACE_KIT_TRANSFER_H
#define CAY_FACE_KIT_TRANSFER_H

#include "http/server/server.h"
#include "service/account/auth.h"
#include "service/files/files.h"

/*
 * The transfers of one face. The service is NULL after it has ended, the server before it is freed.
 */
struct transfer_list {
	struct service *const *service;
	struct http_server *const *server;
	struct transfer *first;
};

/*
 * The first member of a face's own struct. Owner: its list until transfer_end() or until its client
 * disconnects, which ends the operation.
 */
struct transfer {
	struct transfer *prev, *next;
	struct transfer_list *list;
	void (*done)(struct transfer *t); /* frees what the face keeps beside it; NULL: nothing */
	slot_handle req;
	slot_handle run; /* 0: none */
	char key_id[AUTH_KEY_ID_SIZE];
	bool begun;   /* the head was sent */
	bool blocked; /* the reader is slow */
	size_t owed;  /* bytes that were sent and not yet released */
	struct files_spec spec;
	struct files_head head;
};

/* size bytes, zeroed, that start with the transfer. NULL: err has the reason. */
void *transfer_new(struct transfer_list *list, struct http_req *req, struct key *key, size_t size,
		   void (*done)(struct transfer *t), struct err *err);
struct http_req *transfer_req(const struct transfer *t); /* NULL: disconnected */
/* Frees; returns the request, which the caller answers or ends, or NULL. */
struct http_req *transfer_end(struct transfer *t);
/* When the service has ended: its streams are no longer counted. */
void transfers_done(struct transfer_list *list);

/* ---- downloads ---- */

void transfer_note_head(struct transfer *t, const struct files_head *head);
/* Passes bytes on; more follow when these have been sent. */
void transfer_pass(struct transfer *t, struct http_req *req, struct str bytes);
void transfer_on_drain(void *transfer); /* for http_reply_on_drain() */

/* Header values that describe a file; "" if there is nothing to say. */
struct transfer_words {
	char length[24], range[80], modified[40];
};
void transfer_words(const struct transfer *t, struct transfer_words *ret);

#endif
