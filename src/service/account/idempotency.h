/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Idempotency: the same key and body within a day get the same reply, also for calls that arrive
 * while the first one runs.
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
/* Records of one key; then the oldest eighth makes room, as if a day had passed. */
#define IDEMPOTENCY_PER_KEY 10000
#define IDEMPOTENCY_BYTES_PER_KEY (16 * 1024 * 1024) /* of their answers; likewise */
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
	bool secret; /* body or reply may contain one, and only the vault's key decrypts them */
	idempotency_wait_fn wait;
	void *arg;		    /* of wait */
	idempotency_again_fn again; /* the daemon ended before it could record the reply */
	int again_status;	    /* its status */
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
 * For what is made on the way: it is noted before it is begun, so that a call that comes again
 * after a death of the daemon finds out what became of it. thing: its id, good within the sandbox.
 */
int idempotency_note(struct service *service, struct idempotency *idem, const char *sandbox_id,
		     const char *thing) _must_check_;
/* The thing that a former daemon noted for this call, and whose answer it did not record; "": none.
 * The note stays until idempotency_note() replaces it, or the call is answered with 2xx. */
const char *idempotency_begun(const struct idempotency *idem);
/* Records an answer of 2xx. < 0: it could not be, and nothing else tells a call that comes again
 * what was made: then it must not be sent. */
int idempotency_keep(struct service *service, struct idempotency *idem, int status,
		     struct str body) _must_check_;
/*
 * For what is made at once: the thing and its answer in one transaction, so that a death in between
 * leaves neither. Nothing may wait between open and close or abandon.
 */
int idempotency_open(struct service *service) _must_check_;
int idempotency_close(struct service *service, struct idempotency *idem, int status,
		      struct str body) _must_check_;
void idempotency_abandon(struct service *service);
/* Forgets answers that made nothing; answers everybody waiting. Before it, idempotency_keep(). */
void idempotency_finish(struct service *service, struct idempotency *idem, int status,
			struct str body);

#endif
