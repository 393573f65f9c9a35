/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/face/e2b only: content of files on its way. */
#ifndef CAY_FACE_E2B_TRANSFER_H
#define CAY_FACE_E2B_TRANSFER_H

#include "face/e2b/envd.h"
#include "service/files.h"

/* Owner: e2b->transfers until e2b_transfer_end() or until its client goes, which ends the
 * operation. It is one of its key's streams. */
struct transfer {
	struct transfer *prev, *next;
	struct e2b *e2b;
	struct e2b_call *call; /* good as long as the request is */
	slot_handle req;
	slot_handle run; /* 0: none */
	char key_id[AUTH_KEY_ID_SIZE];
	bool begun;   /* the head is sent */
	bool blocked; /* the reader is slow */
	size_t owed;  /* bytes that have left and were not yet released */
	struct files_spec spec;
	struct files_head head;
	struct upload *upload; /* heap; of uploads */
};

struct transfer *e2b_transfer_new(struct e2b_call *call, struct err *err);
struct http_req *e2b_transfer_req(const struct transfer *t); /* NULL: gone */
/* Frees; the request, which is the caller's to answer or end, or NULL. */
struct http_req *e2b_transfer_end(struct transfer *t);
void upload_free(struct upload *upload); /* NULL is fine */

/* "path 'X' does not exist" and what else is said of a path; err is copied or written anew. */
void e2b_transfer_error(const struct err *err, const char *path, struct err *ret);

#endif
