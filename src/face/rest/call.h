/* SPDX-License-Identifier: Apache-2.0 */
/* Inside src/face/rest only: routes, one call, and how it is answered. */
#ifndef CAY_FACE_REST_CALL_H
#define CAY_FACE_REST_CALL_H

#include "base/buf.h"
#include "base/value/histogram.h"
#include "base/json.h"
#include "face/kit/hosts.h"
#include "face/kit/transfer.h"
#include "face/rest/cors.h"
#include "face/rest/field.h"
#include "face/rest/rest.h"
#include "face/rest/write.h"
#include "http/server/server.h"
#include "service/account/auth.h"
#include "service/sandbox/sandbox.h"
#include "service/service.h"

#define BODY_LIMIT (1024 * 1024)
#define CODE_BODY_LIMIT (4 * 1024 * 1024)
#define EXEC_BODY_LIMIT (8 * 1024 * 1024)
/* Two streams at their limit, each byte as \u00XX at worst, and the rest. */
#define ANSWER_LIMIT (2 * 16 * 1024 * 1024 * 6 + 65536)
#define ANSWER_KEEP (256 * 1024) /* a larger answer's memory is given back at once */

struct rest_call;
struct idempotency;

struct route {
	enum http_method method;
	const char *pattern; /* "/v1/sandboxes/{id}": a brace takes one segment */
	uint32_t scope;	     /* enum auth_scope; AUTH_ANY: any key */
	void (*handle)(struct rest_call *call); /* NULL: known, a later version's */
	const char *summary;
	const struct field *body; /* NULL: none is read */
	const struct field *answer;
	size_t body_limit; /* 0: BODY_LIMIT */
	int status;	   /* of success */
	int also;	   /* another one, with the same answer; 0: none */
	bool open;	   /* no key needed */
	bool raw;	   /* application/octet-stream is taken too */
	bool upload;	   /* the handler streams the body, of any type and size */
	int op;		   /* enum files_op of the file routes */
	bool socket;	   /* a WebSocket */
	const char *media; /* of the answer; NULL: application/json */
	bool secret;	   /* its body or its answer holds one */
	bool ready;	   /* of a sandbox, and waits until its inside can be talked to */
	bool process;	   /* with ready: the second brace is a process, resolved to its number */
	const struct field *query;
	const struct field *page; /* of a stream: the answer as JSON, where that can be asked for */
	const struct field *other; /* another shape of the answer */
	const char *example;	   /* of the body, as JSON */
};
extern const struct route rest_routes[];
extern const size_t rest_route_count;

/* Lives in the request's arena, as long as the request. */
struct rest_call {
	struct rest *rest;
	struct http_req *req;
	const struct route *route;
	struct key *key; /* NULL on open routes */
	char key_id[AUTH_KEY_ID_SIZE];
	struct str args[2]; /* what the braces took */
	struct str body;
	bool raw;		 /* the body is not JSON, and wants to be taken as it is */
	struct json *doc;	 /* the parsed body; freed after the handler returns */
	struct sandbox *sandbox; /* of ready routes; good while the handler runs */
	uint32_t process_id;	 /* of process routes */
	struct sandbox_wait *wait;
	struct rest_transfer *transfer; /* of uploads, while it runs */
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
	struct buf out;	    /* the answer being written */
	struct buf openapi; /* written once */
	struct pending *pendings;
	struct stream *streams;
	struct terminal *terminals;
	struct transfer_list transfers;
	struct event_reader *event_readers;
	struct beat *beats;
	struct loop_timer *beat; /* of all of them */
	struct buf scratch;	 /* a piece of output whose first bytes came before */
	struct rest_counters counters;
	int64_t started_us;
	struct face_hosts hosts;
	struct cors cors;
};

/* Called now and then while nothing happens. Owner: what it is part of; zeroed: not started. */
struct beat {
	struct beat *prev, *next;
	struct rest *rest; /* NULL: it does not run */
	void (*fn)(void *arg);
	void *arg;
};
/* fn may stop its own beat, and no other. */
void beat_start(struct beat *beat, struct rest *rest, void (*fn)(void *arg), void *arg);
void beat_stop(struct beat *beat);
void beats_done(struct rest *rest); /* when all have stopped */
/* The head of a stream of events. -EPIPE: the client is lost, and its on_gone follows. */
int events_begin(struct rest *rest, struct http_req *req) _must_check_;

/* A call whose answer comes later. Owner: rest->pendings until pending_end(). */
struct pending {
	struct pending *prev, *next;
	struct rest *rest;
	slot_handle req;
	slot_handle work; /* what the service calls it */
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
struct pending *pending_new(struct rest_call *call);
/* Unlinks and frees; the request, or NULL when its client has gone. */
struct http_req *pending_end(struct pending *pending);
/* The same when its call is done; err is answered, and then there is nothing left to answer: NULL.
 */
struct http_req *pending_done(struct pending *pending, const struct err *err);

/* pending.c. NULL: answered. */
struct pending *pending_for(struct rest_call *call);
/* r < 0: the service did not take the call. */
void answer_later(struct pending *pending, int r, const struct err *err);
void answer_done(void *pending, const struct err *err); /* 204 or the error */
/* A call of the service on what the path's second part names, and its 204 or error. */
typedef int (*named_fn)(struct sandbox *sandbox, struct str name,
			void (*done)(void *arg, const struct err *err), void *arg, struct err *err);
void answer_named(struct rest_call *call, named_fn fn);
/* The sandbox that the path names; NULL: it was answered that there is none. */
struct sandbox *answer_find(struct rest_call *call);
struct pending *list_begin(struct rest_call *call); /* {"data":[ into pending->list */
void list_answer(struct pending *pending, const struct err *err);
/* A page that is there at once: {"data":[ and its end, sent; next NULL: there is no other. */
struct json_writer page_begin(struct rest_call *call);
void page_send(struct rest_call *call, struct json_writer *w, const char *next);
#define PAGE_NUMBER_SIZE 24
const char *page_number(char dst[PAGE_NUMBER_SIZE], int64_t next);
struct listing *listing_new(void); /* begun likewise; NULL without memory */
void listing_free(struct listing *list);

/* sandbox/lifecycle.c. The answer of moves is the sandbox. */
struct sandbox;
void life_moved(void *pending, struct sandbox *sandbox, const struct err *err);
/* r: 1 it is so already, 0 later, -1 refused. */
void life_begun(struct pending *pending, int r, const struct sandbox *sandbox,
		const struct err *err);
/* The sandbox of the path, and the body decoded; NULL: answered. */
struct sandbox *life_find(struct rest_call *call, const struct field *fields, void *body);

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
struct pending *once_begin(struct rest_call *call);
void once_refuse(struct pending *pending, const struct err *err);
/* It was made: w writes to rest->out. */
void once_end(struct pending *pending, int status, struct json_writer *w);
/*
 * For what is made at once. 0: go on, then refuse or answer; 1: answered. once_answer: w writes to
 * rest->out; -1: what was made is not on disk and has to be given up; answered all the same.
 */
int once_open(struct rest_call *call, struct idempotency **idem) _must_check_;
void once_fail(struct rest_call *call, struct idempotency *idem, const struct err *err);
int once_answer(struct rest_call *call, struct idempotency *idem, int status,
		struct json_writer *w) _must_check_;
struct pending *many_begin(struct rest_call *call); /* with a list */
extern const struct batch_hooks batch_hooks;	    /* with the pending as arg */

/* Answers. A writer for rest->out, then send. */
struct json_writer answer_begin(struct rest *rest);
void answer_send(struct rest *rest, struct http_req *req, int status, struct json_writer *w);
void answer_text(struct rest *rest, struct http_req *req, int status, struct str type,
		 struct str body);
void answer_empty(struct rest *rest, struct http_req *req, int status);
void answer_error(struct rest *rest, struct http_req *req, const struct err *err);
void answer_upgrade_error(struct rest *rest, struct http_req *req, const struct err *err);
void answer_not_allowed(struct rest *rest, struct http_req *req, const char *allow);
/* Writes an error's JSON into rest->out and returns its text: for idempotent answers. */
/* As member "error"; request_id NULL: of one part of an answer. */
void answer_write_error(struct json_writer *w, const char *request_id, const struct err *err);
struct str answer_error_text(struct rest *rest, const char *request_id, const struct err *err);

/* guard.c: 0 or -1 with err set. */
int guard_origin(const struct rest *rest, const struct http_req *req, bool socket,
		 struct err *err) _must_check_;
int guard_media_type(struct rest_call *call, struct err *err) _must_check_;
struct key *guard_key(const struct rest *rest, const struct http_req *req, struct err *err);
/* The key of a call that was let in, later: it may have been deleted meanwhile. */
struct key *guard_again(const struct rest *rest, const char *key_id, struct err *err);

/* tickets.c */
bool ticket_opens(const struct route *route); /* whether it can be opened with one */
/* NULL, err untouched: there is none. */
struct key *ticket_key(struct rest_call *call, struct err *err);

/* sandbox/create_lists.c: for the field table. */
int grants_decode(const struct json *array, struct arena *arena, void *ret,
		  struct err *err) _must_check_;
int initializers_decode(const struct json *array, struct arena *arena, void *ret,
			struct err *err) _must_check_;

/* run/processes.c: a name or a number; 0 with err set when it is no signal. */
int signal_decode(const struct json *value, struct err *err);

/* route.c */
const struct route *route_find(const struct http_req *req, struct str args[2], char *allow,
			       size_t allow_size, struct err *err);

/* prepare.c: what may take time between the guards and the handler */
void steps_begin(struct rest_call *call);
/* After anything that took time: the key and the sandbox are looked up again. */
int steps_again(struct rest_call *call, struct err *err) _must_check_;

/* openapi.c */
int openapi_write(struct buf *out) _must_check_;
/* openapi/names.c: unique, and the same in every version: methods of generated clients. */
#define OPERATION_ID_MAX 64
void operation_id(const struct route *route, char ret[OPERATION_ID_MAX]);
const char *operation_tag(const struct route *route);
void operation_write_tags(struct json_writer *w); /* all of them, with descriptions */

/* The handlers, one file per resource. */
void sandboxes_create(struct rest_call *call);
void sandboxes_list(struct rest_call *call);
void sandboxes_get(struct rest_call *call);
void sandboxes_patch(struct rest_call *call);
void sandboxes_delete(struct rest_call *call);
void sandboxes_extend(struct rest_call *call);
void life_pause(struct rest_call *call);
void life_resume(struct rest_call *call);
void snapshots_create(struct rest_call *call);
void snapshots_of_sandbox(struct rest_call *call);
void snapshots_list(struct rest_call *call);
void snapshots_get(struct rest_call *call);
void snapshots_delete(struct rest_call *call);
void snapshots_restore(struct rest_call *call);
void snapshots_fork(struct rest_call *call);
void previews_create(struct rest_call *call);
void previews_list(struct rest_call *call);
void previews_get(struct rest_call *call);
void previews_delete(struct rest_call *call);
void previews_share(struct rest_call *call);
void previews_unshare(struct rest_call *call);
void ports_list(struct rest_call *call);
void sandboxes_env(struct rest_call *call);
void sandboxes_metrics(struct rest_call *call);
void sandboxes_denials(struct rest_call *call);
void exec_run(struct rest_call *call);
void exec_stream(struct rest_call *call);
void processes_create(struct rest_call *call);
void processes_list(struct rest_call *call);
void processes_get(struct rest_call *call);
void processes_delete(struct rest_call *call);
void processes_stdin(struct rest_call *call);
void processes_close_stdin(struct rest_call *call);
void processes_signal(struct rest_call *call);
void processes_resize(struct rest_call *call);
void output_read(struct rest_call *call);
void windows_list(struct rest_call *call);
void windows_run(struct rest_call *call);
void windows_read(struct rest_call *call);
void windows_input(struct rest_call *call);
void windows_delete(struct rest_call *call);
void code_execute(struct rest_call *call);
void code_stream(struct rest_call *call);
void code_contexts_list(struct rest_call *call);
void code_contexts_create(struct rest_call *call);
void code_contexts_delete(struct rest_call *call);
void code_contexts_restart(struct rest_call *call);
void code_contexts_interrupt(struct rest_call *call);
void terminal_attach(struct rest_call *call);
void terminal_pty(struct rest_call *call);
void files_call(struct rest_call *call);
void files_download(struct rest_call *call);
void files_upload(struct rest_call *call);
void files_watch(struct rest_call *call);
void events_read(struct rest_call *call);
void events_done(struct rest *rest);
void usage_list(struct rest_call *call);
void usage_of_sandbox(struct rest_call *call);
void webhooks_list(struct rest_call *call);
void webhooks_create(struct rest_call *call);
void webhooks_get(struct rest_call *call);
void webhooks_patch(struct rest_call *call);
void webhooks_delete(struct rest_call *call);
void webhooks_test(struct rest_call *call);
void webhooks_deliveries(struct rest_call *call);
void webhooks_redeliver(struct rest_call *call);
void keys_create(struct rest_call *call);
void keys_list(struct rest_call *call);
void keys_delete(struct rest_call *call);
void keys_get(struct rest_call *call);
void keys_self(struct rest_call *call);
void keys_patch(struct rest_call *call);
void tickets_create(struct rest_call *call);
void secrets_create(struct rest_call *call);
void secrets_list(struct rest_call *call);
void secrets_get(struct rest_call *call);
void secrets_rotate(struct rest_call *call);
void secrets_delete(struct rest_call *call);
void templates_list(struct rest_call *call);
void templates_get(struct rest_call *call);
void templates_delete(struct rest_call *call);
void builds_create(struct rest_call *call);
void builds_list(struct rest_call *call);
void builds_get(struct rest_call *call);
void system_options(struct rest_call *call);
void system_health(struct rest_call *call);
void system_ready(struct rest_call *call);
void system_openapi(struct rest_call *call);
void system_metrics(struct rest_call *call);
void system_shutdown(struct rest_call *call);
void system_recover(struct rest_call *call);

/* Bytes for a program: data, data_b64 or the raw body. */
int input_read(struct rest_call *call, struct str *ret, struct err *err) _must_check_;

/* Their bodies and answers. */
extern const struct field preview_fields[], share_fields[], preview_answer[], preview_list_answer[],
	share_answer[], port_list_answer[];
extern const struct field pause_fields[], resume_fields[], snapshot_fields[], restore_fields[],
	fork_fields[], secret_create_fields[], secret_rotate_fields[], secret_answer[],
	secret_list_answer[], snapshot_list_query[], snapshot_answer[], snapshot_list_answer[],
	fork_answer[];
extern const struct field sandbox_create_fields[], sandbox_patch_fields[], sandbox_extend_fields[],
	sandbox_list_query[], exec_fields[], stream_fields[], process_fields[], input_fields[],
	signal_fields[], resize_fields[], empty_fields[], output_query[], window_run_fields[],
	window_query[], attach_query[], pty_query[], key_create_fields[], key_patch_fields[],
	page_query[], shutdown_fields[], cursor_query[], events_query[], sandbox_events_query[],
	usage_query[], sandbox_usage_query[], webhook_create_fields[], webhook_patch_fields[],
	delivery_query[];
extern const struct field error_answer[], failed_answer[], event_list_answer[];
extern const struct field denial_list_answer[], initializer_fields[], ticket_fields[],
	ticket_answer[];
extern const struct field sandbox_answer[], sandbox_list_answer[], env_answer[], metrics_answer[],
	exec_answer[], stream_answer[], process_answer[], process_list_answer[], output_answer[],
	window_run_answer[], window_answer[], window_list_answer[], window_read_answer[],
	webhook_answer[], webhook_made_answer[], webhook_list_answer[], webhook_result_answer[],
	delivery_list_answer[], key_answer[], key_made_answer[], key_list_answer[],
	template_answer[], template_list_answer[], build_answer[], build_list_answer[],
	options_answer[], status_answer[], recover_answer[], ready_answer[], event_answer[],
	usage_answer[], sandbox_usage_answer[];

extern const struct field code_fields[], code_context_fields[], code_answer[],
	code_context_answer[], code_context_list_answer[];

/* Reads limit and cursor of a list; 0 or -1 with err set. */
int query_int(struct http_req *req, const char *name, int64_t min, int64_t max, int64_t *ret,
	      struct err *err) _must_check_;
int query_text(struct http_req *req, const char *name, struct str *ret,
	       struct err *err) _must_check_;
int query_bool(struct http_req *req, const char *name, bool *ret, struct err *err) _must_check_;
/* All parameters of a table: defaults, then what was sent. The text lives as long as the request.
 */
int query_decode(struct http_req *req, const struct field *fields, void *base,
		 struct err *err) _must_check_;
/* Refuses parameters that the table does not list. */
int query_check(struct http_req *req, const struct route *route, struct err *err) _must_check_;

#endif
