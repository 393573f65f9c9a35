/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Content of files on its way through a face: a call of the service that runs as long as its
 * request, goes with its client, is one of its key's streams, and is no faster than its reader.
 */
#ifndef CAY_FACE_KIT_TRANSFER_H
#define CAY_FACE_KIT_TRANSFER_H

#include "http/server/server.h"
#include "service/account/auth.h"
#include "service/files/files.h"

/* Those of one face. The service is NULL once it has ended, the server before it is freed. */
struct transfer_list {
	struct service *const *service;
	struct http_server *const *server;
	struct transfer *first;
};

/* The begin of a face's own struct. Owner: its list until transfer_end() or until its client goes,
 * which ends the operation. */
struct transfer {
	struct transfer *prev, *next;
	struct transfer_list *list;
	void (*done)(
		struct transfer *t); /* lets go of what the face has beside it; NULL: nothing */
	slot_handle req;
	slot_handle run; /* 0: none */
	char key_id[AUTH_KEY_ID_SIZE];
	bool begun;   /* the head is sent */
	bool blocked; /* the reader is slow */
	size_t owed;  /* bytes that have left and were not yet released */
	struct files_spec spec;
	struct files_head head;
};

/* size bytes, zeroed, of which the first are the transfer. NULL: err says why. */
void *transfer_new(struct transfer_list *list, struct http_req *req, struct key *key, size_t size,
		   void (*done)(struct transfer *t), struct err *err);
struct http_req *transfer_req(const struct transfer *t); /* NULL: gone */
/* Frees; the request, which is the caller's to answer or end, or NULL. */
struct http_req *transfer_end(struct transfer *t);
/* When the service has ended: its streams are counted no more. */
void transfers_done(struct transfer_list *list);

/* ---- downloads ---- */

void transfer_note_head(struct transfer *t, const struct files_head *head);
/* Passes bytes on; more of them come when these have left. */
void transfer_pass(struct transfer *t, struct http_req *req, struct str bytes);
void transfer_on_drain(void *transfer); /* for http_reply_on_drain() */

/* What a head says of a file, as values of headers; "" when there is nothing to say. */
struct transfer_words {
	char length[24], range[80], modified[40];
};
void transfer_words(const struct transfer *t, struct transfer_words *ret);

#endif
