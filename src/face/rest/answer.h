/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/rest: how a call is answered: immediately, later, or once for repeated
 * calls. */
#ifndef CAY_FACE_REST_ANSWER_H
#define CAY_FACE_REST_ANSWER_H

#include "base/buf.h"
#include "base/json.h"
#include "face/kit/page.h"
#include "face/kit/pending.h"
#include "service/sandbox/sandbox.h"

struct idempotency;
struct rest;
struct rest_call;

/* ---- immediately (answer.c) ---- */

/* Starts a reply in rest->out; the next function sends it. */
struct json_writer answer_begin(struct rest *rest);
void answer_send(struct rest *rest, struct http_req *req, int status, struct json_writer *w);
void answer_text(struct rest *rest, struct http_req *req, int status, struct str type,
		 struct str body);
void answer_empty(struct rest *rest, struct http_req *req, int status);
void answer_error(struct rest *rest, struct http_req *req, const struct err *err);
void answer_upgrade_error(struct rest *rest, struct http_req *req, const struct err *err);
void answer_not_allowed(struct rest *rest, struct http_req *req, const char *allow);
/* As member "error"; request_id NULL: the error of a part of a reply. */
void answer_write_error(struct json_writer *w, const char *request_id, const struct err *err);
/* Writes an error as JSON into rest->out and returns the text, for recorded replies. */
struct str answer_error_text(struct rest *rest, const char *request_id, const struct err *err);

/* ---- later (pending.c) ---- */

/* A call whose reply comes later. Owner: rest->pendings until pending_end(). */
struct rest_pending {
	struct pending base;
	struct rest *rest;
	struct idempotency *idem;
	slot_handle sandbox;
	struct rest_call *call; /* valid as long as the request */
	struct listing *list;	/* a reply that is written in pieces */
};
struct listing {
	struct buf out;
	struct json_writer w;
	bool sealed; /* writes the end of the reply */
};
struct rest_pending *pending_new(struct rest_call *call);
void pending_release(struct pending *pending); /* for the list */
/* Unlinks and frees. Returns the request, or NULL if the client has disconnected. */
struct http_req *pending_end(struct rest_pending *pending);
/* The same when the service is done. An error is sent, and then the result is NULL. */
struct http_req *pending_done(struct rest_pending *pending, const struct err *err);

/* The reply to a call that the service has finished: w writes the members of its object. false: an
 * error was sent, or the client has disconnected. */
struct reply {
	struct rest *rest;
	struct http_req *req;
	struct json_writer w;
};
bool reply_begin(struct rest_pending *pending, const struct err *err, struct reply *ret);
void reply_send(struct reply *reply); /* with status 200 */

/* NULL: an error was sent. */
struct rest_pending *pending_for(struct rest_call *call);
/* r < 0: the service rejected the call, and its error is sent. */
void answer_later(struct rest_pending *pending, int r, const struct err *err);
void answer_done(void *pending, const struct err *err); /* 204 or the error */
/* Calls the service for the second id of the path and sends 204 or the error. */
typedef int (*named_fn)(struct sandbox *sandbox, struct str name,
			void (*done)(void *arg, const struct err *err), void *arg, struct err *err);
void answer_named(struct rest_call *call, named_fn fn);
/* The sandbox that the path names; NULL: an error was sent. */
struct sandbox *answer_find(struct rest_call *call);
/* ---- lists ---- */

struct rest_pending *list_begin(struct rest_call *call); /* Writes {"data":[ into pending->list. */
void list_answer(struct rest_pending *pending, const struct err *err);
/* The query parameters limit and cursor. -1: an error was sent. */
int page_after_number(struct rest_call *call, int64_t *limit, int64_t *cursor) _must_check_;
int page_after_text(struct rest_call *call, int64_t *limit, struct str *cursor) _must_check_;
/* A page that is complete immediately: {"data":[ and its end, which sends it. next NULL: the
 * last page. */
struct json_writer page_begin(struct rest_call *call);
void page_send(struct rest_call *call, struct json_writer *w, const char *next);
struct listing *listing_new(void); /* the first part likewise; NULL: no memory */
void listing_free(struct listing *list);

/* ---- repeated calls are answered once ---- */

/* idempotency.c. 0: continue, with *idem or without; 1: a reply was sent or will be sent with
 * that of the first call; -1. what: everything that must be equal for two calls to be the same. */
int idem_begin(struct rest_call *call, struct str what, struct idempotency **idem,
	       struct err *err) _must_check_;
/* Sends and records a reply. req and idem may each be NULL; w writes to rest->out. */
void idem_answer(struct rest *rest, struct http_req *req, struct idempotency *idem, int status,
		 struct json_writer *w);
void idem_answer_error(struct rest *rest, struct http_req *req, struct idempotency *idem,
		       const struct err *err);

void idem_answer_text(struct rest *rest, struct http_req *req, struct idempotency *idem, int status,
		      struct str body);

/* create.c: a call that creates something. NULL: a reply was sent, possibly the recorded one. */
struct rest_pending *once_begin(struct rest_call *call);
void once_refuse(struct rest_pending *pending, const struct err *err);
/* The object was created: w writes to rest->out. */
void once_end(struct rest_pending *pending, int status, struct json_writer *w);
/* For objects that are created immediately. 0: continue, then reject or answer; 1: a reply was
 * sent. once_answer: w writes to rest->out; -1: the object is not on disk and must be removed;
 * an error was sent. */
int once_open(struct rest_call *call, struct idempotency **idem) _must_check_;
void once_fail(struct rest_call *call, struct idempotency *idem, const struct err *err);
int once_answer(struct rest_call *call, struct idempotency *idem, int status,
		struct json_writer *w) _must_check_;
struct rest_pending *many_begin(struct rest_call *call); /* with a list */
extern const struct batch_hooks batch_hooks;		 /* with the pending as arg */

#endif
