/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/e2b: one call, its route and its reply. */
#ifndef CAY_FACE_E2B_CALL_H
#define CAY_FACE_E2B_CALL_H

#include "base/buf.h"
#include "base/json.h"
#include "face/e2b/e2b.h"
#include "face/kit/attempts.h"
#include "face/kit/field.h"
#include "face/kit/guard.h"
#include "face/kit/page.h"
#include "face/kit/pending.h"
#include "face/kit/route.h"
#include "face/kit/transfer.h"
#include "http/server/server.h"
#include "service/account/access_token.h"
#include "service/account/auth.h"
#include "service/sandbox/sandbox.h"
#include "service/service.h"

#define E2B_BODY_LIMIT (1024 * 1024)
#define E2B_RPC_LIMIT (4 * 1024 * 1024) /* input for a program is in base64 */
#define E2B_ANSWER_LIMIT (48 * 1024 * 1024)
/* the newest version that clients check for; all that they expect of it is supported */
#define E2B_ENVD_VERSION "0.6.13"
#define E2B_USER "user"
#define E2B_TIMEOUT_SEC 300   /* of a sandbox whose request has no timeout */
#define E2B_TIMEOUT_V1_SEC 15 /* the same, for the older call */
#define E2B_REFRESH_SEC 60
#define E2B_REFRESH_MAX_SEC 3600
#define E2B_KEEPALIVE_SEC 90 /* of streams, unless the client requests another interval */
#define E2B_USER_MAX 64
/* What the token of a sandbox grants: full access to its inside. Keys with fewer scopes do not
 * receive it. */
#define E2B_ENTER (AUTH_SANDBOXES_WRITE | AUTH_EXEC)

struct e2b_call;

/* The form of an error reply. */
enum e2b_style {
	E2B_PLAIN,  /* {"code":404,"message":".."} */
	E2B_UNARY,  /* {"code":"not_found","message":".."} */
	E2B_STREAM, /* 200, and the error in the last envelope */
};

/* Access to ports inside, besides keys and the sandbox's traffic token. */
enum e2b_ports {
	E2B_PORTS_AS_OURS, /* only through previews: another face created the sandbox */
	E2B_PORTS_TOKEN,
	E2B_PORTS_OPEN,
	E2B_PORTS_ACCESS = 3, /* the bits of the values above */
	E2B_PORTS_LOCAL = 4,  /* with one of them: servers see localhost:PORT as their host */
};

struct e2b_route {
	struct route row;
	void (*handle)(struct e2b_call *call);
	int arg;	      /* for handlers that serve several routes */
	enum e2b_style style; /* of errors */
	bool body;	      /* inside a sandbox: the handler needs the body as JSON */
};
/* The row of a table; NULL: none. *ret_known: the path has other methods. */
const struct e2b_route *e2b_route_find(const struct route_table *table, struct e2b_call *call,
				       bool *ret_known);

/* Lives in the request's arena, as long as the request. */
struct e2b_call {
	struct e2b *e2b;
	struct http_req *req;
	const struct e2b_route *route;
	enum e2b_style style;
	struct key *key;
	struct str args[ROUTE_ARGS]; /* the segments that matched braces; the control plane's are
					decoded */
	struct str body;
	struct json *doc;	 /* the parsed body; freed after the handler returns */
	struct sandbox *sandbox; /* of envd; valid while the handler runs */
	slot_handle sandbox_handle;
	enum e2b_ports ports; /* of a create */
	struct sandbox_wait *wait;
	char user[E2B_USER_MAX + 1]; /* the user inside the sandbox; "": the engine has no users */
	bool user_sent;
	uint64_t port; /* of the sandbox */
	void *data;    /* of the handler, in the arena */
};

/* Owner: the daemon's wiring. */
struct e2b {
	struct e2b_config config;
	struct guard guard;
	struct service *service;
	struct http_server *server;
	struct buf out; /* the reply that is being written */
	struct pending_list pendings;
	struct flow *flows; /* streams of processes and watches */
	struct transfer_list transfers;
	struct attempts attempts;
	struct watcher *watchers;
	uint32_t watcher_count;
	struct loop_timer *beat;
};

/* A call whose reply comes later. Owner: e2b->pendings until e2b_pending_end(). */
struct e2b_pending {
	struct pending base;
	struct e2b *e2b;
	struct e2b_call *call; /* valid as long as the request */
	slot_handle sandbox;
	int status;	 /* of success */
	struct buf list; /* a reply that is written in pieces */
	struct json_writer w;
	int64_t count;
	enum e2b_ports ports;
	void *data;
};
void e2b_pending_release(struct pending *pending); /* for the list */
/* NULL: an error was sent. */
struct e2b_pending *e2b_pending_new(struct e2b_call *call);
/* Unlinks and frees. Returns the request, or NULL if the client has disconnected. */
struct http_req *e2b_pending_end(struct e2b_pending *pending);
/* The same when the service is done; an error is sent. Returns whether a reply is still to be
 * sent. */
bool e2b_pending_done(struct e2b_pending *pending, const struct err *err);
/* r < 0: the service rejected the call, and its error is sent. */
void e2b_pending_begun(struct e2b_pending *pending, int r, const struct err *err);

/* ---- replies (answer.c) ---- */

struct json_writer e2b_answer_begin(struct e2b *e2b);
void e2b_answer_send(struct e2b_call *call, int status, struct json_writer *w);
void e2b_answer_send_with(struct e2b_call *call, int status, struct json_writer *w,
			  const struct http_header *extra, size_t count);
void e2b_answer_text(struct e2b_call *call, int status, struct str json);
void e2b_answer_empty(struct e2b_call *call, int status);
/* In the error form of the call. */
void e2b_answer_error(struct e2b_call *call, const struct err *err);
/* A status that E2B uses and for which this daemon has no code. */
void e2b_answer_status(struct e2b_call *call, int status, const char *fmt, ...) _printf_(3, 4);
/* envd's proxy: there is no such sandbox, or it is not running. */
void e2b_answer_no_sandbox(struct e2b_call *call, struct str id, const char *message);
int e2b_error_status(const struct err *err);
const char *e2b_error_rpc_code(const struct err *err);
/* The message for clients: E2B's own text where they compare it. */
void e2b_error_message(const struct err *err, const char *user, char *dst, size_t size);

/* ---- e2b.c ---- */

/* Sets err for wrong or missing credentials; rate_limited if the client sent too many of them.
 * Returns -1. */
int e2b_refuse_credentials(struct e2b_call *call, uint32_t most, struct err *err);

/* The sandbox of args[0]; NULL: an error was sent. */
struct sandbox *call_sandbox(struct e2b_call *call);
/* Decodes the body by a table; false: an error was sent. Members that the table does not list
 * are ignored. */
bool call_decode(struct e2b_call *call, const struct field *fields, void *base);
/* Query parameters; if malformed, an error is sent and *ok is false. */
struct str call_query(struct e2b_call *call, const char *key, bool *ok);

/* ---- views of a sandbox (sandbox/sandbox_view.c) ---- */

/* Grants access to the sandbox's ports as requested; on failure the sandbox is destroyed. */
int session_open_ports(struct e2b *e2b, const struct sandbox *made, enum e2b_ports ports,
		       struct err *err) _must_check_;
enum e2b_ports session_ports(const struct sandbox *sandbox);
/* Includes the sandbox's tokens: only for routes that need E2B_ENTER. */
void sandbox_view_write(const struct e2b *e2b, const struct sandbox *sandbox, struct json_writer *w,
			const char *key);
void sandbox_view_write_listed(const struct sandbox *sandbox, struct json_writer *w);
/* Includes the token only if the caller's key has E2B_ENTER. */
void sandbox_view_write_detail(const struct e2b_call *call, const struct sandbox *sandbox,
			       struct json_writer *w);

/* ---- the control plane's handlers ---- */

void e2b_sandboxes_create(struct e2b_call *call);
void e2b_sandboxes_list(struct e2b_call *call);
void e2b_sandboxes_get(struct e2b_call *call);
void e2b_sandboxes_kill(struct e2b_call *call);
void e2b_sandboxes_timeout(struct e2b_call *call);
void e2b_sandboxes_network(struct e2b_call *call);
void e2b_life_connect(struct e2b_call *call);
void e2b_life_resume(struct e2b_call *call);
void e2b_life_pause(struct e2b_call *call);
void e2b_life_fork(struct e2b_call *call);
void e2b_snapshots_create(struct e2b_call *call);
void e2b_snapshots_list(struct e2b_call *call);
void e2b_templates_delete(struct e2b_call *call);
void e2b_templates_alias(struct e2b_call *call);
void e2b_templates_list(struct e2b_call *call);
void e2b_templates_get(struct e2b_call *call);
void e2b_templates_tags(struct e2b_call *call);
void e2b_metrics_of_one(struct e2b_call *call);
void e2b_metrics_of_many(struct e2b_call *call);
void e2b_logs_read(struct e2b_call *call);
void e2b_secrets_list(struct e2b_call *call);
void e2b_secrets_create(struct e2b_call *call);
void e2b_secrets_get(struct e2b_call *call);
void e2b_secrets_update(struct e2b_call *call);
void e2b_secrets_delete(struct e2b_call *call);

/* network.c: the network settings of a body. */
struct network_body {
	bool internet, has_internet;
	struct text_list allow, deny;
	bool public_ports;
	struct str mask_host; /* empty: none */
};
/* The rows of allowOut and denyOut, and of fields that are not supported. */
#define NETWORK_AT(member) offsetof(struct network_body, member)
#define NETWORK_ROWS                                            \
	{ .name = "allowOut",                                   \
	  .type = FIELD_STRINGS,                                \
	  .offset = NETWORK_AT(allow),                          \
	  .max = EGRESS_RULES_MAX },                            \
		{ .name = "denyOut",                            \
		  .type = FIELD_STRINGS,                        \
		  .offset = NETWORK_AT(deny),                   \
		  .max = EGRESS_RULES_MAX },                    \
		{ .name = "rules", .type = FIELD_LATER },       \
		{ .name = "egressProxy", .type = FIELD_LATER }, \
	{                                                       \
		.name = "httpsPorts", .type = FIELD_LATER       \
	}
#define NETWORK_INTERNET_ROW                                                                  \
	{                                                                                     \
		.name = "allow_internet_access", .type = FIELD_BOOL,                          \
		.offset = NETWORK_AT(internet), .sent = FIELD_SENT(NETWORK_AT(has_internet)), \
		.fallback = true                                                              \
	}
/* Fields that the body does not name are cleared. Returns whether the body requests anything. */
struct egress_want;
bool network_want(const struct network_body *body, struct egress_want *ret);
void network_write(const struct sandbox *sandbox, struct json_writer *w);

/* sandbox/create.c: what the body of a creation becomes. The template may also be a snapshot. */
struct e2b_create {
	struct sandbox_spec spec; /* without template and snapshot */
	struct str template;
	enum e2b_ports ports;
	bool network_sent; /* the body says something about the network */
};
int create_read(const struct json *doc, const struct service_config *config, int64_t usual_sec,
		struct arena *arena, struct e2b_create *ret, struct err *err) _must_check_;

/* Returns NAME of "NAMESPACE/NAME:TAG". */
struct str template_name_of(struct str id);
/* Finds one of the key's snapshots by id or by its name; NULL: none. */
struct snapshot;
struct snapshot *snapshot_of(struct e2b_call *call, struct str id);

#endif
