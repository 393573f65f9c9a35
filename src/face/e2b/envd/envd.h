/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/e2b: the interface at a sandbox's port 49983. */
#ifndef CAY_FACE_E2B_ENVD_ENVD_H
#define CAY_FACE_E2B_ENVD_ENVD_H

#include "face/e2b/call.h"
#include "face/e2b/envd/connect.h"

/* Whether headers, host or a signature name the inside of a sandbox. */
bool envd_takes(const struct http_req *req);
bool envd_takes_host(const struct http_req *req);    /* "49983-ID.domain" */
bool envd_takes_headers(const struct http_req *req); /* E2b-Sandbox-Id and one of our ports */
void envd_handle(struct e2b_call *call);

/* A CORS preflight needs no token. */
void plain_preflight(struct e2b_call *call);

/* Parses the body of the control plane or of a unary call into call->doc. */
int call_body(struct e2b_call *call, int status, struct str body, size_t limit,
	      struct err *err) _must_check_;

/*
 * Absolute paths stay; "~" and relative ones start at the user's home; in the request's arena.
 * NULL: no memory.
 */
const char *envd_path(struct e2b_call *call, struct str path);
/* "PORT-ID" before a host's first dot. */
bool envd_host_parse(struct str host, uint64_t *ret_port, struct str *ret_id);
/* The name before the colon of "Basic base64"; -EINVAL: malformed. */
int envd_basic_user(struct arena *arena, struct str header, struct str *ret) _must_check_;

struct files_spec;
/* Sets the acting user to root, as for everything but commands. Engines without users have only
 * one. */
void envd_actor(const struct e2b_call *call, struct files_spec *spec);
/* The same, and sets the owner of the result to the call's user. */
void envd_owner(const struct e2b_call *call, struct files_spec *spec);
/* X-Metadata-KEY headers: stored with the file and returned with it. */
int metadata_read(struct e2b_call *call, struct files_spec *spec, struct err *err) _must_check_;
void metadata_write(struct json_writer *w, const struct http_req *req);

/* GET and POST /files */
void e2b_files_get(struct e2b_call *call);
void e2b_files_post(struct e2b_call *call);
/* Checks signature, signature_expiration of a call without a token; 0, or -1 with err set. */
int signature_check(struct e2b_call *call, const struct sandbox *sandbox,
		    struct err *err) _must_check_;
struct sandbox *signature_find(struct e2b_call *call, struct err *err);

void flows_done(struct e2b *e2b);
void watchers_done(struct e2b *e2b);

struct files_entry;
/* As E2B's EntryInfo. */
void entry_write(struct json_writer *w, const char *key, const struct files_entry *entry);

#endif
