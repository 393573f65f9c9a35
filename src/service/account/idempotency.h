/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idempotency: calls with the same key and body get the same reply for a day, also if they arrive
 * while the first one is in progress. Called by faces around calls that create something.
 */
#ifndef CAY_SERVICE_ACCOUNT_IDEMPOTENCY_H
#define CAY_SERVICE_ACCOUNT_IDEMPOTENCY_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct service;
struct key;
struct idempotency; /* one call in progress; ends with idempotency_finish() */

#define IDEMPOTENCY_KEY_MAX 255
#define IDEMPOTENCY_KEEP_MS (24 * 3600 * 1000LL)
/* Records per API key; at the limit the oldest eighth is deleted, as if it had expired. */
#define IDEMPOTENCY_PER_KEY 10000
#define IDEMPOTENCY_BYTES_PER_KEY (16 * 1024 * 1024) /* of the replies in them; same policy */
#define IDEMPOTENCY_WAITERS_MAX 64 /* per key; more are refused with rate_limited */

enum idempotency_answer {
	IDEMPOTENCY_NEW,    /* continue, then finish *ret */
	IDEMPOTENCY_REPLAY, /* *ret_reply is the reply */
	IDEMPOTENCY_WAIT,   /* the same call is in progress: wait is called with its reply */
};
typedef void (*idempotency_wait_fn)(void *arg, int status, struct str body);
struct sandbox;
/* The reply to the creation of a sandbox, in the face's own form: appended to out. 0 or -errno. */
typedef int (*idempotency_again_fn)(const struct sandbox *sandbox, struct buf *out);

/* One call. Views live during idempotency_begin(). */
struct idempotency_ask {
	const struct key *owner;
	struct str key, body;
	bool secret; /* body or reply may contain a secret: both are stored sealed by the vault */
	idempotency_wait_fn wait;
	void *arg; /* argument of wait */
	idempotency_again_fn
		again;	  /* composes the reply if an earlier daemon died before it recorded it */
	int again_status; /* HTTP status of that reply */
};
/* The recorded reply. */
struct idempotency_reply {
	int status;
	struct str body; /* heap, caller frees */
};
/* enum idempotency_answer, or -1 with err set: the key was used with another body, or is malformed.
 * *ret is written with IDEMPOTENCY_NEW, *ret_reply with IDEMPOTENCY_REPLAY. */
int idempotency_begin(struct service *service, const struct idempotency_ask *ask,
		      struct idempotency **ret, struct idempotency_reply *ret_reply,
		      struct err *err) _must_check_;
/*
 * For objects whose creation takes a while: notes the object's id before the work begins, so that a
 * repeated call after a crash of the daemon can find the result. thing: the id, unique within the
 * sandbox.
 */
int idempotency_note(struct service *service, struct idempotency *idem, const char *sandbox_id,
		     const char *thing) _must_check_;
/* The id that an earlier daemon noted for this call without recording a reply; "": none. The note
 * stays until idempotency_note() replaces it or the call is answered with 2xx. */
const char *idempotency_begun(const struct idempotency *idem);
/* Records a 2xx reply. Negative: it could not be recorded. A repeated call would then create the
 * object again, so the caller must not send the reply. */
int idempotency_keep(struct service *service, struct idempotency *idem, int status,
		     struct str body) _must_check_;
/*
 * For objects that are created immediately: the object and its reply are written in one
 * transaction, so that a crash in between leaves neither. The caller must not return to the loop
 * between open and close or abandon.
 */
int idempotency_open(struct service *service) _must_check_;
int idempotency_close(struct service *service, struct idempotency *idem, int status,
		      struct str body) _must_check_;
void idempotency_abandon(struct service *service);
/* Ends the call: replies to all calls that wait for it, and drops the record of an unsuccessful
 * one. A 2xx reply must have been recorded before, with idempotency_keep(). */
void idempotency_finish(struct service *service, struct idempotency *idem, int status,
			struct str body);

#endif
