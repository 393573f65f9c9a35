/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/rest: the face, and one call. */
#ifndef CAY_FACE_REST_CALL_H
#define CAY_FACE_REST_CALL_H

#include "base/buf.h"
#include "base/value/histogram.h"
#include "base/json.h"
#include "face/kit/attempts.h"
#include "face/kit/field.h"
#include "face/kit/guard.h"
#include "face/kit/pending.h"
#include "face/kit/query.h"
#include "face/kit/transfer.h"
#include "face/rest/answer.h"
#include "face/rest/handlers.h"
#include "face/rest/rest.h"
#include "face/rest/route.h"
#include "face/rest/write.h"
#include "http/server/server.h"
#include "service/account/auth.h"
#include "service/sandbox/sandbox.h"
#include "service/service.h"

#define BODY_LIMIT (1024 * 1024)
#define CODE_BODY_LIMIT (4 * 1024 * 1024)
#define EXEC_BODY_LIMIT (8 * 1024 * 1024)
/* Two streams at their limit, with each byte as \u00XX in the worst case, and the other members. */
#define ANSWER_LIMIT (2 * 16 * 1024 * 1024 * 6 + 65536)
#define ANSWER_KEEP (256 * 1024) /* Beyond this size the buffer is freed after the reply. */

/* Lives in the request's arena, as long as the request. */
struct rest_call {
	struct rest *rest;
	struct http_req *req;
	const struct rest_route *route;
	struct key *key; /* NULL on open routes */
	char key_id[AUTH_KEY_ID_SIZE];
	struct str args[ROUTE_ARGS]; /* the segments that matched braces */
	struct str body;
	bool raw;		 /* the body is not JSON and is used unchanged */
	struct json *doc;	 /* the parsed body; freed after the handler returns */
	struct sandbox *sandbox; /* of ready routes; valid while the handler runs */
	uint32_t process_id;	 /* of process routes */
	uint32_t pid;		 /* instead of it, of routes with by_pid; 0: none */
	struct sandbox_wait *wait;
	struct rest_transfer *transfer; /* of an upload in progress */
};

struct rest_counters {
	uint64_t requests;
	uint64_t by_class[6]; /* status / 100 */
	struct histogram duration;
};

/* Owner: the daemon's wiring. */
struct rest {
	struct rest_config config;
	struct service *service;
	struct http_server *server;
	struct buf out;	    /* the reply that is being written */
	struct buf openapi; /* written once */
	struct pending_list pendings;
	struct stream *streams;
	struct terminal *terminals;
	struct transfer_list transfers;
	struct event_reader *event_readers;
	struct heartbeat *heartbeats;
	struct loop_timer *heartbeat_timer; /* of all of them */
	struct buf scratch;		    /* output whose beginning arrived earlier */
	struct rest_counters counters;
	int64_t started_us;
	struct guard guard;
	struct attempts attempts;
};

/* Called at intervals while a stream is idle. Owner: the struct that contains it; zeroed: not
 * started. */
struct heartbeat {
	struct heartbeat *prev, *next;
	struct rest *rest; /* NULL: not running */
	void (*fn)(void *arg);
	void *arg;
};
/* fn may stop its own heartbeat, but no other. */
void heartbeat_start(struct heartbeat *heartbeat, struct rest *rest, void (*fn)(void *arg),
		     void *arg);
void heartbeat_stop(struct heartbeat *heartbeat);
void heartbeats_done(struct rest *rest); /* when all have stopped */
/* Sends the head of an event stream. -EPIPE: the client disconnected, and its on_gone follows. */
int events_begin(struct rest *rest, struct http_req *req) _must_check_;

/* prepare.c: asynchronous steps between the guards and the handler */
void steps_begin(struct rest_call *call);
/* After an asynchronous step, looks up the key and the sandbox again. */
int steps_again(struct rest_call *call, struct err *err) _must_check_;

/* account/tickets.c. NULL with err untouched: the call has no ticket. */
struct key *ticket_key(struct rest_call *call, struct err *err);

#endif
