/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/face/rest only: how a call is answered, now, later, or once for several calls. */
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

/* ---- now (answer.c) ---- */

/* A writer for rest->out, then send. */
struct json_writer answer_begin(struct rest *rest);
void answer_send(struct rest *rest, struct http_req *req, int status, struct json_writer *w);
void answer_text(struct rest *rest, struct http_req *req, int status, struct str type,
		 struct str body);
void answer_empty(struct rest *rest, struct http_req *req, int status);
void answer_error(struct rest *rest, struct http_req *req, const struct err *err);
void answer_upgrade_error(struct rest *rest, struct http_req *req, const struct err *err);
void answer_not_allowed(struct rest *rest, struct http_req *req, const char *allow);
/* As member "error"; request_id NULL: of one part of an answer. */
void answer_write_error(struct json_writer *w, const char *request_id, const struct err *err);
/* Writes an error's JSON into rest->out and returns its text: for idempotent answers. */
struct str answer_error_text(struct rest *rest, const char *request_id, const struct err *err);

/* ---- later (pending.c) ---- */

/* A call whose answer comes later. Owner: rest->pendings until pending_end(). */
struct rest_pending {
	struct pending base;
	struct rest *rest;
	struct idempotency *idem;
	slot_handle sandbox;
	struct rest_call *call; /* good as long as the request is */
	struct listing *list;	/* an answer that grows */
};
struct listing {
	struct buf out;
	struct json_writer w;
	bool sealed; /* its end is written */
};
struct rest_pending *pending_new(struct rest_call *call);
void pending_release(struct pending *pending); /* for the list */
/* Unlinks and frees; the request, or NULL when its client has gone. */
struct http_req *pending_end(struct rest_pending *pending);
/* The same when its call is done; err is answered, and then there is nothing left to answer: NULL.
 */
struct http_req *pending_done(struct rest_pending *pending, const struct err *err);

/* NULL: answered. */
struct rest_pending *pending_for(struct rest_call *call);
/* r < 0: the service did not take the call. */
void answer_later(struct rest_pending *pending, int r, const struct err *err);
void answer_done(void *pending, const struct err *err); /* 204 or the error */
/* A call of the service on what the path's second part names, and its 204 or error. */
typedef int (*named_fn)(struct sandbox *sandbox, struct str name,
			void (*done)(void *arg, const struct err *err), void *arg, struct err *err);
void answer_named(struct rest_call *call, named_fn fn);
/* The sandbox that the path names; NULL: it was answered that there is none. */
struct sandbox *answer_find(struct rest_call *call);
/* ---- lists ---- */

struct rest_pending *list_begin(struct rest_call *call); /* {"data":[ into pending->list */
void list_answer(struct rest_pending *pending, const struct err *err);
/* A page that is there at once: {"data":[ and its end, sent; next NULL: there is no other. */
struct json_writer page_begin(struct rest_call *call);
void page_send(struct rest_call *call, struct json_writer *w, const char *next);
struct listing *listing_new(void); /* begun likewise; NULL without memory */
void listing_free(struct listing *list);

/* ---- once, however often a call comes ---- */

/*
 * idempotency.c. 0: go on, with *idem or without; 1: answered, or waiting for the first one's
 * answer; -1. what: all that must be the same for it to be the same call.
 */
int idem_begin(struct rest_call *call, struct str what, struct idempotency **idem,
	       struct err *err) _must_check_;
/* Answer, and record it. req and idem may each be NULL; w writes to rest->out. */
void idem_answer(struct rest *rest, struct http_req *req, struct idempotency *idem, int status,
		 struct json_writer *w);
void idem_answer_error(struct rest *rest, struct http_req *req, struct idempotency *idem,
		       const struct err *err);

void idem_answer_text(struct rest *rest, struct http_req *req, struct idempotency *idem, int status,
		      struct str body);

/* create.c: a call that makes something. NULL: answered, also when it was made before. */
struct rest_pending *once_begin(struct rest_call *call);
void once_refuse(struct rest_pending *pending, const struct err *err);
/* It was made: w writes to rest->out. */
void once_end(struct rest_pending *pending, int status, struct json_writer *w);
/*
 * For what is made at once. 0: go on, then refuse or answer; 1: answered. once_answer: w writes to
 * rest->out; -1: what was made is not on disk and has to be given up; answered all the same.
 */
int once_open(struct rest_call *call, struct idempotency **idem) _must_check_;
void once_fail(struct rest_call *call, struct idempotency *idem, const struct err *err);
int once_answer(struct rest_call *call, struct idempotency *idem, int status,
		struct json_writer *w) _must_check_;
struct rest_pending *many_begin(struct rest_call *call); /* with a list */
extern const struct batch_hooks batch_hooks;		 /* with the pending as arg */

#endif
