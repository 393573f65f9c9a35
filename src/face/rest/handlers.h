/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/face/rest: the handlers, their field tables, and functions that they share. */
#ifndef CAY_FACE_REST_HANDLERS_H
#define CAY_FACE_REST_HANDLERS_H

#include "face/kit/field.h"
#include "service/sandbox/sandbox.h"

struct rest;
struct rest_call;
struct rest_pending;

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
void processes_kill_all(struct rest_call *call);
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

/* The fields of bodies and replies. */
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
extern const struct field denial_list_answer[], sandbox_secret_fields[], initializer_fields[],
	ticket_fields[], ticket_answer[];
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

/* Bytes for a program: data, data_b64 or the raw body. NULL: an error was sent. */
struct rest_pending *input_begin(struct rest_call *call, struct str *ret);

/* sandbox/lifecycle.c. The reply is the sandbox. */
void life_moved(void *pending, struct sandbox *sandbox, const struct err *err);
/* r: 1 it is already in this state, 0 the reply follows, -1 rejected. */
void life_begun(struct rest_pending *pending, int r, const struct sandbox *sandbox,
		const struct err *err);
/* The sandbox of the path, and the decoded body; NULL: an error was sent. */
struct sandbox *life_find(struct rest_call *call, const struct field *fields, void *body);

/* sandbox/create_lists.c: for the field table. */
int grants_decode(const struct json *array, struct arena *arena, void *ret,
		  struct err *err) _must_check_;
int initializers_decode(const struct json *array, struct arena *arena, void *ret,
			struct err *err) _must_check_;

/* account/keys.c: what the bodies become. */
struct key_spec;
struct key_patch;
int key_spec_read(const struct json *body, struct arena *arena, struct key_spec *ret,
		  struct err *err) _must_check_;
int key_patch_read(const struct json *body, struct key_patch *ret, struct err *err) _must_check_;

/* system/metrics.c: figures in the text format of Prometheus. */
struct histogram;
struct service_counters;
struct service_gauges;
void metrics_write_histogram(struct buf *out, const char *name, const char *help,
			     const struct histogram *h);
void metrics_write_counters(struct buf *out, const struct service_counters *c);
void metrics_write_gauges(struct buf *out, const struct service_gauges *g);

/* system/system.c: the ranges of GET /v1/options. */
void options_write_limits(struct json_writer *w);

/* run/processes.c: a name or a number; 0 with err set if it is not a signal. */
int signal_decode(const struct json *value, struct err *err);

#endif
