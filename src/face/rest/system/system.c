/* SPDX-License-Identifier: Apache-2.0 */
/* Health, options, shutdown and recovery of the daemon. */
#include "base/log.h"
#include "base/time.h"
#include "face/rest/call.h"
#include "service/copy/snapshot.h"
#include "service/run/exec.h"

#define SHUTDOWN_LIMIT_MS 60000

struct shutdown_body {
	bool destroy;
};
const struct field shutdown_fields[] = {
	{ .name = "destroy",
	  .type = FIELD_BOOL,
	  .offset = offsetof(struct shutdown_body, destroy),
	  .doc = "also destroy every sandbox, and wait until all are removed" },
	{ .type = FIELD_END }
};

void system_health(struct rest_call *call)
{
	answer_text(call->rest, call->req, 200, STR_LIT("application/json"),
		    STR_LIT("{\"status\":\"ok\"}"));
}

void system_ready(struct rest_call *call)
{
	struct json_writer w;
	struct err err;

	if (!service_ready(call->rest->service, &err)) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	w = answer_begin(call->rest);
	json_begin_object(&w, NULL);
	json_put_text(&w, "status", "ready");
	json_put_text(&w, "version", CAY_VERSION);
	json_put_int(&w, "uptime_sec", (time_mono_us() - call->rest->started_us) / 1000000);
	json_end_object(&w);
	answer_send(call->rest, call->req, 200, &w);
}

void system_openapi(struct rest_call *call)
{
	answer_text(call->rest, call->req, 200, STR_LIT("application/json"),
		    buf_str(&call->rest->openapi));
}

/* The ranges come from the decoder's field table. */
void options_write_limits(struct json_writer *w)
{
	static const struct field *const tables[] = { sandbox_create_fields, exec_fields };
	static const char *const names[] = { "sandbox", "exec" };

	json_begin_object(w, "limits");
	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		json_begin_object(w, names[i]);
		for (const struct field *f = tables[i]; f->type; f++) {
			int64_t unit = f->type == FIELD_MILLI ? 1 : 1000;

			if (f->type != FIELD_INT && f->type != FIELD_MILLI)
				continue;
			json_begin_object(w, f->name);
			json_put_milli(w, "min", f->min * unit);
			json_put_milli(w, "max", field_max(f) * unit);
			json_put_milli(w, "default", field_fallback(f) * unit);
			json_end_object(w);
		}
		json_end_object(w);
	}
	json_end_object(w);
}

static void write_command_limits(const struct service_config *config, struct json_writer *w)
{
	json_put_int(w, "processes_per_sandbox", config->processes_per_sandbox);
	json_put_int(w, "file_ops_per_sandbox", config->file_ops_per_sandbox);
	json_put_int(w, "windows_per_sandbox", config->windows_per_sandbox);
	json_put_int(w, "streams_per_key", config->streams_per_key);
	json_put_int(w, "output_ring_bytes", config->output_ring_bytes);
	json_put_int(w, "output_keep_sec", config->output_keep_sec);
}

static void write_engines(const struct service *service, struct json_writer *w)
{
	struct engine_view view;
	const char *name;
	bool can;

	json_begin_array(w, "engines");
	for (size_t i = 0; service_engine_view(service, i, &view); i++) {
		json_begin_object(w, NULL);
		json_put_text(w, "name", view.name);
		json_put_text(w, "label", view.label);
		json_put_bool(w, "default", view.is_default);
		json_put_bool(w, "available", view.is_available);
		json_put_text(w, "unavailable_because", view.why);
		json_put_text(w, "warning", view.warning);
		json_begin_object(w, "capabilities");
		for (int k = 0; service_engine_capability(service, i, k, &name, &can); k++)
			if (name)
				json_put_bool(w, name, can);
		json_put_text(w, "network", view.network);
		json_put_text(w, "disk_limit", view.disk_enforced ? "enforced" : "unenforced");
		json_end_object(w);
		json_end_object(w);
	}
	json_end_array(w);
}

static void on_warning(void *arg, const char *text)
{
	json_put_text(arg, NULL, text);
}

void system_options(struct rest_call *call)
{
	const struct service_config *config = service_config(call->rest->service);
	struct json_writer w = answer_begin(call->rest);
	struct service_gauges gauges;

	json_begin_object(&w, NULL);
	json_put_text(&w, "version", CAY_VERSION);
	write_engines(call->rest->service, &w);
	options_write_limits(&w);
	json_begin_object(&w, "defaults");
	json_put_text(&w, "template", config->default_template);
	json_put_text(&w, "network", "none");
	json_put_int(&w, "max_sandboxes", config->max_sandboxes);
	json_put_int(&w, "max_sandboxes_per_key", config->max_sandboxes_per_key);
	json_put_int(&w, "pids_max", config->pids_max);
	json_put_bool(&w, "pool", config->pool_enabled);
	json_put_int(&w, "pool_min", config->pool_min);
	json_put_int(&w, "pool_max", config->pool_max);
	write_command_limits(config, &w);
	json_end_object(&w);
	service_gauges(call->rest->service, &gauges);
	json_begin_object(&w, "pool");
	json_put_int(&w, "ready", gauges.pool_ready);
	json_put_int(&w, "filling", gauges.pool_filling);
	json_put_int(&w, "target", gauges.pool_target);
	json_end_object(&w);
	json_begin_array(&w, "scopes");
	for (int i = 0; i < AUTH_SCOPE_COUNT; i++)
		json_put_text(&w, NULL, auth_scope_names[i]);
	json_end_array(&w);
	json_begin_array(&w, "warnings");
	service_warnings(call->rest->service, on_warning, &w);
	json_end_array(&w);
	json_end_object(&w);
	answer_send(call->rest, call->req, 200, &w);
}

/* ---- shutdown ---- */

static void finish(struct rest *rest, struct http_req *req, const struct err *err)
{
	if (req && err)
		answer_error(rest, req, err);
	else if (req)
		answer_text(rest, req, 200, STR_LIT("application/json"),
			    STR_LIT("{\"status\":\"ending\"}"));
	if (rest->config.on_shutdown)
		rest->config.on_shutdown(rest->config.arg);
}

static void on_swept(void *arg, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct rest *rest = pending->rest;

	if (err)
		log_warn("shutdown: %s", err->message);
	finish(rest, pending_end(pending), err);
}

void system_shutdown(struct rest_call *call)
{
	struct shutdown_body body = { false };
	struct err err = { .code = ERR_UNAVAILABLE };
	struct rest_pending *pending;

	if (field_decode(shutdown_fields, call->doc, "", call->req->arena, &body, &err) < 0) {
		answer_error(call->rest, call->req, &err);
		return;
	}
	if (!body.destroy) {
		finish(call->rest, call->req, NULL);
		return;
	}
	pending = pending_new(call);
	if (!pending || service_destroy_all(call->rest->service, SHUTDOWN_LIMIT_MS, on_swept,
					    pending, &err) < 0) {
		if (pending)
			(void)pending_end(pending);
		answer_error(call->rest, call->req, &err);
	}
}

/* ---- recover ---- */

static void on_recovered(void *arg, const struct engine_recovered *made, const struct err *err)
{
	struct rest_pending *pending = arg;
	struct rest *rest = pending->rest;
	struct http_req *req = pending_end(pending);
	struct json_writer w;

	if (!req)
		return;
	if (err) {
		answer_error(rest, req, err);
		return;
	}
	w = answer_begin(rest);
	json_begin_object(&w, NULL);
	json_put_int(&w, "snapshots", made->snapshots);
	json_put_int(&w, "sandboxes", made->sandboxes);
	json_end_object(&w);
	answer_send(rest, req, 200, &w);
}

void system_recover(struct rest_call *call)
{
	struct err err = { .code = ERR_UNAVAILABLE };
	struct rest_pending *pending = pending_new(call);

	if (pending &&
	    engine_recover(call->rest->service, call->key, on_recovered, pending, &err) == 0)
		return;
	if (pending)
		(void)pending_end(pending);
	answer_error(call->rest, call->req, &err);
}
