/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to src/face/rest: writes the values of the service as the objects of the REST API. The
 * tables of src/face/rest/openapi/ describe the same objects. Without a key argument a function
 * writes only the members, and the caller opens and closes the object.
 */
#ifndef CAY_FACE_REST_WRITE_H
#define CAY_FACE_REST_WRITE_H

#include "base/json.h"

struct build;
struct code_context;
struct event;
struct key;
struct preview;
struct process_info;
struct process_status;
struct sandbox;
struct secret;
struct service;
struct snapshot;
struct template;
struct usage_sum;
struct webhook;

/* write/sandbox.c */
void sandbox_write(const struct sandbox *sandbox, struct json_writer *w, const char *key);
/* The samples so far, oldest first; sandbox may be NULL. */
void sandbox_write_history(const struct sandbox *sandbox, struct json_writer *w, const char *key);
void snapshot_write(const struct snapshot *snapshot, struct json_writer *w, const char *key);
void preview_write(const struct sandbox *sandbox, const struct preview *preview,
		   struct json_writer *w, const char *key);
/* The elements of an array, newest first. */
void egress_write_denials(const struct sandbox *sandbox, struct json_writer *w);

/* write/template.c */
void template_write(const struct template *tpl, struct json_writer *w, const char *key);
void build_write(const struct build *build, struct json_writer *w);

/* write/account.c */
void secret_write(const struct secret *secret, struct json_writer *w, const char *key);
/* hosts: names separated by commas. */
void secret_write_hosts(const char *hosts, struct json_writer *w, const char *key);
/* Per limit: its value for this key (null: none) and how much is in use. */
void quota_write(const struct service *service, const struct key *key, struct json_writer *w,
		 const char *name);
void usage_write(const struct usage_sum *sum, struct json_writer *w);
/* with_secret: only in the reply to its creation. */
void webhook_write(const struct webhook *hook, struct json_writer *w, const char *key,
		   bool with_secret);
void event_write(const struct event *event, struct json_writer *w, const char *key);

/* write/run.c */
/* The name of a window goes under "window". */
void process_write(const struct process_info *info, struct json_writer *w, const char *key);
/* The members of an end: exit_code, signal, reason, duration_ms, byte counts, memory. */
void orphan_write(const struct process_info *info, struct json_writer *w, const char *key);
void process_write_end(const struct process_status *status, struct json_writer *w);
void code_context_write(const struct code_context *context, struct json_writer *w, const char *key);

#endif
